//===- OptimizerTest.cpp - Update and scalar functions --------------------===//

#include "StepRunner.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace forebay;
using namespace forebay::test;

static std::string optimizer(const std::string &name) {
  auto file = llvm::MemoryBuffer::getFile(std::string(FOREBAY_SOURCE_ROOT) + "/lib/Optimizers/" + name + ".mlir");
  EXPECT_TRUE(bool(file));
  return (*file)->getBuffer().str();
}

/// A step that only updates one parameter of `count` elements.
static std::string adamwStep(int64_t count, int accumulate) {
  std::string t = "tensor<" + std::to_string(count) + "xf32>";
  return "func.func @step(%p: " + t + ", %g: " + t + ", %m: " + t + ", %v: " + t + ", %verdict: tensor<4xf32>) -> (" + t + ", " + t +
         ", " + t + ") {\n  %s = train.scalars @adamw {hyper = {}, group = 0 : i64} : tensor<9xf32>\n"
         "  %n:3 = train.update @adamw parameter(%p) grad(%g) state(%m, %v) scalars(%s) verdict(%verdict) {accumulate = " +
         std::to_string(accumulate) + " : i64} : (" + t + ", " + t + ", " + t + ", " + t + ", tensor<9xf32>, tensor<4xf32>) -> (" +
         t + ", " + t + ", " + t + ")\n  return %n#0, %n#1, %n#2 : " + t + ", " + t + ", " + t + "\n}\n" + optimizer("adamw");
}

using Vector = std::vector<float>;

/// Design: a step, adamw; every operation rounded to fp32 in the order of the definition.
__attribute__((optnone, noinline)) static void adamwLoop(Vector &p, const Vector &g, Vector &m, Vector &v, int64_t t,
                                                         int accumulate, float coefficient) {
  const double b1 = 0.9, b2 = 0.999, lr = 1e-3, wd = 1e-2;
  double power1 = 1, power2 = 1;
  for (int64_t i = 0; i < t; ++i)
    power1 *= b1, power2 *= b2;
  float decay = float(1 - lr * wd), beta1 = float(b1), rest1 = float(1 - b1), beta2 = float(b2), rest2 = float(1 - b2);
  float correction1 = float(1 - power1), correction2 = float(1 - power2), eps = float(1e-8), rate = float(lr);
  for (size_t i = 0; i < p.size(); ++i) {
    volatile float grad = g[i];
    if (accumulate != 1)
      grad = grad / float(accumulate);
    grad = grad * coefficient;
    volatile float a = beta1 * m[i], b = rest1 * grad, mNew = a + b;
    volatile float c = beta2 * v[i], d = rest2 * grad;
    volatile float e = d * grad, vNew = c + e;
    volatile float mHat = mNew / correction1, vHat = vNew / correction2;
    volatile float root = sqrtf(vHat), den = root + eps;
    volatile float scaled = rate * mHat, delta = scaled / den, decayed = p[i] * decay;
    p[i] = decayed - delta;
    m[i] = mNew;
    v[i] = vNew;
  }
}

static Vector values(const reference::Tensor &tensor) { return Vector(tensor.floats.begin(), tensor.floats.end()); }

static reference::Tensor tensor(const Vector &values) {
  return reference::Tensor::ofFloats({int64_t(values.size())}, std::vector<double>(values.begin(), values.end()));
}

static uint32_t bits(float value) {
  uint32_t result;
  memcpy(&result, &value, sizeof result);
  return result;
}

static void expectSameBits(const Vector &a, const Vector &b, const char *what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::isnan(a[i]) && std::isnan(b[i])))
      ASSERT_EQ(bits(a[i]), bits(b[i])) << what << " element " << i << ": " << a[i] << ", wanted " << b[i];
}

class AdamW : public testing::TestWithParam<std::pair<int64_t, int>> {};

TEST_P(AdamW, SameBitsAsScalarLoop) {
  auto [count, accumulate] = GetParam();
  StepRunner runner(adamwStep(count, accumulate));
  ASSERT_TRUE(runner.valid());
  std::mt19937_64 random(7);
  Vector p(count), g(count), m(count), v(count);
  for (int64_t i = 0; i < count; ++i) {
    // Every third element has any bit pattern, among them denormals, infinities and NaN.
    auto any = [&](bool positive) {
      uint32_t word = random();
      float value;
      memcpy(&value, &word, sizeof value);
      return positive ? std::fabs(value) : value;
    };
    bool wild = i % 3 == 2;
    std::normal_distribution<float> normal;
    p[i] = wild ? any(false) : normal(random);
    g[i] = wild ? any(false) : normal(random);
    m[i] = wild ? any(false) : 0.1f * normal(random);
    v[i] = wild ? any(true) : 0.01f * std::fabs(normal(random));
  }
  float coefficient = 0.37f;
  for (int64_t t : {1, 2, 10}) {
    std::vector<reference::Tensor> arguments{tensor(p), tensor(g), tensor(m), tensor(v), tensor({3.0f, coefficient, 1.0f, -1.0f})};
    RunOptions options;
    options.step = t;
    std::vector<reference::Tensor> out = runner.run(arguments, options);
    options.inplace = options.reverse = true;
    std::vector<reference::Tensor> inPlace = runner.run(arguments, options);
    Vector wantP = p, wantM = m, wantV = v;
    adamwLoop(wantP, g, wantM, wantV, t, accumulate, coefficient);
    ASSERT_EQ(out.size(), 3u);
    expectSameBits(values(out[0]), wantP, "parameter");
    expectSameBits(values(out[1]), wantM, "exp_avg");
    expectSameBits(values(out[2]), wantV, "exp_avg_sq");
    for (int i = 0; i < 3; ++i)
      expectSameBits(values(inPlace[i]), values(out[i]), "in place");
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdamW,
                         testing::Values(std::pair<int64_t, int>(1, 1), std::pair<int64_t, int>(0, 1), std::pair<int64_t, int>(17, 4),
                                         std::pair<int64_t, int>(1000003, 1)));

TEST(Update, NonFiniteVerdictKeepsTheBytes) {
  StepRunner runner(adamwStep(1001, 1));
  ASSERT_TRUE(runner.valid());
  std::vector<reference::Tensor> arguments = runner.randomArguments(3);
  arguments[4] = tensor({std::nanf(""), 1.0f, 0.0f, 0.0f});
  std::vector<reference::Tensor> out = runner.run(arguments);
  expectSameBits(values(out[0]), values(arguments[0]), "parameter");
  expectSameBits(values(out[1]), values(arguments[2]), "exp_avg");
  expectSameBits(values(out[2]), values(arguments[3]), "exp_avg_sq");
}

// Every optimizer that comes with the compiler, against the reference interpreter.
class Optimizers : public testing::TestWithParam<const char *> {};

TEST_P(Optimizers, MatchReference) {
  std::string name = GetParam(), definition = optimizer(name);
  size_t states = name == "adam" || name == "adamw" ? 2 : 1;
  std::string scalars = name == "adamw" ? "9" : name == "lion" ? "6" : "";
  // The number of scalars is the number of results of @scalars.
  size_t arrow = definition.find("->"), open = definition.find('(', arrow), close = definition.find(')', open);
  scalars = std::to_string(1 + std::count(definition.begin() + open, definition.begin() + close, ','));
  std::string t = "tensor<33xf32>", types = t + ", " + t, results = t, state, stateArgs, returned = "%n#0";
  for (size_t i = 0; i < states; ++i) {
    std::string value = "%s" + std::to_string(i);
    stateArgs += ", " + value + ": " + t;
    state += (i ? ", " : "") + value;
    types += ", " + t;
    results += ", " + t;
    returned += ", %n#" + std::to_string(i + 1);
  }
  std::string s = "tensor<" + scalars + "xf32>";
  std::string text = "func.func @step(%p: " + t + ", %g: " + t + stateArgs + ", %v: tensor<4xf32>) -> (" + results + ") {\n" +
                     "  %s = train.scalars @" + name + " {hyper = {}, group = 0 : i64} : " + s + "\n  %n:" + std::to_string(1 + states) +
                     " = train.update @" + name + " parameter(%p) grad(%g) state(" + state + ") scalars(%s) verdict(%v) : (" + types +
                     ", " + s + ", tensor<4xf32>) -> (" + results + ")\n  return " + returned + " : " + results + "\n}\n" + definition;
  StepRunner runner(text);
  ASSERT_TRUE(runner.valid());
  std::vector<reference::Tensor> arguments = runner.randomArguments(5);
  for (double &value : arguments[1 + states].floats)
    value = std::abs(value); // Second moments are not negative.
  arguments.back() = tensor({1.0f, 0.5f, 1.0f, -1.0f});
  runner.compareTensors(runner.run(arguments), runner.reference(arguments), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::Values("adamw", "adam", "sgd", "lion"));
