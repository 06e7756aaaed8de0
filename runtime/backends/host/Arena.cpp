//===- Arena.cpp - One block of memory for a space ------------------------===//

#include "Arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace forebay::host;

static constexpr uint64_t kHuge = 2 << 20;

// Sanitizers do not see accesses beyond a mapping, and compiled kernels are not instrumented: there an arena ends at a page that
// nobody may touch.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FOREBAY_GUARD_ARENAS 1
#endif
#endif
#ifndef FOREBAY_GUARD_ARENAS
#define FOREBAY_GUARD_ARENAS 0
#endif

static uint64_t roundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

Arena::~Arena() {
  if (base)
    munmap(mapped, mappedBytes);
}

bool Arena::map(uint64_t bytes, std::string &error) {
  if (bytes == 0)
    return true;
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  // Reserve more than needed and give back both ends, so that the block starts where a huge page can.
  uint64_t slack = bytes >= kHuge ? kHuge : 0;
  if (bytes > UINT64_MAX - 2 * kHuge) {
    error = "an arena of " + std::to_string(bytes) + " bytes cannot be mapped";
    return false;
  }
#if FOREBAY_GUARD_ARENAS
  slack = page;
#endif
  uint64_t reserved = roundUp(bytes, page) + slack;
  void *block = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) {
    error = "cannot map " + std::to_string(bytes) + " bytes: " + std::strerror(errno);
    return false;
  }
  char *start = static_cast<char *>(block);
#if FOREBAY_GUARD_ARENAS
  mapped = start;
  mappedBytes = reserved;
  base = start + roundUp(bytes, page) - roundUp(bytes, 64);
  size = bytes;
  if (mprotect(start + reserved - page, page, PROT_NONE) == 0)
    return true;
  error = std::string("cannot guard the end of an arena: ") + std::strerror(errno);
  return false;
#endif
  char *aligned = slack ? reinterpret_cast<char *>(roundUp(reinterpret_cast<uintptr_t>(start), kHuge)) : start;
  uint64_t kept = roundUp(bytes, page);
  if (aligned != start)
    munmap(start, aligned - start);
  char *end = start + reserved;
  if (aligned + kept != end)
    munmap(aligned + kept, end - (aligned + kept));
  base = mapped = aligned;
  mappedBytes = kept;
  size = bytes;
  if (slack)
    madvise(base, kept, MADV_HUGEPAGE);
  return true;
}

/// Touching in parallel spreads the zeroing over cores (and, with more than one node, pages over the nodes of the threads).
void Arena::populate(unsigned threads) {
  if (!base)
    return;
  uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
  uint64_t whole = roundUp(size, page);
  auto touch = [&](uint64_t begin, uint64_t end) {
#ifdef MADV_POPULATE_WRITE
    if (madvise(base + begin, end - begin, MADV_POPULATE_WRITE) == 0)
      return;
#endif
    for (uint64_t at = begin; at < end; at += page)
      static_cast<volatile char *>(base)[at] = 0;
  };
  uint64_t pieces = std::min<uint64_t>(std::max(1u, threads), (whole + kHuge * 8 - 1) / (kHuge * 8));
  uint64_t piece = roundUp((whole + pieces - 1) / pieces, kHuge);
  std::vector<std::thread> helpers;
  for (uint64_t begin = piece; begin < whole; begin += piece)
    helpers.emplace_back(touch, begin, std::min(whole, begin + piece));
  touch(0, std::min(whole, piece));
  for (std::thread &helper : helpers)
    helper.join();
}
