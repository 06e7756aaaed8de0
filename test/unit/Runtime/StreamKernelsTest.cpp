//===- StreamKernelsTest.cpp - What --calibrate runs is what it says ------===//

#include "StreamKernels.h"
#include "forebay/builtin_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

using namespace forebay;
using namespace forebay::rt;

namespace {

constexpr int64_t kCount = 5000, kTile = 1024; // the last tile is not full

void run(fb_kernel_fn kernel, std::vector<void *> operands) {
  kernels::FlatParams p{kCount, 1, kTile};
  int64_t params[3];
  std::memcpy(params, &p, sizeof p);
  kernels::Launch launch = kernels::flatLaunch(p);
  for (int64_t tile = 0; tile < launch.tiles[0]; ++tile)
    kernel(operands.data(), params, 0, tile, nullptr);
}

std::vector<float> values(int seed) {
  std::vector<float> result(kCount + 1);
  for (int64_t i = 0; i <= kCount; ++i)
    result[i] = float(std::sin(double(i * seed + 1)));
  return result;
}

TEST(StreamKernels, Triad) {
  std::vector<float> a(kCount + 1, 9), b = values(3), c = values(7);
  run(streamKernels().triad, {b.data(), c.data(), a.data()});
  for (int64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(a[i], b[i] + 0.5f * c[i]) << i;
  EXPECT_EQ(a[kCount], 9);
}

TEST(StreamKernels, AdamW) {
  std::vector<float> p = values(3), m = values(5), v = values(7), g = values(11);
  for (float &x : v)
    x = std::fabs(x);
  std::vector<float> p0 = p, m0 = m, v0 = v;
  run(streamKernels().adamw, {p.data(), m.data(), v.data(), g.data()});
  for (int64_t i = 0; i < kCount; ++i) {
    double first = 0.9 * m0[i] + 0.1 * g[i], second = 0.999 * v0[i] + 0.001 * g[i] * g[i];
    ASSERT_NEAR(m[i], first, 1e-6);
    ASSERT_NEAR(v[i], second, 1e-6);
    ASSERT_NEAR(p[i], p0[i] * (1 - 1e-6) - 1e-4 * first * 1.1 / (std::sqrt(second * 1.001) + 1e-8), 1e-6);
    if (i > 0) // there m is g
      ASSERT_NE(m[i], m0[i]);
  }
  EXPECT_EQ(p[kCount], p0[kCount]);
}

TEST(StreamKernels, Casts) {
  std::vector<float> x = values(3), back(kCount + 1, 9);
  x[0] = 1.00390625f, x[1] = 1.01171875f; // halfway: to the even one
  x[2] = NAN, x[3] = INFINITY;
  std::vector<uint16_t> y(kCount + 1, 9);
  run(streamKernels().toBf16, {x.data(), y.data()});
  run(streamKernels().fromBf16, {y.data(), back.data()});
  EXPECT_EQ(back[0], 1.0f);
  EXPECT_EQ(back[1], 1.015625f);
  EXPECT_TRUE(std::isnan(back[2]));
  EXPECT_EQ(back[3], INFINITY);
  for (int64_t i = 4; i < kCount; ++i) {
    ASSERT_NEAR(back[i], x[i], std::fabs(x[i]) / 256);
    uint32_t bits;
    std::memcpy(&bits, &back[i], 4);
    ASSERT_EQ(bits & 0xffff, 0u);
  }
  EXPECT_EQ(y[kCount], 9);
}

} // namespace
