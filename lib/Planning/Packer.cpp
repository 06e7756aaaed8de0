//===- Packer.cpp - Offsets for buffers in one arena ----------------------===//

#include "forebay/Planning/Packer.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>

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
    for (PackItem &item : items)
      item.offset = base;
    if (used.empty()) {
      result.arenaBytes = base;
      return result;
    }
    // Several orders, each with the lowest place that fits; the best is improved.
    auto area = [&](uint32_t i) { return static_cast<double>(size[i]) * (items[i].last - items[i].first + 1); };
    auto life = [&](uint32_t i) { return items[i].last - items[i].first; };
    tryOrder([&](uint32_t a, uint32_t b) { return key(size[a], life(a), a) > key(size[b], life(b), b); }, result.liveBytes);
    tryOrder([&](uint32_t a, uint32_t b) { return area(a) != area(b) ? area(a) > area(b) : a < b; }, result.liveBytes);
    tryOrder([&](uint32_t a, uint32_t b) { return key(life(a), size[a], a) > key(life(b), size[b], b); }, result.liveBytes);
    tryOrder([&](uint32_t a, uint32_t b) { return key(items[b].first, size[a], a) > key(items[a].first, size[b], b); }, result.liveBytes);
    improve(result.liveBytes);
    for (size_t k = 0; k < used.size(); ++k)
      items[used[k]].offset = base + best[k];
    result.arenaBytes = base + bestEnd;
    return result;
  }

private:
  static std::tuple<uint64_t, uint64_t, int64_t> key(uint64_t a, uint64_t b, uint32_t i) { return {a, b, -static_cast<int64_t>(i)}; }

  template <typename Less> void tryOrder(Less less, uint64_t live) {
    if (bestEnd != ~0ull && base + bestEnd == live)
      return;
    std::vector<uint32_t> order(used);
    std::sort(order.begin(), order.end(), less);
    tryOrder(order);
  }

  /// Greedy: each item in `order` at the lowest offset where it fits among those already placed that live at the same time.
  bool tryOrder(const std::vector<uint32_t> &order) {
    placed.clear();
    offsets.assign(items.size(), 0);
    uint64_t end = 0;
    for (uint32_t i : order) {
      uint64_t at = 0, bestAt = ~0ull, bestGap = ~0ull;
      for (uint32_t other : placed) { // by offset
        if (items[other].first > items[i].last || items[other].last < items[i].first)
          continue;
        uint64_t start = settle(i, at);
        if (offsets[other] >= start + size[i] && offsets[other] - at < bestGap) {
          bestGap = offsets[other] - at;
          bestAt = start;
          if (!bestFit)
            break;
        }
        at = std::max(at, offsets[other] + size[other]);
      }
      offsets[i] = bestAt == ~0ull ? settle(i, at) : bestAt;
      end = std::max(end, offsets[i] + size[i]);
      if (end >= bestEnd)
        return false;
      auto where = std::lower_bound(placed.begin(), placed.end(), i, [&](uint32_t a, uint32_t b) {
        return offsets[a] != offsets[b] ? offsets[a] < offsets[b] : a < b;
      });
      placed.insert(where, i);
    }
    bestEnd = end;
    best.clear();
    for (uint32_t i : used)
      best.push_back(offsets[i]);
    bestOrder = order;
    return true;
  }

  /// The lowest offset from `at` on that keeps its distance from what is streamed together with item i.
  uint64_t settle(uint32_t i, uint64_t at) const { return items[i].avoid.empty() ? at : keepApart(at + base, items[i].avoid) - base; }

  /// Items that end highest are what makes the arena large: place them earlier, and see.
  void improve(uint64_t live) {
    // A fixed number of steps, so that the result does not depend on the machine's speed.
    size_t tries = std::clamp<size_t>(40'000'000 / (used.size() * used.size() + 1), 8, 400);
    for (size_t t = 0; t < tries && base + bestEnd > live; ++t) {
      bestFit = t % 2;
      std::vector<uint32_t> order(bestOrder);
      std::vector<uint64_t> at(items.size());
      for (size_t k = 0; k < used.size(); ++k)
        at[used[k]] = best[k];
      // The t-th highest item that reaches the top, and a growing share of those near it.
      uint64_t limit = bestEnd - bestEnd / 64 * (t % 16);
      size_t skip = t / 16;
      auto high = [&](uint32_t i) { return at[i] + size[i] >= limit; };
      size_t moved = 0;
      for (size_t k = 1; k < order.size(); ++k) {
        if (!high(order[k]))
          continue;
        if (moved++ % (skip + 1) != 0)
          continue;
        size_t to = t % 3 == 0 ? 0 : t % 3 == 1 ? k / 2 : k - std::min<size_t>(k, 1 + t % 7);
        std::rotate(order.begin() + to, order.begin() + k, order.begin() + k + 1);
      }
      tryOrder(order);
    }
  }

  std::vector<PackItem> &items;
  uint64_t base;
  std::vector<uint64_t> size;
  std::vector<uint32_t> used, placed, bestOrder;
  std::vector<uint64_t> offsets, best;
  uint64_t bestEnd = ~0ull;
  bool bestFit = true;
};

} // namespace

PackResult forebay::planning::boundPacking(const std::vector<PackItem> &items, uint64_t base) {
  std::map<uint32_t, int64_t> change;
  for (const PackItem &item : items) {
    change[item.first] += roundUp(item.bytes);
    change[item.last + 1] -= roundUp(item.bytes);
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
