//===- Layout.cpp - Every buffer of a schedule gets its bytes -------------===//

#include "forebay/Planning/Layout.h"
#include "forebay/Planning/Packer.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <set>

using namespace forebay;
using namespace forebay::planning;

namespace {

class LayoutMaker {
public:
  LayoutMaker(const Schedule &schedule, const Machine &machine, uint32_t hold, bool addresses = true, bool reserve = false)
      : schedule(schedule), machine(machine), hold(hold), addresses(addresses), reserve(reserve), group(schedule.buffers.size()) {
    layout.holdsCopies = hold > 0;
    layout.buffers.resize(schedule.buffers.size());
    layout.spaces.resize(machine.spaces.size());
  }

  Layout run() {
    findLives();
    if (reserve)
      reserveTargets();
    if (schedule.hold > 1)
      wrapLives();
    reuseInPlace();
    for (uint32_t space = 0; space < machine.spaces.size(); ++space)
      packSpace(space);
    return std::move(layout);
  }

private:
  BufferLayout &at(uint32_t buffer) { return layout.buffers[buffer]; }
  bool persistent(uint32_t buffer) const { return schedule.buffers[buffer].persistent; }
  /// What is written to a shadow, the next step reads as the home.
  uint32_t homeOf(uint32_t buffer) const { return schedule.buffers[buffer].role == Role::Shadow ? schedule.buffers[buffer].copyOf : buffer; }

  void findLives() {
    uint32_t end = schedule.ops.empty() ? 0 : schedule.ops.size() - 1;
    std::vector<bool> seen(schedule.buffers.size());
    // What the last operations of each other queue than that of forward read, oldest first.
    std::vector<std::deque<std::vector<uint32_t>>> held(machine.queues.size());
    auto keepTo = [&](const std::vector<uint32_t> &sources, uint32_t i) {
      for (uint32_t source : sources)
        at(source).last = std::max(at(source).last, i);
    };
    for (uint32_t i = 0; i < schedule.ops.size(); ++i) {
      const ScheduledOp &op = schedule.ops[i];
      for (const BufferRange &range : op.operands) {
        if (!seen[range.buffer])
          at(range.buffer).first = i;
        seen[range.buffer] = true;
        at(range.buffer).last = std::max(at(range.buffer).last, i);
      }
      if ((op.kind != CommandKind::Copy && op.kind != CommandKind::Dispatch) || hold == 0 || op.queue == machine.computeQueue)
        continue;
      auto &list = held[op.queue];
      list.emplace_back();
      for (const BufferRange &range : op.operands)
        if (range.access != Access::Write && !persistent(range.buffer))
          list.back().push_back(range.buffer);
      if (list.size() > hold) {
        keepTo(list.front(), i);
        list.pop_front();
      }
    }
    for (auto &list : held)
      for (const std::vector<uint32_t> &sources : list)
        if (hold == kToTheEnd)
          keepTo(sources, end);
    for (uint32_t b = 0; b < schedule.buffers.size(); ++b) {
      group[b] = b;
      if (persistent(b))
        at(b).first = 0, at(b).last = end;
    }
  }

  /// What another queue than that of forward writes has its bytes since `hold` operations of that queue before: if forward, which may be behind, still used them, the copy could
  /// not run ahead.
  void reserveTargets() {
    std::vector<std::vector<uint32_t>> issued(machine.queues.size());
    for (uint32_t i = 0; i < schedule.ops.size(); ++i) {
      const ScheduledOp &op = schedule.ops[i];
      if ((op.kind != CommandKind::Copy && op.kind != CommandKind::Dispatch) || op.queue == machine.computeQueue)
        continue;
      std::vector<uint32_t> &list = issued[op.queue];
      uint32_t since = list.size() >= hold ? list[list.size() - hold] : 0;
      for (const BufferRange &range : op.operands)
        if (range.access == Access::Write && !persistent(range.buffer))
          at(range.buffer).first = std::min(at(range.buffer).first, since);
      list.push_back(i);
    }
  }

  /// What comes after the verdict on other queues than that of forward runs under the next iteration, until forward needs what it makes. The bytes that it works on are not
  /// free before, or forward would wait for it.
  void wrapLives() {
    const uint32_t n = schedule.ops.size();
    uint32_t verdict = n;
    std::vector<uint32_t> firstRead(schedule.buffers.size(), n);
    for (uint32_t i = n; i-- > 0;) {
      if (schedule.ops[i].kind == CommandKind::Verdict)
        verdict = i;
      for (const BufferRange &range : schedule.ops[i].operands)
        if (range.access != Access::Write && (schedule.ops[i].queue == machine.computeQueue || (verdict < n && i < verdict))) // by a fetch, too
          firstRead[range.buffer] = i;
    }
    std::vector<uint32_t> neededBy(schedule.buffers.size(), n); // of transient ones: by when those who read them are done
    for (uint32_t i = n; i-- > verdict + 1;) {
      const ScheduledOp &op = schedule.ops[i];
      if (op.predicate == Predicate::Redo || op.predicate == Predicate::Restore || op.queue == machine.computeQueue)
        continue;
      uint32_t due = verdict;
      for (const BufferRange &range : op.operands)
        if (range.access != Access::Read)
          due = std::min(due, persistent(range.buffer) ? firstRead[homeOf(range.buffer)] : neededBy[range.buffer]);
      for (const BufferRange &range : op.operands)
        if (!persistent(range.buffer)) {
          if (range.access != Access::Write)
            neededBy[range.buffer] = std::min(neededBy[range.buffer], due);
          at(range.buffer).wrap = std::max(at(range.buffer).wrap, std::min(due, at(range.buffer).first));
          at(range.buffer).last = n - 1;
        }
    }
  }

  /// A result takes over an operand's bytes where the kernel allows it and nobody reads the operand later.
  void reuseInPlace() {
    for (uint32_t i = 0; i < schedule.ops.size(); ++i) {
      const ScheduledOp &op = schedule.ops[i];
      std::set<uint32_t> taken;
      for (size_t k = 0; k < op.inplace.size(); ++k) {
        if (op.inplace[k] < 0)
          continue;
        uint32_t from = op.operands[op.inplace[k]].buffer, to = op.operands[k].buffer;
        const Buffer &a = schedule.buffers[from], &b = schedule.buffers[to];
        auto reads = [&](const BufferRange &range) { return range.buffer == from; };
        if (from == to || a.persistent || b.persistent || a.space != b.space || a.bytes != b.bytes || at(from).last != i ||
            at(to).first != i || std::count_if(op.operands.begin(), op.operands.end(), reads) != 1 || !taken.insert(from).second)
          continue;
        at(to).over = from;
        group[to] = group[from];
      }
    }
  }

  void packSpace(uint32_t space) {
    // What lives for ever lies at the bottom, in the order of the arguments.
    std::vector<uint32_t> persistentOnes, others;
    for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
      if (schedule.buffers[b].space == space)
        (persistent(b) ? persistentOnes : others).push_back(b);
    std::vector<int32_t> together = streamedTogether();
    std::vector<PackItem> items(persistentOnes.size());
    std::vector<int32_t> sets;
    for (size_t i = 0; i < items.size(); ++i) {
      items[i].bytes = schedule.buffers[persistentOnes[i]].bytes;
      sets.push_back(together[persistentOnes[i]]);
    }
    uint64_t base = packPersistent(items, sets);
    for (size_t i = 0; i < items.size(); ++i)
      at(persistentOnes[i]).offset = items[i].offset;

    std::vector<int32_t> itemOf(schedule.buffers.size(), -1);
    items.clear();
    for (uint32_t b : others) {
      int32_t &item = itemOf[group[b]];
      if (item < 0) {
        item = items.size();
        items.push_back({0, at(b).first, at(b).last, 0, {}, 0});
      }
      items[item].bytes = std::max(items[item].bytes, schedule.buffers[b].bytes);
      items[item].first = std::min(items[item].first, at(b).first);
      items[item].last = std::max(items[item].last, at(b).last);
      items[item].wrap = std::max(items[item].wrap, at(b).wrap);
      if (together[b] < 0 || schedule.buffers[b].bytes < kStreamed)
        continue;
      for (uint32_t p : persistentOnes)
        if (together[p] == together[b] && schedule.buffers[p].bytes >= kStreamed)
          items[item].avoid.push_back(at(p).offset);
    }
    PackResult result = addresses ? pack(items, base) : boundPacking(items, base);
    for (uint32_t b : others)
      at(b).offset = items[itemOf[group[b]]].offset;

    SpaceLayout &summary = layout.spaces[space];
    summary.arenaBytes = result.arenaBytes;
    summary.liveBytes = result.liveBytes;
    summary.peak = result.peak;
    uint64_t padding = base;
    for (uint32_t b : persistentOnes) {
      summary.roles[schedule.buffers[b].role] += roundUp(schedule.buffers[b].bytes);
      padding -= roundUp(schedule.buffers[b].bytes);
    }
    summary.liveBytes -= padding;
    // Of buffers that share bytes in place, the one alive at the peak counts (the later one at the operation that hands over).
    std::set<uint32_t> counted;
    for (auto it = others.rbegin(); it != others.rend(); ++it)
      if (((at(*it).first <= result.peak && result.peak <= at(*it).last) || result.peak < at(*it).wrap) && counted.insert(group[*it]).second)
        summary.roles[schedule.buffers[*it].role] += roundUp(schedule.buffers[*it].bytes);
  }

  /// For each buffer a number shared with those that an update reads and writes in one pass, or -1.
  std::vector<int32_t> streamedTogether() const {
    std::vector<int32_t> result(schedule.buffers.size(), -1);
    for (const ScheduledOp &op : schedule.ops) {
      if (op.phase != Phase::Update || op.kind != CommandKind::Dispatch || op.parameter < 0)
        continue;
      for (const BufferRange &range : op.operands)
        result[range.buffer] = op.parameter;
    }
    return result;
  }

  const Schedule &schedule;
  const Machine &machine;
  uint32_t hold;  ///< copies on the same queue until which a source keeps its bytes
  bool addresses; ///< else lives only
  bool reserve;   ///< see reserveTargets
  Layout layout;
  std::vector<uint32_t> group; ///< first of the buffers that share its bytes
};

} // namespace

bool Layout::fits(const Machine &machine) const {
  for (size_t i = 0; i < spaces.size(); ++i)
    if (spaces[i].arenaBytes > machine.spaces[i].capacity)
      return false;
  return true;
}

Layout planning::layOut(const Schedule &schedule, const Machine &machine, uint32_t hold) { return LayoutMaker(schedule, machine, hold).run(); }

/// Spaces are packed independently: `to` takes that of `from`.
static void takeSpace(Layout &to, const Layout &from, uint32_t space, const Schedule &schedule, const Machine &machine) {
  to.spaces[space] = from.spaces[space];
  for (size_t b = 0; b < schedule.buffers.size(); ++b)
    if (schedule.buffers[b].space == space)
      to.buffers[b] = from.buffers[b];
  if (space == machine.computeSpace)
    to.holdsCopies = from.holdsCopies;
}

// Packing is a heuristic: without held copies an arena may even be larger.
Layout planning::layOutSmallest(const Schedule &schedule, const Machine &machine) {
  Layout result = layOut(schedule, machine, 0), held = layOut(schedule, machine, 1);
  for (uint32_t space = 0; space < machine.spaces.size(); ++space)
    if (held.spaces[space].arenaBytes <= result.spaces[space].arenaBytes)
      takeSpace(result, held, space, schedule, machine);
  return result;
}

Layout planning::layOut(const Schedule &schedule, const Machine &machine) {
  const uint32_t spaces = machine.spaces.size();
  Layout result;
  std::vector<bool> settled(spaces);
  auto fits = [&](const Layout &layout, uint32_t space) { return layout.spaces[space].arenaBytes <= machine.spaces[space].capacity; };
  auto take = [&](const Layout &layout, uint32_t space) {
    if (result.spaces.empty())
      result = layout;
    takeSpace(result, layout, space, schedule, machine);
    settled[space] = true;
  };
  auto all = [&] { return std::find(settled.begin(), settled.end(), false) == settled.end(); };
  // As long as there is room: nobody then waits for another queue to take what it still reads.
  for (uint32_t hold : {kToTheEnd, 32u, 8u, 2u})
    for (bool reserve : {true, false}) {
      if (!machine.offloads() || hold > schedule.hold || all())
        continue;
      Layout lives = LayoutMaker(schedule, machine, hold, /*addresses=*/false, reserve).run();
      std::vector<uint32_t> likely;
      for (uint32_t space = 0; space < spaces; ++space)
        if (!settled[space] && fits(lives, space))
          likely.push_back(space);
      if (likely.empty())
        continue;
      Layout layout = LayoutMaker(schedule, machine, hold, /*addresses=*/true, reserve).run();
      for (uint32_t space : likely)
        if (fits(layout, space))
          take(layout, space);
    }
  if (all())
    return result;
  Layout held = layOut(schedule, machine, 1);
  for (uint32_t space = 0; space < spaces; ++space)
    if (!settled[space] && fits(held, space))
      take(held, space);
  if (all())
    return result;
  Layout tight = layOut(schedule, machine, 0);
  for (uint32_t space = 0; space < spaces; ++space)
    if (!settled[space])
      take(held.spaces[space].arenaBytes <= tight.spaces[space].arenaBytes ? held : tight, space);
  return result;
}

Layout planning::estimate(const Schedule &schedule, const Machine &machine, uint32_t hold) { return LayoutMaker(schedule, machine, hold, false).run(); }

std::vector<uint64_t> planning::liveBytes(const Schedule &schedule, const Layout &layout, uint32_t space) {
  std::vector<int64_t> change(schedule.ops.size() + 1);
  for (size_t b = 0; b < schedule.buffers.size(); ++b) {
    const BufferLayout &at = layout.buffers[b];
    if (schedule.buffers[b].space != space || schedule.ops.empty())
      continue;
    // Bytes that were taken over in place count from the operation after, as long as they were there before.
    uint32_t first = at.over >= 0 ? at.first + 1 : at.first;
    change[first] += roundUp(schedule.buffers[b].bytes);
    change[std::max(first, at.last + 1)] -= roundUp(schedule.buffers[b].bytes);
    change[0] += at.wrap ? roundUp(schedule.buffers[b].bytes) : 0;
    change[at.wrap] -= at.wrap ? roundUp(schedule.buffers[b].bytes) : 0;
  }
  std::vector<uint64_t> live;
  int64_t sum = 0;
  for (size_t i = 0; i < schedule.ops.size(); ++i)
    live.push_back(sum += change[i]);
  return live;
}

std::vector<ShadowPair> planning::shadowPairs(const Schedule &schedule, const Layout &layout) {
  std::vector<ShadowPair> pairs;
  for (size_t b = 0; b < schedule.buffers.size(); ++b)
    if (const Buffer &shadow = schedule.buffers[b]; shadow.role == Role::Shadow)
      pairs.push_back({shadow.space, layout.buffers[shadow.copyOf].offset, layout.buffers[b].offset, shadow.bytes});
  return pairs;
}

std::vector<Command> planning::makeCommands(const Schedule &schedule, const Layout &layout) {
  std::vector<Command> commands;
  commands.reserve(schedule.ops.size());
  for (const ScheduledOp &op : schedule.ops) {
    Command c;
    c.kind = op.kind;
    c.predicate = op.predicate;
    c.queue = op.queue;
    c.kernel = op.kernel;
    c.index = op.index;
    for (const BufferRange &range : op.operands)
      c.operands.push_back({schedule.buffers[range.buffer].space, layout.buffers[range.buffer].offset + range.offset, range.bytes, range.access});
    c.params = op.params;
    c.tiles = op.tiles;
    c.scratch = op.scratch;
    c.label = op.label;
    c.phase = name(op.phase);
    c.cost = op.cost;
    c.tensor = op.parameter;
    commands.push_back(std::move(c));
  }
  return commands;
}
