//===- RaceReference.h - Brute force for the race verifier ------*- C++ -*-===//

#ifndef FOREBAY_TEST_UNIT_PLANNING_RACEREFERENCE_H
#define FOREBAY_TEST_UNIT_PLANNING_RACEREFERENCE_H

#include "forebay/program.h"

namespace forebay::planning::test {

//===----------------------------------------------------------------------===//
// Reference: every pair of command instances, reachability by closure, bytes one by one.
//===----------------------------------------------------------------------===//

struct Reference {
  const Program &p;
  bool applied;
  unsigned steps = 3;

  bool runs(const Command &c, unsigned micro) const {
    bool first = micro == 0, last = micro + 1 == p.accumulate;
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
      return last && applied;
    }
    return false;
  }
  bool waits(const Command &c, unsigned micro) const {
    return c.predicate == Predicate::Apply ? micro + 1 == p.accumulate : runs(c, micro);
  }

  bool safe() const {
    unsigned n = p.step.size(), iterations = steps * p.accumulate, total = n * iterations;
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
      if (!waits(c, iteration % p.accumulate))
        continue;
      for (const Wait &w : c.waits)
        for (unsigned a = 0; a < total; ++a)
          if (p.step[a % n].signal == static_cast<int>(w.event) && a / n + w.distance == iteration)
            after(a);
    }
    for (unsigned b = 0; b < total; ++b) {
      const Command &cb = p.step[b % n];
      if (!runs(cb, b / n % p.accumulate))
        continue;
      for (unsigned a = 0; a < b; ++a)
        if (runs(p.step[a % n], a / n % p.accumulate) && conflict(p.step[a % n], cb) && !before[a][b])
          return false;
      for (const Range &r : cb.operands)
        for (uint64_t byte = r.offset; byte < r.offset + r.bytes; ++byte)
          if (r.access != Access::Write && !persistent(r.space, byte) && !written(b, r.space, byte))
            return false;
    }
    return true;
  }

  bool written(unsigned b, uint32_t space, uint64_t byte) const {
    unsigned n = p.step.size();
    for (unsigned a = b / n * n; a < b; ++a)
      if (runs(p.step[a % n], a / n % p.accumulate))
        for (const Range &r : p.step[a % n].operands)
          if (r.space == space && r.access != Access::Read && r.offset <= byte && byte < r.offset + r.bytes)
            return true;
    return false;
  }
  bool persistent(uint32_t space, uint64_t byte) const {
    for (const Tensor &t : p.tensors)
      if ((t.role == Role::Parameter || t.role == Role::WeightCopy || t.role == Role::Buffer || t.role == Role::Moment ||
           t.role == Role::Accumulator) &&
          t.space == space && t.offset <= byte && byte < t.offset + t.bytes)
        return true;
    return false;
  }
  static bool conflict(const Command &a, const Command &b) {
    for (const Range &x : a.operands)
      for (const Range &y : b.operands)
        if (x.space == y.space && (x.access != Access::Read || y.access != Access::Read) && x.offset < y.offset + y.bytes &&
            y.offset < x.offset + x.bytes)
          return true;
    return false;
  }
};

inline bool reference(const Program &p) { return Reference{p, true}.safe() && Reference{p, false}.safe(); }

} // namespace forebay::planning::test

#endif
