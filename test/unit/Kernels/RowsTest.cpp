//===- RowsTest.cpp - Softmax, norms, cross entropy against plain loops ---===//

#include "Harness.h"

using namespace forebay::kernels;

namespace {

const std::vector<std::pair<int64_t, int64_t>> kShapes = {{1, 1}, {3, 1}, {1, 2}, {5, 7}, {2, 15}, {2, 16}, {4, 17}, {33, 64},
                                                          {7, 100}, {3, 2049}, {2, 5000}, {0, 5}, {4, 0}};

std::string shapeName(int64_t rows, int64_t cols) { return std::to_string(rows) + " x " + std::to_string(cols); }

std::vector<double> softmaxReference(const std::vector<float> &x, int64_t rows, int64_t cols) {
  std::vector<double> y(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < cols; ++j)
      max = std::max(max, double(x[r * cols + j]));
    for (int64_t j = 0; j < cols; ++j)
      sum += y[r * cols + j] = std::exp(double(x[r * cols + j]) - max);
    for (int64_t j = 0; j < cols; ++j)
      y[r * cols + j] /= sum;
  }
  return y;
}

TEST(Softmax, ForwardAndGradient) {
  Random random(1);
  for (auto [rows, cols] : kShapes)
    for (float scale : {1.0f, 30.0f}) {
      RowsParams p{rows, cols, 3};
      std::vector<float> x = random.normal(rows * cols, scale), dy = random.normal(rows * cols);
      Case c{"softmax", paramsOf(p), softmaxLaunch(p), {bytesOf(x)}, {x.size() * 4}, {}, {}};
      std::vector<float> y = valuesOf(run(c)[0]);
      expectNear(y, softmaxReference(x, rows, cols), 1e-6, "softmax " + shapeName(rows, cols));
      c.inPlace = {0};
      EXPECT_EQ(valuesOf(run(c)[0]), y);

      std::vector<double> dx(x.size());
      for (int64_t r = 0; r < rows; ++r) {
        double dot = 0;
        for (int64_t j = 0; j < cols; ++j)
          dot += double(y[r * cols + j]) * dy[r * cols + j];
        for (int64_t j = 0; j < cols; ++j)
          dx[r * cols + j] = y[r * cols + j] * (dy[r * cols + j] - dot);
      }
      Case g{"softmax_grad", paramsOf(p), softmaxLaunch(p), {bytesOf(dy), bytesOf(y)}, {x.size() * 4}, {}, {}};
      std::vector<float> actual = valuesOf(run(g)[0]);
      expectNear(actual, dx, 2e-6, "softmax_grad " + shapeName(rows, cols));
      for (int input : {0, 1}) {
        g.inPlace = {input};
        EXPECT_EQ(valuesOf(run(g)[0]), actual);
      }
    }
}

TEST(Softmax, SpecialValues) {
  RowsParams p{5, 3, 2};
  std::vector<float> x = {-kInf, -kInf, -kInf, 0, -kInf, 0, 1, kNaN, 2, kInf, 0, 0, 3e38f, -3e38f, 3e38f};
  Case c{"softmax", paramsOf(p), softmaxLaunch(p), {bytesOf(x)}, {x.size() * 4}, {}, {}};
  std::vector<float> y = valuesOf(run(c)[0]);
  expectNear(y, {NAN, NAN, NAN, 0.5, 0, 0.5, NAN, NAN, NAN, NAN, NAN, NAN, 0.5, 0, 0.5}, 1e-7, "special");
}

struct NormCase {
  int64_t rows, cols;
  bool weight, bias, unitOffset;
};

void checkNorm(const NormCase &n, bool rms, Random &random) {
  std::string what = std::string(rms ? "rms " : "layer ") + shapeName(n.rows, n.cols) + (n.weight ? " weight" : "") +
                     (n.bias ? " bias" : "") + (n.unitOffset ? " offset" : "");
  double eps = 1e-5;
  NormParams p{n.rows, n.cols, 3, n.weight, n.bias, n.unitOffset, toBits(eps)};
  std::vector<float> x = random.normal(n.rows * n.cols, 2.0f), w = random.normal(n.cols), b = random.normal(n.cols),
                     dy = random.normal(n.rows * n.cols);
  for (float &v : x)
    v += 3.0f;
  std::vector<double> y(x.size()), mean(n.rows), rstd(n.rows), dx(x.size()), dw(n.cols), db(n.cols);
  for (int64_t r = 0; r < n.rows; ++r) {
    const float *row = &x[r * n.cols], *grad = &dy[r * n.cols];
    double m = 0, v = 0, g1 = 0, g2 = 0;
    for (int64_t j = 0; j < n.cols && !rms; ++j)
      m += row[j];
    m /= rms ? 1 : n.cols;
    for (int64_t j = 0; j < n.cols; ++j)
      v += (row[j] - m) * (row[j] - m);
    double s = 1 / std::sqrt(v / n.cols + eps);
    mean[r] = m, rstd[r] = s;
    auto factor = [&](int64_t j) { return n.weight ? double(w[j]) + (n.unitOffset ? 1 : 0) : 1.0; };
    for (int64_t j = 0; j < n.cols; ++j) {
      double xhat = (row[j] - m) * s, g = grad[j] * factor(j);
      y[r * n.cols + j] = xhat * factor(j) + (n.bias ? b[j] : 0);
      dw[j] += grad[j] * xhat, db[j] += grad[j];
      g1 += rms ? 0 : g, g2 += g * xhat;
    }
    for (int64_t j = 0; j < n.cols; ++j)
      dx[r * n.cols + j] = s * (grad[j] * factor(j) - g1 / n.cols - (row[j] - m) * s * g2 / n.cols);
  }
  size_t bytes = x.size() * 4, rowBytes = size_t(n.rows) * 4, colBytes = size_t(n.cols) * 4;
  Case c{rms ? "rms_norm" : "layer_norm", paramsOf(p), normLaunch(p), {bytesOf(x)}, {bytes}, {}, {}};
  if (n.weight)
    c.inputs.push_back(bytesOf(w));
  if (n.bias)
    c.inputs.push_back(bytesOf(b));
  if (!rms)
    c.outputBytes.push_back(rowBytes);
  c.outputBytes.push_back(rowBytes);
  std::vector<Bytes> out = run(c);
  expectNear(valuesOf(out[0]), y, 4e-6, what);
  if (!rms)
    expectNear(valuesOf(out[1]), mean, 1e-6, what + " mean");
  expectNear(valuesOf(out[rms ? 1 : 2]), rstd, 4e-6 + (n.cols == 1 && !rms ? 1e-4 : 0), what + " rstd");
  c.inPlace.assign(c.outputBytes.size(), -1);
  c.inPlace[0] = 0;
  EXPECT_TRUE(sameBits(run(c)[0], out[0])) << what;

  Case g{rms ? "rms_norm_grad" : "layer_norm_grad", paramsOf(p), normGradLaunch(p, rms ? 1 : 2), {bytesOf(dy), bytesOf(x)},
         {bytes, colBytes}, {}, {}};
  if (!rms)
    g.inputs.push_back(out[1]), g.outputBytes.push_back(colBytes);
  g.inputs.push_back(out[rms ? 1 : 2]);
  if (n.weight)
    g.inputs.push_back(bytesOf(w));
  std::vector<Bytes> grads = run(g);
  expectNear(valuesOf(grads[0]), dx, 1e-5, what + " dx");
  expectNear(valuesOf(grads[1]), dw, 1e-5, what + " dweight");
  if (!rms)
    expectNear(valuesOf(grads[2]), db, 1e-5, what + " dbias");
  for (int input : {0, 1}) {
    g.inPlace.assign(g.outputBytes.size(), -1);
    g.inPlace[0] = input;
    EXPECT_TRUE(sameBits(run(g)[0], grads[0])) << what;
  }
}

TEST(Norm, LayerNorm) {
  Random random(2);
  for (auto [rows, cols] : kShapes)
    if (cols > 1) // a single column has variance 0: rstd 1/sqrt(eps), tested below
      for (int flags = 0; flags < 4; ++flags)
        checkNorm({rows, cols, bool(flags & 1), bool(flags & 2), false}, false, random);
}

TEST(Norm, RMSNorm) {
  Random random(3);
  for (auto [rows, cols] : kShapes)
    if (cols > 0)
      for (int flags = 0; flags < 3; ++flags)
        checkNorm({rows, cols, flags > 0, false, flags == 2}, true, random);
}

TEST(Norm, ConstantRowAndSpecialValues) {
  NormParams p{3, 4, 8, 0, 0, 0, toBits(1e-5)};
  std::vector<float> x = {7, 7, 7, 7, 1, kNaN, 2, 3, 1, kInf, 2, 3};
  Case c{"layer_norm", paramsOf(p), normLaunch(p), {bytesOf(x)}, {48, 12, 12}, {}, {}};
  std::vector<Bytes> out = run(c);
  expectNear(valuesOf(out[0]), {0, 0, 0, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, 0, "special");
  expectNear(valuesOf(out[2]), {1 / std::sqrt(1e-5), NAN, NAN}, 1e-6, "rstd");
}

TEST(Norm, LargeOffsetKeepsTheVariance) {
  NormParams p{1, 1000, 8, 0, 0, 0, toBits(1e-6)};
  Random random(4);
  std::vector<float> x = random.normal(1000);
  for (float &v : x)
    v += 1000.0f; // E[x^2] - E[x]^2 would lose all digits
  double mean = 0, var = 0;
  for (float v : x)
    mean += v / 1000.0;
  for (float v : x)
    var += (v - mean) * (v - mean) / 1000.0;
  Case c{"layer_norm", paramsOf(p), normLaunch(p), {bytesOf(x)}, {4000, 4, 4}, {}, {}};
  expectNear(valuesOf(run(c)[2]), {1 / std::sqrt(var + 1e-6)}, 1e-5, "rstd");
}

struct LossCase {
  int64_t rows, cols;
  int idBytes;
  bool sum;
  float scale = 1;
};

void checkLoss(const LossCase &t, Random &random, double ignored) {
  std::string what = "cross_entropy " + shapeName(t.rows, t.cols) + " " + std::to_string(t.idBytes) + (t.sum ? " sum" : " mean");
  CrossEntropyParams p{t.rows, t.cols, t.idBytes, -100, t.sum, 3};
  std::vector<float> x = random.normal(t.rows * t.cols, t.scale);
  std::vector<int64_t> labels(t.rows);
  int64_t count = 0;
  for (int64_t &label : labels) {
    bool skip = random.below(1000) < ignored * 1000;
    label = skip ? -100 : random.below(t.cols);
    count += !skip;
  }
  std::vector<double> lse(t.rows), dx(x.size());
  double total = 0;
  float dloss = 1.5f;
  for (int64_t r = 0; r < t.rows; ++r) {
    if (labels[r] == -100)
      continue;
    const float *row = &x[r * t.cols];
    double max = *std::max_element(row, row + t.cols), sum = 0;
    for (int64_t j = 0; j < t.cols; ++j)
      sum += std::exp(row[j] - max);
    lse[r] = max + std::log(sum);
    total += lse[r] - row[labels[r]];
    for (int64_t j = 0; j < t.cols; ++j)
      dx[r * t.cols + j] = (std::exp(row[j] - lse[r]) - (j == labels[r])) * dloss / (t.sum ? 1 : count);
  }
  Bytes ids = t.idBytes == 8 ? bytesOf(labels) : bytesOf(std::vector<int32_t>(labels.begin(), labels.end()));
  size_t rowBytes = size_t(t.rows) * 4;
  Case c{"cross_entropy", paramsOf(p), crossEntropyLaunch(p), {bytesOf(x), ids}, {4, rowBytes}, {}, {}};
  std::vector<Bytes> out = run(c);
  expectNear(valuesOf(out[0]), {t.sum ? total : total / double(count)}, 1e-6, what);
  expectNear(valuesOf(out[1]), lse, 1e-6, what + " lse");
  Case g{"cross_entropy_grad", paramsOf(p), crossEntropyGradLaunch(p), {bytesOf(std::vector<float>{dloss}), bytesOf(x), ids, out[1]},
         {x.size() * 4}, {}, {}};
  std::vector<Bytes> grad = run(g);
  expectNear(valuesOf(grad[0]), dx, 3e-6, what + " gradient");
  g.inPlace = {1};
  EXPECT_EQ(run(g), grad) << what << ": in place";
}

TEST(CrossEntropy, AgainstPlainLoops) {
  Random random(5);
  for (auto [rows, cols] : kShapes)
    if (cols > 0)
      for (int idBytes : {4, 8})
        for (bool sum : {false, true})
          for (double ignored : {0.0, 0.5, 1.0})
            checkLoss({rows, cols, idBytes, sum}, random, ignored);
  checkLoss({3, 50257, 8, false, 20.0f}, random, 0.2);
  checkLoss({500, 3, 8, false, 50.0f}, random, 0.2);
}

TEST(CrossEntropy, NothingLeft) {
  CrossEntropyParams p{2, 3, 8, -1, 0, 1};
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  Bytes labels = bytesOf(std::vector<int64_t>{-1, -1});
  Case c{"cross_entropy", paramsOf(p), crossEntropyLaunch(p), {bytesOf(x), labels}, {4, 8}, {}, {}};
  std::vector<Bytes> out = run(c);
  EXPECT_TRUE(std::isnan(valuesOf(out[0])[0]));
  Case g{"cross_entropy_grad", paramsOf(p), crossEntropyGradLaunch(p), {bytesOf(std::vector<float>{1}), bytesOf(x), labels, out[1]},
         {24}, {}, {}};
  EXPECT_EQ(valuesOf(run(g)[0]), std::vector<float>(6, 0.0f));
}

TEST(CrossEntropy, SpecialValues) {
  CrossEntropyParams p{6, 3, 8, -100, 1, 6};
  std::vector<float> x = {-kInf, 0, 0, -kInf, -kInf, -kInf, kNaN, 0, 0, kInf, 0, 0, -kInf, -kInf, kNaN, 1, 2, 3};
  Bytes labels = bytesOf(std::vector<int64_t>{1, 0, 1, 1, 0, 7}); // the last is out of range
  Case c{"cross_entropy", paramsOf(p), crossEntropyLaunch(p), {bytesOf(x), labels}, {4, 24}, {}, {}};
  Case one = c; // row 0 alone
  p.rows = 1;
  one.params = paramsOf(p), one.launch = crossEntropyLaunch(p), one.outputBytes = {4, 4};
  expectNear(valuesOf(run(one)[0]), {std::log(2.0)}, 1e-6, "-inf logit");
  std::vector<Bytes> out = run(c);
  EXPECT_TRUE(std::isnan(valuesOf(out[0])[0]));
  std::vector<float> lse = valuesOf(out[1]);
  EXPECT_EQ(lse[1], -kInf);
  EXPECT_TRUE(std::isnan(lse[2]) && std::isnan(lse[3]) && std::isnan(lse[4]));
}

} // namespace
