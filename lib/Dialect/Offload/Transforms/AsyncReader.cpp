//===- AsyncReader.cpp - A step at level async as a Schedule --------------===//

#include "AsyncReader.h"
#include "ProblemBuilder.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/Train.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
namespace offload = forebay::offload;
namespace planning = forebay::planning;
namespace train = forebay::train;
using forebay::Command;
using forebay::CommandKind;
using namespace forebay::offload;
using planning::BufferRange;
using planning::Machine;
using planning::ScheduledOp;

namespace {

class AsyncReader {
public:
  AsyncReader(func::FuncOp function, const Machine &machine) : function(function), machine(machine), symbols(function->getParentOp()) {}

  FailureOr<StepSchedule> run() {
    if (failed(addArguments()))
      return failure();
    if (auto outputs = function->getAttrOfType<ArrayAttr>("offload.outputs"))
      for (Attribute output : outputs) {
        auto dict = dyn_cast<DictionaryAttr>(output);
        auto name = dict ? dict.getAs<StringAttr>("name") : StringAttr();
        auto role = dict ? dict.getAs<offload::RoleAttr>("role") : offload::RoleAttr();
        if (!name || !role)
          return function.emitError("offload.outputs must be a list of {name, role, type}");
        step.schedule.outputs.push_back({name.str(), static_cast<forebay::Role>(role.getValue()), 0});
      }
    for (Operation &op : function.front().without_terminator())
      if (failed(addOp(op)))
        return failure();
    return std::move(step);
  }

private:
  FailureOr<uint32_t> spaceNumber(BufferType type, Operation *op) {
    StringRef name = stringifySpace(type.getSpace());
    for (auto [i, space] : llvm::enumerate(machine.spaces))
      if (space.name == name)
        return i;
    return op->emitError() << "machine '" << machine.name << "' has no memory '" << name << "'";
  }

  LogicalResult addBuffer(Value value, StringRef label, offload::Role role, Operation *op, bool persistent) {
    auto type = dyn_cast<BufferType>(value.getType());
    if (!type)
      return op->emitError("has a value that is no !offload.buffer");
    FailureOr<uint32_t> space = spaceNumber(type, op);
    if (failed(space))
      return failure();
    planning::Buffer buffer;
    buffer.label = label.str();
    buffer.role = static_cast<forebay::Role>(role);
    buffer.space = *space;
    buffer.bytes = type.getBytes();
    buffer.persistent = persistent;
    numbers[value] = step.schedule.buffers.size();
    step.schedule.buffers.push_back(std::move(buffer));
    return success();
  }

  LogicalResult addArguments() {
    for (BlockArgument arg : function.getArguments()) {
      auto role = function.getArgAttrOfType<offload::RoleAttr>(arg.getArgNumber(), "offload.role");
      auto name = function.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "train.name");
      if (!role || !name)
        return function.emitError() << "argument " << arg.getArgNumber() << " needs offload.role and train.name";
      if (failed(addBuffer(arg, name, role.getValue(), function, true)))
        return failure();
      planning::Buffer &buffer = step.schedule.buffers.back();
      buffer.argument = arg.getArgNumber();
      if (auto copy = function.getArgAttrOfType<IntegerAttr>(arg.getArgNumber(), "offload.copy_of"))
        buffer.copyOf = copy.getInt();
      if (buffer.role == forebay::Role::Shadow && !isShadow(buffer))
        return function.emitError() << "argument " << arg.getArgNumber() << ", a shadow, needs offload.copy_of with the number of an earlier argument of its type";
    }
    return success();
  }

  bool isShadow(const planning::Buffer &buffer) const {
    if (buffer.copyOf < 0 || buffer.copyOf >= buffer.argument)
      return false;
    const planning::Buffer &of = step.schedule.buffers[buffer.copyOf];
    return of.space == buffer.space && of.bytes == buffer.bytes && (of.role == forebay::Role::Parameter || of.role == forebay::Role::Moment);
  }

  /// `values` as ranges, with the part of `slices` that begins at value `first`.
  LogicalResult addRanges(Operation &op, ValueRange values, std::optional<ArrayRef<int64_t>> slices, size_t first, forebay::Access access,
                          SmallVectorImpl<BufferRange> &ranges) {
    for (auto [i, value] : llvm::enumerate(values)) {
      uint32_t buffer = numbers.lookup(value);
      BufferRange range{buffer, 0, step.schedule.buffers[buffer].bytes, access};
      if (slices) {
        uint64_t offset = (*slices)[2 * (first + i)], bytes = (*slices)[2 * (first + i) + 1];
        if (offset > range.bytes || bytes > range.bytes - offset)
          return op.emitOpError() << "has a slice outside its buffer";
        range.offset = offset;
        range.bytes = bytes;
      }
      ranges.push_back(range);
    }
    return success();
  }

  LogicalResult addOp(Operation &op) {
    if (auto buffer = dyn_cast<AsyncBufferOp>(op))
      return addBuffer(buffer.getBuffer(), buffer.getLabel(), buffer.getRole(), &op, false);
    ScheduledOp out;
    auto engine = op.getAttrOfType<EngineAttr>("engine");
    if (!engine)
      return op.emitOpError("does not belong to level 'async'");
    bool known = false;
    for (auto [i, queue] : llvm::enumerate(machine.queues))
      if (queue.name == stringifyEngine(engine.getValue())) {
        out.queue = i;
        known = true;
      }
    if (!known)
      return op.emitOpError() << "runs on " << stringifyEngine(engine.getValue()) << ", which machine '" << machine.name << "' does not have";
    if (auto predicate = op.getAttrOfType<PredicateAttr>("predicate"))
      out.predicate = static_cast<forebay::Predicate>(predicate.getValue());
    if (auto phase = op.getAttrOfType<train::PhaseAttr>("train.phase"))
      out.phase = static_cast<planning::Phase>(phase.getValue());
    if (auto label = op.getAttrOfType<StringAttr>("label"))
      out.label = label.str();

    SmallVector<BufferRange> reads, writes;
    LogicalResult result =
        llvm::TypeSwitch<Operation &, LogicalResult>(op)
            .Case([&](AsyncDispatchOp dispatch) { return addDispatch(dispatch, out, reads, writes); })
            .Case([&](AsyncTransferOp transfer) { return addTransfer(transfer, out); })
            .Case([&](AsyncFeedOp feed) {
              out.kind = CommandKind::Feed;
              out.index = numbers.lookup(feed.getBuffer());
              return addRanges(op, feed.getBuffer(), std::nullopt, 0, forebay::Access::Write, writes);
            })
            .Case([&](AsyncReportOp report) -> LogicalResult {
              out.kind = CommandKind::Report;
              out.index = report.getOutput();
              if (report.getOutput() >= step.schedule.outputs.size())
                return op.emitOpError("reports an output that the function does not list");
              step.schedule.outputs[report.getOutput()].buffer = numbers.lookup(report.getBuffer());
              return addRanges(op, report.getBuffer(), std::nullopt, 0, forebay::Access::Read, reads);
            })
            .Case([&](AsyncScalarsOp scalars) {
              out.kind = CommandKind::Scalars;
              out.index = scalars.getGroup();
              return addRanges(op, scalars.getBuffer(), std::nullopt, 0, forebay::Access::Write, writes);
            })
            .Case([&](AsyncVerdictOp verdict) {
              out.kind = CommandKind::Verdict;
              step.schedule.verdict = numbers.lookup(verdict.getBuffer());
              return addRanges(op, verdict.getBuffer(), std::nullopt, 0, forebay::Access::Read, reads);
            })
            .Default([&](Operation &) { return op.emitOpError("does not belong to level 'async'"); });
    if (failed(result))
      return failure();
    out.operands.insert(out.operands.end(), reads.begin(), reads.end());
    out.operands.insert(out.operands.end(), writes.begin(), writes.end());
    step.schedule.ops.push_back(std::move(out));
    step.operations.push_back(&op);
    return success();
  }

  LogicalResult addDispatch(AsyncDispatchOp op, ScheduledOp &out, SmallVectorImpl<BufferRange> &reads, SmallVectorImpl<BufferRange> &writes) {
    auto function = symbols.lookup<func::FuncOp>(op.getKernel());
    auto kernel = function->getAttrOfType<KernelAttr>(kKernelAttr);
    size_t inputs = op.getInputs().size();
    if (failed(addRanges(*op, op.getInputs(), op.getSlices(), 0, forebay::Access::Read, reads)) ||
        failed(addRanges(*op, op.getOutputs(), op.getSlices(), inputs, forebay::Access::Write, writes)))
      return failure();
    out.kind = CommandKind::Dispatch;
    out.params = op.getParams().value_or(kernel.getParams()).vec();
    out.tiles = op.getTiles().value_or(kernel.getTiles()).vec();
    out.scratch = kernel.getScratch();
    SmallVector<uint64_t> bytes = sizesOf(reads);
    llvm::append_range(bytes, sizesOf(writes));
    out.cost = costOf(function, kernel, bytes);
    if (op.getFlops())
      out.cost.flops = op.getFlops()->convertToDouble();
    if (op.getTraffic())
      out.cost.bytes = *op.getTraffic();
    if (auto parameter = op.getParameter())
      out.parameter = *parameter;
    out.inplace.assign(inputs, -1);
    for (size_t r = 0; r < writes.size(); ++r)
      out.inplace.push_back(r < kernel.getInplace().size() ? kernel.getInplace()[r] : -1);
    return success();
  }

  LogicalResult addTransfer(AsyncTransferOp op, ScheduledOp &out) {
    SmallVector<BufferRange> from, to;
    size_t n = op.getSources().size();
    if (failed(addRanges(*op, op.getSources(), op.getSlices(), 0, forebay::Access::Read, from)) ||
        failed(addRanges(*op, op.getTargets(), op.getSlices(), n, forebay::Access::Write, to)))
      return failure();
    out.kind = CommandKind::Copy;
    for (size_t i = 0; i < n; ++i) {
      if (from[i].bytes != to[i].bytes)
        return op.emitOpError() << "copies " << from[i].bytes << " bytes to " << to[i].bytes;
      out.operands.push_back(from[i]);
      out.operands.push_back(to[i]);
    }
    return success();
  }

  func::FuncOp function;
  const Machine &machine;
  SymbolTable symbols;
  StepSchedule step;
  DenseMap<Value, uint32_t> numbers;
};

} // namespace

FailureOr<StepSchedule> offload::readSchedule(func::FuncOp function, const Machine &machine) {
  return AsyncReader(function, machine).run();
}
