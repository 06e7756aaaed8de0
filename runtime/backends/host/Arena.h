//===- Arena.h - One block of memory for a space ----------------*- C++ -*-===//

#ifndef FOREBAY_BACKENDS_HOST_ARENA_H
#define FOREBAY_BACKENDS_HOST_ARENA_H

#include <cstdint>
#include <string>
#include <utility>

namespace forebay::host {

/// Exactly the bytes that the planner counted, zero, aligned to 2 MiB where that helps, touched before the first step.
class Arena {
public:
  Arena() = default;
  Arena(const Arena &) = delete;
  Arena(Arena &&other) noexcept
      : base(std::exchange(other.base, nullptr)), mapped(other.mapped), size(std::exchange(other.size, 0)), mappedBytes(other.mappedBytes) {}
  ~Arena();

  /// False with a reason if the system has no such block.
  bool map(uint64_t bytes, std::string &error);
  /// Makes all pages present, with `threads` threads.
  void populate(unsigned threads);

  char *data() const { return base; }
  uint64_t bytes() const { return size; }

private:
  char *base = nullptr, *mapped = nullptr;
  uint64_t size = 0, mappedBytes = 0;
};

} // namespace forebay::host

#endif // FOREBAY_BACKENDS_HOST_ARENA_H
