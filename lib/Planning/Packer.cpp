//===- Packer.cpp - Offsets for buffers in one arena ----------------------===//

#include "forebay/Planning/Packer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <tuple>

using namespace forebay::planning;

/// The lowest offset from `at` on that is not within 4 KiB of a multiple of 128 MiB of any of `others` (facts: 2.9 times slower streams).
static uint64_t keepApart(uint64_t at, const std::vector<uint64_t> &others) {
  constexpr uint64_t kPeriod = 128ull << 20, kSkew = 4096;
  auto clashes = [&](uint64_t other) {
    uint64_t distance = (at + kPeriod - other % kPeriod) % kPeriod;
    return distance < kSkew || kPeriod - distance < kSkew;
  };
  // Each other start forbids less than 8 KiB of 128 MiB, and there are a handful.
  while (std::any_of(others.begin(), others.end(), clashes))
    at += kSkew;
  return at;
}

namespace {

/// What is placed, by offset.
struct Slot {
  uint64_t offset, end;
  uint32_t first, last, item, wrap;
  bool operator<(const Slot &other) const { return offset != other.offset ? offset < other.offset : item < other.item; }
};

/// Do `slot` and what lives in [first, last] and [0, wrap) live at one time?
static bool meets(const Slot &slot, uint32_t first, uint32_t last, uint32_t wrap) {
  return (slot.first <= last && slot.last >= first) || slot.wrap > first || wrap > slot.first || (slot.wrap && wrap);
}

static bool endsBefore(const Slot &a, const Slot &b) { return a.end != b.end ? a.end < b.end : a.item < b.item; }

class Packer {
public:
  Packer(std::vector<PackItem> &items, uint64_t base) : items(items), base(base) {
    for (uint32_t i = 0; i < items.size(); ++i) {
      size.push_back(roundUp(items[i].bytes));
      if (size[i])
        used.push_back(i);
    }
  }

  PackResult run() {
    PackResult result = boundPacking(items, base);
    bound = result.liveBytes - base;
    for (PackItem &item : items)
      item.offset = base;
    if (used.empty()) {
      result.arenaBytes = base;
      return result;
    }
    greedy();
    tighten();
    for (const Slot &slot : best)
      items[slot.item].offset = base + slot.offset;
    result.arenaBytes = base + bestEnd;
    return result;
  }

private:
  static std::tuple<uint64_t, uint64_t, int64_t> key(uint64_t a, uint64_t b, uint32_t i) { return {a, b, -static_cast<int64_t>(i)}; }
  uint64_t life(uint32_t i) const { return items[i].last - items[i].first + 1 + items[i].wrap; }
  double area(uint32_t i) const { return static_cast<double>(size[i]) * life(i); }

  /// Several orders, each item in the lowest or the tightest gap. With very many items only the first of them.
  void greedy() {
    tryOrder([&](uint32_t a, uint32_t b) { return key(size[a], life(a), a) > key(size[b], life(b), b); });
    tryOrder([&](uint32_t a, uint32_t b) { return area(a) != area(b) ? area(a) > area(b) : a < b; });
    tryOrder([&](uint32_t a, uint32_t b) { return key(life(a), size[a], a) > key(life(b), size[b], b); });
    tryOrder([&](uint32_t a, uint32_t b) { return key(items[b].first, size[a], a) > key(items[a].first, size[b], b); });
  }

  template <typename Less> void tryOrder(Less less) {
    std::vector<uint32_t> order(used);
    std::sort(order.begin(), order.end(), less);
    for (bool tightest : {true, false})
      if (bestEnd > bound && looked < kGreedyWork)
        placeAll(order, tightest);
  }

  void placeAll(const std::vector<uint32_t> &order, bool tightest) {
    slots.clear();
    uint64_t end = 0;
    for (uint32_t i : order) {
      uint64_t at = 0, bestAt = ~0ull, bestGap = ~0ull;
      looked += slots.size();
      for (const Slot &slot : slots) {
        if (!meets(slot, items[i].first, items[i].last, items[i].wrap))
          continue;
        if (slot.offset > at) {
          uint64_t start = settle(i, at);
          if (slot.offset >= start + size[i] && slot.offset - at < bestGap) {
            bestGap = slot.offset - at;
            bestAt = start;
            if (!tightest)
              break;
          }
        }
        at = std::max(at, slot.end);
      }
      end = std::max(end, insert(i, bestAt == ~0ull ? settle(i, at) : bestAt).end);
      if (end >= bestEnd)
        return;
    }
    bestEnd = end;
    best = slots;
  }

  Slot insert(uint32_t i, uint64_t offset) {
    Slot slot{offset, offset + size[i], items[i].first, items[i].last, i, items[i].wrap};
    slots.insert(std::lower_bound(slots.begin(), slots.end(), slot), slot);
    return slot;
  }

  /// The lowest offset from `at` on that keeps its distance from what is streamed together with item i.
  uint64_t settle(uint32_t i, uint64_t at) const { return items[i].avoid.empty() ? at : keepApart(at + base, items[i].avoid) - base; }

  void tighten();
  bool repair(uint64_t limit, bool bySize);
  void take(const Slot &slot);
  uint64_t bestPlace(uint32_t i, uint64_t limit);

  std::vector<PackItem> &items;
  uint64_t base, bound = 0;
  std::vector<uint64_t> size;
  std::vector<uint32_t> used;
  std::vector<Slot> slots, best; ///< by offset
  uint64_t bestEnd = ~0ull;
  // Efforts are numbers of slots looked at rather than times, so that the result does not depend on the machine's speed.
  size_t looked = 0; ///< by the greedy orders
  static constexpr size_t kGreedyWork = 300'000'000;
  // Of repair.
  std::vector<uint64_t> weight; ///< what it costs to push an item out
  std::vector<Slot> byEnd;      ///< as `slots`, by end
  size_t allWork = 0, work = 0; ///< in all, left
};

/// Cuts the arena down in steps, which grow with success and shrink with failure. The first goes straight to the bound: it is reached more often than not.
void Packer::tighten() {
  const uint64_t enough = (base + bound) / 4096, least = std::max(bound >> 14, kAlignment);
  allWork = work = std::min<size_t>(120'000 * used.size(), 64'000'000);
  uint64_t step = bestEnd - bound;
  for (size_t failures = 0; bestEnd > bound && bestEnd - bound > enough && work > 0;) {
    step = std::min(std::max(step, least) / kAlignment * kAlignment, bestEnd - bound);
    if (repair(bestEnd - step, failures % 2)) // neither kind of weights is better in general
      step *= 2;
    else if (failures++ > 0)
      step /= 2;
  }
}

/// The offset at which item i evicts the least weight, the lowest of equals. ~0 if it fits nowhere.
uint64_t Packer::bestPlace(uint32_t i, uint64_t limit) {
  const uint32_t first = items[i].first, last = items[i].last, wrap = items[i].wrap;
  uint64_t bestAt = ~0ull, inside = 0, least = ~0ull;
  auto enter = slots.begin();
  // A window of the item's size moves up; only where it leaves something behind its weight can be less than before.
  auto consider = [&](uint64_t at) {
    at = settle(i, at);
    if (at + size[i] > limit)
      return false;
    for (; enter != slots.end() && enter->offset < at + size[i]; ++enter)
      if (meets(*enter, first, last, wrap))
        inside += weight[enter->item];
    if (inside < least) {
      bestAt = at;
      least = inside;
    }
    return least > 0;
  };
  bool more = consider(0);
  auto leave = byEnd.begin();
  for (; leave != byEnd.end() && more; ++leave) {
    if (!meets(*leave, first, last, wrap))
      continue;
    inside -= weight[leave->item];
    more = consider(leave->end);
  }
  work -= std::min<size_t>(work, (enter - slots.begin()) + (leave - byEnd.begin()) + 64);
  return bestAt;
}

void Packer::take(const Slot &slot) {
  byEnd.erase(std::lower_bound(byEnd.begin(), byEnd.end(), slot, endsBefore));
  slots.erase(std::lower_bound(slots.begin(), slots.end(), slot));
}

/// Places what ends above `limit` anew, below; what is in the way there goes and is placed anew in its turn (ejection chains). False if that does not end soon.
bool Packer::repair(uint64_t limit, bool bySize) {
  constexpr uint64_t kMost = 1ull << 40; // so that no sum of weights leaves 64 bits
  slots.clear();
  std::vector<uint32_t> pending;
  for (const Slot &slot : best) {
    if (slot.end <= limit)
      slots.push_back(slot);
    else
      pending.push_back(slot.item);
  }
  byEnd = slots;
  std::sort(byEnd.begin(), byEnd.end(), endsBefore);
  weight.assign(items.size(), 0);
  for (uint32_t i : used)
    weight[i] = bySize ? size[i] / 4 : 1 + static_cast<uint64_t>(16 * std::sqrt(area(i)));
  std::vector<uint64_t> original(weight);
  size_t stop = work - std::min(work, allWork / 12);
  auto smaller = [&](uint32_t a, uint32_t b) { return key(size[a], life(a), a) < key(size[b], life(b), b); };
  std::make_heap(pending.begin(), pending.end(), smaller);
  std::vector<Slot> evicted;
  while (!pending.empty()) {
    std::pop_heap(pending.begin(), pending.end(), smaller);
    uint32_t i = pending.back();
    pending.pop_back();
    uint64_t at = bestPlace(i, limit);
    if (at == ~0ull || work <= stop) {
      work = std::min(work, stop);
      return false;
    }
    evicted.clear();
    for (const Slot &slot : slots) {
      if (slot.offset >= at + size[i])
        break;
      if (slot.end > at && meets(slot, items[i].first, items[i].last, items[i].wrap))
        evicted.push_back(slot);
    }
    for (const Slot &slot : evicted) {
      take(slot);
      uint64_t &now = weight[slot.item];
      now += bySize ? std::min(now, kMost) / 8 : original[slot.item] * 5 / 16;
      pending.push_back(slot.item);
      std::push_heap(pending.begin(), pending.end(), smaller);
    }
    Slot slot = insert(i, at);
    byEnd.insert(std::lower_bound(byEnd.begin(), byEnd.end(), slot, endsBefore), slot);
  }
  best = slots;
  bestEnd = byEnd.back().end;
  return true;
}

} // namespace

PackResult forebay::planning::boundPacking(const std::vector<PackItem> &items, uint64_t base) {
  std::map<uint32_t, int64_t> change;
  for (const PackItem &item : items) {
    change[item.first] += roundUp(item.bytes);
    change[item.last + 1] -= roundUp(item.bytes);
    if (item.wrap) {
      change[0] += roundUp(item.bytes);
      change[item.wrap] -= roundUp(item.bytes);
    }
  }
  PackResult result;
  result.liveBytes = base;
  int64_t live = base;
  for (auto [time, delta] : change) {
    live += delta;
    if (static_cast<uint64_t>(live) > result.liveBytes) {
      result.liveBytes = live;
      result.peak = time;
    }
  }
  result.arenaBytes = result.liveBytes;
  return result;
}

PackResult forebay::planning::pack(std::vector<PackItem> &items, uint64_t base) {
  assert(base % kAlignment == 0);
  return Packer(items, base).run();
}

uint64_t forebay::planning::packPersistent(std::vector<PackItem> &items, const std::vector<int32_t> &together) {
  std::map<int32_t, std::vector<uint64_t>> starts;
  uint64_t end = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    uint64_t at = end;
    if (together[i] >= 0 && items[i].bytes >= kStreamed) {
      std::vector<uint64_t> &others = starts[together[i]];
      at = keepApart(at, others);
      others.push_back(at);
    }
    items[i].offset = at;
    end = at + roundUp(items[i].bytes);
  }
  return end;
}
