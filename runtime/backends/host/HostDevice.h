//===- HostDevice.h - Queues as threads -------------------------*- C++ -*-===//
///
/// \file
/// Everything a program needs on this machine: arenas, one thread for each queue, a group of workers for each compute queue, one
/// counter for each event. Queues meet only where commands wait, where a step begins (a lock taken once a step) and in `kStepsInFlight`.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_BACKENDS_HOST_HOSTDEVICE_H
#define FOREBAY_BACKENDS_HOST_HOSTDEVICE_H

#include "Arena.h"
#include "Sync.h"
#include "WorkerGroup.h"
#include "forebay/backend.h"

#include <condition_variable>
#include <mutex>

namespace forebay {

struct Device {
  virtual ~Device() = default;
};

namespace host {

/// How many workers each queue gets; 0 for copy queues. With fewer threads than compute queues some share one worker and take turns:
/// `sharing` is then set.
std::vector<unsigned> divideThreads(const std::vector<Queue> &queues, unsigned threads, bool &sharing);

class HostDevice : public Device {
public:
  HostDevice(const BackendConfig &config);
  ~HostDevice() override;

  /// False with a reason if memory is missing. Then nothing runs.
  bool create(std::string &error);

  void start(uint64_t steps);
  uint64_t stop();
  bool wait(uint64_t step, int64_t timeout, StepTimes &times);
  void release();
  void flush();

  Arena &arena(uint32_t space) { return arenas[space]; }
  void commandTimes(std::vector<int64_t> &nanoseconds) const;
  void trace(uint32_t queue, std::vector<TraceEvent> &events, uint64_t &lost) const;

private:
  struct Target {
    uint32_t event, back; ///< reached when the counter is at iteration + 1 - back
  };
  /// A command with addresses instead of ranges.
  struct Prepared {
    const Command *command;
    uint32_t index;
    Job job;
    std::vector<void *> operands;
    std::vector<void *> exchanged; ///< after an odd number of applied steps; empty: the same
    std::vector<Target> waits;
    bool faulty = false;
    bool readsIndices = false; ///< its kernel may find one out of range
  };
  struct QueueState {
    std::vector<Prepared> step, flush;
    std::unique_ptr<WorkerGroup> workers;
    std::thread thread;
    uint64_t nextStep = 0, flushed = 0; ///< under the lock
    int64_t busy = 0;                   ///< in the current step
    uint64_t random = 0;
    std::vector<TraceEvent> ring;
    uint64_t traced = 0;
  };
  struct Slot {
    unsigned finished = 0;
    int64_t begin = 0, end = 0;
    std::vector<int64_t> busy; ///< by queue
  };

  void prepare(const std::vector<Command> &list, size_t base, bool flush);
  void run(uint32_t queue);
  void runStep(QueueState &queue, uint64_t step);
  void runCommand(QueueState &queue, Prepared &prepared, uint64_t step, uint64_t micro, uint32_t iteration, bool first,
                  bool last);
  bool decided(Predicate predicate, uint64_t step, bool inFlush);
  void execute(QueueState &queue, Prepared &prepared, void *const *operands, uint64_t step, uint64_t micro);
  void delay(QueueState &queue);

  BackendConfig config;
  const Program &program;
  std::vector<Arena> arenas;
  std::vector<Counter> events;
  std::vector<QueueState> queues;
  std::vector<int64_t> times; ///< by command; written by the queue of the command
  Counter verdicts;           ///< steps whose verdict is known
  Decision decisions[kStepsInFlight] = {}; ///< by step; ordered by `verdicts`
  /// What the verdicts before a step leave it, by step; the verdict of the step before writes it.
  struct Before {
    bool exchanged = false, speculates = false;
  };
  Before before[kStepsInFlight + 1] = {};
  bool lastApplied = false;
  unsigned spins = 0;
  bool sharing = false;
  std::mutex turn; ///< of the shared worker

  std::mutex lock;
  std::condition_variable changed;
  uint64_t goal = 0, begun = 0, ended = 0, released = 0, flushes = 0;
  unsigned flushing = 0;
  bool quit = false;
  int64_t lastEnd = 0;
  Slot slots[kStepsInFlight];
};

} // namespace host
} // namespace forebay

#endif // FOREBAY_BACKENDS_HOST_HOSTDEVICE_H
