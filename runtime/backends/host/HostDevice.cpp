//===- HostDevice.cpp - Queues as threads ---------------------------------===//

#include "HostDevice.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <sched.h>
#include <time.h>

using namespace forebay;
using namespace forebay::host;

std::vector<unsigned> forebay::host::divideThreads(const std::vector<Queue> &queues, unsigned threads, bool &sharing) {
  unsigned compute = 0;
  for (const Queue &queue : queues)
    compute += queue.compute;
  sharing = compute > 1 && threads < compute;
  std::vector<unsigned> result;
  unsigned left = std::max(threads, 1u), queuesLeft = compute;
  for (const Queue &queue : queues) {
    if (!queue.compute) {
      result.push_back(0);
      continue;
    }
    // The first gets half, rounded down but at least 1; the last what is left.
    unsigned share = std::max(1u, left / queuesLeft);
    result.push_back(share);
    left -= std::min(share, left);
    --queuesLeft;
  }
  return result;
}

HostDevice::HostDevice(const BackendConfig &given)
    : config(given), program(*given.program), events(given.program->events), queues(given.program->queues.size()),
      times(given.program->step.size() + given.program->flush.size(), 0) {
  for (Slot &slot : slots)
    slot.busy.assign(queues.size(), 0);
  cpu_set_t allowed;
  unsigned cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? unsigned(CPU_COUNT(&allowed)) : 1;
  // Spinning pays only while every thread has a core of its own; a pause takes some 10 to 40 ns.
  spins = config.threads < cores ? 2000 : config.threads == cores ? 400 : 20;
}

bool HostDevice::create(std::string &error) {
  for (const Space &space : program.spaces) {
    arenas.emplace_back();
    if (!arenas.back().map(space.arenaBytes, error)) {
      error = "space " + space.name + ": " + error;
      return false;
    }
  }
  for (Arena &arena : arenas)
    arena.populate(config.threads);

  before[0].speculates = config.speculateFirst;
  prepare(program.step, 0, false);
  prepare(program.flush, program.step.size(), true);
  std::vector<unsigned> workers = divideThreads(program.queues, config.threads, sharing);
  for (size_t i = 0; i < queues.size(); ++i) {
    queues[i].random = config.delaySeed * 0x9e3779b97f4a7c15ull + i + 1;
    queues[i].ring.resize(config.traceEvents);
    if (program.queues[i].compute)
      queues[i].workers = std::make_unique<WorkerGroup>(workers[i], program.scratchBytes, spins, config.startWorker, config.hooks.user);
  }
  for (size_t i = 0; i < queues.size(); ++i)
    queues[i].thread = std::thread([this, i] { run(uint32_t(i)); });
  return true;
}

HostDevice::~HostDevice() {
  {
    std::lock_guard<std::mutex> guard(lock);
    quit = true;
    goal = std::min(goal, begun); // a queue that has begun a step waits for what the others do in it
  }
  changed.notify_all();
  for (QueueState &queue : queues)
    if (queue.thread.joinable())
      queue.thread.join();
}

void HostDevice::prepare(const std::vector<Command> &list, size_t base, bool flush) {
  std::vector<bool> signalledHere(program.events, false);
  for (const Command &command : list)
    if (command.signal >= 0)
      signalledHere[command.signal] = true;
  std::vector<bool> hit(program.tensors.size(), false);
  const Pairs pairs(program);
  for (size_t i = 0; i < list.size(); ++i) {
    const Command &command = list[i];
    QueueState &queue = queues[command.queue];
    Prepared prepared;
    prepared.command = &command;
    prepared.index = uint32_t(base + i);
    for (const Range &range : command.operands)
      prepared.operands.push_back(arenas[range.space].data() + range.offset);
    prepared.exchanged = prepared.operands;
    for (size_t k = 0; k < command.operands.size(); ++k)
      if (auto other = pairs.exchanged(command.operands[k]))
        prepared.exchanged[k] = arenas[other->space].data() + other->offset;
    if (prepared.exchanged == prepared.operands)
      prepared.exchanged.clear();
    // Nothing of one list runs while the other does, so their events never make anyone wait across.
    for (const Wait &wait : command.waits)
      if (signalledHere[wait.event])
        prepared.waits.push_back({wait.event, wait.distance});
    if (command.kind == CommandKind::Dispatch) {
      prepared.job.kernel = config.kernels[command.kernel];
      prepared.job.params = command.params.empty() ? nullptr : command.params.data();
      for (int64_t tiles : command.tiles) {
        prepared.job.tiles += uint32_t(tiles);
        prepared.job.phaseEnd.push_back(prepared.job.tiles);
        prepared.job.parallel |= tiles > 1;
      }
      const Kernel &kernel = program.kernels[command.kernel];
      prepared.readsIndices = !kernel.compiled && (kernel.name == "embedding" || kernel.name == "cross_entropy");
      // A parameter that is split has several partial norms; element 0 is in the first.
      const FaultPlan &fault = config.fault;
      if (fault.enabled && kernel.name == "norm_partials" && command.tensor >= 0 && !hit[command.tensor] &&
          std::count(fault.tensors.begin(), fault.tensors.end(), uint32_t(command.tensor)) != 0)
        prepared.faulty = hit[command.tensor] = true;
    }
    (flush ? queue.flush : queue.step).push_back(std::move(prepared));
  }
}

//===----------------------------------------------------------------------===//
// A queue
//===----------------------------------------------------------------------===//

void HostDevice::run(uint32_t index) {
  QueueState &queue = queues[index];
  defaultFloatingPoint();
  if (queue.workers)
    queue.workers->enter();
  std::unique_lock<std::mutex> guard(lock);
  while (true) {
    changed.wait(guard, [&] {
      return quit || queue.flushed < flushes || (queue.nextStep < goal && queue.nextStep < released + kStepsInFlight);
    });
    if (quit && queue.nextStep >= goal)
      return;
    if (queue.flushed < flushes) {
      guard.unlock();
      for (Prepared &prepared : queue.flush)
        runCommand(queue, prepared, 0, 0, uint32_t(queue.flushed), true, true);
      guard.lock();
      ++queue.flushed;
      if (--flushing == 0)
        changed.notify_all();
      continue;
    }
    uint64_t step = queue.nextStep;
    begun = std::max(begun, step + 1);
    guard.unlock();
    queue.busy = 0;
    runStep(queue, step);
    guard.lock();
    ++queue.nextStep;
    Slot &slot = slots[step % kStepsInFlight];
    slot.busy[index] = queue.busy;
    if (++slot.finished == queues.size()) {
      slot.begin = lastEnd;
      slot.end = lastEnd = now();
      ended = step + 1;
      changed.notify_all();
    }
  }
}

void HostDevice::runStep(QueueState &queue, uint64_t step) {
  uint64_t micros = program.accumulate;
  for (uint64_t k = 0; k < micros; ++k) {
    uint64_t micro = step * micros + k;
    for (Prepared &prepared : queue.step)
      runCommand(queue, prepared, step, micro, uint32_t(micro), k == 0, k + 1 == micros);
  }
}

/// Whether the place in the step alone rules the command out.
static bool skipped(Predicate predicate, bool first, bool last) {
  switch (predicate) {
  case Predicate::Always:
    return false;
  case Predicate::FirstMicro:
    return !first;
  case Predicate::LaterMicro:
    return first;
  case Predicate::LastMicro:
  case Predicate::Apply:
  case Predicate::Speculate:
  case Predicate::Redo:
  case Predicate::Restore:
    return !last;
  }
  return false;
}

void HostDevice::runCommand(QueueState &queue, Prepared &prepared, uint64_t step, uint64_t micro, uint32_t iteration, bool first,
                            bool last) {
  const Command &command = *prepared.command;
  bool runs = !skipped(command.predicate, first, last);
  if (runs)
    for (const Target &target : prepared.waits)
      events[target.event].wait(iteration + 1 - target.back, spins);
  bool inFlush = prepared.index >= program.step.size();
  runs = runs && decided(command.predicate, step, inFlush);
  if (runs) {
    // t at this step, and which of a pair is which, are known only when the verdict of the step before is.
    if ((command.kind == CommandKind::Scalars && !inFlush) || !prepared.exchanged.empty())
      verdicts.wait(uint32_t(step), spins);
    bool exchanged = !prepared.exchanged.empty() && before[step % (kStepsInFlight + 1)].exchanged;
    if (config.delays)
      delay(queue);
    int64_t begin = now();
    execute(queue, prepared, (exchanged ? prepared.exchanged : prepared.operands).data(), step, micro);
    int64_t end = now();
    queue.busy += end - begin;
    times[prepared.index] += end - begin;
    if (!queue.ring.empty())
      queue.ring[queue.traced++ % queue.ring.size()] = {prepared.index, uint32_t(micro), begin, end};
    if (config.delays)
      delay(queue);
  }
  if (command.signal >= 0)
    events[command.signal].set(iteration + 1);
}

/// What the verdict, or speculation, says of a command that its place in the step lets run. The program's own waits have already ordered this; asking again
/// costs nothing.
bool HostDevice::decided(Predicate predicate, uint64_t step, bool inFlush) {
  if (predicate == Predicate::Speculate) {
    verdicts.wait(uint32_t(step), spins);
    return before[step % (kStepsInFlight + 1)].speculates;
  }
  if (!afterVerdict(predicate))
    return true;
  if (inFlush)
    return lastApplied;
  verdicts.wait(uint32_t(step) + 1, spins);
  const Decision &decision = decisions[step % kStepsInFlight];
  bool speculated = before[step % (kStepsInFlight + 1)].speculates;
  switch (predicate) {
  case Predicate::Redo:
    return decision.applied && !(speculated && decision.asSpeculated);
  case Predicate::Restore:
    return !decision.applied && speculated;
  default:
    return decision.applied;
  }
}

void HostDevice::execute(QueueState &queue, Prepared &prepared, void *const *operands, uint64_t step, uint64_t micro) {
  const Command &command = *prepared.command;
  const BackendHooks &hooks = config.hooks;
  void *first = prepared.operands.empty() ? nullptr : operands[0];
  prepared.job.operands = operands;
  switch (command.kind) {
  case CommandKind::Dispatch: {
    if (prepared.faulty && step == config.fault.step && command.operands[0].bytes >= sizeof(float))
      *static_cast<float *>(first) = std::numeric_limits<float>::quiet_NaN();
    if (sharing) {
      std::lock_guard<std::mutex> mine(turn);
      queue.workers->run(prepared.job);
    } else {
      queue.workers->run(prepared.job);
    }
    int64_t index, size;
    if (prepared.readsIndices && config.takeBadIndex && hooks.badIndex && config.takeBadIndex(hooks.user, index, size))
      hooks.badIndex(hooks.user, step, prepared.index, index, size);
    return;
  }
  case CommandKind::Copy:
    for (size_t i = 0; i < prepared.operands.size(); i += 2)
      std::memcpy(operands[i + 1], operands[i], command.operands[i].bytes);
    return;
  case CommandKind::Feed:
    return hooks.feed(hooks.user, micro, uint32_t(command.index), first, command.operands[0].bytes);
  case CommandKind::Scalars:
    return hooks.scalars(hooks.user, step, uint32_t(command.index), static_cast<float *>(first), program.scalarResults);
  case CommandKind::Verdict: {
    Decision decision = decisions[step % kStepsInFlight] = hooks.verdict(hooks.user, step, static_cast<const float *>(first));
    lastApplied = decision.applied;
    const Before &now = before[step % (kStepsInFlight + 1)];
    before[(step + 1) % (kStepsInFlight + 1)] = {now.exchanged != decision.applied, decision.speculateNext};
    verdicts.set(uint32_t(step) + 1);
    return;
  }
  case CommandKind::Report:
    return hooks.report(hooks.user, micro, command.index, first, command.operands[0].bytes);
  }
}

/// Mostly nothing, sometimes long enough for every other queue to run as far as it can.
void HostDevice::delay(QueueState &queue) {
  queue.random ^= queue.random << 13;
  queue.random ^= queue.random >> 7;
  queue.random ^= queue.random << 17;
  uint64_t draw = queue.random >> 20;
  if (draw % 8 == 0) {
    timespec pause{0, long(draw / 8 % 200000)};
    nanosleep(&pause, nullptr);
  } else if (draw % 8 < 3) {
    sched_yield();
  }
}

//===----------------------------------------------------------------------===//
// The owner's side
//===----------------------------------------------------------------------===//

void HostDevice::start(uint64_t steps) {
  {
    std::lock_guard<std::mutex> guard(lock);
    if (ended == goal)
      lastEnd = now();
    goal += steps;
  }
  changed.notify_all();
}

uint64_t HostDevice::stop() {
  std::lock_guard<std::mutex> guard(lock);
  goal = std::min(goal, begun);
  return goal;
}

bool HostDevice::wait(uint64_t step, int64_t timeout, StepTimes &result) {
  std::unique_lock<std::mutex> guard(lock);
  if (!changed.wait_for(guard, std::chrono::nanoseconds(timeout), [&] { return ended > step; }))
    return false;
  const Slot &slot = slots[step % kStepsInFlight];
  result = {slot.begin, slot.end, slot.busy.data()};
  return true;
}

void HostDevice::release() {
  {
    std::lock_guard<std::mutex> guard(lock);
    slots[released % kStepsInFlight].finished = 0;
    ++released;
  }
  changed.notify_all();
}

void HostDevice::flush() {
  if (program.flush.empty())
    return;
  std::unique_lock<std::mutex> guard(lock);
  ++flushes;
  flushing = unsigned(queues.size());
  changed.notify_all();
  changed.wait(guard, [&] { return flushing == 0; });
}

void HostDevice::commandTimes(std::vector<int64_t> &nanoseconds) const {
  nanoseconds.assign(times.begin(), times.begin() + program.step.size());
}

void HostDevice::trace(uint32_t index, std::vector<TraceEvent> &result, uint64_t &lost) const {
  const QueueState &queue = queues[index];
  uint64_t kept = std::min<uint64_t>(queue.traced, queue.ring.size());
  lost = queue.traced - kept;
  result.clear();
  for (uint64_t i = queue.traced - kept; i < queue.traced; ++i)
    result.push_back(queue.ring[i % queue.ring.size()]);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static HostDevice &host_(Device *device) { return static_cast<HostDevice &>(*device); }

const Backend &forebay::hostBackend() {
  static const Backend backend = {
      kBackendVersion,
      "host",
      [](const BackendConfig &config, std::string &error) -> Device * {
        try {
          auto device = std::make_unique<HostDevice>(config);
          return device->create(error) ? device.release() : nullptr;
        } catch (const std::exception &e) {
          // Out of memory for tables, or the system refuses a thread.
          error = e.what();
          return nullptr;
        }
      },
      [](Device *device) { delete device; },
      [](Device *device, uint32_t space) -> void * { return host_(device).arena(space).data(); },
      [](Device *device, uint32_t space) { return host_(device).arena(space).bytes(); },
      [](Device *device, uint32_t space, uint64_t offset, const void *source, uint64_t bytes) {
        if (bytes != 0)
          std::memcpy(host_(device).arena(space).data() + offset, source, bytes);
      },
      [](Device *device, uint32_t space, uint64_t offset, void *destination, uint64_t bytes) {
        if (bytes != 0)
          std::memcpy(destination, host_(device).arena(space).data() + offset, bytes);
      },
      [](Device *device, uint64_t steps) { host_(device).start(steps); },
      [](Device *device) { return host_(device).stop(); },
      [](Device *device, uint64_t step, int64_t timeout, StepTimes &times) { return host_(device).wait(step, timeout, times); },
      [](Device *device) { host_(device).release(); },
      [](Device *device) { host_(device).flush(); },
      [](Device *device, std::vector<int64_t> &nanoseconds) { host_(device).commandTimes(nanoseconds); },
      [](Device *device, uint32_t queue, std::vector<TraceEvent> &events, uint64_t &lost) { host_(device).trace(queue, events, lost); },
  };
  return backend;
}
