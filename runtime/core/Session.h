//===- Session.h - A program that trains ------------------------*- C++ -*-===//
///
/// \file
/// Owns a device (through the backend table), the step number t, the learning rate and the results of the steps in flight. Files and
/// options are the business of others.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_RUNTIME_SESSION_H
#define FOREBAY_RUNTIME_SESSION_H

#include "Loader.h"
#include "Problems.h"
#include "Schedule.h"
#include "forebay/backend.h"
#include "forebay/kernels.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <optional>

namespace forebay::rt {

struct SessionOptions {
  const Backend *backend = nullptr;     ///< null: the host
  unsigned threads = 0;                 ///< 0: the allowed cores
  Schedule schedule;                    ///< total already set
  std::vector<std::string> hyper;       ///< KEY=VALUE: changes defaults, not what a group fixes; the last of a key wins
  uint64_t traceEvents = 0;
  bool delays = false;
  uint64_t delaySeed = 0;
  bool fault = false;                   ///< NaN in the gradients of parameters that match, at this step (from 1)
  uint64_t faultStep = 0;
  uint64_t attempts = 0;                ///< of the checkpoint that the run goes on from
  std::string faultPattern;
};

/// Plain values that a checkpoint keeps beside the tensors.
struct Progress {
  uint64_t attempts = 0; ///< steps tried: position in the data
  uint64_t applied = 0;  ///< t
  uint64_t skipped = 0, clipped = 0;
};

/// Steps of a session by what became of their speculative updates. A session that goes on from a checkpoint starts them again.
struct Speculation {
  uint64_t speculated = 0; ///< = committed + redone + skipped
  uint64_t committed = 0, redone = 0, skipped = 0;
};

/// What a finished step was.
struct StepResult {
  uint64_t step;          ///< attempt, from 1
  double loss;            ///< mean over the micro-steps; NaN if the program reports none
  float norm;
  double lr;
  bool applied, clipped;
  bool speculated, committed; ///< updates ran before the verdict; and as it then said
  Speculation speculation; ///< so far
  int32_t nonfinite;      ///< tensor, or -1
  uint64_t tokens;
  StepTimes times;
};

/// Gives rows to inputs and takes what is reported; called while steps run, must not allocate.
class StepData {
public:
  virtual ~StepData() = default;
  virtual void feed(uint32_t tensor, uint64_t micro, void *destination) = 0;
  virtual void output(uint32_t tensor, uint64_t micro, const void *source, uint64_t bytes) {}
};

class Session {
public:
  static std::unique_ptr<Session> create(const LoadedProgram &loaded, const SessionOptions &options, Problems &problems);
  ~Session();

  const Program &program() const { return loaded.program; }
  unsigned threads() const { return config.threads; }
  const Backend &backend() const { return *table; }
  Device *device() const { return opened; }

  /// Index of a tensor, or -1.
  int find(const std::string &name) const;
  void write(size_t tensor, const void *source);
  void read(size_t tensor, void *destination) const;
  /// Hands the bytes to `sink` in pieces, without a copy where the host reaches the arena.
  bool stream(size_t tensor, const std::function<bool(const void *, uint64_t)> &sink) const;
  /// Fills the weight copies from the masters; after any change of those.
  void refreshCopies();

  Progress &progress() { return state; }
  const Speculation &speculation() const { return counts; }
  /// Whether the program has updates that run before the verdict.
  bool speculates() const { return canSpeculate; }
  /// Attempts made before this session's first step.
  uint64_t attemptsBefore() const { return state.attempts - ran; }
  /// `data` must outlive the steps.
  void setData(StepData *data) { stepData = data; }

  /// Runs up to `steps` steps. `done` sees each one in order; it may look at `times` only inside the call. When `stop` becomes true the
  /// steps that have begun are finished and no others are; so, too, after an index out of range. Returns how many ran.
  uint64_t run(uint64_t steps, const std::function<void(const StepResult &)> &done, const std::atomic<int> *stop = nullptr);
  /// Whether a step met an index out of range, in words for the user. Its update, and those of the steps after it, were not applied.
  bool reportBadIndex(Problems &problems) const;
  /// Applies pending updates. Parameters and moments are final afterwards.
  void flush();

  /// Rate of the schedule at applied step t, before lr_scale; NaN if the optimizer has no rate.
  double rate(uint64_t t) const;

private:
  Session(const LoadedProgram &loaded, const SessionOptions &options);
  bool setHyper(Problems &problems);
  bool setFault(Problems &problems);
  void evaluate(uint64_t step, uint32_t group, float *destination) const;
  void noteBadIndex(uint64_t step, uint32_t command, int64_t index, int64_t size);
  Decision decide(uint64_t step, const float *verdict);
  bool speculateNext() const { return canSpeculate && rejected <= loaded.program.rejectLimit; }
  uint64_t offsetOf(size_t tensor) const;
  void report(uint64_t micro, int32_t tensor, const void *source, size_t bytes);

  struct Slot {
    double lossSum = 0;
    uint64_t losses = 0;
    float norm = NAN, coefficient = 1;
    int32_t bad = -1;
    bool hasVerdict = false, applied = false, speculated = false, committed = false;
    double lr = NAN;
  };

  /// The first index out of range. Written by a queue before the verdict of its step.
  struct BadIndex {
    std::atomic<bool> there{false}; ///< the rest is written before
    uint64_t step = 0;
    uint32_t command = 0;
    int64_t index = 0, size = 0;
  };

  const LoadedProgram &loaded;
  SessionOptions options;
  const Backend *table;
  BackendConfig config;
  Device *opened = nullptr;
  StepData *stepData = nullptr;
  Progress state;
  Speculation counts;
  bool canSpeculate = false;
  bool speculating = false;     ///< in the step whose verdict comes next
  double rejected = 0;          ///< share of the recent steps that speculation is or would have been wrong about
  bool exchanged = false;       ///< an odd number of steps was applied since the device was opened
  std::vector<int32_t> shadowOf; ///< by tensor: its shadow, or -1
  uint64_t ran = 0;             ///< steps since the device was opened
  uint64_t firstAttempt = 0;    ///< attempts before those
  Slot slots[kStepsInFlight];
  uint64_t appliedBefore[kStepsInFlight + 1] = {}; ///< by step since `open`; of step s, written by the verdict of s - 1
  std::vector<std::vector<double>> groupHyper;     ///< alphabetical
  std::vector<int> tensorOfGradient;
  BadIndex badIndex;
  kernels::BadIndexSink reported; ///< by the kernels of this session's workers
  int lrIndex = -1;             ///< alphabetical
  double baseRate = 0;
};

/// Cores that this process may use.
unsigned allowedCores();

/// Bytes that the control group (v2) at `folder` still gives out; none if it has no limit.
std::optional<uint64_t> controlGroupRoom(const std::string &folder);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_SESSION_H
