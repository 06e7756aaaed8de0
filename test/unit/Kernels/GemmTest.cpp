//===- GemmTest.cpp - Matrix products against plain loops -----------------===//

#include "Harness.h"

using namespace forebay::kernels;

namespace {

struct Product {
  GemmParams p{};
  std::vector<float> a, b, bias;
  int64_t cElements = 0;

  Product(int64_t m, int64_t n, int64_t k, bool transA = false, bool transB = false) {
    p.m = m, p.n = n, p.k = k, p.transA = transA, p.transB = transB;
    p.lda = transA ? m : k, p.ldb = transB ? k : n, p.ldc = n;
    for (int64_t &size : p.batch)
      size = 1;
    setGemmTile(p);
  }
  int64_t batches() const { return p.batch[0] * p.batch[1] * p.batch[2] * p.batch[3]; }

  Case makeCase() const {
    Case c;
    c.name = "gemm";
    c.params = paramsOf(p);
    c.launch = gemmLaunch(p);
    c.inputs = {bytesOf(a), bytesOf(b)};
    if (p.bias)
      c.inputs.push_back(bytesOf(bias));
    c.outputBytes = {size_t(cElements) * 4};
    return c;
  }

  void fill(Random &random, int64_t aElements, int64_t bElements, int64_t cCount) {
    a = random.normal(aElements), b = random.normal(bElements), bias = random.normal(p.n);
    cElements = cCount;
  }
  void fillDense(Random &random) {
    int64_t count = 1;
    for (int d = 3; d >= 0; --d) {
      p.strideA[d] = count * p.m * p.k, p.strideB[d] = count * p.k * p.n, p.strideC[d] = count * p.m * p.n;
      count *= p.batch[d];
    }
    fill(random, count * p.m * p.k, count * p.k * p.n, count * p.m * p.n);
  }

  std::vector<double> reference(std::vector<float> initial) const {
    std::vector<double> c(initial.begin(), initial.end());
    for (int64_t i0 = 0; i0 < p.batch[0]; ++i0)
      for (int64_t i1 = 0; i1 < p.batch[1]; ++i1)
        for (int64_t i2 = 0; i2 < p.batch[2]; ++i2)
          for (int64_t i3 = 0; i3 < p.batch[3]; ++i3) {
            auto offset = [&](const int64_t *s) { return i0 * s[0] + i1 * s[1] + i2 * s[2] + i3 * s[3]; };
            for (int64_t i = 0; i < p.m; ++i)
              for (int64_t j = 0; j < p.n; ++j) {
                double sum = p.bias ? bias[j] : 0.0;
                for (int64_t l = 0; l < p.k; ++l)
                  sum += double(a[p.offA + offset(p.strideA) + (p.transA ? l * p.lda + i : i * p.lda + l)]) *
                         double(b[p.offB + offset(p.strideB) + (p.transB ? j * p.ldb + l : l * p.ldb + j)]);
                c[p.offC + offset(p.strideC) + i * p.ldc + j] = sum;
              }
          }
    return c;
  }
  void check(const std::string &what) const {
    std::vector<float> actual = valuesOf(run(makeCase())[0]);
    std::vector<float> poison(cElements, kNaN);
    expectNear(actual, reference(poison), 2e-6 * std::sqrt(double(std::max<int64_t>(p.k, 1))) + 1e-6, what);
  }
};

TEST(Gemm, SizesAndTranspositions) {
  Random random(1);
  for (auto [m, n, k] : {std::tuple<int, int, int>{1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {3, 5, 1}, {17, 33, 65}, {64, 64, 64},
                         {130, 257, 31}, {600, 40, 9}})
    for (int flags = 0; flags < 8; ++flags) {
      Product product(m, n, k, flags & 1, flags & 2);
      product.p.bias = flags >> 2;
      product.fillDense(random);
      product.check(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " flags " + std::to_string(flags));
    }
}

TEST(Gemm, EmptyDimensions) {
  Random random(2);
  for (auto [m, n, k] : {std::tuple<int, int, int>{0, 4, 3}, {4, 0, 3}, {4, 5, 0}, {0, 0, 0}})
    for (bool bias : {false, true}) {
      Product product(m, n, k);
      product.p.bias = bias;
      product.fillDense(random);
      product.check("empty");
    }
}

TEST(Gemm, BatchesBroadcastsAndLeadingDimensions) {
  Random random(3);
  for (int trial = 0; trial < 30; ++trial) {
    int64_t m = random.between(1, 40), n = random.between(1, 40), k = random.between(0, 20);
    Product product(m, n, k, random.below(2), random.below(2));
    GemmParams &p = product.p;
    p.bias = random.below(2);
    p.lda += random.below(9), p.ldb += random.below(9), p.ldc += random.below(9);
    p.offA = random.below(50), p.offB = random.below(50), p.offC = random.below(50);
    int64_t a = (p.transA ? k : m) * p.lda, b = (p.transB ? n : k) * p.ldb, c = m * p.ldc;
    for (int d = 3; d >= 0; --d) {
      p.batch[d] = random.between(1, 3);
      p.strideA[d] = random.below(2) ? 0 : a;
      p.strideB[d] = random.below(2) ? 0 : b;
      p.strideC[d] = c;
      a *= p.strideA[d] ? p.batch[d] : 1, b *= p.strideB[d] ? p.batch[d] : 1, c *= p.batch[d];
    }
    p.tileM = random.between(1, m), p.tileN = random.between(1, n);
    product.fill(random, p.offA + a, p.offB + b, p.offC + c);
    product.check("trial " + std::to_string(trial));
  }
}

TEST(Gemm, SingleRowsTakeAnyLeadingDimension) {
  Random random(4);
  Product product(1, 6, 5);
  product.fillDense(random);
  product.p.lda = 0, product.p.ldc = 0;
  product.check("one row");
  Product column(6, 1, 5, true, true);
  column.p.m = 6;
  column.fillDense(random);
  column.p.ldb = 0;
  column.check("one column, transposed");
}

TEST(Gemm, NaNAndInfinity) {
  Random random(5);
  Product product(20, 30, 10);
  product.fillDense(random);
  product.a[3 * 10 + 2] = kNaN;
  product.a[5 * 10 + 1] = kInf;
  product.b[7 * 30 + 4] = -kInf;
  product.check("special");
}

/// OpenBLAS takes other paths for small matrices; none may look at the alignment of buffers.
TEST(Gemm, BitsDoNotDependOnAlignment) {
  Random random(6);
  for (auto [m, n, k] : {std::tuple<int, int, int>{1, 5, 7}, {1, 300, 768}, {300, 1, 768}, {2, 2, 2}, {3, 17, 129}, {16, 16, 16},
                         {64, 64, 64}, {65, 100, 33}, {5, 7, 3000}, {200, 200, 40}})
    for (int flags = 0; flags < 4; ++flags) {
      Product product(m, n, k, flags & 1, flags & 2);
      product.fillDense(random);
      Case c = product.makeCase();
      std::vector<Bytes> expected = runOnce(c, instructionSet(), Order::Forward);
      for (size_t shift : {4, 8, 12, 16, 20, 32, 36})
        EXPECT_EQ(runOnce(c, instructionSet(), Order::Forward, shift), expected)
            << m << "x" << n << "x" << k << " flags " << flags << " moved by " << shift << " bytes";
    }
}

TEST(Gemm, TilesCoverLargeProductsEvenly) {
  for (auto [m, n, k] : {std::tuple<int, int, int>{1024, 3072, 768}, {1024, 50257, 768}, {50257, 768, 1024}, {768, 768, 1024},
                         {1, 50257, 768}, {1, 1, 1}, {0, 0, 0}, {100000, 3, 5}}) {
    Product product(m, n, k);
    EXPECT_GE(product.p.tileM, 1);
    EXPECT_GE(product.p.tileN, 1);
    EXPECT_LE(product.p.tileM, 1024);
    EXPECT_LE(product.p.tileN, 1024);
    if (double(m) * n * k > 4e8) {
      EXPECT_GE(gemmLaunch(product.p).tiles[0], 8) << m << " " << n << " " << k;
    }
  }
}

} // namespace
