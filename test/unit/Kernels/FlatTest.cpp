//===- FlatTest.cpp - Reductions, copies, embedding, norm and verdict -----===//

#include "Harness.h"

using namespace forebay::kernels;

namespace {

double combine(int kind, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return NAN;
  return kind == 0 ? a + b : kind == 1 ? std::max(a, b) : kind == 2 ? std::min(a, b) : a * b;
}
const double kIdentity[] = {0, -INFINITY, INFINITY, 1};

void checkReduce(ReduceParams p, std::vector<float> x, double tolerance) {
  std::vector<double> expected(p.outer * p.inner, kIdentity[p.kind]);
  for (int64_t o = 0; o < p.outer; ++o)
    for (int64_t r = 0; r < p.reduce; ++r)
      for (int64_t i = 0; i < p.inner; ++i)
        expected[o * p.inner + i] = combine(p.kind, expected[o * p.inner + i], x[(o * p.reduce + r) * p.inner + i]);
  Case c{"reduce", paramsOf(p), reduceLaunch(p), {bytesOf(x)}, {expected.size() * 4}, {}, {}};
  expectNear(valuesOf(run(c)[0]), expected, tolerance,
             "reduce " + std::to_string(p.outer) + "," + std::to_string(p.reduce) + "," + std::to_string(p.inner) + " kind " +
                 std::to_string(p.kind));
}

TEST(Reduce, RandomShapes) {
  Random random(1);
  for (int trial = 0; trial < 150; ++trial) {
    ReduceParams p{random.between(1, 5), random.between(0, 70), random.pick<int64_t>({1, 1, 2, 5, 16, 17, 40}),
                   random.below(4),      random.between(1, 60), random.between(1, 80)};
    if (trial % 3 == 0)
      setReduceTile(p);
    std::vector<float> x = random.normal(p.outer * p.reduce * p.inner, p.kind == 3 ? 0.1f : 1.0f);
    if (p.kind == 3)
      for (float &v : x)
        v += 1.0f;
    checkReduce(p, x, 1e-5);
  }
}

TEST(Reduce, DefaultTilesOfLargeShapes) {
  Random random(2);
  for (auto [outer, reduce, inner] : {std::tuple<int, int, int>{1, 1024, 768}, {1, 200000, 1}, {300, 700, 1}, {1, 5, 40000},
                                      {2, 30000, 3}, {0, 5, 3}, {3, 0, 2}, {3, 2, 0}}) {
    ReduceParams p{outer, reduce, inner, 0, 0, 0};
    setReduceTile(p);
    checkReduce(p, random.normal(outer * reduce * inner), 1e-4);
  }
}

TEST(Reduce, NaNAndInfinity) {
  for (int64_t kind = 0; kind < 4; ++kind)
    for (int64_t inner : {1, 3})
      for (int64_t perTile : {2, 100}) {
        std::vector<float> x(20 * inner, 1.0f);
        x[7 * inner] = kNaN;
        checkReduce({1, 20, inner, kind, 100, perTile}, x, 0);
        x[7 * inner] = kInf;
        checkReduce({1, 20, inner, kind, 100, perTile}, x, 0);
        x[7 * inner] = -kInf;
        checkReduce({1, 20, inner, kind, 100, perTile}, x, 0);
      }
}

template <typename T> void checkCopy(CopyParams p, Random &random, int64_t srcCount, int64_t dstCount, const std::string &what) {
  std::vector<T> src(srcCount), init(dstCount, T{}), expected;
  for (T &v : src) {
    uint64_t bits = random.engine();
    std::memcpy(&v, &bits, std::min(sizeof(T), sizeof bits));
  }
  expected = init;
  const int64_t *n = p.size;
  for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3] * n[4] * n[5]; ++i) {
    int64_t index = i, from = p.src.offset, to = p.dst.offset;
    for (int d = 5; d >= 0; --d) {
      from += index % n[d] * p.src.stride[d], to += index % n[d] * p.dst.stride[d];
      index /= n[d];
    }
    expected[to] = src[from];
  }
  p.elementBytes = sizeof(T);
  for (bool tuned : {false, true}) {
    if (tuned)
      setCopyTile(p);
    Case c{"copy", paramsOf(p), copyLaunch(p), {bytesOf(src)}, {dstCount * sizeof(T)}, {bytesOf(init)}, {}};
    EXPECT_TRUE(run(c)[0] == bytesOf(expected)) << what << (tuned ? " tuned" : "");
  }
}

struct Wide {
  uint64_t a, b;
};

TEST(Copy, RandomPermutationsSlicesAndBroadcasts) {
  Random random(3);
  for (int trial = 0; trial < 120; ++trial) {
    CopyParams p{};
    int64_t dst = 1, src = 1;
    int order[6] = {0, 1, 2, 3, 4, 5};
    std::shuffle(order, order + 6, random.engine);
    int64_t rank = random.between(1, 5);
    for (int d = 5; d >= 0; --d) {
      p.size[d] = 5 - d < rank ? random.pick<int64_t>({1, 2, 3, 5, 9, 33}) : 1;
      p.dst.stride[d] = dst;
      dst *= p.size[d] + random.below(2);
    }
    for (int d : order) {
      p.src.stride[d] = random.below(5) ? src : 0;
      src *= p.src.stride[d] ? p.size[d] + random.below(2) : 1;
    }
    if (dst > 200000 || src > 200000)
      continue;
    for (int d = 0; d < 6; ++d)
      if (p.src.stride[d] && random.below(6) == 0) { // backwards
        p.src.offset += p.src.stride[d] * (p.size[d] - 1);
        p.src.stride[d] = -p.src.stride[d];
      }
    p.dst.offset = random.below(4);
    p.rowsPerTile = random.between(1, 50);
    std::string what = "trial " + std::to_string(trial);
    switch (trial % 5) {
    case 0:
      checkCopy<uint8_t>(p, random, src, dst + 4, what);
      break;
    case 1:
      checkCopy<uint16_t>(p, random, src, dst + 4, what);
      break;
    case 2:
      checkCopy<uint32_t>(p, random, src, dst + 4, what);
      break;
    case 3:
      checkCopy<uint64_t>(p, random, src, dst + 4, what);
      break;
    default:
      checkCopy<Wide>(p, random, src, dst + 4, what);
    }
  }
}

TEST(Copy, Transposition) {
  Random random(4);
  for (auto [rows, cols] : {std::pair<int, int>{100, 70}, {64, 64}, {1, 300}, {300, 1}, {37, 129}, {0, 4}, {4, 0}}) {
    CopyParams p{{1, 1, 1, 1, rows, cols}, {0, {0, 0, 0, 0, 1, rows}}, {0, {0, 0, 0, 0, cols, 1}}, 4, 40};
    checkCopy<uint32_t>(p, random, rows * cols, rows * cols, "transpose");
    checkCopy<uint16_t>(p, random, rows * cols, rows * cols, "transpose");
  }
}

TEST(Fill, Patterns) {
  for (int64_t bytes : {1, 2, 4, 8})
    for (int64_t count : {0, 1, 100}) {
      FillParams p{count, bytes, int64_t(0x1234567890abcdef), 33};
      Case c{"fill", paramsOf(p), fillLaunch(p), {}, {size_t(count * bytes)}, {}, {}};
      Bytes expected;
      for (int64_t i = 0; i < count; ++i)
        for (int64_t b = 0; b < bytes; ++b)
          expected.push_back(static_cast<unsigned char>(p.pattern >> (8 * b)));
      EXPECT_EQ(run(c)[0], expected);
    }
}

TEST(Embedding, RowsAndGradient) {
  Random random(5);
  for (int trial = 0; trial < 30; ++trial) {
    int64_t vocab = random.between(1, 50), width = random.pick<int64_t>({0, 1, 3, 16, 40}), count = random.between(0, 60);
    EmbeddingParams p{vocab, width, count, random.pick<int64_t>({4, 8}), 4, random.between(1, 20), 0};
    std::vector<float> table = random.normal(vocab * width), grad = random.normal(count * width);
    std::vector<int64_t> ids(count);
    for (int64_t &id : ids)
      id = random.below(2 * vocab) - vocab; // negative ids count from the end
    std::vector<float> expected;
    std::vector<double> dtable(vocab * width);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < width; ++j) {
        int64_t at = (ids[i] < 0 ? ids[i] + vocab : ids[i]) * width + j;
        expected.push_back(table[at]);
        dtable[at] += grad[i * width + j];
      }
    Bytes idBytes = p.idBytes == 8 ? bytesOf(ids) : bytesOf(std::vector<int32_t>(ids.begin(), ids.end()));
    Case c{"embedding", paramsOf(p), embeddingLaunch(p), {bytesOf(table), idBytes}, {expected.size() * 4}, {}, {}};
    EXPECT_EQ(valuesOf(run(c)[0]), expected);
    Case g{"embedding_grad", paramsOf(p), embeddingGradLaunch(p), {bytesOf(grad), idBytes}, {table.size() * 4}, {}, {}};
    expectNear(valuesOf(run(g)[0]), dtable, 1e-6, "embedding_grad");
    for (size_t i = 0; i < table.size(); ++i)
      dtable[i] += table[i];
    p.add = 1;
    g.params = paramsOf(p);
    g.inputs.push_back(bytesOf(table));
    std::vector<Bytes> apart = run(g);
    expectNear(valuesOf(apart[0]), dtable, 1e-6, "embedding_grad with add");
    g.inPlace = {2};
    EXPECT_EQ(run(g), apart);
  }
}

TEST(Embedding, IdsOutsideTheTableAreNotFollowed) {
  EmbeddingParams p{3, 2, 3, 8, 4, 2, 0};
  Bytes ids = bytesOf(std::vector<int64_t>{1, 3, -4});
  Case c{"embedding", paramsOf(p), embeddingLaunch(p), {bytesOf(std::vector<float>{1, 2, 3, 4, 5, 6}), ids}, {24}, {}, {}};
  expectNear(valuesOf(run(c)[0]), {3, 4, NAN, NAN, NAN, NAN}, 0, "ids");
  Case g{"embedding_grad", paramsOf(p), embeddingGradLaunch(p), {bytesOf(std::vector<float>{1, 2, 3, 4, 5, 6}), ids}, {24}, {}, {}};
  EXPECT_EQ(valuesOf(run(g)[0]), (std::vector<float>{0, 0, 1, 2, 0, 0}));
}

TEST(Rotary, RotatesPairs) {
  Random random(6);
  for (int trial = 0; trial < 40; ++trial) {
    RotaryParams p{};
    p.batch = random.between(1, 3), p.heads = random.between(1, 3), p.seq = random.between(1, 6);
    p.half = random.pick<int64_t>({1, 2, 8, 20}), p.dim = 2 * p.half + random.pick<int64_t>({0, 0, 3});
    p.perBatch = random.below(2), p.interleaved = random.below(2), p.inverse = random.below(2), p.rowsPerTile = 5;
    // x is [B, S, H, D] (as projections give it), y [B, H, S, D].
    p.x = {0, {0, 0, p.seq * p.heads * p.dim, p.dim, p.heads * p.dim, 1}};
    p.y = {0, {0, 0, p.heads * p.seq * p.dim, p.seq * p.dim, p.dim, 1}};
    int64_t count = p.batch * p.heads * p.seq * p.dim, angles = (p.perBatch ? p.batch : 1) * p.seq * p.half;
    std::vector<float> x = random.normal(count), cosines = random.normal(angles), sines = random.normal(angles);
    std::vector<double> y(count);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t s = 0; s < p.seq; ++s) {
          int64_t from = ((b * p.seq + s) * p.heads + h) * p.dim, to = ((b * p.heads + h) * p.seq + s) * p.dim;
          for (int64_t i = 0; i < p.dim; ++i)
            y[to + i] = x[from + i];
          for (int64_t i = 0; i < p.half; ++i) {
            int64_t a = p.interleaved ? 2 * i : i, c = p.interleaved ? 2 * i + 1 : i + p.half;
            int64_t at = ((p.perBatch ? b * p.seq : 0) + s) * p.half + i;
            double co = cosines[at], si = sines[at] * (p.inverse ? -1 : 1);
            y[to + a] = x[from + a] * co - x[from + c] * si;
            y[to + c] = x[from + c] * co + x[from + a] * si;
          }
        }
    Case c{"rotary", paramsOf(p), rotaryLaunch(p), {bytesOf(x), bytesOf(cosines), bytesOf(sines)}, {size_t(count) * 4}, {}, {}};
    expectNear(valuesOf(run(c)[0]), y, 1e-6, "rotary");
    p.y = p.x;
    c.params = paramsOf(p);
    std::vector<Bytes> apart = run(c);
    c.inPlace = {0};
    EXPECT_EQ(run(c), apart);
  }
}

/// The tree of the norm, written down once more: 16 lanes of a block of 1024 elements, combined pairwise.
float blockOf(const std::vector<float> &g, size_t begin, float divisor) {
  float lanes[16] = {};
  for (size_t i = begin; i < std::min(begin + 1024, g.size()); ++i) {
    volatile float v = g[i] / divisor;
    volatile float square = v * v;
    volatile float sum = lanes[(i - begin) % 16] + square;
    lanes[(i - begin) % 16] = sum;
  }
  for (int width = 8; width; width /= 2)
    for (int i = 0; i < width; ++i) {
      volatile float sum = lanes[i] + lanes[i + width];
      lanes[i] = sum;
    }
  return lanes[0];
}

TEST(GradientNorm, PartialsFollowTheTree) {
  Random random(7);
  for (int64_t count : {0, 1, 15, 17, 1023, 1024, 1025, 5000})
    for (int64_t accumulate : {1, 3}) {
      FlatParams p{count, accumulate, 2048};
      std::vector<float> g = random.normal(count), expected;
      for (int64_t b = 0; b < count; b += 1024)
        expected.push_back(blockOf(g, b, float(accumulate)));
      Case c{"norm_partials", paramsOf(p), flatLaunch(p), {bytesOf(g)}, {expected.size() * 4}, {}, {}};
      EXPECT_EQ(valuesOf(run(c)[0]), expected);
    }
}

TEST(GradientNorm, Accumulate) {
  Random random(8);
  std::vector<float> a = random.normal(1000), b = random.normal(1000), expected(1000);
  for (int i = 0; i < 1000; ++i)
    expected[i] = a[i] + b[i];
  FlatParams p{1000, 1, 300};
  Case c{"accumulate", paramsOf(p), flatLaunch(p), {bytesOf(a), bytesOf(b)}, {4000}, {}, {0}};
  EXPECT_EQ(valuesOf(run(c)[0]), expected);
}

std::vector<float> verdictOf(const std::vector<std::vector<float>> &partials, const double *clip) {
  VerdictParams p{int64_t(partials.size()), clip != nullptr, toBits(clip ? *clip : 0)};
  Case c{"verdict", paramsOf(p), verdictLaunch(), {}, {16}, {}, {}};
  for (const std::vector<float> &part : partials) {
    c.params.push_back(int64_t(part.size()));
    c.inputs.push_back(bytesOf(part));
  }
  return valuesOf(run(c)[0]);
}

TEST(GradientNorm, Verdict) {
  double one = 1.0, five = 5.0, big = 100.0;
  EXPECT_EQ(verdictOf({{9}, {8, 8}}, nullptr), (std::vector<float>{5, 1, 1, -1}));
  EXPECT_EQ(verdictOf({{9}, {8, 8}}, &one), (std::vector<float>{5, 0.2f, 1, -1}));
  EXPECT_EQ(verdictOf({{9}, {8, 8}}, &five), (std::vector<float>{5, 1, 1, -1})); // norm == clip: exactly 1
  EXPECT_EQ(verdictOf({{9}, {8, 8}}, &big), (std::vector<float>{5, 1, 1, -1}));
  EXPECT_EQ(verdictOf({}, &one), (std::vector<float>{0, 1, 1, -1}));
  EXPECT_EQ(verdictOf({{}, {0}}, &one), (std::vector<float>{0, 1, 1, -1}));
  std::vector<float> bad = verdictOf({{9}, {8, kInf}, {kNaN}}, &one);
  EXPECT_TRUE(std::isnan(bad[0]));
  EXPECT_EQ(bad[1], 1);
  EXPECT_EQ(bad[2], 0);
  EXPECT_EQ(bad[3], 1);
  EXPECT_EQ(verdictOf({{9}, {kInf}}, &one), (std::vector<float>{kInf, 1, 0, 1}));
  // Sums of fp32 partials that overflow fp32 stay finite in fp64.
  std::vector<float> large = verdictOf({{3e38f, 3e38f}, {3e38f}}, nullptr);
  EXPECT_EQ(large[2], 1);
  EXPECT_FLOAT_EQ(large[0], 3e19f);
}

} // namespace
