//===- Waits.cpp - Waits and signals from conflicts -----------------------===//
//
// Micro-steps are unrolled as far as predicates make them differ (at most four of a step, two steps and one more). In each, an access must come after the
// accesses it conflicts with; of those on one queue only the latest matters, because a queue signals in order, also what it
// skips. So a command waits at most once for each other queue. Waits that others imply are then taken out again.
//
//===----------------------------------------------------------------------===//

#include "forebay/Planning/Layout.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>

using namespace forebay;
using namespace forebay::planning;

namespace {

/// A moment in the unrolled run: command `index` of iteration `iteration` is number iteration * n + index. -1: before the run.
using Moment = int64_t;

class WaitDeriver {
public:
  WaitDeriver(std::vector<Command> &commands, uint32_t queues, uint32_t accumulate, std::vector<ShadowPair> given)
      : commands(commands), n(commands.size()), queues(queues), micro(std::min(accumulate, 4u)), iterations(2 * micro + 1), pairs(std::move(given)) {
    std::sort(pairs.begin(), pairs.end(), [](const ShadowPair &a, const ShadowPair &b) { return std::tie(a.space, a.shadow) < std::tie(b.space, b.shadow); });
    homes = pairs;
    std::sort(homes.begin(), homes.end(), [](const ShadowPair &a, const ShadowPair &b) { return std::tie(a.space, a.home) < std::tie(b.space, b.home); });
  }

  uint32_t run() {
    if (n == 0)
      return 0;
    makeSegments();
    findRequirements();
    chooseWaits();
    reduce();
    dropUnneeded();
    return emit();
  }

private:
  bool first(int64_t iteration) const { return iteration % micro == 0; }
  bool last(int64_t iteration) const { return iteration % micro == micro - 1; }
  bool runs(const Command &c, int64_t iteration) const {
    switch (c.predicate) {
    case Predicate::Always:
      return true;
    case Predicate::FirstMicro:
      return first(iteration);
    case Predicate::LaterMicro:
      return !first(iteration);
    case Predicate::LastMicro:
    case Predicate::Speculate:
    case Predicate::Apply: // these wait at every last micro-step, whatever the verdict
    case Predicate::Redo:
    case Predicate::Restore:
      return last(iteration);
    }
    return true;
  }

  //===--------------------------------------------------------------------===//
  // What must come after what
  //===--------------------------------------------------------------------===//

  struct Access {
    uint32_t from, to; ///< segments
    bool reads, writes; ///< neither: comes after what was written, and what is written next need not wait for it
  };

  /// Where the bytes of `r` count: those of a shadow as those of its pair. `touches`: they are of a pair.
  uint64_t counted(const Range &r, bool &touches) const {
    auto find = [&](const std::vector<ShadowPair> &list, uint64_t ShadowPair::*member) -> const ShadowPair * {
      auto it = std::partition_point(list.begin(), list.end(), [&](const ShadowPair &p) { return std::make_pair(p.space, p.*member) <= std::make_pair(r.space, r.offset); });
      if (it == list.begin())
        return nullptr;
      --it;
      return it->space == r.space && r.offset < (*it).*member + it->bytes ? &*it : nullptr;
    };
    const ShadowPair *shadow = find(pairs, &ShadowPair::shadow);
    touches = shadow || find(homes, &ShadowPair::home);
    return shadow ? shadow->home + (r.offset - shadow->shadow) : r.offset;
  }

  /// Cuts every space at every begin and end of a range: accesses become runs of segments. The runtime's verdict is one more segment.
  void makeSegments() {
    std::map<uint32_t, std::vector<uint64_t>> cuts;
    for (const Command &c : commands)
      for (const Range &r : c.operands)
        if (r.bytes) {
          bool touches;
          uint64_t at = counted(r, touches);
          cuts[r.space].push_back(at);
          cuts[r.space].push_back(at + r.bytes);
        }
    std::map<uint32_t, uint32_t> base;
    uint32_t count = 1; // segment 0: the verdict
    for (auto &[space, list] : cuts) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
      base[space] = count;
      count += list.size();
    }
    segments = count;
    accesses.resize(n);
    for (uint32_t i = 0; i < n; ++i) {
      const Command &c = commands[i];
      bool follows = false;
      for (const Range &r : c.operands) {
        if (!r.bytes)
          continue;
        const auto &list = cuts[r.space];
        auto find = [&](uint64_t at) -> uint32_t { return base[r.space] + (std::lower_bound(list.begin(), list.end(), at) - list.begin()); };
        bool touches;
        uint64_t at = counted(r, touches);
        accesses[i].push_back({find(at), find(at + r.bytes), r.access != forebay::Access::Write, r.access != forebay::Access::Read});
        follows |= touches;
      }
      if (c.kind == CommandKind::Verdict)
        accesses[i].push_back({0, 1, false, true});
      else if (c.kind == CommandKind::Scalars || afterVerdict(c.predicate))
        accesses[i].push_back({0, 1, true, false});
      else if (follows || c.predicate == Predicate::Speculate)
        accesses[i].push_back({0, 1, false, false});
    }
  }

  /// required[moment * queues + q]: the latest moment of queue q that must have ended before the command at `moment` starts.
  void findRequirements() {
    std::vector<Moment> lastRead(segments * queues, -1), lastWrite(segments * queues, -1);
    required.assign(iterations * n * queues, -1);
    for (int64_t it = 0; it < iterations; ++it)
      for (uint32_t i = 0; i < n; ++i) {
        if (!runs(commands[i], it))
          continue;
        Moment now = it * n + i;
        Moment *need = &required[now * queues];
        for (const Access &a : accesses[i])
          for (uint64_t s = uint64_t(a.from) * queues, end = uint64_t(a.to) * queues; s < end; s += queues)
            for (uint32_t q = 0; q < queues; ++q) {
              need[q] = std::max(need[q], lastWrite[s + q]);
              if (a.writes)
                need[q] = std::max(need[q], lastRead[s + q]);
            }
        need[commands[i].queue] = -1; // its own queue is in order
        for (const Access &a : accesses[i])
          for (uint64_t s = a.from; s < a.to; ++s) {
            if (a.writes)
              lastWrite[s * queues + commands[i].queue] = now;
            if (a.reads)
              lastRead[s * queues + commands[i].queue] = now;
          }
      }
  }

  /// A wait of command i on queue q: for the command at `delta` commands from the start of its own iteration; negative: of the previous one.
  struct Candidate {
    uint32_t queue;
    int64_t delta;
  };

  void chooseWaits() {
    waits.resize(n);
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t q = 0; q < queues; ++q) {
        int64_t best = INT64_MIN;
        for (int64_t it = 0; it < iterations; ++it) {
          Moment need = required[(it * n + i) * queues + q];
          if (need < 0)
            continue;
          // Older than the previous iteration: the same command of the previous one has signalled later than that.
          best = std::max(best, need >= (it - 1) * n ? need - it * n : need % n - n);
        }
        if (best != INT64_MIN)
          waits[i].push_back({q, best});
      }
  }

  //===--------------------------------------------------------------------===//
  // What is enough
  //===--------------------------------------------------------------------===//

  /// Calls visit(moment, i, own, sources): `own` is what the queue knows before the command, sources[w] what wait w adds. Knowledge: for each queue the latest
  /// moment that has ended. A visit returns false to end the sweep.
  template <typename Visit> void sweep(Visit visit) const {
    std::vector<Moment> ended(iterations * n * queues, -1); // knowledge after each command
    std::vector<Moment> previous(queues, -1);               // last moment of each queue
    std::vector<Moment> own(queues);
    std::vector<const Moment *> sources;
    static const std::vector<Moment> nothing(64, -1);
    assert(queues <= nothing.size());
    for (int64_t it = 0; it < iterations; ++it)
      for (uint32_t i = 0; i < n; ++i) {
        uint32_t q = commands[i].queue;
        Moment now = it * n + i;
        if (previous[q] >= 0)
          std::copy_n(&ended[previous[q] * queues], queues, own.begin());
        else
          std::fill(own.begin(), own.end(), -1);
        sources.clear();
        if (runs(commands[i], it)) {
          for (const Candidate &w : waits[i]) {
            Moment at = it * n + w.delta;
            sources.push_back(at < 0 ? nothing.data() : &ended[at * queues]);
          }
          if (!visit(now, i, own, sources))
            return;
        }
        Moment *after = &ended[now * queues];
        std::copy(own.begin(), own.end(), after);
        for (const Moment *source : sources)
          for (uint32_t k = 0; k < queues; ++k)
            after[k] = std::max(after[k], source[k]);
        after[q] = now;
        previous[q] = now;
      }
  }

  /// Transitive reduction: a wait goes if, wherever it waits, its queue and the other waits of its command know as much. All of them go at once:
  /// in an acyclic order the redundant edges are redundant together.
  void reduce() {
    std::vector<std::vector<char>> needed(n);
    for (uint32_t i = 0; i < n; ++i)
      needed[i].assign(waits[i].size(), 0);
    sweep([&](Moment now, uint32_t i, const std::vector<Moment> &own, const std::vector<const Moment *> &sources) {
      for (size_t w = 0; w < sources.size(); ++w) {
        uint32_t q = waits[i][w].queue;
        Moment at = now - i + waits[i][w].delta;
        Moment known = own[q];
        for (size_t other = 0; other < sources.size(); ++other)
          if (other != w)
            known = std::max(known, sources[other][q]);
        if (at >= 0 && known < at)
          needed[i][w] = 1;
      }
      return true;
    });
    for (uint32_t i = 0; i < n; ++i) {
      std::vector<Candidate> kept;
      for (size_t w = 0; w < waits[i].size(); ++w)
        if (needed[i][w])
          kept.push_back(waits[i][w]);
      waits[i] = std::move(kept);
    }
  }

  bool enough() const {
    bool result = true;
    sweep([&](Moment now, uint32_t, const std::vector<Moment> &own, const std::vector<const Moment *> &sources) {
      for (uint32_t q = 0; q < queues; ++q) {
        Moment known = own[q];
        for (const Moment *source : sources)
          known = std::max(known, source[q]);
        result &= known >= required[now * queues + q];
      }
      return result;
    });
    return result;
  }

  /// With predicates a wait may be no other's consequence and still order nothing that runs. Those few are tried one by one.
  void dropUnneeded() {
    assert(enough());
    if (micro == 1)
      return;
    std::vector<std::vector<char>> suspect(n);
    for (uint32_t i = 0; i < n; ++i)
      suspect[i].assign(waits[i].size(), 1);
    sweep([&](Moment now, uint32_t i, const std::vector<Moment> &own, const std::vector<const Moment *> &sources) {
      for (size_t w = 0; w < sources.size(); ++w)
        for (uint32_t q = 0; q < queues; ++q) {
          Moment known = own[q];
          for (size_t other = 0; other < sources.size(); ++other)
            if (other != w)
              known = std::max(known, sources[other][q]);
          if (known < required[now * queues + q])
            suspect[i][w] = 0;
        }
      return true;
    });
    for (uint32_t i = 0; i < n; ++i)
      for (size_t w = suspect[i].size(); w-- > 0;) {
        if (!suspect[i][w])
          continue;
        Candidate wait = waits[i][w];
        waits[i].erase(waits[i].begin() + w);
        if (!enough())
          waits[i].insert(waits[i].begin() + w, wait);
      }
  }

  uint32_t emit() {
    std::vector<char> signals(n, 0);
    for (uint32_t i = 0; i < n; ++i)
      for (const Candidate &w : waits[i])
        signals[w.delta < 0 ? w.delta + n : w.delta] = 1;
    uint32_t events = 0;
    for (uint32_t i = 0; i < n; ++i) {
      commands[i].signal = signals[i] ? static_cast<int32_t>(events++) : -1;
      commands[i].waits.clear();
    }
    for (uint32_t i = 0; i < n; ++i)
      for (const Candidate &w : waits[i]) {
        bool before = w.delta < 0;
        commands[i].waits.push_back({static_cast<uint32_t>(commands[before ? w.delta + n : w.delta].signal), before ? 1u : 0u});
      }
    return events;
  }

  std::vector<Command> &commands;
  const int64_t n;
  const uint32_t queues;
  const int64_t micro, iterations;
  std::vector<ShadowPair> pairs, homes; ///< by shadow, by home
  uint64_t segments = 0;
  std::vector<std::vector<Access>> accesses;
  std::vector<Moment> required;
  std::vector<std::vector<Candidate>> waits;
};

} // namespace

uint32_t planning::deriveWaits(std::vector<Command> &commands, uint32_t queues, uint32_t accumulate, std::vector<ShadowPair> pairs) {
  return WaitDeriver(commands, queues, accumulate, std::move(pairs)).run();
}
