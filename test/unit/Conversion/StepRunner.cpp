//===- StepRunner.cpp - Runs a step's dispatches natively -----------------===//

#include "StepRunner.h"

#include "forebay/Conversion/Passes.h"
#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Target/EmitProgram.h"
#include "forebay/kernels.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"

#include <cmath>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace forebay;
using namespace forebay::test;
using reference::Tensor;

/// A buffer aligned to 64 bytes, poisoned, with guard bytes behind it.
namespace {
class Buffer {
public:
  explicit Buffer(int64_t bytes) : bytes(bytes), memory(bytes + 128, char(0xff)) {}
  char *data() { return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t(63)); }
  bool intact() {
    for (char *p = data() + bytes, *end = memory.data() + memory.size(); p < end; ++p)
      if (*p != char(0xff))
        return false;
    return true;
  }
  int64_t bytes;

private:
  std::vector<char> memory;
};
} // namespace

struct StepRunner::Impl {
  Impl() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> original, module;
  void *library = nullptr;
  SmallString<128> path;
};

static int64_t bytesOf(Type type) {
  auto shaped = cast<RankedTensorType>(type);
  return shaped.getNumElements() * std::max(1u, shaped.getElementTypeBitWidth() / 8);
}

std::vector<char> forebay::test::toBytes(Type type, const Tensor &tensor) {
  Type element = getElementTypeOrSelf(type);
  std::vector<char> bytes;
  auto append = [&](auto value) { bytes.insert(bytes.end(), (char *)&value, (char *)&value + sizeof value); };
  for (double value : tensor.floats)
    element.isF64() ? append(value) : append(float(value));
  for (int64_t value : tensor.ints)
    element.isInteger(64) ? append(value) : element.isInteger(32) ? append(int32_t(value)) : append(int8_t(value));
  return bytes;
}

StepRunner::StepRunner(StringRef text) : impl(std::make_unique<Impl>()) {
  impl->original = parseSourceString<ModuleOp>(text, &impl->context);
  if (!impl->original) {
    ADD_FAILURE() << "the module does not parse";
    return;
  }
  OwningOpRef<ModuleOp> module = impl->original->clone();
  PassManager pm(&impl->context);
  pm.addPass(createTrainLowerElementwise());
  pm.addPass(createForebayFormDispatches());
  pm.addPass(createForebaySelectKernels());
  if (failed(pm.run(*module))) {
    ADD_FAILURE() << "the passes fail";
    return;
  }
  int fd;
  if (llvm::sys::fs::createTemporaryFile("step", "so", fd, impl->path))
    { ADD_FAILURE() << "no temporary file"; return; }
  close(fd);
  if (failed(emitProgramFile(*module, "program bytes", impl->path.str().str(), hostIsa())))
    { ADD_FAILURE() << "no shared object"; return; }
  impl->library = dlopen(impl->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!impl->library)
    { ADD_FAILURE() << dlerror(); return; }
  impl->module = std::move(module);
}

StepRunner::~StepRunner() {
  if (impl->library)
    dlclose(impl->library);
  if (!impl->path.empty())
    llvm::sys::fs::remove(impl->path);
}

MLIRContext &StepRunner::context() { return impl->context; }
ModuleOp StepRunner::dispatches() { return *impl->module; }
bool StepRunner::valid() const { return bool(impl->module); }
func::FuncOp StepRunner::step() { return impl->module->lookupSymbol<func::FuncOp>("step"); }

void *StepRunner::symbol(StringRef name) {
  struct Entry {
    const char *name;
    void *address;
  };
  for (auto *entry = static_cast<Entry *>(dlsym(impl->library, "forebay_kernels")); entry && entry->name; ++entry)
    if (name == entry->name)
      return entry->address;
  return nullptr;
}

static offload::KernelAttr kernelOf(offload::DispatchOp op) {
  auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getKernelAttr());
  return function->getAttrOfType<offload::KernelAttr>(offload::kKernelAttr);
}

std::vector<std::string> StepRunner::kernels() {
  std::vector<std::string> names;
  for (auto op : step().getOps<offload::DispatchOp>())
    names.push_back(kernelOf(op).getCompiled() ? "compiled" : kernelOf(op).getName().str());
  return names;
}

std::vector<Tensor> StepRunner::run(ArrayRef<Tensor> arguments, const RunOptions &options) {
  func::FuncOp function = step();
  DenseMap<Value, std::shared_ptr<Buffer>> buffers;
  for (auto [argument, tensor] : llvm::zip(function.getArguments(), arguments)) {
    std::vector<char> bytes = toBytes(argument.getType(), tensor);
    auto buffer = std::make_shared<Buffer>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), buffer->data());
    buffers[argument] = buffer;
  }
  auto lastUse = [&](Value value, Operation *op) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) { return user == op || user->isBeforeInBlock(op); });
  };
  for (Operation &op : function.front().without_terminator()) {
    if (auto scalars = dyn_cast<train::ScalarsOp>(op)) {
      auto optimizer = SymbolTable::lookupNearestSymbolFrom<train::OptimizerOp>(&op, scalars.getOptimizerAttr());
      std::vector<double> hyper;
      for (NamedAttribute entry : optimizer.getHyper())
        hyper.push_back(isa<BoolAttr>(entry.getValue()) ? double(cast<BoolAttr>(entry.getValue()).getValue())
                                                        : cast<FloatAttr>(entry.getValue()).getValueAsDouble());
      auto buffer = std::make_shared<Buffer>(bytesOf(op.getResult(0).getType()));
      auto call = reinterpret_cast<fb_scalars_fn>(symbol((scalars.getOptimizer() + "_scalars").str()));
      EXPECT_TRUE(call);
      call(options.step, hyper.data(), reinterpret_cast<float *>(buffer->data()));
      buffers[op.getResult(0)] = buffer;
      continue;
    }
    auto dispatch = cast<offload::DispatchOp>(op);
    offload::KernelAttr kernel = kernelOf(dispatch);
    std::vector<void *> operands;
    for (Value operand : dispatch.getOperands())
      operands.push_back(buffers.lookup(operand)->data());
    for (auto [i, result] : llvm::enumerate(dispatch.getResults())) {
      std::shared_ptr<Buffer> buffer;
      int64_t from = options.inplace && i < kernel.getInplace().size() ? kernel.getInplace()[i] : -1;
      if (from >= 0) {
        Value operand = dispatch.getOperands()[from];
        if (lastUse(operand, dispatch) && llvm::count(dispatch.getOperands(), operand) == 1)
          buffer = buffers.lookup(operand);
      }
      if (!buffer)
        buffer = std::make_shared<Buffer>(bytesOf(result.getType()));
      buffers[result] = buffer;
      operands.push_back(buffer->data());
    }
    Buffer workspace(kernel.getWorkspace()), scratch(kernel.getScratch());
    if (kernel.getWorkspace())
      operands.push_back(workspace.data());
    fb_kernel_fn call = nullptr;
    if (kernel.getCompiled())
      call = reinterpret_cast<fb_kernel_fn>(symbol(kernel.getName()));
    else if (const kernels::KernelEntry *entry = kernels::lookupBuiltin(kernel.getName().str()))
      call = entry->function;
    if (!call) {
      ADD_FAILURE() << "no kernel " << kernel.getName().str();
      return {};
    }
    for (auto [phase, tiles] : llvm::enumerate(kernel.getTiles()))
      for (int64_t tile = 0; tile < tiles; ++tile)
        call(operands.data(), kernel.getParams().data(), phase, options.reverse ? tiles - 1 - tile : tile, scratch.data());
    EXPECT_TRUE(workspace.intact() && scratch.intact()) << kernel.getName().str();
    for (Value result : dispatch.getResults())
      EXPECT_TRUE(buffers.lookup(result)->intact()) << kernel.getName().str() << " writes beyond its result";
  }
  std::vector<Tensor> results;
  for (Value value : function.front().getTerminator()->getOperands()) {
    Buffer &buffer = *buffers.lookup(value);
    results.push_back(reference::fromBytes(value.getType(), StringRef(buffer.data(), buffer.bytes)));
  }
  return results;
}

std::vector<Tensor> StepRunner::reference(ArrayRef<Tensor> arguments, bool roundToType) {
  reference::EvaluateOptions options;
  options.roundToType = roundToType;
  auto results = reference::evaluate(impl->original->lookupSymbol<func::FuncOp>("step"), arguments, options);
  if (failed(results)) {
    ADD_FAILURE() << "the reference fails";
    return {};
  }
  return *results;
}

std::vector<Tensor> StepRunner::randomArguments(unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Tensor> arguments;
  for (Type type : step().getArgumentTypes()) {
    Tensor tensor(type);
    int64_t range = getElementTypeOrSelf(type).isInteger(1) ? 2 : 4;
    for (double &value : tensor.floats)
      value = float(normal(random));
    for (int64_t &value : tensor.ints)
      value = random() % range;
    arguments.push_back(std::move(tensor));
  }
  return arguments;
}

void StepRunner::compareTensors(ArrayRef<Tensor> ours, ArrayRef<Tensor> wanted, double tolerance) {
  ASSERT_EQ(ours.size(), wanted.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].size(), wanted[i].size()) << "result " << i;
    ASSERT_EQ(ours[i].isFloat, wanted[i].isFloat);
    for (int64_t j = 0; j < ours[i].size(); ++j) {
      if (!ours[i].isFloat) {
        ASSERT_EQ(ours[i].ints[j], wanted[i].ints[j]) << "result " << i << " element " << j;
        continue;
      }
      double a = ours[i].floats[j], b = wanted[i].floats[j];
      if ((std::isnan(a) && std::isnan(b)) || a == b)
        continue;
      ASSERT_LE(std::abs(a - b), tolerance * (1 + std::abs(b))) << "result " << i << " element " << j << ": " << a << ", wanted " << b;
    }
  }
}

void StepRunner::compare(unsigned seed, double tolerance) {
  ASSERT_TRUE(valid());
  std::vector<Tensor> arguments = randomArguments(seed);
  std::vector<Tensor> wanted = reference(arguments);
  std::vector<Tensor> ours = run(arguments);
  compareTensors(ours, wanted, tolerance);
  // Neither the order of tiles nor buffers shared with operands change a bit.
  RunOptions options;
  options.inplace = options.reverse = true;
  compareTensors(run(arguments, options), ours, 0);
}
