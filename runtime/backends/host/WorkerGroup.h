//===- WorkerGroup.h - Workers that share the tiles of a dispatch -*- C++ -*-===//
///
/// \file
/// The thread of a compute queue leads a group of workers. A dispatch is published as one pointer and a claim word; whoever is
/// awake claims tiles until none are left. Phases need no barrier of their own: tiles are numbered through all phases, and a
/// claim in phase p waits until every tile of the phases before has ended.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_BACKENDS_HOST_WORKERGROUP_H
#define FOREBAY_BACKENDS_HOST_WORKERGROUP_H

#include "Sync.h"
#include "forebay/kernel_abi.h"

#include <memory>
#include <thread>
#include <vector>

namespace forebay::host {

/// A dispatch with everything resolved. Immutable once the queues run, so that a late worker may look at a stale one.
struct Job {
  fb_kernel_fn kernel = nullptr;
  void *const *operands = nullptr;
  const int64_t *params = nullptr;
  std::vector<uint32_t> phaseEnd; ///< running sum of tiles
  uint32_t tiles = 0;             ///< of all phases
  bool parallel = false;          ///< some phase has more than one tile
};

class WorkerGroup {
public:
  /// `workers` counts the leader, who is the caller of `run`.
  WorkerGroup(unsigned workers, uint64_t scratchBytes, unsigned spins, void (*startWorker)(void *user), void *user);
  ~WorkerGroup();

  /// Starts the leader's thread-local state; called on the leader's thread.
  void enter();
  /// Runs all tiles of `job`; returns when they have ended.
  void run(const Job &job);

private:
  void help(unsigned worker);
  void work(uint32_t ticket, void *scratch);

  // The claim word: ticket of the job in the upper half, next tile in the lower. `kClosed` in the lower half: nothing to claim.
  static constexpr uint64_t kClosed = 0xffffffff;
  alignas(64) std::atomic<uint64_t> claim{kClosed};
  alignas(64) std::atomic<const Job *> current{nullptr};
  Counter done;    ///< tiles of the current job that have ended
  Counter tickets; ///< jobs published to helpers
  std::atomic<bool> quit{false};
  uint32_t ticket = 0;
  unsigned spins;
  void (*startWorker)(void *user);
  void *user;
  std::vector<std::unique_ptr<char, void (*)(void *)>> scratch;
  std::vector<std::thread> helpers;
};

/// Rounding to nearest with denormals, whatever a library that was loaded has set.
void defaultFloatingPoint();

} // namespace forebay::host

#endif // FOREBAY_BACKENDS_HOST_WORKERGROUP_H
