//===- Timeline.h - What lives when on the virtual clock --------*- C++ -*-===//
///
/// \file
/// Memory over the time of one simulated step. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_TIMELINE_H
#define FOREBAY_PLANNING_TIMELINE_H

#include "forebay/Planning/Simulator.h"

namespace forebay::planning {

/// Time in which the bytes of a value are taken in one micro-step: from the start of the first command that touches it to the
/// end of the last, skipped ones included.
struct Life {
  uint32_t value = 0, micro = 0; ///< value: index into Program::values
  double start = 0, end = 0;     ///< seconds, as in SimSpan; may lie outside [0, step)
};

/// Lives of the values that are not persistent. `result` is of `modelOf(program, ...)`, with spans. One whose commands are all skipped does not live; one
/// whose bytes another value takes lives to the start of that one at most.
std::vector<Life> livesOf(const Program &program, const SimResult &result);

struct MemoryPoint {
  double time = 0;             ///< in [0, step)
  std::vector<uint64_t> bytes; ///< by role (MemoryCurve::roles), from now to the next point; each value rounded to 64
};

/// What lives in one space over a step that is repeated: what reaches into the next step counts at its begin.
struct MemoryCurve {
  std::vector<Role> roles;         ///< that occur, in the order of the enumeration
  std::vector<MemoryPoint> points; ///< ascending; the first at 0
  uint64_t peak = 0;               ///< largest sum of a point: at most the arena
};

MemoryCurve memoryOf(const Program &program, const SimResult &result, const std::vector<Life> &lives, uint32_t space);

/// Why a task did not start earlier.
struct Cause {
  int64_t span = -1;    ///< index into SimResult::spans: what ended last before, the task before it on its queue or one that it waits for; -1: no task takes time
  bool before = false;  ///< that span of the step before
  double idle = 0;      ///< seconds for which its queue stood still
};

/// One for each span of `result`, which is of `model`, with spans. Those of tasks that are skipped or take no time say nothing.
std::vector<Cause> causesOf(const SimModel &model, const SimResult &result);

/// Seconds of the step shown for which `queue` stands still, by the task that ran meanwhile on the chain of causes: what would have to be faster.
std::vector<double> idleByTask(const SimModel &model, const SimResult &result, uint32_t queue);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_TIMELINE_H
