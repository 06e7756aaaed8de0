//===- RaceReference.h - Brute force for the race verifier ------*- C++ -*-===//

#ifndef FOREBAY_TEST_UNIT_PLANNING_RACEREFERENCE_H
#define FOREBAY_TEST_UNIT_PLANNING_RACEREFERENCE_H

#include "forebay/program.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace forebay::planning::test {

//===----------------------------------------------------------------------===//
// Reference: every pair of command instances, reachability by closure, bytes one by one.
//===----------------------------------------------------------------------===//

/// What becomes of one step.
struct Outcome {
  bool applied, speculates = false, asSpeculated = false;
};

struct Reference {
  const Program &p;
  std::vector<Outcome> steps;

  Reference(const Program &p, std::vector<Outcome> steps) : p(p), steps(std::move(steps)) {}

  /// In `iteration`, counted over all steps.
  bool runs(const Command &c, unsigned iteration) const {
    unsigned micro = iteration % p.accumulate;
    bool first = micro == 0, last = micro + 1 == p.accumulate;
    Outcome step = steps[iteration / p.accumulate];
    switch (c.predicate) {
    case Predicate::Always:
      return true;
    case Predicate::FirstMicro:
      return first;
    case Predicate::LaterMicro:
      return !first;
    case Predicate::LastMicro:
      return last;
    case Predicate::Apply:
      return last && step.applied;
    case Predicate::Speculate:
      return last && step.speculates;
    case Predicate::Redo:
      return last && step.applied && !(step.speculates && step.asSpeculated);
    case Predicate::Restore:
      return last && !step.applied && step.speculates;
    }
    return false;
  }
  bool waits(const Command &c, unsigned iteration) const {
    bool always = afterVerdict(c.predicate) || c.predicate == Predicate::Speculate;
    return always ? (iteration + 1) % p.accumulate == 0 : runs(c, iteration);
  }

  /// Operands where they are in `iteration`: an applied step exchanges shadows, byte by byte.
  std::vector<Range> operands(const Command &c, unsigned iteration) const {
    unsigned applied = 0;
    for (unsigned s = 0; s < iteration / p.accumulate; ++s)
      applied += steps[s].applied;
    std::vector<Range> result = c.operands;
    for (Range &r : result)
      for (const Tensor &t : p.tensors)
        if (t.role == Role::Shadow && applied % 2 && r.bytes) {
          uint64_t home = p.tensors[t.copyOf].offset;
          if (r.space == t.space && t.offset <= r.offset && r.offset < t.offset + t.bytes) {
            r.offset += home - t.offset;
            break;
          }
          if (r.space == t.space && home <= r.offset && r.offset < home + t.bytes) {
            r.offset += t.offset - home;
            break;
          }
        }
    return result;
  }

  bool safe() const {
    unsigned n = p.step.size(), iterations = steps.size() * p.accumulate, total = n * iterations;
    // before[a][b]: instance a has ended when instance b does its work.
    std::vector<std::vector<bool>> before(total, std::vector<bool>(total));
    for (unsigned b = 0; b < total; ++b) {
      const Command &c = p.step[b % n];
      unsigned iteration = b / n;
      auto after = [&](unsigned a) {
        before[a][b] = true;
        for (unsigned x = 0; x < total; ++x)
          if (before[x][a])
            before[x][b] = true;
      };
      for (unsigned a = 0; a < b; ++a)
        if (p.step[a % n].queue == c.queue)
          after(a);
      if (!waits(c, iteration))
        continue;
      for (const Wait &w : c.waits)
        for (unsigned a = 0; a < total; ++a)
          if (p.step[a % n].signal == static_cast<int>(w.event) && a / n + w.distance == iteration)
            after(a);
    }
    for (unsigned b = 0; b < total; ++b) {
      const Command &cb = p.step[b % n];
      if (!runs(cb, b / n))
        continue;
      for (unsigned a = 0; a < b; ++a)
        if (runs(p.step[a % n], a / n) && conflict(operands(p.step[a % n], a / n), operands(cb, b / n)) && !before[a][b])
          return false;
      for (const Range &r : operands(cb, b / n))
        for (uint64_t byte = r.offset; byte < r.offset + r.bytes; ++byte)
          if (r.access != Access::Write &&
              (persistent(r.space, byte) ? cb.predicate != Predicate::Speculate && seesSpeculation(b, r.space, byte) : !written(b, r.space, byte)))
            return false;
    }
    for (unsigned s = 0; s < steps.size(); ++s)
      if (!settled(s))
        return false;
    return true;
  }

  /// Whether command instance `b` reads what speculation has written, and would read something else without.
  bool seesSpeculation(unsigned b, uint32_t space, uint64_t byte) const {
    unsigned iteration = b / p.step.size(), at = b % p.step.size(), step = iteration / p.accumulate;
    if (lastWriter(iteration, space, byte, at) != Predicate::Speculate)
      return false;
    Reference without = *this;
    without.steps[step].speculates = false;
    bool committed = steps[step].applied && steps[step].asSpeculated;
    return !committed || without.lastWriter(iteration, space, byte, at) != Predicate::Redo;
  }

  /// The predicate of the command that writes `byte` last in `iteration`, if any does; of those before command `end`.
  std::optional<Predicate> lastWriter(unsigned iteration, uint32_t space, uint64_t byte, size_t end = SIZE_MAX) const {
    std::optional<Predicate> last;
    for (size_t i = 0; i < std::min(end, p.step.size()); ++i)
      if (const Command &c = p.step[i]; runs(c, iteration))
        for (const Range &r : operands(c, iteration))
          if (r.space == space && r.access != Access::Read && r.offset <= byte && byte < r.offset + r.bytes)
            last = c.predicate;
    return last;
  }

  /// What lasts does not show whether step `s` was speculated.
  bool settled(unsigned s) const {
    unsigned iteration = s * p.accumulate + p.accumulate - 1, appliedBefore = 0;
    for (unsigned before = 0; before < s; ++before)
      appliedBefore += steps[before].applied;
    Outcome step = steps[s], off = step;
    off.speculates = false;
    Reference without = *this;
    without.steps[s] = off;
    for (const Tensor &t : p.tensors) {
      if (!persistent(t.space, t.offset))
        continue;
      bool shadow = t.role == Role::Shadow, paired = shadow;
      for (const Tensor &other : p.tensors)
        paired |= other.role == Role::Shadow && &p.tensors[other.copyOf] == &t;
      bool next = paired && shadow != (appliedBefore % 2 == 1);
      for (uint64_t byte = t.offset; byte < t.offset + t.bytes; ++byte) {
        std::optional<Predicate> by = lastWriter(iteration, t.space, byte);
        if (next && !step.applied) // forgotten
          continue;
        bool wrong = step.speculates && !(step.applied && step.asSpeculated);
        if ((next && !by) || (wrong && by == Predicate::Speculate) ||
            (without.lastWriter(iteration, t.space, byte) == Predicate::Redo && by != Predicate::Redo && by != Predicate::Speculate))
          return false;
      }
    }
    // No place is overwritten that the step began with.
    for (const Command &c : p.step)
      for (const Range &r : c.operands)
        for (const Tensor &t : p.tensors)
          if (c.predicate == Predicate::Speculate && r.access != Access::Read && t.role == Role::Parameter && r.space == t.space && r.offset < t.offset + t.bytes &&
              t.offset < r.offset + r.bytes)
            return false;
    return true;
  }

  bool written(unsigned b, uint32_t space, uint64_t byte) const {
    unsigned n = p.step.size();
    for (unsigned a = b / n * n; a < b; ++a)
      if (runs(p.step[a % n], a / n))
        for (const Range &r : operands(p.step[a % n], a / n))
          if (r.space == space && r.access != Access::Read && r.offset <= byte && byte < r.offset + r.bytes)
            return true;
    return false;
  }
  bool persistent(uint32_t space, uint64_t byte) const {
    for (const Tensor &t : p.tensors)
      if ((t.role == Role::Parameter || t.role == Role::WeightCopy || t.role == Role::Buffer || t.role == Role::Moment || t.role == Role::Shadow ||
           t.role == Role::Accumulator) &&
          t.space == space && t.offset <= byte && byte < t.offset + t.bytes)
        return true;
    return false;
  }
  static bool conflict(const Command &a, const Command &b) { return conflict(a.operands, b.operands); }
  static bool conflict(const std::vector<Range> &a, const std::vector<Range> &b) {
    for (const Range &x : a)
      for (const Range &y : b)
        if (x.space == y.space && (x.access != Access::Read || y.access != Access::Read) && x.offset < y.offset + y.bytes &&
            y.offset < x.offset + x.bytes)
          return true;
    return false;
  }
};

inline bool reference(const Program &p) {
  for (bool applied : {true, false})
    if (!Reference(p, std::vector<Outcome>(3, {applied})).safe())
      return false;
  return true;
}

/// The same over everything that may become of three steps with updates before the verdict.
inline bool referenceWithSpeculation(const Program &p) {
  static const Outcome outcomes[] = {{true, true, true}, {true, true, false}, {false, true, false}, {true, false, false}, {false, false, false}};
  for (const Outcome &a : outcomes)
    for (const Outcome &b : outcomes)
      for (const Outcome &c : outcomes)
        if (!Reference(p, {a, b, c}).safe())
          return false;
  return true;
}

} // namespace forebay::planning::test

#endif
