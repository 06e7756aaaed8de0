//===- MathTest.cpp - exp, tanh, log against libm in double ---------------===//

#define FOREBAY_ISA math_test
#include "Math.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace forebay::kernels;
using namespace forebay::kernels::math_test;

namespace {

double ulpOf(double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Largest error in ulp over a sample of all bit patterns; specials are compared exactly.
template <typename F, typename R> double worst(F approximate, R exact) {
  double worst = 0;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 16 * 1009) {
    Floats x;
    for (int i = 0; i < 16; ++i) {
      uint32_t word = uint32_t(bits + uint64_t(i) * 1009);
      float value;
      std::memcpy(&value, &word, sizeof value);
      x[i] = value;
    }
    Floats y = approximate(x);
    for (int i = 0; i < 16; ++i) {
      double expected = exact(double(x[i]));
      if (std::isnan(expected) || std::isinf(float(expected))) {
        bool same = std::isnan(expected) ? std::isnan(y[i]) : y[i] == float(expected);
        EXPECT_TRUE(same) << x[i] << " gives " << y[i];
        continue;
      }
      worst = std::max(worst, std::abs(double(y[i]) - expected) / ulpOf(expected));
    }
  }
  return worst;
}

TEST(Math, Exp) {
  double error = worst([](Floats x) { return expOf(x); }, [](double x) { return std::exp(x); });
  EXPECT_LE(error, 2.0);
  EXPECT_GT(error, 0.4); // the comparison sees something
  EXPECT_EQ(expOf(0.0f), 1.0f);
  EXPECT_EQ(expOf(-kInfinity), 0.0f);
  EXPECT_EQ(expOf(kInfinity), kInfinity);
  EXPECT_EQ(expOf(88.8f), kInfinity);
  EXPECT_EQ(expOf(-104.0f), 0.0f);
  EXPECT_EQ(expOf(-103.0f), 1.4012984643e-45f); // the smallest denormal
  EXPECT_TRUE(std::isnan(expOf(__builtin_nanf(""))));
}

TEST(Math, Tanh) {
  double error = worst([](Floats x) { return tanhOf(x); }, [](double x) { return std::tanh(x); });
  EXPECT_LE(error, 3.0);
  EXPECT_GT(error, 0.4);
  Floats zero = tanhOf(splat(-0.0f));
  EXPECT_TRUE(std::signbit(zero[0]));
}

TEST(Math, Log) {
  double worst = 0;
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 997) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    double exact = std::log(double(x));
    worst = std::max(worst, std::abs(logOf(x) - exact) / (1e-300 + std::abs(exact)));
  }
  EXPECT_LE(worst, 5e-16);
  EXPECT_EQ(logOf(1.0), 0.0);
  EXPECT_EQ(logOf(0.0), -INFINITY);
  EXPECT_EQ(logOf(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(logOf(NAN)));
}

} // namespace
