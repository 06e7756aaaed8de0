//===- Timeline.cpp - What lives when on the virtual clock ----------------===//

#include "forebay/Planning/Timeline.h"
#include "forebay/Planning/Packer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace forebay;
using namespace forebay::planning;

namespace {

/// For each value the commands that touch its bytes while it lives.
std::vector<std::vector<uint32_t>> accessesOf(const Program &program) {
  const std::vector<Value> &values = program.values;
  std::vector<std::vector<uint32_t>> accesses(values.size());
  std::vector<std::vector<uint32_t>> begins(program.step.size() + 1), ends(program.step.size() + 1);
  for (uint32_t v = 0; v < values.size(); ++v)
    if (!values[v].persistent && values[v].last < program.step.size()) {
      begins[values[v].first].push_back(v);
      ends[values[v].last].push_back(v);
    }
  // Values of one moment are disjoint, but for two that hand bytes over in place.
  std::vector<std::set<std::pair<uint64_t, uint32_t>>> live(program.spaces.size()); // offset, value
  for (uint32_t i = 0; i < program.step.size(); ++i) {
    for (uint32_t v : begins[i])
      live[values[v].space].insert({values[v].offset, v});
    for (const Range &range : program.step[i].operands) {
      auto &list = live[range.space];
      for (auto it = list.lower_bound({range.offset + range.bytes, 0}); it != list.begin();) {
        --it;
        const Value &value = values[it->second];
        if (value.offset + value.bytes <= range.offset)
          break;
        if (accesses[it->second].empty() || accesses[it->second].back() != i)
          accesses[it->second].push_back(i);
      }
    }
    for (uint32_t v : ends[i])
      live[values[v].space].erase({values[v].offset, v});
  }
  return accesses;
}

/// A value that takes bytes of another after it: in the same micro-step or in the next.
struct Successor {
  uint32_t value;
  bool next;
};

/// In the order of the commands, over two micro-steps.
std::vector<std::vector<Successor>> successorsOf(const Program &program) {
  const std::vector<Value> &values = program.values;
  std::vector<uint32_t> order;
  for (uint32_t v = 0; v < values.size(); ++v)
    if (!values[v].persistent && values[v].bytes > 0)
      order.push_back(v);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return values[a].first < values[b].first; });
  struct Piece {
    uint64_t end;
    uint32_t value;
    unsigned iteration;
  };
  std::vector<std::map<uint64_t, Piece>> owners(program.spaces.size()); // begin of a piece: who wrote it last
  std::vector<std::vector<Successor>> result(values.size());
  for (unsigned iteration = 0; iteration < 2; ++iteration)
    for (uint32_t v : order) {
      auto &pieces = owners[values[v].space];
      const uint64_t begin = values[v].offset, end = begin + values[v].bytes;
      auto it = pieces.lower_bound(begin);
      if (it != pieces.begin() && std::prev(it)->second.end > begin)
        --it;
      while (it != pieces.end() && it->first < end) {
        auto [from, piece] = *it;
        it = pieces.erase(it);
        // The second round repeats what the first has found within one micro-step.
        if (piece.value != v && (iteration == 0 || piece.iteration == 0))
          result[piece.value].push_back({v, piece.iteration != iteration});
        if (from < begin)
          pieces[from] = {begin, piece.value, piece.iteration};
        if (piece.end > end)
          it = pieces.insert({end, {piece.end, piece.value, piece.iteration}}).first;
      }
      pieces[begin] = {end, v, iteration};
    }
  return result;
}

} // namespace

std::vector<Life> planning::livesOf(const Program &program, const SimResult &result) {
  const size_t n = program.step.size(), count = program.values.size();
  const uint32_t micros = std::max(result.micros, 1u);
  std::vector<const SimSpan *> spans(n * micros, nullptr);
  for (const SimSpan &span : result.spans)
    spans[span.micro * n + span.task] = &span;
  std::vector<std::vector<uint32_t>> accesses = accessesOf(program);
  std::vector<Life> all(count * micros);
  for (uint32_t micro = 0; micro < micros; ++micro)
    for (uint32_t v = 0; v < count; ++v) {
      Life &life = all[micro * count + v] = {v, micro, INFINITY, -INFINITY};
      for (uint32_t i : accesses[v])
        if (const SimSpan *span = spans[micro * n + i]) {
          if (span->start < span->end)
            life.start = std::min(life.start, span->start);
          // Bytes are kept for a command that may have to run, also where this step skips it.
          life.end = std::max(life.end, span->end);
        }
    }
  // Bytes that are taken again belong to the successor: in place from the start of its command, in parts while a copy of other parts still runs.
  std::vector<std::vector<Successor>> successors = successorsOf(program);
  std::vector<Life> lives;
  for (uint32_t micro = 0; micro < micros; ++micro)
    for (uint32_t v = 0; v < count; ++v) {
      Life life = all[micro * count + v];
      for (const Successor &s : successors[v]) {
        uint32_t then = micro + s.next;
        const Life &other = all[then % micros * count + s.value];
        if (other.start < other.end)
          life.end = std::min(life.end, std::max(other.start + then / micros * result.shownSeconds, life.start));
      }
      if (life.start < life.end)
        lives.push_back(life);
    }
  return lives;
}

MemoryCurve planning::memoryOf(const Program &program, const SimResult &result, const std::vector<Life> &lives, uint32_t space) {
  MemoryCurve curve;
  std::set<Role> roles;
  for (const Value &value : program.values)
    if (value.space == space)
      roles.insert(value.role);
  curve.roles.assign(roles.begin(), roles.end());
  auto index = [&](Role role) { return std::lower_bound(curve.roles.begin(), curve.roles.end(), role) - curve.roles.begin(); };

  std::vector<uint64_t> always(curve.roles.size());
  for (const Value &value : program.values)
    if (value.space == space && value.persistent)
      always[index(value.role)] += roundUp(value.bytes);
  std::map<double, std::vector<int64_t>> changes;
  auto change = [&](double time, size_t role, int64_t bytes) {
    std::vector<int64_t> &at = changes[time];
    at.resize(curve.roles.size());
    at[role] += bytes;
  };
  const double step = result.shownSeconds;
  changes[0].resize(curve.roles.size());
  for (const Life &life : lives) {
    const Value &value = program.values[life.value];
    if (value.space != space || step <= 0)
      continue;
    int64_t bytes = roundUp(value.bytes);
    // The same life of the steps before and after, as far as it lies in this one.
    for (double k = std::floor(life.start / step); k * step < life.end; ++k) {
      double from = std::max(life.start - k * step, 0.0), to = std::min(life.end - k * step, step);
      if (from >= to)
        continue;
      change(from, index(value.role), bytes);
      if (to < step)
        change(to, index(value.role), -bytes);
    }
  }
  for (auto &[time, deltas] : changes) {
    MemoryPoint point;
    point.time = time;
    point.bytes = curve.points.empty() ? always : curve.points.back().bytes;
    uint64_t sum = 0;
    for (size_t r = 0; r < curve.roles.size(); ++r) {
      point.bytes[r] += deltas[r];
      sum += point.bytes[r];
    }
    curve.peak = std::max(curve.peak, sum);
    curve.points.push_back(std::move(point));
  }
  return curve;
}

std::vector<Cause> planning::causesOf(const SimModel &model, const SimResult &result) {
  const std::vector<SimSpan> &spans = result.spans;
  const size_t n = model.tasks.size(), micros = std::max(result.micros, 1u);
  std::vector<int64_t> at(n * micros, -1);
  std::vector<std::vector<uint32_t>> queues(model.queues); // spans that take time, by start
  for (uint32_t s = 0; s < spans.size(); ++s) {
    if (spans[s].end <= spans[s].start)
      continue;
    at[spans[s].micro * n + spans[s].task] = s;
    queues[model.tasks[spans[s].task].queue].push_back(s);
  }
  const double period = result.shownSeconds;
  std::vector<Cause> causes(spans.size());
  for (const std::vector<uint32_t> &queue : queues)
    for (size_t i = 0; i < queue.size(); ++i) {
      const SimSpan &span = spans[queue[i]];
      Cause &cause = causes[queue[i]];
      cause.span = queue[i ? i - 1 : queue.size() - 1];
      cause.before = i == 0;
      double latest = spans[cause.span].end - (cause.before ? period : 0);
      cause.idle = std::max(span.start - latest, 0.0);
      auto consider = [&](uint32_t task, int64_t micro) {
        int64_t other = at[(micro < 0 ? micros - 1 : micro) * n + task];
        double end = other < 0 ? -INFINITY : spans[other].end - (micro < 0 ? period : 0);
        // Ends of equal times differ by rounding; the queue's own order is the plainer reason.
        if (end <= latest + 1e-9 * period)
          return;
        latest = end;
        cause.span = other;
        cause.before = micro < 0;
      };
      for (uint32_t task : model.tasks[span.task].after)
        consider(task, span.micro);
      for (uint32_t task : model.tasks[span.task].afterPrevious)
        consider(task, int64_t(span.micro) - 1);
    }
  return causes;
}

std::vector<double> planning::idleByTask(const SimModel &model, const SimResult &result, uint32_t queue) {
  std::vector<Cause> causes = causesOf(model, result);
  std::vector<double> idle(model.tasks.size());
  for (size_t s = 0; s < result.spans.size(); ++s) {
    if (model.tasks[result.spans[s].task].queue != queue || causes[s].idle <= 0)
      continue;
    // Back along what ran, as far as the queue stood still.
    double until = result.spans[s].start, from = until - causes[s].idle, shift = 0;
    Cause cause = causes[s];
    for (size_t hops = 0; until > from && cause.span >= 0 && hops < result.spans.size(); ++hops) {
      shift -= cause.before ? result.shownSeconds : 0;
      const SimSpan &span = result.spans[cause.span];
      double start = std::max(std::min(span.start + shift, until), from);
      idle[span.task] += until - start;
      until = start;
      cause = causes[cause.span];
    }
  }
  return idle;
}
