//===- Plan.cpp - offload-plan: level dispatch to async -------------------===//

#include "Machine.h"
#include "ProblemBuilder.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Offload/Transforms/Passes.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Planning/Bound.h"
#include "forebay/Planning/Layout.h"
#include "forebay/Planning/PlanFile.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace forebay {
#define GEN_PASS_DEF_OFFLOADPLAN
#include "forebay/Dialect/Offload/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
namespace offload = forebay::offload;
namespace planning = forebay::planning;
namespace train = forebay::train;
using forebay::Command;
using forebay::CommandKind;
using namespace forebay::offload;
using planning::BufferRange;
using planning::Machine;
using planning::Placement;
using planning::Schedule;
using planning::ScheduledOp;

namespace {

/// Writes a schedule as `offload.async` operations.
class AsyncEmitter {
public:
  AsyncEmitter(StepProblem &step, const std::vector<planning::TrainedParameter> &trained, const Machine &machine,
               const Schedule &schedule)
      : step(step), trained(trained), machine(machine), schedule(schedule), b(step.function.getContext()),
        values(schedule.buffers.size()), isWhole(schedule.buffers.size()) {}

  LogicalResult run() {
    // Engines and spaces are typed attributes: a machine file may only use their names.
    for (const planning::MachineSpace &space : machine.spaces)
      if (!symbolizeSpace(space.name))
        return step.function.emitError() << "memory '" << space.name << "' of machine '" << machine.name << "' is neither hbm nor host";
    for (const planning::MachineQueue &queue : machine.queues)
      if (!symbolizeEngine(queue.name))
        return step.function.emitError() << "engine '" << queue.name << "' of machine '" << machine.name << "' is none of gpu, cpu, h2d, d2h, side, h2d_side, d2h_side";
    func::FuncOp old = step.function;
    b.setInsertionPoint(old);
    auto function = func::FuncOp::create(b, old.getLoc(), "step", b.getFunctionType({}, {}));
    function.addEntryBlock();
    addArguments(function);
    b.setInsertionPointToEnd(&function.front());
    auto dependences = planning::trueDependences(schedule);
    for (auto [i, op] : llvm::enumerate(schedule.ops))
      tokens.push_back(emit(op, dependences[i]));
    func::ReturnOp::create(b, old.getLoc());
    setFunctionAttributes(function);
    b.setInsertionPointAfter(function);
    auto flush = func::FuncOp::create(b, old.getLoc(), "flush", b.getFunctionType({}, {}));
    b.setInsertionPointToEnd(flush.addEntryBlock());
    func::ReturnOp::create(b, old.getLoc());
    old.erase();
    return success();
  }

private:
  BufferType typeOf(uint32_t buffer) {
    const planning::Buffer &from = schedule.buffers[buffer];
    RankedTensorType tensor;
    if (from.value >= 0)
      tensor = step.types[from.value];
    else if (from.role == forebay::Role::Staging)
      tensor = RankedTensorType::get({static_cast<int64_t>(from.bytes / 4)}, b.getF32Type());
    else
      tensor = RankedTensorType::get({static_cast<int64_t>(from.bytes)}, b.getI8Type());
    return BufferType::get(b.getContext(), *symbolizeSpace(machine.spaces[from.space].name), tensor);
  }
  EngineAttr engine(const ScheduledOp &op) { return EngineAttr::get(b.getContext(), *symbolizeEngine(machine.queues[op.queue].name)); }

  /// Arguments as before, then weight copies.
  void addArguments(func::FuncOp function) {
    func::FuncOp old = step.function;
    SmallVector<uint32_t> order, copies;
    for (auto [i, buffer] : llvm::enumerate(schedule.buffers)) {
      if (!buffer.persistent)
        continue;
      assert((buffer.argument >= 0 || buffer.copyOf >= 0 || !buffer.initial.empty()) && "what lives for ever is an argument, a copy of one, or a constant");
      (buffer.argument >= 0 ? order : copies).push_back(i);
    }
    llvm::sort(order, [&](uint32_t x, uint32_t y) { return schedule.buffers[x].argument < schedule.buffers[y].argument; });
    for (uint32_t buffer : copies)
      order.push_back(buffer);
    DenseMap<uint32_t, int64_t> group; // argument: parameter group
    for (const planning::TrainedParameter &p : trained) {
      const planning::ProblemOp &update = step.problem.ops[p.update];
      Value scalars = step.operations[p.update]->getOperand(update.operands.size() - 2);
      if (auto op = scalars.getDefiningOp<train::ScalarsOp>())
        group[p.argument] = op.getGroup();
    }
    SmallVector<Type> types;
    for (auto [number, buffer] : llvm::enumerate(order)) {
      argumentNumber[buffer] = number;
      types.push_back(typeOf(buffer));
      values[buffer] = function.front().addArgument(types.back(), old.getLoc());
    }
    function.setFunctionType(b.getFunctionType(types, {}));
    for (auto [number, buffer] : llvm::enumerate(order)) {
      const planning::Buffer &from = schedule.buffers[buffer];
      NamedAttrList attrs;
      if (from.argument >= 0) {
        attrs = old.getArgAttrDict(from.argument);
        attrs.erase("train.donate");
        if (auto it = group.find(from.argument); it != group.end())
          attrs.set("offload.group", b.getI64IntegerAttr(it->second));
      } else if (from.copyOf >= 0) {
        attrs.set("offload.copy_of", b.getI64IntegerAttr(argumentNumber[from.copyOf]));
        attrs.set("train.name", b.getStringAttr(schedule.buffers[from.copyOf].label));
      } else {
        attrs.set("offload.initial", b.getDenseF32ArrayAttr(from.initial));
        attrs.set("train.name", b.getStringAttr(from.label));
      }
      attrs.set("offload.role", offload::RoleAttr::get(b.getContext(), static_cast<offload::Role>(from.role)));
      function.setArgAttrs(number, attrs.getDictionary(b.getContext()));
    }
  }

  Value buffer(uint32_t i) {
    if (!values[i])
      values[i] = AsyncBufferOp::create(b, opLoc, typeOf(i),
                                        offload::RoleAttr::get(b.getContext(), static_cast<offload::Role>(schedule.buffers[i].role)),
                                        b.getStringAttr(schedule.buffers[i].label));
    return values[i];
  }

  /// Offsets and sizes, or nothing if all ranges are whole buffers.
  DenseI64ArrayAttr slices(ArrayRef<BufferRange> ranges) {
    SmallVector<int64_t> result;
    bool whole = true;
    for (const BufferRange &range : ranges) {
      result.push_back(range.offset);
      result.push_back(range.bytes);
      whole &= range.offset == 0 && range.bytes == schedule.buffers[range.buffer].bytes;
    }
    return whole ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(result);
  }

  Value emit(const ScheduledOp &op, ArrayRef<uint32_t> after) {
    opLoc = op.op >= 0 ? step.operations[op.op]->getLoc() : step.function.getLoc();
    SmallVector<Value> first, second, waits;
    SmallVector<BufferRange> ranges;
    bool copy = op.kind == CommandKind::Copy;
    for (auto [i, range] : llvm::enumerate(op.operands))
      if (copy ? i % 2 == 0 : range.access == forebay::Access::Read)
        first.push_back(buffer(range.buffer)), ranges.push_back(range);
    for (auto [i, range] : llvm::enumerate(op.operands))
      if (copy ? i % 2 == 1 : range.access != forebay::Access::Read)
        second.push_back(buffer(range.buffer)), ranges.push_back(range);
    for (uint32_t token : after)
      waits.push_back(tokens[token]);
    auto tokenType = TokenType::get(b.getContext());
    auto predicate = PredicateAttr::get(b.getContext(), static_cast<offload::Predicate>(op.predicate));
    StringAttr label = b.getStringAttr(op.label);
    Operation *made = nullptr;
    switch (op.kind) {
    case CommandKind::Dispatch: {
      func::FuncOp kernel = step.kernels[op.kernel];
      auto attr = kernel->getAttrOfType<KernelAttr>(kKernelAttr);
      auto array = [&](ArrayRef<int64_t> now, ArrayRef<int64_t> before) { return now == before ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(now); };
      forebay::Cost usual = costOf(kernel, attr, sizesOf(op.operands));
      made = AsyncDispatchOp::create(
          b, opLoc, tokenType, engine(op), FlatSymbolRefAttr::get(kernel.getSymNameAttr()), predicate, first, second, waits, slices(ranges),
          array(op.params, attr.getParams()), array(op.tiles, attr.getTiles()),
          op.cost.flops == usual.flops ? FloatAttr() : b.getF64FloatAttr(op.cost.flops),
          op.cost.bytes == usual.bytes ? IntegerAttr() : b.getI64IntegerAttr(op.cost.bytes),
          op.parameter < 0 ? IntegerAttr() : b.getI64IntegerAttr(argumentNumber[op.parameter]), label);
      break;
    }
    case CommandKind::Copy:
      made = AsyncTransferOp::create(b, opLoc, tokenType, engine(op), predicate, first, second, waits, slices(ranges), label);
      break;
    case CommandKind::Feed:
      made = AsyncFeedOp::create(b, opLoc, tokenType, engine(op), second[0], label);
      break;
    case CommandKind::Report:
      made = AsyncReportOp::create(b, opLoc, tokenType, engine(op), first[0], b.getI64IntegerAttr(op.index), waits, label);
      break;
    case CommandKind::Scalars:
      made = AsyncScalarsOp::create(b, opLoc, tokenType, engine(op), predicate, b.getI64IntegerAttr(op.index), second[0], label);
      break;
    case CommandKind::Verdict:
      made = AsyncVerdictOp::create(b, opLoc, tokenType, engine(op), predicate, first[0], waits, label);
      break;
    }
    made->setAttr("train.phase", train::PhaseAttr::get(b.getContext(), static_cast<train::Phase>(op.phase)));
    return made->getResult(0);
  }

  void setFunctionAttributes(func::FuncOp function) {
    SmallVector<Attribute> outputs;
    for (const planning::ScheduledOutput &output : schedule.outputs)
      outputs.push_back(b.getDictionaryAttr(
          {b.getNamedAttr("name", b.getStringAttr(output.name)),
           b.getNamedAttr("role", offload::RoleAttr::get(b.getContext(), static_cast<offload::Role>(output.role))),
           b.getNamedAttr("type", TypeAttr::get(typeOf(output.buffer).getTensor()))}));
    function->setAttr("offload.outputs", b.getArrayAttr(outputs));
    // Hyper-parameters of each group, and the optimizer that evaluates them.
    SmallVector<Attribute> groups;
    for (Operation *op : step.operations)
      if (auto scalars = dyn_cast<train::ScalarsOp>(op)) {
        if (groups.size() <= scalars.getGroup())
          groups.resize(scalars.getGroup() + 1, b.getDictionaryAttr({}));
        groups[scalars.getGroup()] = scalars.getHyper();
        function->setAttr("offload.optimizer", scalars.getOptimizerAttr());
        function->setAttr("offload.scalars", b.getI64IntegerAttr(scalars.getType().getNumElements()));
      }
    function->setAttr("offload.groups", b.getArrayAttr(groups));
  }

  StepProblem &step;
  const std::vector<planning::TrainedParameter> &trained;
  const Machine &machine;
  const Schedule &schedule;
  OpBuilder b;
  Location opLoc = UnknownLoc::get(b.getContext());
  SmallVector<Value> values, tokens; ///< by buffer; by scheduled operation
  SmallVector<bool> isWhole;
  DenseMap<uint32_t, int64_t> argumentNumber;
};

class OffloadPlanPass : public forebay::impl::OffloadPlanBase<OffloadPlanPass> {
public:
  using OffloadPlanBase::OffloadPlanBase;

  void runOnOperation() override {
    if (failed(plan(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult plan(ModuleOp module) {
    if (failed(expectPhase(module, "offload-plan", "dispatch")))
      return failure();
    FailureOr<Machine> machine = loadMachine(this->machine, module.getLoc());
    if (failed(machine))
      return failure();
    std::string error, spec = memory;
    std::replace(spec.begin(), spec.end(), ';', ',');
    if (!planning::overrideMemory(*machine, spec, error))
      return (module.emitError() << "--memory=" << spec << ": " << error).attachNote() << "for example --memory=" << exampleBudget(*machine);
    if (bucketBytes < 4096)
      return module.emitError() << "bucket-bytes must be at least 4096, not " << uint64_t(bucketBytes);
    FailureOr<StepProblem> step = buildProblem(module);
    if (failed(step))
      return failure();
    step->problem.bucketBytes = bucketBytes;
    auto trained = planning::trainedParameters(step->problem, error);
    if (!error.empty())
      return step->function.emitError() << error;

    Placement placement;
    Schedule schedule;
    std::string name;
    if (failed(choose(*step, trained, *machine, name, placement, schedule)))
      return failure();
    emitRemarks(step->function, placement);
    if (failed(AsyncEmitter(*step, trained, *machine, schedule).run()))
      return failure();
    finish(module, *machine, name, *step, placement, planning::lowerBound(step->problem, trained, *machine));
    return success();
  }

  static ModuleOp module(StepProblem &step) { return step.function->getParentOfType<ModuleOp>(); }

  static std::string exampleBudget(const Machine &machine) {
    return llvm::join(llvm::map_range(machine.spaces, [](auto &space) { return space.name + "=1GiB"; }), ",");
  }

  InFlightDiagnostic complain(StepProblem &step, const Twine &why) { return module(step).emitError() << "--plan=" << planFile.getValue() << ": " << why; }

  /// Takes the decisions of a saved plan.
  LogicalResult takePlan(StepProblem &step, const std::vector<planning::TrainedParameter> &trained, const Machine &machine, std::string &name, Placement &placement) {
    planning::PlanFile file;
    std::string error;
    if (!planning::readPlan(planFile, file, error))
      return complain(step, error).attachNote() << "forebay-compile --plan-only -o FILE writes plans";
    if (file.program.machine != machine.name)
      return complain(step, "the plan was made for machine '" + file.program.machine + "', not '" + machine.name + "'").attachNote() << "give --machine as it was then";
    if (!planning::parsePlacement(file.program.placement, step.problem, trained, machine, placement, error))
      return complain(step, "the plan cannot be used: " + error).attachNote() << "make it again with --plan-only -o and the same model and options";
    placement.decisions.push_back({"all", "Forced", true, "the decisions of a saved plan", {}});
    name = file.program.policy;
    return success();
  }

  LogicalResult choose(StepProblem &step, const std::vector<planning::TrainedParameter> &trained, const Machine &machine, std::string &name, Placement &placement,
                       Schedule &schedule) {
    std::string error;
    if (!planFile.empty()) {
      if (failed(takePlan(step, trained, machine, name, placement)))
        return failure();
    } else {
      name = policy;
      if (failed(runPolicy(step, trained, machine, placement)))
        return failure();
    }
    schedule = buildSchedule(step.problem, trained, machine, placement, error);
    if (!error.empty() && !planFile.empty())
      return complain(step, "the plan cannot be used: " + error);
    if (!error.empty())
      return step.function->emitError() << error;
    return success();
  }

  LogicalResult runPolicy(StepProblem &step, const std::vector<planning::TrainedParameter> &trained, const Machine &machine, Placement &placement) {
    std::unique_ptr<planning::PlacementPolicy> chosen = planning::findPolicy(policy);
    if (!chosen)
      return (module(step).emitError() << "--policy=" << policy << ": there is no such policy").attachNote()
             << "known: " << llvm::join(planning::knownPolicies(), ", ");
    std::string why;
    if (!chosen->supports(machine, why)) {
      InFlightDiagnostic diagnostic = module(step).emitError() << "--policy=" << policy << ": needs " << why << "; machine '" << machine.name << "' has ";
      if (machine.offloads())
        diagnostic << "none";
      else
        diagnostic << "one: " << machine.spaces[0].name;
      return diagnostic.attachNote() << (machine.offloads() ? "docs/machines.md says how a machine file gets rates, or choose another policy"
                                                            : "choose a machine with two memories, or --policy=resident");
    }
    placement = chosen->place(step.problem, trained, machine);
    if (placement.undoInPlace)
      return (module(step).emitError() << "--policy=" << policy << ": it undoes updates by inverse arithmetic, which leaves other bits in weights whose step is clipped or dropped").attachNote()
             << "such plans can be compared in time only; let Placement::undoInPlace be false: updates before the verdict then go to shadows";
    return success();
  }

  void emitRemarks(func::FuncOp function, const Placement &placement) {
    for (const planning::Decision &decision : placement.decisions) {
      auto opts = remark::RemarkOpts::name(decision.name).category("offload-plan");
      auto tell = [&](auto &&out) {
        out << remark::reason("{0}: {1}", decision.subject, decision.reason);
        for (auto &[key, value] : decision.numbers)
          out << remark::metric(key, value);
      };
      if (decision.accepted)
        tell(remark::passed(function.getLoc(), opts));
      else
        tell(remark::missed(function.getLoc(), opts));
    }
  }

  void finish(ModuleOp module, const Machine &machine, StringRef chosen, const StepProblem &step, const Placement &placement, const planning::Bound &bound) {
    Builder b(module.getContext());
    setMachine(module, machine);
    module->setAttr(kPhaseAttr, b.getStringAttr("async"));
    SmallVector<NamedAttribute> attrs{b.getNamedAttr("policy", b.getStringAttr(chosen)),
                                     b.getNamedAttr("accumulate", b.getI64IntegerAttr(step.problem.accumulate)),
                                     b.getNamedAttr("bucket_bytes", b.getI64IntegerAttr(step.problem.bucketBytes))};
    if (recordPlacement)
      attrs.push_back(b.getNamedAttr("placement", b.getStringAttr(toText(placement, step.problem))));
    if (placement.hold != Placement().hold)
      attrs.push_back(b.getNamedAttr("hold_copies", b.getI64IntegerAttr(placement.hold)));
    if (placement.copyPace > 0)
      attrs.push_back(b.getNamedAttr("copy_pace", b.getF64FloatAttr(placement.copyPace)));
    if (bound.feasible) {
      attrs.push_back(b.getNamedAttr("bound_s", b.getF64FloatAttr(bound.seconds)));
      attrs.push_back(b.getNamedAttr("binding", b.getStringAttr(bound.binding)));
    }
    module->setAttr("offload.plan", b.getDictionaryAttr(attrs));
  }
};

} // namespace
