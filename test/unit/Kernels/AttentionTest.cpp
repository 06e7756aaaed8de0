//===- AttentionTest.cpp - Attention and its gradient against plain loops -===//

#include "Harness.h"

using namespace forebay::kernels;

namespace {

struct Attention {
  AttentionParams p{};
  std::vector<float> q, k, v, dO, floatMask;
  std::vector<unsigned char> boolMask, padding;
  int64_t maskSizes[4] = {1, 1, 1, 1};

  Attention(int64_t batch, int64_t heads, int64_t kvHeads, int64_t queries, int64_t keys, int64_t dim, int64_t valueDim) {
    p.batch = batch, p.heads = heads, p.kvHeads = kvHeads, p.queries = queries, p.keys = keys, p.dim = dim, p.valueDim = valueDim;
    p.scale = toBits(1 / std::sqrt(double(dim)));
    setAttentionTile(p);
  }

  /// [B, H, S, D], or [B, S, H, D] as projections give it, each row `extra` longer.
  static View layout(int64_t heads, int64_t seq, int64_t dim, bool sequenceMajor, int64_t extra) {
    int64_t row = dim + extra;
    return {0, {0, 0, heads * seq * row, sequenceMajor ? row : seq * row, sequenceMajor ? heads * row : row, 1}};
  }
  int64_t elements(const View &view) const { return p.batch * view.stride[2]; }

  void fill(Random &random, bool sequenceMajor = false, int64_t extra = 0, float size = 1.0f) {
    p.q = layout(p.heads, p.queries, p.dim, sequenceMajor, extra);
    p.k = layout(p.kvHeads, p.keys, p.dim, sequenceMajor, extra);
    p.v = layout(p.kvHeads, p.keys, p.valueDim, sequenceMajor, extra);
    p.o = p.dO = layout(p.heads, p.queries, p.valueDim, sequenceMajor, 0);
    p.dq = layout(p.heads, p.queries, p.dim, sequenceMajor, 0);
    p.dk = layout(p.kvHeads, p.keys, p.dim, sequenceMajor, 0);
    p.dv = layout(p.kvHeads, p.keys, p.valueDim, sequenceMajor, 0);
    q = random.normal(elements(p.q), size), k = random.normal(elements(p.k), size), v = random.normal(elements(p.v));
    dO = random.normal(elements(p.dO));
  }

  void mask(Random &random, int64_t kind, bool perBatch, bool perHead, bool perQuery, double hidden) {
    p.maskKind = kind;
    int64_t sizes[4] = {perBatch ? p.batch : 1, perHead ? p.heads : 1, perQuery ? p.queries : 1, p.keys};
    int64_t count = 1;
    p.mask = {};
    for (int d = 3; d >= 0; --d) {
      p.mask.stride[2 + d] = sizes[d] == 1 && d < 3 ? 0 : count;
      count *= sizes[d];
    }
    floatMask = random.normal(count);
    boolMask.resize(count);
    for (unsigned char &m : boolMask)
      m = random.below(1000) >= hidden * 1000;
  }
  void pad(Random &random, double hidden) {
    p.hasPadding = 1;
    padding.resize(p.batch * p.keys);
    for (unsigned char &m : padding)
      m = random.below(1000) >= hidden * 1000;
  }

  static int64_t at(const View &view, int64_t b, int64_t h, int64_t s, int64_t d) {
    return view.offset + b * view.stride[2] + h * view.stride[3] + s * view.stride[4] + d * view.stride[5];
  }

  struct Results {
    std::vector<double> o, lse, dq, dk, dv;
  };
  Results reference() const {
    Results r;
    r.o.resize(elements(p.o)), r.dq.resize(elements(p.dq)), r.dk.resize(elements(p.dk)), r.dv.resize(elements(p.dv));
    r.lse.resize(p.batch * p.heads * p.queries);
    double scale = fromBits(p.scale), cap = fromBits(p.softcap);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t i = 0; i < p.queries; ++i) {
          int64_t hk = h / (p.heads / p.kvHeads);
          std::vector<double> s(p.keys), slope(p.keys, 1.0), weight(p.keys), dweight(p.keys);
          std::vector<bool> visible(p.keys, true);
          double max = -INFINITY, sum = 0;
          bool any = false;
          for (int64_t j = 0; j < p.keys; ++j) {
            for (int64_t d = 0; d < p.dim; ++d)
              s[j] += double(q[at(p.q, b, h, i, d)]) * k[at(p.k, b, hk, j, d)];
            s[j] *= scale;
            if (cap != 0) {
              double t = std::tanh(s[j] / cap);
              s[j] = cap * t, slope[j] = 1 - t * t;
            }
            if (p.causal && j > i)
              visible[j] = false;
            if (p.window && j <= i - p.window)
              visible[j] = false;
            if (p.hasPadding && !padding[b * p.keys + j])
              visible[j] = false;
            if (p.maskKind) {
              int64_t m = at(p.mask, b, h, i, j);
              if (p.maskKind == 1 && !boolMask[m])
                visible[j] = false;
              if (p.maskKind == 2)
                s[j] += floatMask[m];
            }
            if (visible[j])
              any = true, max = std::max(max, s[j]);
          }
          int64_t row = (b * p.heads + h) * p.queries + i;
          r.lse[row] = -INFINITY;
          if (!any)
            continue;
          for (int64_t j = 0; j < p.keys; ++j)
            if (visible[j])
              sum += weight[j] = std::exp(s[j] - max);
          r.lse[row] = max + std::log(sum);
          double delta = 0;
          for (int64_t j = 0; j < p.keys; ++j) {
            weight[j] /= sum;
            if (!visible[j])
              weight[j] = 0;
            for (int64_t d = 0; d < p.valueDim; ++d) {
              r.o[at(p.o, b, h, i, d)] += weight[j] * v[at(p.v, b, hk, j, d)];
              dweight[j] += double(dO[at(p.dO, b, h, i, d)]) * v[at(p.v, b, hk, j, d)];
              r.dv[at(p.dv, b, hk, j, d)] += weight[j] * dO[at(p.dO, b, h, i, d)];
            }
            delta += weight[j] * dweight[j];
          }
          for (int64_t j = 0; j < p.keys; ++j) {
            double ds = weight[j] * (dweight[j] - delta) * slope[j] * scale;
            for (int64_t d = 0; d < p.dim; ++d) {
              r.dq[at(p.dq, b, h, i, d)] += ds * k[at(p.k, b, hk, j, d)];
              r.dk[at(p.dk, b, hk, j, d)] += ds * q[at(p.q, b, h, i, d)];
            }
          }
        }
    return r;
  }

  void addMasks(Case &c) const {
    if (p.maskKind)
      c.inputs.push_back(p.maskKind == 1 ? bytesOf(boolMask) : bytesOf(floatMask));
    if (p.hasPadding)
      c.inputs.push_back(bytesOf(padding));
  }
  Case forward() const {
    Case c{"attention", paramsOf(p), attentionLaunch(p), {bytesOf(q), bytesOf(k), bytesOf(v)}, {}, {}, {}};
    addMasks(c);
    c.outputBytes = {size_t(elements(p.o)) * 4, size_t(p.batch * p.heads * p.queries) * 4};
    return c;
  }
  Case backward(const std::vector<Bytes> &out) const {
    Case c{"attention_grad", paramsOf(p), attentionGradLaunch(p), {bytesOf(dO), bytesOf(q), bytesOf(k), bytesOf(v), out[0], out[1]},
           {}, {}, {}};
    addMasks(c);
    c.outputBytes = {size_t(elements(p.dq)) * 4, size_t(elements(p.dk)) * 4, size_t(elements(p.dv)) * 4};
    return c;
  }
  void check(const std::string &what, double tolerance = 1e-5) {
    Results expected = reference();
    std::vector<Bytes> out = run(forward());
    expectNear(valuesOf(out[0]), expected.o, tolerance, what + " o");
    expectNear(valuesOf(out[1]), expected.lse, tolerance, what + " lse");
    for (int64_t split : {0, 1}) {
      p.split = split;
      std::vector<Bytes> grads = run(backward(out));
      std::string mode = what + (split ? " split" : "");
      expectNear(valuesOf(grads[0]), expected.dq, tolerance, mode + " dq");
      expectNear(valuesOf(grads[1]), expected.dk, tolerance, mode + " dk");
      expectNear(valuesOf(grads[2]), expected.dv, tolerance, mode + " dv");
    }
  }
};

TEST(Attention, RandomShapesMasksAndTiles) {
  Random random(1);
  for (int trial = 0; trial < 150; ++trial) {
    int64_t kvHeads = random.between(1, 3), group = random.between(1, 3);
    Attention a(random.between(1, 2), kvHeads * group, kvHeads, random.between(1, 40), random.between(1, 40), random.between(1, 20),
                random.between(1, 20));
    a.fill(random, random.below(2), random.below(4));
    a.p.causal = random.below(2);
    a.p.window = random.below(3) ? 0 : random.between(1, 12);
    a.p.softcap = toBits(random.below(3) ? 0.0 : 2.0);
    if (random.below(2))
      a.mask(random, random.between(1, 2), random.below(2), random.below(2), random.below(2), 0.3);
    if (random.below(3) == 0)
      a.pad(random, 0.4);
    a.p.blockQ = random.between(1, a.p.queries), a.p.blockK = random.between(1, a.p.keys);
    a.check("trial " + std::to_string(trial));
  }
}

TEST(Attention, DefaultTilesAtModelSizes) {
  Random random(2);
  for (bool causal : {false, true}) {
    Attention a(1, 4, 2, 200, 200, 64, 64);
    a.fill(random, true);
    a.p.causal = causal;
    a.check("gpt");
    Attention longer(1, 2, 1, 70, 1100, 16, 24);
    longer.fill(random);
    longer.p.window = causal ? 64 : 0;
    longer.check("long");
  }
}

TEST(Attention, RowsWithoutKeys) {
  Random random(3);
  Attention a(2, 2, 1, 6, 6, 4, 5);
  a.fill(random);
  a.p.causal = 1;
  a.pad(random, 0);
  for (int j = 0; j < 3; ++j)
    a.padding[j] = 0; // batch 0: rows 0..2 see nothing
  a.check("hidden rows");
  std::vector<Bytes> out = run(a.forward());
  std::vector<float> o = valuesOf(out[0]), lse = valuesOf(out[1]);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lse[i], -kInf);
    for (int64_t d = 0; d < 5; ++d)
      EXPECT_EQ(o[i * 5 + d], 0.0f);
  }
  for (int64_t split : {0, 1}) {
    a.p.split = split;
    std::vector<float> dq = valuesOf(run(a.backward(out))[0]);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < 3 * 4; ++i)
        EXPECT_EQ(dq[h * 6 * 4 + i], 0.0f);
  }
}

TEST(Attention, EmptySizes) {
  Random random(4);
  for (auto [batch, queries, keys] : {std::tuple<int, int, int>{0, 3, 3}, {1, 0, 3}, {1, 3, 0}}) {
    Attention a(batch, 2, 2, queries, keys, 4, 4);
    a.fill(random);
    a.check("empty");
  }
}

TEST(Attention, FloatMaskMeansWhatItAdds) {
  Random random(5);
  // All keys at the lowest finite value: the scores vanish beside it, the row is uniform.
  Attention a(1, 1, 1, 3, 8, 4, 4);
  a.fill(random);
  a.mask(random, 2, false, false, true, 0);
  for (float &m : a.floatMask)
    m = 0;
  for (int j = 0; j < 8; ++j)
    a.floatMask[8 + j] = -3.4028235e38f;
  std::vector<Bytes> out = run(a.forward());
  std::vector<float> o = valuesOf(out[0]);
  for (int64_t d = 0; d < 4; ++d) {
    double mean = 0;
    for (int j = 0; j < 8; ++j)
      mean += a.v[j * 4 + d] / 8.0;
    EXPECT_NEAR(o[4 + d], mean, 1e-6);
  }
  // lse cannot hold log(8) there, but the gradient must: dv = sum of weight * dO.
  for (int64_t split : {0, 1}) {
    a.p.split = split;
    std::vector<float> dv = valuesOf(run(a.backward(out))[2]);
    Attention two = a; // the same without the masked row
    std::fill(two.dO.begin() + 4, two.dO.begin() + 8, 0.0f);
    std::vector<float> rest = valuesOf(run(two.backward(out))[2]);
    for (int j = 0; j < 8; ++j)
      for (int64_t d = 0; d < 4; ++d)
        EXPECT_NEAR(dv[j * 4 + d] - rest[j * 4 + d], a.dO[4 + d] / 8, 1e-6);
  }
  // -inf everywhere is NaN, as in a softmax.
  for (int j = 0; j < 8; ++j)
    a.floatMask[8 + j] = -kInf;
  o = valuesOf(run(a.forward())[0]);
  EXPECT_TRUE(std::isnan(o[4]));
  EXPECT_FALSE(std::isnan(o[0]) || std::isnan(o[8]));
}

TEST(Attention, LargeScores) {
  Random random(6);
  Attention a(1, 2, 2, 20, 20, 8, 8);
  a.fill(random, false, 0, 40.0f); // scores of several thousand
  std::vector<Bytes> out = run(a.forward());
  Attention::Results expected = a.reference();
  expectNear(valuesOf(out[0]), expected.o, 2e-3, "o");
}

TEST(Attention, NaNAndInfinityComeThrough) {
  Random random(7);
  Attention a(1, 1, 1, 4, 4, 3, 3);
  a.fill(random);
  a.p.causal = 1;
  a.q[1 * 3] = kNaN;
  a.q[2 * 3] = kInf;
  std::vector<float> o = valuesOf(run(a.forward())[0]);
  EXPECT_FALSE(std::isnan(o[0]));
  EXPECT_TRUE(std::isnan(o[3]));
  EXPECT_TRUE(std::isnan(o[6]));
  EXPECT_FALSE(std::isnan(o[9]));
}

/// The gradient once more by central differences of the kernel's own forward, summed against dO in fp64.
TEST(Attention, GradientByDifferences) {
  Random random(8);
  Attention a(1, 2, 1, 5, 6, 3, 4);
  a.fill(random);
  a.p.softcap = toBits(3.0);
  a.p.causal = 1;
  a.mask(random, 2, false, true, true, 0);
  std::vector<Bytes> out = run(a.forward());
  std::vector<Bytes> grads = run(a.backward(out));
  auto loss = [&] {
    std::vector<float> o = valuesOf(runOnce(a.forward(), instructionSet(), Order::Forward)[0]);
    double sum = 0;
    for (size_t i = 0; i < o.size(); ++i)
      sum += double(o[i]) * a.dO[i];
    return sum;
  };
  std::vector<float> *inputs[] = {&a.q, &a.k, &a.v};
  for (int which = 0; which < 3; ++which) {
    std::vector<float> grad = valuesOf(grads[which]), &x = *inputs[which];
    for (size_t i = 0; i < x.size(); ++i) {
      float saved = x[i], up = saved + 1e-2f, down = saved - 1e-2f;
      x[i] = up;
      double high = loss();
      x[i] = down;
      double low = loss();
      x[i] = saved;
      EXPECT_NEAR((high - low) / (double(up) - down), grad[i], 2e-3) << which << " " << i;
    }
  }
}

} // namespace
