//===- ToProgram.cpp - A module at level cmd as a program -----------------===//

#include "forebay/Dialect/Offload/Transforms/ToProgram.h"
#include "Machine.h"
#include "ProblemBuilder.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/builtin_kernels.h"
#include "forebay/kernel_abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace kernels = forebay::kernels;
namespace offload = forebay::offload;
namespace planning = forebay::planning;
namespace train = forebay::train;
using forebay::Command;
using forebay::CommandKind;
using forebay::DType;
using forebay::Group;
using forebay::HyperDefault;
using forebay::Program;
using forebay::Tensor;
using namespace forebay::offload;

/// Number of a hyper-parameter; booleans are 0 and 1.
static double numberOf(Attribute attr) {
  if (auto boolean = dyn_cast<BoolAttr>(attr))
    return boolean.getValue();
  if (auto real = dyn_cast<FloatAttr>(attr))
    return real.getValueAsDouble();
  return cast<IntegerAttr>(attr).getInt();
}

namespace {

class ProgramBuilder {
public:
  explicit ProgramBuilder(ModuleOp module) : module(module), symbols(module) {}

  FailureOr<Program> run() {
    step = module.lookupSymbol<func::FuncOp>("step");
    auto flush = module.lookupSymbol<func::FuncOp>("flush");
    if (!step || !flush)
      return module.emitError("needs @step and @flush");
    if (failed(addMachine()) || failed(addPlan()) || failed(addArguments()) || failed(addOutputs()) || failed(addOptimizer()) ||
        failed(addCommands(step, program.step)) || failed(addCommands(flush, program.flush)))
      return failure();
    addModel();
    addValues();
    summarize();
    return std::move(program);
  }

private:
  LogicalResult addMachine() {
    FailureOr<planning::Machine> machine = getMachine(module);
    if (failed(machine))
      return failure();
    auto arenas = module->getAttrOfType<DictionaryAttr>("offload.arenas");
    for (const planning::MachineSpace &space : machine->spaces) {
      auto bytes = arenas ? arenas.getAs<IntegerAttr>(space.name) : IntegerAttr();
      if (!bytes)
        return module.emitError() << "offload.arenas does not name '" << space.name << "'";
      program.spaces.push_back({space.name, static_cast<uint64_t>(bytes.getInt()), space.capacity});
    }
    for (const planning::MachineQueue &queue : machine->queues)
      program.queues.push_back({queue.name, queue.compute});
    program.machine = machine->name;
    program.machineModel = planning::toText(*machine);
    return success();
  }

  LogicalResult addPlan() {
    auto plan = module->getAttrOfType<DictionaryAttr>("offload.plan");
    auto policy = plan ? plan.getAs<StringAttr>("policy") : StringAttr();
    auto accumulate = plan ? plan.getAs<IntegerAttr>("accumulate") : IntegerAttr();
    auto buckets = plan ? plan.getAs<IntegerAttr>("bucket_bytes") : IntegerAttr();
    auto events = module->getAttrOfType<IntegerAttr>("offload.events");
    if (!policy || !accumulate || !buckets || !events)
      return module.emitError("needs offload.plan = {accumulate, bucket_bytes, policy} and offload.events");
    program.policy = policy.str();
    program.accumulate = accumulate.getInt();
    program.bucketBytes = buckets.getInt();
    auto number = [&](StringRef key) {
      auto value = plan.getAs<FloatAttr>(key);
      return value ? value.getValueAsDouble() : 0.0;
    };
    auto text = [&](StringRef key) {
      auto value = plan.getAs<StringAttr>(key);
      return value ? value.str() : std::string();
    };
    program.copyPace = number("copy_pace");
    program.boundSeconds = number("bound_s");
    program.binding = text("binding");
    program.placement = text("placement");
    program.events = events.getInt();
    if (auto limit = module->getAttrOfType<FloatAttr>("offload.reject_limit"))
      program.rejectLimit = limit.getValueAsDouble();
    program.kernelAbi = FOREBAY_KERNEL_ABI;
    auto precision = module->getAttrOfType<StringAttr>("train.precision");
    program.precision = precision ? precision.str() : "fp32";
    return success();
  }

  void addModel() {
    if (auto model = module->getAttrOfType<DictionaryAttr>("train.model")) {
      auto number = [&](StringRef key) -> uint64_t {
        auto value = model.getAs<IntegerAttr>(key);
        return value ? value.getValue().getZExtValue() : 0;
      };
      if (auto path = model.getAs<StringAttr>("path"))
        program.modelPath = path.str();
      program.modelBytes = number("bytes");
      program.modelHash = number("hash");
    }
    if (auto files = module->getAttrOfType<ArrayAttr>("train.data_files"))
      for (auto file : files.getAsRange<DictionaryAttr>()) {
        auto name = file.getAs<StringAttr>("name");
        auto bytes = file.getAs<IntegerAttr>("bytes"), hash = file.getAs<IntegerAttr>("hash");
        program.dataFiles.push_back({name ? name.str() : "", bytes ? bytes.getValue().getZExtValue() : 0,
                                     hash ? hash.getValue().getZExtValue() : 0, static_cast<bool>(hash)});
      }
    if (auto dims = module->getAttrOfType<DictionaryAttr>("train.dims"))
      for (NamedAttribute dim : dims)
        program.dims.push_back({dim.getName().str(), cast<IntegerAttr>(dim.getValue()).getInt()});
  }

  FailureOr<uint32_t> spaceOf(Space space, Operation *op) {
    for (auto [i, known] : llvm::enumerate(program.spaces))
      if (known.name == stringifySpace(space))
        return i;
    return op->emitError() << "machine '" << program.machine << "' has no memory '" << stringifySpace(space) << "'";
  }

  LogicalResult setHome(Tensor &tensor, RangeAttr home, RankedTensorType type, Operation *op) {
    std::optional<DType> dtype = dtypeOf(type.getElementType());
    if (!dtype)
      return op->emitError() << "has a tensor of a type that programs do not hold: " << type;
    FailureOr<uint32_t> space = spaceOf(home.getSpace(), op);
    if (failed(space))
      return failure();
    tensor.type = *dtype;
    tensor.shape = type.getShape().vec();
    tensor.space = *space;
    tensor.offset = home.getOffset();
    tensor.bytes = home.getBytes();
    return success();
  }

  LogicalResult addArguments() {
    for (unsigned i = 0; i < step.getNumArguments(); ++i) {
      auto name = step.getArgAttrOfType<StringAttr>(i, train::kNameAttr);
      auto role = step.getArgAttrOfType<offload::RoleAttr>(i, "offload.role");
      auto home = step.getArgAttrOfType<RangeAttr>(i, "offload.home");
      auto type = dyn_cast<BufferType>(step.getArgumentTypes()[i]);
      if (!name || !role || !home || !type)
        return step.emitError() << "argument " << i << " needs a buffer type, train.name, offload.role and offload.home";
      Tensor tensor{};
      tensor.name = name.str();
      tensor.role = static_cast<forebay::Role>(role.getValue());
      if (failed(setHome(tensor, home, type.getTensor(), step)))
        return failure();
      if (auto source = step.getArgAttrOfType<train::SourceAttr>(i, train::kSourceAttr)) {
        if (static_cast<uint64_t>(source.getBytes()) != tensor.bytes)
          return step.emitError() << "argument '" << tensor.name << "' has " << tensor.bytes << " bytes, its source " << source.getBytes();
        tensor.file = source.getFile().str();
        tensor.fileOffset = source.getOffset();
      }
      tensor.noGradient = static_cast<bool>(step.getArgAttr(i, train::kNoGradientAttr));
      tensor.trainable = step.getArgAttr(i, train::kTrainableAttr) || tensor.noGradient;
      if (auto copy = step.getArgAttrOfType<IntegerAttr>(i, "offload.copy_of"))
        tensor.copyOf = copy.getInt();
      if (auto initial = step.getArgAttrOfType<DenseF32ArrayAttr>(i, "offload.initial")) {
        if (initial.getRawData().size() != tensor.bytes)
          return step.emitError() << "argument '" << tensor.name << "' has " << tensor.bytes << " bytes, offload.initial " << initial.getRawData().size();
        tensor.initial.assign(initial.getRawData().begin(), initial.getRawData().end());
      }
      if (auto group = step.getArgAttrOfType<IntegerAttr>(i, "offload.group"))
        tensor.group = group.getInt();
      if (auto range = step.getArgAttrOfType<DictionaryAttr>(i, train::kRangeAttr)) {
        auto lo = range.getAs<IntegerAttr>("lo"), hi = range.getAs<IntegerAttr>("hi"), ignore = range.getAs<IntegerAttr>("ignore");
        tensor.hasRange = lo && hi;
        tensor.lo = lo ? lo.getInt() : 0;
        tensor.hi = hi ? hi.getInt() : 0;
        tensor.hasIgnore = static_cast<bool>(ignore);
        tensor.ignore = ignore ? ignore.getInt() : 0;
      }
      program.tensors.push_back(std::move(tensor));
    }
    return success();
  }

  /// Outputs follow the arguments; the commands that read them say where they are.
  LogicalResult addOutputs() {
    firstOutput = program.tensors.size();
    SmallVector<RangeAttr> places;
    auto outputs = step->getAttrOfType<ArrayAttr>("offload.outputs");
    places.resize(outputs ? outputs.size() : 0);
    RangeAttr verdict;
    for (Operation &op : step.front()) {
      if (auto report = dyn_cast<CmdReportOp>(op); report && report.getOutput() < places.size() && report.getOperands().size() == 1)
        places[report.getOutput()] = cast<RangeAttr>(report.getOperands()[0]);
      if (auto read = dyn_cast<CmdVerdictOp>(op); read && read.getOperands().size() == 1)
        verdict = cast<RangeAttr>(read.getOperands()[0]);
    }
    for (auto [i, place] : llvm::enumerate(places)) {
      auto output = dyn_cast<DictionaryAttr>(outputs[i]);
      auto name = output ? output.getAs<StringAttr>("name") : StringAttr();
      auto role = output ? output.getAs<offload::RoleAttr>("role") : offload::RoleAttr();
      auto type = output ? output.getAs<TypeAttr>("type") : TypeAttr();
      if (!place || !name || !role || !type)
        return step.emitError() << "output " << i << " needs name, role and type in offload.outputs, and a report";
      Tensor tensor{};
      tensor.name = name.str();
      tensor.role = static_cast<forebay::Role>(role.getValue());
      if (failed(setHome(tensor, place, cast<RankedTensorType>(type.getValue()), step)))
        return failure();
      program.tensors.push_back(std::move(tensor));
    }
    if (!verdict)
      return success();
    Tensor tensor{};
    tensor.name = "verdict";
    tensor.role = forebay::Role::Control;
    if (failed(setHome(tensor, verdict, RankedTensorType::get({4}, Float32Type::get(module.getContext())), step)))
      return failure();
    program.tensors.push_back(std::move(tensor));
    return success();
  }

  LogicalResult addOptimizer() {
    program.entry = "forward";
    auto symbol = step->getAttrOfType<FlatSymbolRefAttr>("offload.optimizer");
    if (!symbol)
      return success();
    auto optimizer = symbols.lookup<train::OptimizerOp>(symbol.getValue());
    auto groups = step->getAttrOfType<ArrayAttr>("offload.groups");
    auto scalars = step->getAttrOfType<IntegerAttr>("offload.scalars");
    if (!optimizer || !groups || !scalars)
      return step.emitError("names an optimizer that the module does not have, or lacks offload.groups, offload.scalars");
    program.entry = "train";
    program.optimizer = symbol.getValue().str();
    program.scalarResults = scalars.getInt();
    for (NamedAttribute hyper : optimizer.getHyper())
      program.hyper.push_back({hyper.getName().str(), numberOf(hyper.getValue()), isa<BoolAttr>(hyper.getValue())});
    // Alphabetical, as the scalar function takes them.
    llvm::sort(program.hyper, [](const HyperDefault &a, const HyperDefault &b) { return a.name < b.name; });
    for (auto values : groups.getAsRange<DictionaryAttr>()) {
      Group group;
      for (const HyperDefault &hyper : program.hyper) {
        Attribute own = values.get(hyper.name);
        group.values.push_back(own ? numberOf(own) : hyper.value);
        group.fixed.push_back(static_cast<bool>(own));
      }
      if (Attribute scale = values.get("lr_scale"))
        group.lrScale = numberOf(scale);
      program.groups.push_back(std::move(group));
    }
    return success();
  }

  LogicalResult addCommands(func::FuncOp function, std::vector<Command> &list) {
    for (Operation &op : function.front().without_terminator())
      if (!isa<CmdValueOp>(op) && failed(addCommand(op, list)))
        return failure();
    return success();
  }

  LogicalResult addCommand(Operation &op, std::vector<Command> &list) {
    Command c;
    auto queue = op.getAttrOfType<EngineAttr>("queue");
    auto operands = op.getAttrOfType<ArrayAttr>("operands");
    if (!queue || !operands)
      return op.emitOpError("does not belong to level 'cmd'");
    int found = -1;
    for (auto [i, known] : llvm::enumerate(program.queues))
      if (known.name == stringifyEngine(queue.getValue()))
        found = i;
    if (found < 0)
      return op.emitOpError() << "is on queue " << stringifyEngine(queue.getValue()) << ", which machine '" << program.machine << "' does not have";
    c.queue = found;
    for (auto range : operands.getAsRange<RangeAttr>()) {
      FailureOr<uint32_t> space = spaceOf(range.getSpace(), &op);
      if (failed(space))
        return failure();
      c.operands.push_back({*space, range.getOffset(), range.getBytes(), static_cast<forebay::Access>(range.getAccess())});
    }
    if (auto predicate = op.getAttrOfType<PredicateAttr>("predicate"))
      c.predicate = static_cast<forebay::Predicate>(predicate.getValue());
    if (auto waits = op.getAttrOfType<ArrayAttr>("waits"))
      for (auto wait : waits.getAsRange<WaitAttr>())
        c.waits.push_back({wait.getEvent(), wait.getDistance()});
    if (auto signal = op.getAttrOfType<IntegerAttr>("signal"))
      c.signal = signal.getInt();
    if (auto label = op.getAttrOfType<StringAttr>("label"))
      c.label = label.str();
    if (auto phase = op.getAttrOfType<train::PhaseAttr>(train::kPhaseAttr))
      c.phase = train::stringifyPhase(phase.getValue()).str();
    return llvm::TypeSwitch<Operation &, LogicalResult>(op)
        .Case([&](CmdDispatchOp dispatch) { return addDispatch(dispatch, c); })
        .Case([&](CmdCopyOp) { return c.kind = CommandKind::Copy, success(); })
        .Case([&](CmdFeedOp feed) { return c.kind = CommandKind::Feed, c.index = feed.getArgument(), success(); })
        .Case([&](CmdReportOp report) {
          c.kind = CommandKind::Report;
          c.index = firstOutput + report.getOutput();
          return success();
        })
        .Case([&](CmdScalarsOp scalars) { return c.kind = CommandKind::Scalars, c.index = scalars.getGroup(), success(); })
        .Case([&](CmdVerdictOp) { return c.kind = CommandKind::Verdict, success(); })
        .Default([&](Operation &) { return op.emitOpError("does not belong to level 'cmd'"); })
        .succeeded()
        ? (list.push_back(std::move(c)), success())
        : failure();
  }

  LogicalResult addDispatch(CmdDispatchOp op, Command &c) {
    auto function = symbols.lookup<func::FuncOp>(op.getKernel());
    auto kernel = function ? function->getAttrOfType<KernelAttr>(kKernelAttr) : KernelAttr();
    if (!kernel)
      return op.emitOpError() << "names no kernel: @" << op.getKernel();
    c.kind = CommandKind::Dispatch;
    auto [it, isNew] = kernels.insert({{kernel.getName(), kernel.getCompiled()}, static_cast<int32_t>(program.kernels.size())});
    if (isNew)
      program.kernels.push_back({kernel.getName().str(), kernel.getCompiled()});
    c.kernel = it->second;
    c.params = op.getParams().value_or(kernel.getParams()).vec();
    c.tiles = op.getTiles().value_or(kernel.getTiles()).vec();
    c.scratch = kernel.getScratch();
    c.cost = costOf(function, kernel, sizesOf(c.operands));
    if (op.getFlops())
      c.cost.flops = op.getFlops()->convertToDouble();
    if (op.getTraffic())
      c.cost.bytes = *op.getTraffic();
    if (auto parameter = op.getParameter())
      c.tensor = *parameter;
    if (!kernel.getCompiled() && kernel.getName() == "verdict" && kernel.getParams().size() >= 3) {
      program.hasClip = kernel.getParams()[1];
      program.clipNorm = program.hasClip ? kernels::fromBits(kernel.getParams()[2]) : 0;
    }
    bool product = c.cost.cls == forebay::OpClass::Matmul || c.cost.cls == forebay::OpClass::Attention;
    if (product && c.phase == "forward")
      forwardFlops += kernel.getFlops();
    return success();
  }

  void addValues() {
    uint32_t end = program.step.empty() ? 0 : program.step.size() - 1;
    for (const Tensor &t : ArrayRef(program.tensors).take_front(firstOutput))
      program.values.push_back({t.name, t.role, t.space, t.offset, t.bytes, 0, end, true});
    for (CmdValueOp value : step.getOps<CmdValueOp>()) {
      RangeAttr range = value.getRange();
      program.values.push_back({value.getLabel().str(), static_cast<forebay::Role>(value.getRole()), *spaceOf(range.getSpace(), value), range.getOffset(),
                                range.getBytes(), static_cast<uint32_t>(value.getFirst()), static_cast<uint32_t>(value.getLast()), false});
    }
  }

  void summarize() {
    for (const std::vector<Command> *list : {&program.step, &program.flush})
      for (const Command &c : *list)
        program.scratchBytes = std::max(program.scratchBytes, c.scratch);
    // Tokens: elements of the first integer input; without one, rows of the first input.
    const Tensor *first = nullptr, *integer = nullptr;
    for (const Tensor &t : program.tensors) {
      if (t.role != forebay::Role::Input)
        continue;
      bool isInteger = t.type == DType::I64 || t.type == DType::I32 || t.type == DType::I16 || t.type == DType::I8 || t.type == DType::U8;
      first = first ? first : &t;
      integer = integer || !isInteger ? integer : &t;
    }
    if (integer) {
      program.tokensPerMicroStep = integer->bytes / forebay::byteSize(integer->type);
      program.batch = integer->shape.empty() ? 1 : integer->shape[0];
      program.sequence = integer->shape.size() > 1 ? integer->shape[1] : 0;
    } else if (first) {
      program.tokensPerMicroStep = program.batch = first->shape.empty() ? 1 : first->shape[0];
    }
    if (program.tokensPerMicroStep > 0)
      program.flopsPerToken = forwardFlops / program.tokensPerMicroStep;
  }

  ModuleOp module;
  SymbolTable symbols;
  func::FuncOp step;
  Program program;
  size_t firstOutput = 0;
  double forwardFlops = 0;
  std::map<std::pair<StringRef, bool>, int32_t> kernels;
};

} // namespace

FailureOr<Program> offload::toProgram(ModuleOp module) {
  if (failed(expectPhase(module, "translation to a program", "cmd")))
    return failure();
  return ProgramBuilder(module).run();
}
