//===- SimSchedule.cpp - A schedule without addresses as a model of time --===//

#include "SimChannels.h"
#include "forebay/Planning/Schedule.h"

#include <algorithm>
#include <map>

using namespace forebay;
using namespace forebay::planning;

SimChannels::SimChannels(const Machine &machine) : machine(machine) {
  for (const MachineSpace &space : machine.spaces)
    list.push_back({space.name, space.bandwidth});
  engine = list.size();
  list.push_back({machine.queues[machine.computeQueue].name, 1.0});
  // Transfers on two queues, and what a dispatch reads across, share a link.
  link = list.size();
  list.push_back({machine.queues[machine.toCompute].name, machine.queues[machine.toCompute].link.most()});
  down = list.size();
  list.push_back({machine.queues[machine.toHost].name, machine.queues[machine.toHost].link.most()});
  bool emulated = false;
  for (const MachineQueue &queue : machine.queues)
    emulated |= !queue.compute && queue.cores > 0;
  if (!emulated || !machine.offloads())
    return;
  allCores = machine.queues[machine.hostQueue].cores;
  cores = list.size();
  list.push_back({"cores", 1.0});
}

void SimChannels::useCores(SimTask &task) const {
  if (uint32_t count = machine.queues[task.queue].cores; !machine.onComputeEngine(task.queue) && allCores > 0 && count > 0)
    task.uses.push_back({cores, task.seconds * count / allCores});
}

SimTask SimChannels::dispatch(uint32_t queue, const Cost &cost, uint64_t remoteBytes) const {
  SimTask task;
  task.queue = queue;
  task.latency = machine.queues[queue].launch;
  task.seconds = dispatchSeconds(machine, queue, cost) - task.latency;
  bool compute = machine.onComputeEngine(queue);
  if (remoteBytes > 0 && list[link].rate > 0) {
    task.seconds = std::max(task.seconds, remoteBytes / list[link].rate);
    task.uses.push_back({link, static_cast<double>(remoteBytes)});
    task.uses.push_back({machine.hostSpace, static_cast<double>(remoteBytes)});
  }
  if (cost.bytes > remoteBytes)
    task.uses.push_back({compute ? machine.computeSpace : machine.hostSpace, static_cast<double>(cost.bytes - remoteBytes)});
  if (compute && machine.sideQueue >= 0)
    task.uses.push_back({engine, task.seconds});
  useCores(task);
  return task;
}

SimTask SimChannels::copy(uint32_t queue, uint64_t bytes, uint32_t from, uint32_t to, double pace) const {
  SimTask task;
  task.queue = queue;
  if (machine.queues[queue].compute) { // within one memory, by a kernel
    Cost cost;
    cost.bytes = 2 * bytes;
    return dispatch(queue, cost, 0);
  }
  task.latency = machine.queues[queue].launch;
  task.seconds = copySeconds(machine, queue, bytes) - task.latency;
  if (pace > 0)
    task.seconds = std::max(task.seconds, bytes / pace);
  task.uses = {{from, static_cast<double>(bytes)}, {to, static_cast<double>(bytes)}};
  if (from == machine.computeSpace && to != from)
    task.uses.push_back({down, static_cast<double>(bytes)});
  else if (to == machine.computeSpace && to != from)
    task.uses.push_back({link, static_cast<double>(bytes)});
  useCores(task);
  return task;
}

namespace {

/// What must end before an operation starts: of conflicting accesses on each queue the latest. Buffers are cut at the ends of all ranges.
class Dependences {
public:
  Dependences(const Schedule &schedule, uint32_t queues) : schedule(schedule), queues(queues), cuts(schedule.buffers.size()), base(schedule.buffers.size()), paired(schedule.buffers.size()) {
    for (const ScheduledOp &op : schedule.ops)
      for (const BufferRange &range : op.operands) {
        cuts[counted(range.buffer)].push_back(range.offset);
        cuts[counted(range.buffer)].push_back(range.offset + range.bytes);
      }
    for (size_t b = 0; b < schedule.buffers.size(); ++b)
      if (schedule.buffers[b].role == Role::Shadow)
        paired[b] = paired[schedule.buffers[b].copyOf] = true;
    size_t count = 1; // segment 0: the verdict
    for (size_t b = 0; b < cuts.size(); ++b) {
      std::vector<uint64_t> &list = cuts[b];
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
      base[b] = count;
      count += list.size();
    }
    reads.assign(count * queues, -1);
    writes.assign(count * queues, -1);
  }

  /// Two micro-steps: the second says what waits for the first.
  void run(std::vector<SimTask> &tasks) {
    const int64_t n = schedule.ops.size();
    std::vector<int64_t> need(queues);
    for (int64_t iteration = 0; iteration < 2; ++iteration)
      for (int64_t i = 0; i < n; ++i) {
        const ScheduledOp &op = schedule.ops[i];
        std::fill(need.begin(), need.end(), -1);
        eachSegment(op, [&](size_t segment, bool reading, bool writing) {
          for (uint32_t q = 0; q < queues; ++q) {
            need[q] = std::max(need[q], writes[segment * queues + q]);
            if (writing)
              need[q] = std::max(need[q], reads[segment * queues + q]);
          }
        });
        for (uint32_t q = 0; iteration == 1 && q < queues; ++q) {
          if (q == op.queue || need[q] < 0)
            continue;
          if (need[q] >= n)
            tasks[i].after.push_back(need[q] - n);
          else
            tasks[i].afterPrevious.push_back(need[q]);
        }
        int64_t now = iteration * n + i;
        eachSegment(op, [&](size_t segment, bool reading, bool writing) {
          if (writing)
            writes[segment * queues + op.queue] = now;
          if (reading)
            reads[segment * queues + op.queue] = now;
        });
      }
  }

private:
  /// A shadow and its pair are exchanged by applied steps: each counts as both, as in deriveWaits. Whatever touches one comes after the verdict of the step before.
  uint32_t counted(uint32_t buffer) const { return schedule.buffers[buffer].role == Role::Shadow ? schedule.buffers[buffer].copyOf : buffer; }

  template <typename Visit> void eachSegment(const ScheduledOp &op, Visit visit) {
    bool follows = op.predicate == Predicate::Speculate;
    for (const BufferRange &range : op.operands) {
      follows |= paired[range.buffer];
      const std::vector<uint64_t> &list = cuts[counted(range.buffer)];
      size_t from = std::lower_bound(list.begin(), list.end(), range.offset) - list.begin();
      for (size_t s = from; s < list.size() && list[s] < range.offset + range.bytes; ++s)
        visit(base[counted(range.buffer)] + s, range.access != Access::Write, range.access != Access::Read);
    }
    if (op.kind == CommandKind::Verdict)
      visit(0, false, true);
    else if (op.kind == CommandKind::Scalars || afterVerdict(op.predicate))
      visit(0, true, false);
    else if (follows)
      visit(0, false, false);
  }

  const Schedule &schedule;
  const uint32_t queues;
  std::vector<std::vector<uint64_t>> cuts;
  std::vector<size_t> base;
  std::vector<bool> paired; ///< by buffer: a shadow, or has one
  std::vector<int64_t> reads, writes; ///< by segment and queue: latest moment
};

} // namespace

SimModel planning::modelOf(const Schedule &schedule, const Machine &machine, uint32_t accumulate) {
  SimChannels channels(machine);
  SimModel model;
  model.channels = channels.list;
  model.queues = machine.queues.size();
  model.accumulate = accumulate;
  model.tasks.reserve(schedule.ops.size());
  for (const ScheduledOp &op : schedule.ops) {
    SimTask task;
    if (op.kind == CommandKind::Copy) {
      uint64_t bytes = 0;
      for (size_t k = 0; k < op.operands.size(); k += 2)
        bytes += op.operands[k].bytes;
      task = channels.copy(op.queue, bytes, schedule.buffers[op.operands[0].buffer].space, schedule.buffers[op.operands[1].buffer].space, schedule.copyPace);
    } else if (op.kind == CommandKind::Dispatch) {
      uint64_t remote = 0;
      for (const BufferRange &range : op.operands)
        if (machine.onComputeEngine(op.queue) && schedule.buffers[range.buffer].space != machine.computeSpace)
          remote += range.bytes;
      task = channels.dispatch(op.queue, op.cost, std::min(remote, op.cost.bytes));
    } else {
      task.queue = op.queue;
    }
    task.predicate = op.predicate;
    model.tasks.push_back(std::move(task));
  }
  Dependences(schedule, machine.queues.size()).run(model.tasks);
  return model;
}
