//===- Schedule.h - Learning rates ------------------------------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_SCHEDULE_H
#define FOREBAY_RUNTIME_SCHEDULE_H

#include <cstdint>
#include <string>

namespace forebay::rt {

/// Warm-up t/warmup for t <= warmup; then x = clamp((t - warmup) / (total - warmup), 0, 1), 1 if total = warmup, and
///   constant  1
///   linear    1 - (1 - min_ratio) x
///   cosine    min_ratio + (1 - min_ratio) (1 + cos(pi x)) / 2
struct Schedule {
  enum Kind { Constant, Linear, Cosine } kind = Constant;
  uint64_t warmup = 0;
  uint64_t total = 0;
  bool hasTotal = false; ///< else the owner sets `total` to the number of steps
  double minRatio = 0;

  /// The rate of applied step t (from 1) as a multiple of the base rate.
  double factor(uint64_t t) const;

  /// "cosine, warmup 5, total 40, min_ratio 0.1"; without what has no effect.
  std::string describe() const;

  /// Parses "cosine:warmup=5,total=40,min_ratio=0.1". False with a reason and a hint.
  static bool parse(const std::string &text, Schedule &schedule, std::string &error, std::string &hint);
};

/// A whole decimal number; nothing before or after it.
bool parseCount(const std::string &text, uint64_t &value);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_SCHEDULE_H
