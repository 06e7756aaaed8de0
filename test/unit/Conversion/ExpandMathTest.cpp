//===- ExpandMathTest.cpp - Accuracy of elementary functions --------------===//
//
// Compiled kernels against the C library in double precision: errors in units of the last place of f32.
//
//===----------------------------------------------------------------------===//

#include "StepRunner.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using namespace forebay::test;
using forebay::reference::Tensor;

namespace {

struct Case {
  const char *op;
  std::function<double(double)> exact;
  double limit;            ///< wanted error, ulp
  double from = -INFINITY; ///< range in which it is wanted
  double to = INFINITY;
};

float fromBits(uint32_t word) {
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/// Distance in units of the last place of the f32 nearest to `wanted` (denormals: of the smallest one).
double ulps(float ours, double wanted) {
  if (std::isnan(ours) && std::isnan(wanted))
    return 0;
  if (std::isinf(float(wanted)) || std::isinf(ours))
    return float(wanted) == ours ? 0 : std::isinf(ours) && std::abs(wanted) > 3.4028234e38 ? 0 : 1e9;
  if (std::isnan(ours) || std::isnan(wanted))
    return 1e9;
  float magnitude = std::fabs(float(wanted));
  double unit = std::max(double(std::nextafter(magnitude, INFINITY)) - magnitude, 0x1p-149);
  return std::abs(ours - wanted) / unit;
}

std::string unaryStep(const char *op, int64_t count) {
  std::string t = "tensor<" + std::to_string(count) + "xf32>";
  return "func.func @step(%x: " + t + ") -> " + t + " {\n  %y = math." + op + " %x : " + t + "\n  return %y : " + t + "\n}\n";
}

class Accuracy : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(Accuracy, OfUnary) {
  const Case &c = GetParam();
  // Special values, then bit patterns spread over all of f32 (a prime apart), then a dense stretch around 0 and 1.
  std::vector<double> x{0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -1.0, 0x1p-149, -0x1p-149, 0x1p-126, 88.72284f, 88.7229f, -87.4f, -103.98f, -104.5f};
  for (uint64_t word = 0; word < (uint64_t(1) << 32); word += 9973)
    x.push_back(fromBits(uint32_t(word)));
  for (int i = -100000; i <= 100000; ++i) {
    x.push_back(float(i * 1e-4));
    x.push_back(float(1 + i * 1e-6));
  }
  StepRunner runner(unaryStep(c.op, x.size()));
  ASSERT_TRUE(runner.valid());
  std::vector<Tensor> out = runner.run({Tensor::ofFloats({int64_t(x.size())}, x)});
  double worst = 0, at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!(x[i] >= c.from && x[i] <= c.to) && !std::isnan(x[i]))
      continue;
    double error = ulps(float(out[0].floats[i]), c.exact(x[i]));
    if (error > worst)
      worst = error, at = x[i];
    if (x[i] == 0.0 && c.exact(x[i]) == 0.0)
      EXPECT_EQ(std::signbit(out[0].floats[i]), std::signbit(c.exact(x[i]))) << c.op << " of zero";
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, c.limit) << c.op << " at " << at;
}

#define UNARY(name, exact, ...) Case{name, [](double x) -> double { return exact; }, __VA_ARGS__}
INSTANTIATE_TEST_SUITE_P(
    Functions, Accuracy,
    testing::Values(UNARY("exp", std::exp(x), 1.0), UNARY("tanh", std::tanh(x), 2.0), UNARY("erf", std::erf(x), 1.2),
                    UNARY("log", std::log(x), 0.51), UNARY("sin", std::sin(x), 0.51, -1e7, 1e7),
                    UNARY("cos", std::cos(x), 0.51, -1e7, 1e7), UNARY("tan", std::tan(x), 0.51, -1e7, 1e7),
                    UNARY("exp2", std::exp2(x), 0.51), UNARY("expm1", std::expm1(x), 0.51), UNARY("log1p", std::log1p(x), 0.51),
                    UNARY("log2", std::log2(x), 0.51), UNARY("log10", std::log10(x), 0.51), UNARY("sinh", std::sinh(x), 0.51),
                    UNARY("cosh", std::cosh(x), 0.51), UNARY("rsqrt", 1 / std::sqrt(x), 1.5),
                    UNARY("sqrt", std::sqrt(x), 0.5)),
    [](const auto &info) { return std::string(info.param.op); });

TEST(AccuracyOfPow, LikeC) {
  std::vector<double> x, y, special{0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 2.5, -2.5, INFINITY, -INFINITY, NAN, 1e30f, 1e-30f, 4097.0};
  for (double a : special)
    for (double b : special)
      x.push_back(a), y.push_back(b);
  for (int i = 0; i < 200000; ++i) {
    x.push_back(float(std::exp(std::sin(i * 0.7) * 20)));
    y.push_back(float(std::cos(i * 1.3) * 6));
  }
  std::string t = "tensor<" + std::to_string(x.size()) + "xf32>";
  StepRunner runner("func.func @step(%x: " + t + ", %y: " + t + ") -> " + t + " {\n  %z = math.powf %x, %y : " + t + "\n  return %z : " + t + "\n}\n");
  ASSERT_TRUE(runner.valid());
  std::vector<Tensor> out = runner.run({Tensor::ofFloats({int64_t(x.size())}, x), Tensor::ofFloats({int64_t(x.size())}, y)});
  for (size_t i = 0; i < x.size(); ++i) {
    double wanted = std::pow(double(float(x[i])), double(float(y[i])));
    ASSERT_LE(ulps(float(out[0].floats[i]), wanted), 0.51) << x[i] << " to " << y[i] << " gives " << out[0].floats[i];
    if (wanted == 0 || std::isinf(wanted))
      ASSERT_EQ(std::signbit(out[0].floats[i]), std::signbit(wanted)) << x[i] << " to " << y[i];
  }
}
