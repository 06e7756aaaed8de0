//===- Flow.cpp - Values that come ahead of use and go after --------------===//

#include "forebay/Planning/Flow.h"

#include <algorithm>

using namespace forebay;
using namespace forebay::planning;

/// Consecutive parts of at most `limit` bytes; those that begin at one operation stay together.
static std::vector<Fetch> makeUnits(const Problem &problem, const std::vector<Fetch::Part> &parts, uint64_t limit) {
  std::vector<Fetch> units;
  for (size_t i = 0, end; i < parts.size(); i = end) {
    uint64_t bytes = 0;
    for (end = i; end < parts.size() && parts[end].first == parts[i].first; ++end)
      bytes += problem.values[parts[end].value].bytes;
    if (units.empty() || units.back().bytes + bytes > limit)
      units.emplace_back();
    units.back().parts.insert(units.back().parts.end(), parts.begin() + i, parts.begin() + end);
    units.back().bytes += bytes;
  }
  return units;
}

static uint32_t neededAt(const Fetch &unit) { return unit.parts[0].first; }

/// The operation at which the unit `distance` before unit `u` is needed; 0 at the begin of a step.
static uint32_t neededBefore(const std::vector<Fetch> &units, size_t u, uint32_t distance) {
  return u < distance ? 0 : neededAt(units[u - distance]);
}

std::vector<Fetch> planning::flowValues(const Problem &problem, const std::vector<bool> &flows, FlowWindow window, const std::vector<Recompute> &recomputes) {
  std::vector<Fetch::Part> parts; // by first operation
  std::vector<int64_t> latest(problem.values.size(), -1);
  auto read = [&](const ProblemOp &op, uint32_t i) {
    for (uint32_t operand : op.operands)
      if (flows[operand] && latest[operand] != i) {
        parts.push_back({operand, i, i});
        latest[operand] = i;
      }
  };
  size_t again = 0;
  for (uint32_t i = 0; i < problem.ops.size(); ++i) {
    for (; again < recomputes.size() && recomputes[again].before <= i; ++again)
      read(problem.ops[recomputes[again].op], i);
    if (problem.ops[i].kind == OpKind::Compute)
      read(problem.ops[i], i);
  }
  // A value stays where dropping it would be pointless: its next unit is issued before its last reader has run, or at the next unit after it.
  // Fewer parts make units reach further, so this is repeated until nothing changes.
  std::vector<Fetch> units;
  for (bool changed = true; changed;) {
    changed = false;
    units = makeUnits(problem, parts, window.unitBytes);
    std::vector<Fetch::Part> kept;
    std::fill(latest.begin(), latest.end(), -1);
    for (size_t u = 0; u < units.size(); ++u) {
      uint32_t since = neededBefore(units, u, std::max(window.distance, 1u));
      for (const Fetch::Part &part : units[u].parts) {
        int64_t &before = latest[part.value];
        if (before >= 0 && since <= kept[before].last) {
          kept[before].last = part.last;
          changed = true;
          continue;
        }
        before = kept.size();
        kept.push_back(part);
      }
    }
    parts = std::move(kept);
  }
  for (size_t u = 0; u < units.size(); ++u)
    units[u].before = neededBefore(units, u, window.distance);
  return units;
}

uint32_t planning::issueBefore(const std::vector<Fetch> &units, uint32_t operation, uint32_t distance) {
  auto after = std::partition_point(units.begin(), units.end(), [&](const Fetch &unit) { return neededAt(unit) <= operation; });
  if (distance == 0 || after == units.begin())
    return operation;
  return neededBefore(units, after - units.begin() - 1, distance);
}

std::vector<IdleValue> planning::idleActivations(const Problem &problem) {
  constexpr uint32_t kNone = ~0u;
  size_t values = problem.values.size();
  std::vector<uint32_t> producer(values, kNone), before(values, kNone), first(values, kNone), last(values, kNone);
  std::vector<bool> fixed(values);
  for (const ProblemArgument &argument : problem.arguments)
    fixed[argument.value] = true;
  for (const ProblemOutput &output : problem.outputs)
    fixed[output.value] = true;
  for (uint32_t i = 0; i < problem.ops.size(); ++i) {
    const ProblemOp &op = problem.ops[i];
    for (uint32_t operand : op.operands) {
      fixed[operand] = fixed[operand] || op.kind != OpKind::Compute;
      last[operand] = i;
      if (op.phase == Phase::Backward && first[operand] == kNone)
        first[operand] = i;
      if (first[operand] == kNone)
        before[operand] = i;
    }
    for (uint32_t result : op.results) {
      producer[result] = before[result] = i;
      fixed[result] = fixed[result] || op.kind != OpKind::Compute || op.phase != Phase::Forward;
    }
  }
  std::vector<IdleValue> idle;
  for (uint32_t v = 0; v < values; ++v)
    if (!fixed[v] && producer[v] != kNone && first[v] != kNone && problem.values[v].bytes > 0 && first[v] > before[v] + 1)
      idle.push_back({v, before[v], first[v], last[v], problem.values[v].bytes});
  auto weight = [](const IdleValue &v) { return static_cast<double>(v.bytes) * (v.first - v.after - 1); };
  std::sort(idle.begin(), idle.end(), [&](const IdleValue &a, const IdleValue &b) {
    return weight(a) != weight(b) ? weight(a) > weight(b) : a.value < b.value;
  });
  return idle;
}
