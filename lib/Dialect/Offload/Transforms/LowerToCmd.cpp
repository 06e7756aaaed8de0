//===- LowerToCmd.cpp - offload-lower-to-cmd: level async to cmd ----------===//

#include "AsyncReader.h"
#include "Machine.h"
#include "ProblemBuilder.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Offload/Transforms/Passes.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Planning/Layout.h"
#include "forebay/Planning/Packer.h"
#include "forebay/Planning/Simulator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace forebay {
#define GEN_PASS_DEF_OFFLOADLOWERTOCMD
#include "forebay/Dialect/Offload/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
namespace offload = forebay::offload;
namespace planning = forebay::planning;
namespace train = forebay::train;
using forebay::Command;
using forebay::CommandKind;
using namespace forebay::offload;
using planning::Layout;
using planning::Machine;
using planning::Schedule;

namespace {

/// Writes commands as `offload.cmd` operations in place of a function's `offload.async` operations.
class CmdEmitter {
public:
  CmdEmitter(func::FuncOp function, const StepSchedule &step, const Machine &machine, const Layout &layout)
      : function(function), step(step), machine(machine), layout(layout), b(function.getContext()) {}

  void run(ArrayRef<Command> commands) {
    Operation *terminator = function.front().getTerminator();
    const Schedule &schedule = step.schedule;
    b.setInsertionPoint(terminator);
    for (auto [i, buffer] : llvm::enumerate(schedule.buffers)) {
      const planning::BufferLayout &at = layout.buffers[i];
      RangeAttr place = range(buffer.space, at.offset, buffer.bytes, offload::Access::ReadWrite);
      if (buffer.argument >= 0)
        function.setArgAttr(buffer.argument, "offload.home", place);
      else
        value(buffer, place, at.first, at.last);
      if (at.wrap) // the same bytes under the next iteration
        value(buffer, place, 0, at.wrap - 1);
    }
    for (auto [i, command] : llvm::enumerate(commands))
      emit(command, step.operations[i]);
    // From the last to the first, so that tokens lose their uses before they go.
    SmallVector<Operation *> old;
    for (Operation &op : function.front().without_terminator())
      if (op.getNumResults())
        old.push_back(&op);
    for (Operation *op : llvm::reverse(old))
      op->erase();
  }

private:
  RangeAttr range(uint32_t space, uint64_t offset, uint64_t bytes, offload::Access access) {
    return RangeAttr::get(b.getContext(), *symbolizeSpace(machine.spaces[space].name), offset, bytes, access);
  }

  void value(const planning::Buffer &buffer, RangeAttr place, uint32_t first, uint32_t last) {
    CmdValueOp::create(b, function.getLoc(), b.getStringAttr(buffer.label), offload::RoleAttr::get(b.getContext(), static_cast<offload::Role>(buffer.role)), place,
                       b.getI64IntegerAttr(first), b.getI64IntegerAttr(last));
  }

  void emit(const Command &command, Operation *from) {
    MLIRContext *context = b.getContext();
    SmallVector<Attribute> operands, waits;
    for (const forebay::Range &r : command.operands)
      operands.push_back(range(r.space, r.offset, r.bytes, static_cast<offload::Access>(r.access)));
    for (const forebay::Wait &wait : command.waits)
      waits.push_back(WaitAttr::get(context, wait.event, wait.distance));
    auto queue = EngineAttr::get(context, *symbolizeEngine(machine.queues[command.queue].name));
    auto predicate = PredicateAttr::get(context, static_cast<offload::Predicate>(command.predicate));
    ArrayAttr ranges = b.getArrayAttr(operands), waitList = waits.empty() ? ArrayAttr() : b.getArrayAttr(waits);
    IntegerAttr signal = command.signal < 0 ? IntegerAttr() : b.getI64IntegerAttr(command.signal);
    StringAttr label = b.getStringAttr(command.label);
    IntegerAttr index = b.getI64IntegerAttr(command.index);
    Location loc = from->getLoc();
    Operation *made = nullptr;
    switch (command.kind) {
    case CommandKind::Dispatch: {
      auto dispatch = cast<AsyncDispatchOp>(from);
      made = CmdDispatchOp::create(b, loc, queue, dispatch.getKernelAttr(), dispatch.getParamsAttr(), dispatch.getTilesAttr(), dispatch.getFlopsAttr(),
                                   dispatch.getTrafficAttr(), dispatch.getParameterAttr(), ranges, predicate, waitList, signal, label);
      break;
    }
    case CommandKind::Copy:
      made = CmdCopyOp::create(b, loc, queue, ranges, predicate, waitList, signal, label);
      break;
    case CommandKind::Feed:
      made = CmdFeedOp::create(b, loc, queue, index, ranges, predicate, waitList, signal, label);
      break;
    case CommandKind::Report:
      made = CmdReportOp::create(b, loc, queue, index, ranges, predicate, waitList, signal, label);
      break;
    case CommandKind::Scalars:
      made = CmdScalarsOp::create(b, loc, queue, index, ranges, predicate, waitList, signal, label);
      break;
    case CommandKind::Verdict:
      made = CmdVerdictOp::create(b, loc, queue, ranges, predicate, waitList, signal, label);
      break;
    }
    if (Attribute phase = from->getAttr("train.phase"))
      made->setAttr("train.phase", phase);
  }

  func::FuncOp function;
  const StepSchedule &step;
  const Machine &machine;
  const Layout &layout;
  OpBuilder b;
};

class OffloadLowerToCmdPass : public forebay::impl::OffloadLowerToCmdBase<OffloadLowerToCmdPass> {
public:
  using OffloadLowerToCmdBase::OffloadLowerToCmdBase;

  void runOnOperation() override {
    if (failed(lower(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult lower(ModuleOp module) {
    if (failed(expectPhase(module, "offload-lower-to-cmd", "async")))
      return failure();
    FailureOr<Machine> machine = getMachine(module);
    if (failed(machine))
      return failure();
    auto plan = module->getAttrOfType<DictionaryAttr>("offload.plan");
    auto accumulate = plan ? plan.getAs<IntegerAttr>("accumulate") : IntegerAttr();
    auto function = module.lookupSymbol<func::FuncOp>("step"), flush = module.lookupSymbol<func::FuncOp>("flush");
    if (!accumulate || accumulate.getInt() < 1 || !function || !flush)
      return module.emitError("needs offload.plan with accumulate, @step and @flush");
    if (!flush.front().without_terminator().empty())
      return flush.emitError("pending updates are not supported: no policy defers any");
    FailureOr<StepSchedule> step = readSchedule(function, *machine);
    if (failed(step))
      return failure();
    if (auto hold = plan.getAs<IntegerAttr>("hold_copies"))
      step->schedule.hold = static_cast<uint32_t>(hold.getInt());
    if (auto pace = plan.getAs<FloatAttr>("copy_pace"))
      step->schedule.copyPace = pace.getValueAsDouble();
    Layout layout = layOut(step->schedule, *machine);
    emitRemarks(function, *machine, layout);
    if (!layout.fits(*machine) && !keepOverBudget)
      return overBudget(*step, *machine, layout);

    std::vector<Command> commands = makeCommands(step->schedule, layout);
    uint32_t events = planning::deriveWaits(commands, machine->queues.size(), accumulate.getInt(), planning::shadowPairs(step->schedule, layout));
    CmdEmitter(function, *step, *machine, layout).run(commands);
    Builder b(module.getContext());
    if (machine->timed() && llvm::any_of(commands, [](const Command &c) { return c.predicate == forebay::Predicate::Speculate; }))
      module->setAttr("offload.reject_limit",
                      b.getF64FloatAttr(planning::rejectLimit(planning::modelOf(std::move(commands), events, *machine, accumulate.getInt(), step->schedule.copyPace))));
    SmallVector<NamedAttribute> arenas;
    for (auto [i, space] : llvm::enumerate(machine->spaces))
      arenas.push_back(b.getNamedAttr(space.name, b.getI64IntegerAttr(layout.spaces[i].arenaBytes)));
    module->setAttr("offload.arenas", b.getDictionaryAttr(arenas));
    module->setAttr("offload.events", b.getI64IntegerAttr(events));
    module->setAttr(kPhaseAttr, b.getStringAttr("cmd"));
    return success();
  }

  void emitRemarks(func::FuncOp function, const Machine &machine, const Layout &layout) {
    for (auto [i, space] : llvm::enumerate(machine.spaces)) {
      const planning::SpaceLayout &at = layout.spaces[i];
      remark::analysis(function.getLoc(), remark::RemarkOpts::name("Arena").category("offload-lower-to-cmd"))
          << remark::add("space={0}", space.name) << remark::metric("arena_bytes", at.arenaBytes) << remark::metric("live_bytes", at.liveBytes)
          << remark::metric("capacity", space.capacity);
    }
    if (!machine.offloads())
      return;
    auto opts = remark::RemarkOpts::name("CopySourcesHeld").category("offload-lower-to-cmd");
    if (layout.holdsCopies)
      remark::passed(function.getLoc(), opts) << remark::reason("sources of copies keep their bytes until the next copy, so that compute does not wait for them");
    else
      remark::missed(function.getLoc(), opts) << remark::reason("does not fit: compute may wait for copies before it takes their bytes again");
  }

  /// One error at the operation at the peak, with what is resident and the smallest budget that works.
  LogicalResult overBudget(const StepSchedule &step, const Machine &machine, const Layout &layout) {
    std::string budget;
    int worst = -1;
    for (auto [i, space] : llvm::enumerate(machine.spaces)) {
      const planning::SpaceLayout &at = layout.spaces[i];
      if (worst < 0 && at.arenaBytes > space.capacity)
        worst = i;
      budget += (budget.empty() ? "" : ",") + space.name + "=" + planning::formatSize(planning::roundUp(at.arenaBytes, 1024));
    }
    const planning::SpaceLayout &at = layout.spaces[worst];
    std::string where = step.schedule.ops.empty() ? "" : step.schedule.ops[at.peak].label;
    Location loc = step.operations.empty() ? UnknownLoc::get(&getContext()) : step.operations[at.peak]->getLoc();
    std::string name = machine.spaces[worst].name;
    InFlightDiagnostic diagnostic = emitError(loc)
        << name << " is too small: the step needs " << planning::readableSize(at.arenaBytes) << " (" << at.arenaBytes << " bytes), there are "
        << planning::readableSize(machine.spaces[worst].capacity) << " (" << machine.spaces[worst].capacity << " bytes); the peak is at '" << where << "'";
    for (auto [i, space] : llvm::enumerate(machine.spaces)) {
      std::string resident;
      for (auto [role, bytes] : layout.spaces[i].roles)
        resident += (resident.empty() ? "" : ", ") + std::string(forebay::name(role)) + " " + std::to_string(bytes);
      diagnostic.attachNote() << "resident in " << space.name << " at its peak, bytes by role: " << resident;
    }
    diagnostic.attachNote() << "the smallest budget that works: --memory=" << budget;
    return diagnostic;
  }
};

} // namespace
