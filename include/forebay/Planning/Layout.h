//===- Layout.h - Every buffer of a schedule gets its bytes -----*- C++ -*-===//
///
/// \file
/// Lives of buffers over the cyclic step, in-place reuse, packing into arenas, and what is live at the peak. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_LAYOUT_H
#define FOREBAY_PLANNING_LAYOUT_H

#include "forebay/Planning/Schedule.h"

#include <map>

namespace forebay::planning {

struct BufferLayout {
  uint64_t offset = 0;
  uint32_t first = 0, last = 0; ///< operations; all of them for persistent buffers
  uint32_t wrap = 0;           ///< lives also in operations [0, wrap): what runs after the verdict reads it under the next iteration
  int32_t over = -1;            ///< buffer whose bytes it took over, in place
};

struct SpaceLayout {
  uint64_t arenaBytes = 0;
  uint64_t liveBytes = 0;  ///< largest sum of what lives at one time, each size rounded to 64
  uint32_t peak = 0;       ///< operation at which it is reached first
  std::map<Role, uint64_t> roles; ///< bytes (rounded to 64) that live at the peak
};

struct Layout {
  std::vector<BufferLayout> buffers;
  std::vector<SpaceLayout> spaces;
  bool holdsCopies = false; ///< in the compute space

  bool fits(const Machine &machine) const;
};

inline constexpr uint32_t kToTheEnd = ~0u;

/// What another queue than that of forward reads keeps its bytes until `hold` more operations of that queue have been issued (0: not at all; kToTheEnd: to the end of the
/// step), so that nobody need wait for that queue to take the bytes again.
Layout layOut(const Schedule &schedule, const Machine &machine, uint32_t hold);

/// In each space what needs less of holding copies and not: does not depend on capacities.
Layout layOutSmallest(const Schedule &schedule, const Machine &machine);

/// In each space holds what is read as long as fits, at most `schedule.hold`; where not even one operation does, what needs less. So it fits if and only if the smallest does.
Layout layOut(const Schedule &schedule, const Machine &machine);

/// Lives and live bytes without addresses: `arenaBytes` is the lower bound. Much cheaper than layOut.
Layout estimate(const Schedule &schedule, const Machine &machine, uint32_t hold = 0);

/// Bytes that live in `space` at each operation, each buffer rounded to 64.
std::vector<uint64_t> liveBytes(const Schedule &schedule, const Layout &layout, uint32_t space);

/// Commands of `schedule` at the places of `layout`, one for each operation, without waits and signals. `kernel` is that of the
/// scheduled operation, `tensor` and the index of feeds are buffers.
std::vector<Command> makeCommands(const Schedule &schedule, const Layout &layout);

/// Bytes that an applied step exchanges with others of the same space; see Role::Shadow.
struct ShadowPair {
  uint32_t space;
  uint64_t home, shadow, bytes;
};
std::vector<ShadowPair> shadowPairs(const Schedule &schedule, const Layout &layout);

/// Adds the waits that order all conflicting accesses, also across iterations, and the signals they need; no wait can be left out (but that each of a pair counts as
/// both, and what touches one waits for the verdict of the step before). Returns the number of events. See docs/algorithms/placement.md.
uint32_t deriveWaits(std::vector<Command> &commands, uint32_t queues, uint32_t accumulate, std::vector<ShadowPair> pairs);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_LAYOUT_H
