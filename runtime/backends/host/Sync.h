//===- Sync.h - Counters that threads wait for ------------------*- C++ -*-===//
///
/// \file
/// A counter that only grows, with waiters that spin briefly and then sleep in the kernel. Signalling a counter that nobody sleeps
/// on is one atomic operation and one load.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_BACKENDS_HOST_SYNC_H
#define FOREBAY_BACKENDS_HOST_SYNC_H

#include <atomic>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace forebay::host {

inline void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

inline int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

/// Counts modulo 2^32; comparisons hold while no waiter is 2^31 behind.
class alignas(64) Counter {
public:
  uint32_t load() const { return count.load(std::memory_order_acquire); }
  bool reached(uint32_t target) const { return int32_t(load() - target) >= 0; }

  void set(uint32_t value) {
    count.store(value, std::memory_order_seq_cst);
    wake();
  }

  void add(uint32_t value) {
    count.fetch_add(value, std::memory_order_seq_cst);
    wake();
  }

  /// Before others can see the counter, or while nobody waits.
  void reset(uint32_t value) { count.store(value, std::memory_order_relaxed); }

  void wait(uint32_t target, unsigned spins) {
    for (unsigned i = 0; i < spins; ++i) {
      if (reached(target))
        return;
      pauseCpu();
    }
    if (reached(target))
      return;
    // The order "announce, then look again" pairs with "count, then look for sleepers" above.
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (true) {
      uint32_t seen = count.load(std::memory_order_seq_cst);
      if (int32_t(seen - target) >= 0)
        break;
      syscall(SYS_futex, &count, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    }
    sleepers.fetch_sub(1, std::memory_order_relaxed);
  }

private:
  void wake() {
    if (sleepers.load(std::memory_order_seq_cst) != 0)
      syscall(SYS_futex, &count, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }

  std::atomic<uint32_t> count{0};
  std::atomic<uint32_t> sleepers{0};
};

} // namespace forebay::host

#endif // FOREBAY_BACKENDS_HOST_SYNC_H
