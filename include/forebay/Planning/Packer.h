//===- Packer.h - Offsets for buffers in one arena --------------*- C++ -*-===//
///
/// \file
/// Dynamic storage allocation: buffers with a life and a size get offsets such that those that live at the same time do not overlap.
/// Method: docs/algorithms/packing.md. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_PACKER_H
#define FOREBAY_PLANNING_PACKER_H

#include <cstdint>
#include <vector>

namespace forebay::planning {

/// Every offset and size is a multiple of this.
inline constexpr uint64_t kAlignment = 64;
inline uint64_t roundUp(uint64_t bytes, uint64_t to = kAlignment) { return (bytes + to - 1) / to * to; }

struct PackItem {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0; ///< lives in [first, last]
  uint32_t wrap = 0;            ///< and in [0, wrap): time is a circle
  /// Offsets of buffers that one pass over memory touches together with this one: it does not begin within 4 KiB of a multiple of 128 MiB
  /// of any of them.
  std::vector<uint64_t> avoid;
  uint64_t offset = 0;          ///< result
};

/// Distances matter from this size on: less lies in the cache.
inline constexpr uint64_t kStreamed = 64 << 10;

struct PackResult {
  uint64_t arenaBytes = 0; ///< largest end of an item
  uint64_t liveBytes = 0;  ///< largest sum of sizes (rounded to kAlignment) of what lives at one time: a lower bound
  uint32_t peak = 0;       ///< first time at which it is reached
};

/// The result of `pack` but for the arena, which is the lower bound; sets no offsets.
PackResult boundPacking(const std::vector<PackItem> &items, uint64_t base = 0);

/// Sets the offsets. Deterministic. `base` bytes at the bottom are taken at all times and count in both results.
PackResult pack(std::vector<PackItem> &items, uint64_t base = 0);

/// Places buffers that live for ever one after another, from 0. `together[i]` is a number for buffers that one pass over memory reads and writes together
/// (-1: none): two of those do not begin within 4 KiB of a multiple of 128 MiB of each other. Returns the end.
uint64_t packPersistent(std::vector<PackItem> &items, const std::vector<int32_t> &together);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_PACKER_H
