//===- backend.h - The table of functions behind which a backend sits -*- C++ -*-===//
///
/// \file
/// A backend owns the arenas of a program, runs its command table and calls back for what the host decides: feeds,
/// scalars of the optimizer, the verdict, reports. The session (runtime/core) knows backends only through this table, so
/// that a new one is one more `Backend`. test/unit/Runtime/EngineTest.cpp holds the conformance suite that runs over all of them.
///
/// What every backend guarantees
/// * Each queue runs its own commands in program order, one at a time, iteration after iteration.
/// * A command starts when its waits are fulfilled. Predicates are evaluated when the command's turn comes; what is skipped is
///   skipped as `Predicate` says: without waiting, except those that hang on the verdict or on whether speculation is on, at a last micro-step.
/// * `Scalars` of a step run after the verdict of the step before, because t depends on it; so does what touches a shadow or its pair, which an
///   applied step exchanges.
/// * Nothing is allocated between `open` and `close`.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_BACKEND_H
#define FOREBAY_BACKEND_H

#include "forebay/kernel_abi.h"
#include "forebay/program.h"

#include <cstddef>

namespace forebay {

/// Bumped when the meaning of anything in this file changes.
inline constexpr uint32_t kBackendVersion = 3;

/// Steps that may be in flight between the slowest queue and the one who reads their results.
inline constexpr unsigned kStepsInFlight = 4;

/// What is decided about a step.
struct Decision {
  bool applied = false;
  bool asSpeculated = false;  ///< it is applied, and with the coefficient 1 that speculation takes it to have
  bool speculateNext = false; ///< speculation is on in the next step
};

/// Micro-steps and steps count from 0 since `open`. Called from queue threads; must not allocate, fail or block for long.
struct BackendHooks {
  void *user = nullptr;
  /// Writes the row of `micro` for Program::tensors[tensor] to `destination`.
  void (*feed)(void *user, uint64_t micro, uint32_t tensor, void *destination, size_t bytes) = nullptr;
  /// Evaluates the optimizer's scalars for parameter group `group`.
  void (*scalars)(void *user, uint64_t step, uint32_t group, float *destination, size_t count) = nullptr;
  /// Reads {norm, coefficient, finite, index of the first bad gradient}.
  Decision (*verdict)(void *user, uint64_t step, const float *verdict) = nullptr;
  /// Reads tensor `tensor` (the loss if negative) of `micro`.
  void (*report)(void *user, uint64_t micro, int32_t tensor, const void *source, size_t bytes) = nullptr;
  /// `command` of Program::step has met an index that its table of `size` rows does not have. Comes before the verdict of `step`.
  void (*badIndex)(void *user, uint64_t step, uint32_t command, int64_t index, int64_t size) = nullptr;
};

/// NaN in element 0 of the gradients of some parameters at one step, for tests.
struct FaultPlan {
  bool enabled = false;
  uint64_t step = 0;             ///< counted as in the hooks
  std::vector<uint32_t> tensors; ///< parameters whose gradients are hit; each has a norm_partials command
};

struct BackendConfig {
  const Program *program = nullptr;
  std::vector<fb_kernel_fn> kernels; ///< one for each Program::kernels
  unsigned threads = 1;              ///< compute workers of all queues together
  BackendHooks hooks;
  void (*startWorker)(void *user) = nullptr; ///< called once on every compute worker, with the hooks' user, before its first command
  /// Asked, with the hooks' user, after each command whose kernel reads indices.
  bool (*takeBadIndex)(void *user, int64_t &index, int64_t &size) = nullptr;
  uint64_t traceEvents = 0;          ///< commands that the trace of each queue can hold; 0: no trace
  bool delays = false;               ///< random delays in every queue
  uint64_t delaySeed = 0;
  FaultPlan fault;
  bool speculateFirst = true;        ///< speculation is on in the first step
};

/// One executed command. The last `traceEvents` of each queue are kept.
struct TraceEvent {
  uint32_t command;   ///< index into Program::step, or its size plus the index into Program::flush
  uint32_t micro;
  int64_t begin, end; ///< nanoseconds of the monotonic clock
};

/// Where the time of a finished step went.
struct StepTimes {
  int64_t begin = 0, end = 0;      ///< nanoseconds: the step before ended (or the run started), this one ended
  const int64_t *busy = nullptr;   ///< nanoseconds in commands, by queue
};

struct Device;

struct Backend {
  uint32_t version;
  const char *name;
  /// Creates arenas, queues and workers. On failure returns null and says why in `error`.
  Device *(*open)(const BackendConfig &config, std::string &error);
  /// Steps that a queue has begun are finished first.
  void (*close)(Device *device);
  /// Address of the arena of `space` where the host can reach it, else null.
  void *(*map)(Device *device, uint32_t space);
  /// Bytes that the arena of `space` really has.
  uint64_t (*arenaBytes)(Device *device, uint32_t space);
  void (*write)(Device *device, uint32_t space, uint64_t offset, const void *source, uint64_t bytes);
  void (*read)(Device *device, uint32_t space, uint64_t offset, void *destination, uint64_t bytes);
  /// Lets the queues run up to `steps` more steps and returns at once.
  void (*start)(Device *device, uint64_t steps);
  /// Lets the queues finish the steps that any of them has begun, and no more. Returns how many steps will then have run
  /// since `open`.
  uint64_t (*stop)(Device *device);
  /// Waits until step `step` has ended on every queue, or `timeout` nanoseconds. Returns whether it has.
  bool (*wait)(Device *device, uint64_t step, int64_t timeout, StepTimes &times);
  /// Frees the slot of the oldest step that `wait` has reported.
  void (*release)(Device *device);
  /// Runs Program::flush. Only while no step is running.
  void (*flush)(Device *device);
  /// Nanoseconds spent in each command of Program::step so far. Only while no step is running.
  void (*commandTimes)(Device *device, std::vector<int64_t> &nanoseconds);
  /// The trace of `queue`, oldest first. `lost` counts events that no longer fit.
  void (*trace)(Device *device, uint32_t queue, std::vector<TraceEvent> &events, uint64_t &lost);
};

/// Real threads on this machine; the reference.
const Backend &hostBackend();

/// Checks everything that a backend relies on: indices, ranges inside arenas, one signaller for each event, waits that program order can
/// fulfil. False with a reason if `program` breaks a rule.
bool validateProgram(const Program &program, std::string &error);

} // namespace forebay

#endif // FOREBAY_BACKEND_H
