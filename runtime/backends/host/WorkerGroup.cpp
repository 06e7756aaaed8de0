//===- WorkerGroup.cpp - Workers that share the tiles of a dispatch -------===//

#include "WorkerGroup.h"

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <new>

using namespace forebay::host;

void forebay::host::defaultFloatingPoint() {
  fesetenv(FE_DFL_ENV);
#if defined(__x86_64__)
  // FE_DFL_ENV does not promise anything about flush-to-zero and denormals-are-zero.
  unsigned mxcsr = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(mxcsr & ~0x8040u);
#elif defined(__aarch64__)
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  fpcr &= ~(uint64_t(1) << 24);
  asm volatile("msr fpcr, %0" : : "r"(fpcr));
#endif
}

WorkerGroup::WorkerGroup(unsigned workers, uint64_t scratchBytes, unsigned spins, void (*startWorker)(void *user), void *user)
    : spins(spins), startWorker(startWorker), user(user) {
  uint64_t bytes = (scratchBytes + 63) / 64 * 64;
  for (unsigned i = 0; i < workers; ++i) {
    void *block = nullptr;
    if (bytes != 0) {
      block = std::aligned_alloc(64, bytes);
      if (!block)
        throw std::bad_alloc();
      std::memset(block, 0, bytes);
    }
    scratch.emplace_back(static_cast<char *>(block), std::free);
  }
  for (unsigned i = 1; i < workers; ++i)
    helpers.emplace_back([this, i] { help(i); });
}

WorkerGroup::~WorkerGroup() {
  quit.store(true);
  tickets.add(1);
  for (std::thread &helper : helpers)
    helper.join();
}

void WorkerGroup::enter() {
  defaultFloatingPoint();
  if (startWorker)
    startWorker(user);
}

void WorkerGroup::work(uint32_t mine, void *memory) {
  while (true) {
    uint64_t word = claim.load(std::memory_order_acquire);
    if (uint32_t(word >> 32) != mine || (word & 0xffffffff) == kClosed)
      return;
    // Read after the claim word: this is the job of `mine`, or a later one, and then the exchange below fails because the
    // leader closes the word before it publishes another job.
    const Job &job = *current.load(std::memory_order_acquire);
    uint32_t index = uint32_t(word);
    if (index >= job.tiles)
      return;
    if (!claim.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel))
      continue;
    uint32_t phase = 0;
    while (index >= job.phaseEnd[phase])
      ++phase;
    uint32_t first = phase == 0 ? 0 : job.phaseEnd[phase - 1];
    if (first != 0)
      done.wait(first, spins);
    job.kernel(job.operands, job.params, int32_t(phase), int64_t(index - first), memory);
    done.add(1);
  }
}

void WorkerGroup::run(const Job &job) {
  if (job.tiles == 0)
    return;
  // What one worker does alone needs nobody to wake.
  if (!job.parallel || helpers.empty()) {
    uint32_t first = 0;
    for (uint32_t phase = 0; phase < job.phaseEnd.size(); ++phase) {
      for (uint32_t tile = first; tile < job.phaseEnd[phase]; ++tile)
        job.kernel(job.operands, job.params, int32_t(phase), int64_t(tile - first), scratch[0].get());
      first = job.phaseEnd[phase];
    }
    return;
  }
  ++ticket;
  done.reset(0);
  current.store(&job, std::memory_order_release);
  claim.store(uint64_t(ticket) << 32, std::memory_order_release);
  tickets.set(ticket);
  work(ticket, scratch[0].get());
  done.wait(job.tiles, spins);
  // Closing keeps a worker that is late from claiming with the tile count of a later job.
  claim.store(uint64_t(ticket) << 32 | kClosed, std::memory_order_release);
}

void WorkerGroup::help(unsigned worker) {
  enter();
  uint32_t seen = 0;
  while (true) {
    tickets.wait(seen + 1, spins);
    // In this order: the ticket that the destructor adds is only taken for a job if it was not there yet, and then it is waited for again.
    seen = tickets.load();
    if (quit.load())
      return;
    work(seen, scratch[worker].get());
  }
}
