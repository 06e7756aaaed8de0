//===- ProblemBuilder.cpp - A step at level dispatch as a Problem ---------===//

#include "ProblemBuilder.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/Train.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace offload = forebay::offload;
namespace planning = forebay::planning;
namespace train = forebay::train;
using namespace forebay::offload;
using planning::OpKind;
using planning::Problem;
using planning::ProblemOp;

static constexpr StringLiteral kPhases[] = {"dispatch", "async", "cmd"};

std::string offload::labelOf(Location loc) {
  return llvm::TypeSwitch<Location, std::string>(loc)
      .Case([](NameLoc loc) {
        std::string scope = labelOf(loc.getChildLoc()), name = loc.getName().str();
        return scope.empty() ? name : scope + "/" + name;
      })
      .Case([](FusedLoc loc) {
        for (Location inner : loc.getLocations())
          if (std::string label = labelOf(inner); !label.empty())
            return label;
        return std::string();
      })
      .Case([](CallSiteLoc loc) { return labelOf(loc.getCallee()); })
      .Default([](Location) { return std::string(); });
}

LogicalResult offload::expectPhase(ModuleOp module, StringRef pass, StringRef phase) {
  auto attr = module->getAttrOfType<StringAttr>(kPhaseAttr);
  StringRef reached = attr ? attr.getValue() : StringRef();
  if (reached == phase)
    return success();
  const auto *wanted = llvm::find(kPhases, phase), *at = llvm::find(kPhases, reached);
  bool late = at != std::end(kPhases) && at > wanted;
  return module.emitError() << pass << " needs a module at level '" << phase << "'; this one "
                            << (reached.empty() ? std::string("has no dispatches yet") : "is at level '" + reached.str() + "'")
                            << (late ? ": the pass runs too late" : ": the pass runs too early");
}

uint64_t offload::bytesOf(RankedTensorType type) {
  uint64_t bits = type.getElementTypeBitWidth();
  return static_cast<uint64_t>(type.getNumElements()) * ((bits + 7) / 8);
}

std::optional<forebay::DType> offload::dtypeOf(Type type) {
  if (type.isF32())
    return forebay::DType::F32;
  if (type.isF64())
    return forebay::DType::F64;
  if (type.isF16())
    return forebay::DType::F16;
  if (type.isBF16())
    return forebay::DType::BF16;
  auto integer = dyn_cast<IntegerType>(type);
  switch (integer ? integer.getWidth() : 0) {
  case 64:
    return forebay::DType::I64;
  case 32:
    return forebay::DType::I32;
  case 16:
    return forebay::DType::I16;
  case 8:
    return integer.isUnsigned() ? forebay::DType::U8 : forebay::DType::I8;
  case 1:
    return forebay::DType::Bool;
  }
  return std::nullopt;
}

forebay::Cost offload::costOf(func::FuncOp function, KernelAttr kernel, ArrayRef<uint64_t> bytes) {
  forebay::Cost cost;
  cost.cls = static_cast<forebay::OpClass>(kernel.getOpClass());
  if (kernel.getType())
    cost.type = dtypeOf(kernel.getType()).value_or(forebay::DType::F32);
  cost.flops = kernel.getExecuted() ? kernel.getExecuted() : kernel.getFlops();
  cost.bytes = kernel.getTraffic();
  if (!cost.bytes) // not of the workspace, which comes last
    for (uint64_t size : bytes.take_front(function.getNumArguments() + function.getNumResults()))
      cost.bytes += size;
  cost.width = kernel.getWidth();
  return cost;
}

static forebay::Role roleOf(train::Role role) {
  switch (role) {
  case train::Role::Input:
    return forebay::Role::Input;
  case train::Role::Parameter:
    return forebay::Role::Parameter;
  case train::Role::Buffer:
    return forebay::Role::Buffer;
  case train::Role::Moment:
    return forebay::Role::Moment;
  case train::Role::Accumulator:
    return forebay::Role::Accumulator;
  case train::Role::Output:
    return forebay::Role::Output;
  case train::Role::Loss:
    return forebay::Role::Loss;
  case train::Role::Gradient:
    return forebay::Role::Gradient;
  case train::Role::Activation:
    return forebay::Role::Activation;
  case train::Role::Control:
    return forebay::Role::Control;
  }
  llvm_unreachable("role");
}

namespace {

class ProblemBuilder {
public:
  ProblemBuilder(ModuleOp module) : symbols(module) {}

  FailureOr<StepProblem> run(func::FuncOp function) {
    step.function = function;
    if (!function.getBody().hasOneBlock())
      return function.emitError("must have one block");
    if (failed(addArguments()))
      return failure();
    for (Operation &op : function.front().without_terminator())
      if (failed(addOp(op)))
        return failure();
    if (failed(addResults()))
      return failure();
    return std::move(step);
  }

private:
  Problem &problem() { return step.problem; }

  uint32_t addValue(Value value, std::string label, forebay::Role role) {
    auto type = cast<RankedTensorType>(value.getType());
    problem().values.push_back({std::move(label), role, bytesOf(type)});
    step.types.push_back(type);
    numbers[value] = problem().values.size() - 1;
    return problem().values.size() - 1;
  }

  LogicalResult addArguments() {
    func::FuncOp f = step.function;
    for (BlockArgument arg : f.getArguments()) {
      unsigned i = arg.getArgNumber();
      auto type = dyn_cast<RankedTensorType>(arg.getType());
      auto role = f.getArgAttrOfType<train::RoleAttr>(i, "train.role");
      auto name = f.getArgAttrOfType<StringAttr>(i, "train.name");
      if (!type || !type.hasStaticShape() || !role || !name)
        return f.emitError() << "argument " << i << " needs a static tensor type, train.role and train.name";
      problem().arguments.push_back({addValue(arg, name.str(), roleOf(role.getValue())), -1});
    }
    return success();
  }

  LogicalResult addResults() {
    func::FuncOp f = step.function;
    for (auto [i, value] : llvm::enumerate(f.front().getTerminator()->getOperands())) {
      auto role = f.getResultAttrOfType<train::RoleAttr>(i, "train.role");
      auto name = f.getResultAttrOfType<StringAttr>(i, "train.name");
      if (role && role.getValue() == train::Role::Control) {
        step.verdictOutput = i;
        continue;
      }
      if (!role || (role.getValue() != train::Role::Output && role.getValue() != train::Role::Loss))
        continue; // state, see train.donate
      problem().outputs.push_back({name ? name.str() : "output" + std::to_string(i), numbers.lookup(value), roleOf(role.getValue())});
      forebay::Role &own = problem().values[numbers.lookup(value)].role;
      if (own == forebay::Role::Activation)
        own = roleOf(role.getValue());
    }
    for (unsigned i = 0; i < f.getNumArguments(); ++i) {
      auto donate = f.getArgAttrOfType<IntegerAttr>(i, "train.donate");
      if (!donate)
        continue;
      if (donate.getInt() < 0 || donate.getInt() >= static_cast<int64_t>(f.getNumResults()))
        return f.emitError() << "argument " << i << " is donated to result " << donate.getInt() << ", which does not exist";
      problem().arguments[i].donated = numbers.lookup(f.front().getTerminator()->getOperand(donate.getInt()));
    }
    return success();
  }

  LogicalResult addOp(Operation &op) {
    ProblemOp out;
    if (auto phase = op.getAttrOfType<train::PhaseAttr>("train.phase"))
      out.phase = static_cast<planning::Phase>(phase.getValue());
    out.label = labelOf(op.getLoc());
    for (Value operand : op.getOperands())
      out.operands.push_back(numbers.lookup(operand));
    if (auto dispatch = dyn_cast<DispatchOp>(op)) {
      if (failed(addDispatch(dispatch, out)))
        return failure();
    } else if (auto scalars = dyn_cast<train::ScalarsOp>(op)) {
      out.kind = OpKind::Scalars;
      out.phase = planning::Phase::Update;
      out.group = scalars.getGroup();
      if (out.label.empty())
        out.label = "scalars of group " + std::to_string(out.group);
    } else {
      return op.emitOpError("is neither a dispatch nor train.scalars: the module is not at level 'dispatch'");
    }
    forebay::Role role = out.phase == planning::Phase::Verdict || out.kind == OpKind::Scalars ? forebay::Role::Control : forebay::Role::Activation;
    for (auto [r, result] : llvm::enumerate(op.getResults())) {
      if (!isa<RankedTensorType>(result.getType()) || !cast<RankedTensorType>(result.getType()).hasStaticShape())
        return op.emitOpError("must have results of static tensor type");
      out.results.push_back(addValue(result, op.getNumResults() == 1 ? out.label : out.label + "#" + std::to_string(r), role));
    }
    problem().ops.push_back(std::move(out));
    step.operations.push_back(&op);
    return success();
  }

  LogicalResult addDispatch(DispatchOp op, ProblemOp &out) {
    auto function = symbols.lookup<func::FuncOp>(op.getKernel());
    auto kernel = function ? function->getAttrOfType<KernelAttr>(kKernelAttr) : KernelAttr();
    if (!kernel)
      return op.emitOpError() << "calls @" << op.getKernel() << ", which has no " << kKernelAttr;
    auto [it, isNew] = kernelNumbers.try_emplace(function, step.kernels.size());
    if (isNew)
      step.kernels.push_back(function);
    out.kernel = it->second;
    out.inplace.assign(kernel.getInplace().begin(), kernel.getInplace().end());
    out.params = kernel.getParams().vec();
    out.tiles = kernel.getTiles().vec();
    out.scratch = kernel.getScratch();
    out.workspace = kernel.getWorkspace();
    SmallVector<uint64_t> bytes;
    for (Type type : llvm::concat<const Type>(op.getOperandTypes(), op.getResultTypes()))
      bytes.push_back(bytesOf(cast<RankedTensorType>(type)));
    out.cost = costOf(function, kernel, bytes);
    if (out.label.empty())
      out.label = op.getKernel().str();

    StringRef name = kernel.getCompiled() ? StringRef() : kernel.getName();
    auto needs = [&](size_t operands, size_t params) -> LogicalResult {
      if (op.getNumOperands() >= operands && kernel.getParams().size() >= params)
        return success();
      return op.emitOpError() << "of kernel \"" << kernel.getName() << "\" needs " << operands << " operands and " << params << " parameters";
    };
    if (name == "accumulate") {
      out.kind = OpKind::Accumulate;
      out.phase = planning::Phase::Accumulate;
      return needs(2, 3);
    }
    if (name == "norm_partials") {
      out.kind = OpKind::NormPartials;
      out.phase = planning::Phase::Verdict;
      if (failed(needs(1, 3)))
        return failure();
      int64_t k = kernel.getParams()[1];
      if (k < 1 || (problem().accumulate != 1 && problem().accumulate != k))
        return op.emitOpError() << "accumulates " << k << " micro-steps, others " << problem().accumulate;
      problem().accumulate = k;
      return success();
    }
    if (name == "verdict") {
      out.kind = OpKind::Verdict;
      out.phase = planning::Phase::Verdict;
      return needs(0, 3);
    }
    if (name.starts_with("cast_")) {
      out.kind = kindOfCast(op);
      return needs(1, 3);
    }
    if (out.phase == planning::Phase::Update && op.getNumOperands() >= 4) {
      auto parameter = dyn_cast<BlockArgument>(op.getOperand(0));
      if (parameter && step.function.getArgAttr(parameter.getArgNumber(), "train.donate"))
        out.kind = OpKind::Update;
    }
    return success();
  }

  /// Between a parameter or its gradient and the compute type, or anything else.
  OpKind kindOfCast(DispatchOp op) {
    if (op.getNumOperands() != 1 || op.getNumResults() != 1)
      return OpKind::Compute;
    if (auto argument = dyn_cast<BlockArgument>(op.getOperand(0))) {
      auto role = step.function.getArgAttrOfType<train::RoleAttr>(argument.getArgNumber(), train::kRoleAttr);
      if (role && role.getValue() == train::Role::Parameter)
        return OpKind::CastWeight;
    }
    auto isOfGradients = [](Operation *user) {
      auto phase = user->getAttrOfType<train::PhaseAttr>(train::kPhaseAttr);
      return phase && phase.getValue() != train::Phase::Forward && phase.getValue() != train::Phase::Backward;
    };
    bool gradient = !op.getResult(0).use_empty() && llvm::all_of(op.getResult(0).getUsers(), isOfGradients);
    return gradient ? OpKind::CastGradient : OpKind::Compute;
  }

  StepProblem step;
  SymbolTable symbols;
  DenseMap<Value, uint32_t> numbers;
  DenseMap<Operation *, int32_t> kernelNumbers;
};

} // namespace

FailureOr<StepProblem> offload::buildProblem(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (!function) // a program that only evaluates
    function = module.lookupSymbol<func::FuncOp>("forward");
  if (!function || function.isExternal())
    return module.emitError("has no function @step");
  return ProblemBuilder(module).run(function);
}
