//===- forebay-eval.cpp - Evaluates a function with plain loops -----------===//
//
// The reference interpreter as a command, for tests and for a look at values:
//
//     forebay-eval step.mlir --function=step --model-dir=gpt2 --input=input_ids=gpt2/feeds/input_ids.npy --row=0
//
// Arguments are found by `train.name` (or `argN`): from `--input=NAME=FILE.npy`; else, with `--model-dir`, from the bytes that
// `train.source` names; else, with `--random=SEED`, random numbers. `--row=N` takes element N of the leading axis of an input that
// has one axis too many (feeds hold a row for each micro-step).
//
// One line for each result: name, type, and its value when it has at most 8 elements, else its L2 norm. After that the norm over all
// results with the role gradient. `--output-dir=DIR` writes each result as NAME.npy (`/` as `_`).
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace forebay;
using namespace forebay::reference;
namespace cl = llvm::cl;

static cl::opt<std::string> inputFile(cl::Positional, cl::desc("FILE.mlir"), cl::init("-"));
static cl::opt<std::string> functionName("function", cl::desc("Function to evaluate"), cl::init("forward"));
static cl::list<std::string> inputs("input", cl::desc("NAME=FILE.npy"));
static cl::opt<std::string> modelDir("model-dir", cl::desc("Folder that train.source is relative to"));
static cl::opt<int64_t> row("row", cl::desc("Row of the inputs' leading axis"), cl::init(0));
static cl::opt<int64_t> randomSeed("random", cl::desc("Seed for arguments without a value"), cl::init(-1));
static cl::opt<std::string> outputDir("output-dir", cl::desc("Folder for the results as .npy"));
static cl::opt<bool> roundToType("round", cl::desc("Round each operation's results to their type"));
static cl::opt<int64_t> step("step", cl::desc("Number of the step, for train.scalars"), cl::init(1));

static int fail(const Twine &what) {
  llvm::errs() << "error: " << what << "\n";
  return 1;
}

static std::string nameOf(Attribute attribute, const Twine &fallback) {
  auto name = dyn_cast_or_null<StringAttr>(attribute);
  return name ? name.str() : fallback.str();
}

/// Row `row` of a feed, or the tensor itself when it has the rank of the argument.
static Tensor takeRow(Tensor tensor, Type type) {
  auto shaped = cast<ShapedType>(type);
  if (tensor.rank() != shaped.getRank() + 1)
    return tensor;
  Tensor part(ArrayRef(tensor.shape).drop_front(), tensor.isFloat);
  for (int64_t i = 0, n = part.size(); i < n; ++i) {
    if (part.isFloat)
      part.floats[i] = tensor.floats[row * n + i];
    else
      part.ints[i] = tensor.ints[row * n + i];
  }
  return part;
}

static Tensor randomTensor(Type type, std::mt19937_64 &generator) {
  Tensor tensor(type);
  std::normal_distribution<double> normal;
  for (double &value : tensor.floats)
    value = normal(generator);
  Type element = getElementTypeOrSelf(type);
  int64_t range = element.isInteger(1) ? 2 : 4;
  for (int64_t &value : tensor.ints)
    value = generator() % range;
  return tensor;
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "Evaluates a function of a Forebay module with plain loops in double\n");
  DialectRegistry registry;
  forebay::registerAllDialects(registry);
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  std::string message;
  auto file = openInputFile(inputFile, &message);
  if (!file)
    return fail(message);
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return 1;
  auto func = module->lookupSymbol<func::FuncOp>(functionName);
  if (!func)
    return fail("no function @" + functionName);

  llvm::StringMap<std::string> files;
  for (const std::string &entry : inputs) {
    auto [name, path] = StringRef(entry).split('=');
    files[name] = path.str();
  }
  std::mt19937_64 generator(randomSeed);
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    Type type = func.getArgumentTypes()[i];
    std::string name = nameOf(func.getArgAttr(i, train::kNameAttr), "arg" + Twine(i));
    auto source = func.getArgAttrOfType<train::SourceAttr>(i, train::kSourceAttr);
    if (auto it = files.find(name); it != files.end()) {
      auto tensor = readNpy(it->second);
      if (!tensor)
        return fail(llvm::toString(tensor.takeError()));
      arguments.push_back(takeRow(std::move(*tensor), type));
    } else if (source && !modelDir.empty()) {
      SmallString<128> path(modelDir);
      llvm::sys::path::append(path, source.getFile());
      auto bytes = llvm::MemoryBuffer::getFileSlice(path, source.getBytes(), source.getOffset());
      if (!bytes)
        return fail(path + ": " + bytes.getError().message());
      arguments.push_back(fromBytes(type, (*bytes)->getBuffer()));
    } else if (randomSeed >= 0) {
      arguments.push_back(randomTensor(type, generator));
    } else {
      return fail("no value for argument '" + name + "'");
    }
  }

  EvaluateOptions options;
  options.roundToType = roundToType;
  options.step = step;
  auto results = evaluate(func, arguments, options);
  if (failed(results))
    return 1;
  double gradientSquares = 0.0;
  bool hasGradient = false;
  for (auto [i, tensor] : llvm::enumerate(*results)) {
    std::string name = nameOf(func.getResultAttr(i, train::kNameAttr), "result" + Twine(i));
    auto role = func.getResultAttrOfType<train::RoleAttr>(i, train::kRoleAttr);
    double squares = 0.0;
    for (double value : tensor.floats)
      squares += value * value;
    if (role && role.getValue() == train::Role::Gradient) {
      hasGradient = true;
      gradientSquares += squares;
      name += " (gradient)";
    }
    llvm::outs() << name << " : " << func.getResultTypes()[i] << " =";
    if (tensor.size() > 8)
      llvm::outs() << " norm " << llvm::format("%.17g", std::sqrt(squares));
    else
      for (int64_t at = 0; at < tensor.size(); ++at)
        if (tensor.isFloat)
          llvm::outs() << llvm::format(" %.17g", tensor.floats[at]);
        else
          llvm::outs() << " " << tensor.ints[at];
    llvm::outs() << "\n";
    if (outputDir.empty())
      continue;
    std::replace(name.begin(), name.end(), '/', '_');
    SmallString<128> path(outputDir.getValue());
    llvm::sys::path::append(path, name + ".npy");
    if (llvm::Error error = writeNpy(path, tensor))
      return fail(llvm::toString(std::move(error)));
  }
  if (hasGradient)
    llvm::outs() << "gradient norm = " << llvm::format("%.17g", std::sqrt(gradientSquares)) << "\n";
  return 0;
}
