//===- PackerTest.cpp - Offsets against brute force -----------------------===//

#include "forebay/Planning/Packer.h"

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <sstream>

using namespace forebay::planning;

namespace {

bool together(const PackItem &a, const PackItem &b) { return a.first <= b.last && b.first <= a.last; }
bool overlap(const PackItem &a, const PackItem &b) { return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes; }

void check(const std::vector<PackItem> &items, const PackResult &result, uint64_t base) {
  uint64_t end = base;
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].offset % kAlignment, 0u);
    EXPECT_GE(items[i].offset, base);
    if (items[i].bytes)
      end = std::max(end, roundUp(items[i].offset + items[i].bytes));
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(together(items[i], items[j]) && overlap(items[i], items[j])) << i << ", " << j;
  }
  EXPECT_EQ(end, result.arenaBytes);
  uint64_t live = base;
  for (const PackItem &at : items) { // some item begins at the peak
    uint64_t sum = base;
    for (const PackItem &other : items)
      if (other.first <= at.first && at.first <= other.last)
        sum += roundUp(other.bytes);
    live = std::max(live, sum);
  }
  EXPECT_EQ(live, result.liveBytes);
}

/// Smallest arena over all orders of placing items as low as possible: that set holds an optimal packing.
uint64_t optimum(std::vector<PackItem> items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  uint64_t best = ~0ull;
  do {
    uint64_t end = 0;
    std::vector<size_t> placed;
    for (size_t i : order) {
      uint64_t at = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j : placed)
          if (together(items[i], items[j]) && at < items[j].offset + items[j].bytes && items[j].offset < at + items[i].bytes) {
            at = items[j].offset + items[j].bytes;
            moved = true;
          }
      }
      items[i].offset = at;
      end = std::max(end, at + items[i].bytes);
      placed.push_back(i);
    }
    best = std::min(best, end);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(Packer, SmallCasesAreOptimal) {
  std::mt19937 rng(1);
  unsigned optimal = 0, cases = 300;
  for (unsigned c = 0; c < cases; ++c) {
    std::vector<PackItem> items(2 + rng() % 6);
    for (PackItem &item : items) {
      item.bytes = 64 * (1 + rng() % 8);
      item.first = rng() % 8;
      item.last = item.first + rng() % 5;
    }
    PackResult result = pack(items);
    check(items, result, 0);
    uint64_t best = optimum(items);
    EXPECT_LE(best, result.arenaBytes);
    optimal += best == result.arenaBytes;
  }
  EXPECT_EQ(optimal, cases);
}

TEST(Packer, RandomCases) {
  std::mt19937 rng(2);
  for (unsigned c = 0; c < 30; ++c) {
    std::vector<PackItem> items(1 + rng() % 200);
    for (PackItem &item : items) {
      item.bytes = rng() % 3 ? rng() % 5000 : 4096 * (rng() % 100); // also zero and unaligned sizes
      item.first = rng() % 300;
      item.last = item.first + (rng() % 3 ? rng() % 10 : rng() % 200);
    }
    uint64_t base = 64 * (rng() % 3);
    PackResult result = pack(items, base);
    check(items, result, base);
    EXPECT_LE(result.arenaBytes, result.liveBytes * 1.02);
  }
}

/// Forward keeps, backward frees, with short-lived buffers of other sizes between: what training looks like.
TEST(Packer, TrainingShape) {
  std::mt19937 rng(3);
  for (unsigned layers : {2u, 12u, 40u, 400u}) {
    std::vector<PackItem> items;
    unsigned time = 0, end = layers * 20;
    auto add = [&](uint64_t bytes, unsigned first, unsigned last) { items.push_back({bytes, first, last, 0, {}, 0}); };
    for (unsigned l = 0; l < layers; ++l, time += 10) {
      unsigned back = end - time;
      for (unsigned k = 0; k < 6; ++k)
        add(1 << (16 + k % 3), time + k, back - k);
      for (unsigned k = 0; k < 5; ++k)
        add(100000 * (k + 1), time + k, time + k + 1);
      for (unsigned k = 0; k < 7; ++k)
        add(150000 * (k % 4 + 1), back - 8 + k, back - 8 + k + 2);
    }
    PackResult result = pack(items);
    check(items, result, 0);
    EXPECT_LE(result.arenaBytes, result.liveBytes * 1.001) << layers;
  }
}

TEST(Packer, Empty) {
  std::vector<PackItem> items;
  EXPECT_EQ(pack(items, 128).arenaBytes, 128u);
  items.resize(2); // zero bytes
  PackResult result = pack(items, 64);
  EXPECT_EQ(result.arenaBytes, 64u);
  EXPECT_EQ(result.liveBytes, 64u);
}

/// Distance modulo 128 MiB.
uint64_t skew(uint64_t a, uint64_t b) {
  const uint64_t period = 128ull << 20;
  uint64_t d = (a > b ? a - b : b - a) % period;
  return std::min(d, period - d);
}

/// Streams of one update do not begin a multiple of 128 MiB apart.
TEST(Packer, StreamsAreSkewed) {
  const uint64_t size = 128ull << 20;
  std::vector<PackItem> items(4);
  for (PackItem &item : items)
    item.bytes = size;
  uint64_t end = packPersistent(items, {7, 7, 7, -1});
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < i; ++j)
      EXPECT_GE(skew(items[i].offset, items[j].offset), 4096u);
  EXPECT_LE(end, 4 * size + 64 * 1024);
  EXPECT_EQ(items[3].offset, items[2].offset + size); // not one of them

  // A buffer that is packed by its life keeps its distance, too.
  std::vector<PackItem> others(1);
  others[0].bytes = size;
  for (int i = 0; i < 3; ++i)
    others[0].avoid.push_back(items[i].offset);
  pack(others, end);
  for (int i = 0; i < 3; ++i)
    EXPECT_GE(skew(others[0].offset, items[i].offset), 4096u);
}

/// Buffers of real plans, each with the ratio to the live bytes that may not be exceeded.
TEST(Packer, RealPlans) {
  std::ifstream file(FOREBAY_PACKING_CASES);
  std::string line, name;
  double bar = 0;
  uint64_t base = 0;
  std::vector<PackItem> items;
  unsigned cases = 0;
  auto finish = [&] {
    if (items.empty())
      return;
    ++cases;
    std::vector<PackItem> again(items);
    PackResult result = pack(items, base);
    SCOPED_TRACE(name);
    check(items, result, base);
    EXPECT_LE(result.arenaBytes, result.liveBytes * bar);
    for (const PackItem &item : items)
      for (uint64_t other : item.avoid)
        EXPECT_GE(skew(item.offset, other), 4096u);
    // The same addresses again.
    EXPECT_EQ(pack(again, base).arenaBytes, result.arenaBytes);
    for (size_t i = 0; i < items.size(); ++i)
      EXPECT_EQ(items[i].offset, again[i].offset);
    items.clear();
  };
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (line[0] == '#')
      continue;
    if (line.rfind("case ", 0) == 0) {
      finish();
      words >> name >> bar >> base;
      std::getline(words, name);
      continue;
    }
    PackItem item;
    words >> item.bytes >> item.first >> item.last;
    for (uint64_t other; words >> other;)
      item.avoid.push_back(other);
    items.push_back(item);
  }
  finish();
  EXPECT_EQ(cases, 7u);
}

TEST(Packer, Deterministic) {
  std::mt19937 rng(4);
  std::vector<PackItem> items(300);
  for (PackItem &item : items)
    item = {rng() % 100000, static_cast<uint32_t>(rng() % 500), 0, 0, {}, 0};
  for (PackItem &item : items)
    item.last = item.first + rng() % 50;
  std::vector<PackItem> again = items;
  pack(items);
  pack(again);
  for (size_t i = 0; i < items.size(); ++i)
    EXPECT_EQ(items[i].offset, again[i].offset);
}

} // namespace
