//===- SimProgram.cpp - A command table as a model of time ----------------===//

#include "SimChannels.h"
#include "forebay/Planning/Layout.h"

#include <algorithm>
#include <cassert>

using namespace forebay;
using namespace forebay::planning;

namespace {

/// Numbers of the machine for those of the program: by name, because a program may be simulated on another machine than its own.
template <typename Theirs, typename Ours> std::vector<uint32_t> byName(const std::vector<Theirs> &theirs, const std::vector<Ours> &ours) {
  std::vector<uint32_t> result;
  for (const Theirs &t : theirs) {
    auto found = std::find_if(ours.begin(), ours.end(), [&](const Ours &o) { return o.name == t.name; });
    assert(found != ours.end() && "the machine lacks a queue or memory of the program; see canSimulate");
    result.push_back(found - ours.begin());
  }
  return result;
}

uint64_t operandBytes(const Command &command) {
  uint64_t bytes = 0;
  for (const Range &range : command.operands)
    bytes += range.bytes;
  return bytes;
}

SimTask taskOf(const Command &c, uint32_t queue, const std::vector<uint32_t> &spaces, const SimChannels &channels, double pace) {
  const Machine &machine = channels.machine;
  switch (c.kind) {
  case CommandKind::Copy: {
    uint64_t bytes = 0;
    for (size_t k = 0; k < c.operands.size(); k += 2)
      bytes += c.operands[k].bytes;
    return channels.copy(queue, bytes, spaces[c.operands[0].space], spaces[c.operands[1].space], pace);
  }
  case CommandKind::Dispatch: {
    Cost cost = c.cost;
    if (cost.bytes == 0)
      cost.bytes = operandBytes(c);
    uint64_t remote = 0;
    for (const Range &range : c.operands)
      if (machine.onComputeEngine(queue) && spaces[range.space] != machine.computeSpace)
        remote += range.bytes;
    return channels.dispatch(queue, cost, std::min(remote, cost.bytes));
  }
  case CommandKind::Feed:
  case CommandKind::Scalars:
  case CommandKind::Verdict:
  case CommandKind::Report:
    break;
  }
  return {};
}

} // namespace

SimModel planning::modelOf(const Program &program, const Machine &machine) {
  SimChannels channels(machine);
  std::vector<uint32_t> queues = byName(program.queues, machine.queues), spaces = byName(program.spaces, machine.spaces);
  std::vector<int64_t> signaller(program.events, -1); // of `flush`, which a step does not run: -1
  for (uint32_t i = 0; i < program.step.size(); ++i)
    if (program.step[i].signal >= 0)
      signaller[program.step[i].signal] = i;

  SimModel model;
  model.channels = channels.list;
  model.queues = program.queues.size();
  model.accumulate = program.accumulate;
  model.tasks.reserve(program.step.size());
  for (const Command &c : program.step) {
    SimTask task = taskOf(c, queues[c.queue], spaces, channels, program.copyPace);
    task.queue = c.queue;
    task.predicate = c.predicate;
    for (const Wait &wait : c.waits)
      if (signaller[wait.event] >= 0)
        (wait.distance ? task.afterPrevious : task.after).push_back(signaller[wait.event]);
    model.tasks.push_back(std::move(task));
  }
  return model;
}

SimModel planning::modelOf(std::vector<Command> commands, uint32_t events, const Machine &machine, uint32_t accumulate, double copyPace) {
  Program program;
  for (const MachineSpace &space : machine.spaces)
    program.spaces.push_back({space.name, 0, space.capacity});
  for (const MachineQueue &queue : machine.queues)
    program.queues.push_back({queue.name, queue.compute});
  program.accumulate = accumulate;
  program.copyPace = copyPace;
  program.step = std::move(commands);
  program.events = events;
  return modelOf(program, machine);
}

SimModel planning::modelOf(const Schedule &schedule, const Layout &layout, const Machine &machine, uint32_t accumulate) {
  std::vector<Command> commands = makeCommands(schedule, layout);
  uint32_t events = deriveWaits(commands, machine.queues.size(), accumulate, shadowPairs(schedule, layout));
  return modelOf(std::move(commands), events, machine, accumulate, schedule.copyPace);
}

bool planning::canSimulate(const Program &program, const Machine &machine, std::string &why) {
  auto lacks = [&](const auto &theirs, const auto &ours, const char *what) {
    for (const auto &t : theirs)
      if (std::none_of(ours.begin(), ours.end(), [&](const auto &o) { return o.name == t.name; })) {
        why = "machine '" + machine.name + "' has no " + what + " '" + t.name + "'";
        return true;
      }
    return false;
  };
  if (machine.spaces.empty() || machine.queues.empty()) {
    why = "the program does not say what its machine is";
    return false;
  }
  if (lacks(program.spaces, machine.spaces, "memory") || lacks(program.queues, machine.queues, "engine"))
    return false;
  if (!machine.timed()) {
    why = "machine '" + machine.name + "' has no rates";
    return false;
  }
  return true;
}
