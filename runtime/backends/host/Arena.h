//===- Arena.h - One block of memory for a space ----------------*- C++ -*-===//

#ifndef FOREBAY_BACKENDS_HOST_ARENA_H
#define FOREBAY_BACKENDS_HOST_ARENA_H

#include <cstdint>
#include <string>

namespace forebay::host {

/// Exactly the bytes that the planner counted, zero, aligned to 2 MiB where that helps, touched before the first step.
class Arena {
public:
  Arena() = default;
  Arena(const Arena &) = delete;
  Arena(Arena &&other) noexcept : base(other.base), size(other.size) { other.base = nullptr, other.size = 0; }
  ~Arena();

  /// False with a reason if the system has no such block.
  bool map(uint64_t bytes, std::string &error);
  /// Makes all pages present, with `threads` threads.
  void populate(unsigned threads);

  char *data() const { return base; }
  uint64_t bytes() const { return size; }

private:
  char *base = nullptr;
  uint64_t size = 0;
};

} // namespace forebay::host

#endif // FOREBAY_BACKENDS_HOST_ARENA_H
