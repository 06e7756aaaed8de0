//===- RaiseTest.cpp - Raising keeps values -------------------------------===//
//
// Every function of the lit tests of raising is evaluated with plain loops in double precision, as it is written and after
// `train-raise`, on the same random numbers.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mlir;
using namespace forebay::reference;

namespace {

Tensor randomTensor(Type type, std::mt19937_64 &generator) {
  Tensor tensor(type);
  std::normal_distribution<double> normal;
  for (double &value : tensor.floats)
    value = normal(generator);
  // Every third key is padding: no query is left without a key, where a finite mask and a bool one differ.
  for (auto [i, value] : llvm::enumerate(tensor.ints))
    value = i % 3 == 2 ? 0 : 1 + generator() % 2;
  return tensor;
}

/// Constants of fp32 graphs are rounded; the raised operation has the number that they stand for.
double toleranceOf(StringRef function) {
  return function.starts_with("gelu") || function == "sdpa_opset18" ? 1e-6 : 1e-12;
}

class RaiseTest : public testing::TestWithParam<const char *> {};

TEST_P(RaiseTest, KeepsValues) {
  DialectRegistry registry;
  forebay::registerAllDialects(registry);
  MLIRContext context(registry);
  std::string path = std::string(RAISE_INPUTS "/") + GetParam();
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
  ASSERT_TRUE(module) << path;
  std::mt19937_64 generator(7);
  llvm::StringMap<std::vector<Tensor>> arguments, before;
  for (auto function : module->getOps<func::FuncOp>()) {
    std::vector<Tensor> &values = arguments[function.getName()];
    for (Type type : function.getArgumentTypes())
      values.push_back(randomTensor(type, generator));
    auto results = evaluate(function, values);
    ASSERT_TRUE(succeeded(results)) << function.getName().str();
    before[function.getName()] = *results;
  }

  PassManager manager(&context);
  forebay::buildTrainRaisePipeline(manager);
  ASSERT_TRUE(succeeded(manager.run(*module)));

  for (auto function : module->getOps<func::FuncOp>()) {
    SCOPED_TRACE(function.getName().str());
    auto results = evaluate(function, arguments[function.getName()]);
    ASSERT_TRUE(succeeded(results));
    ASSERT_EQ(results->size(), before[function.getName()].size());
    for (auto [after, expected] : llvm::zip_equal(*results, before[function.getName()])) {
      EXPECT_EQ(after.ints, expected.ints);
      ASSERT_EQ(after.floats.size(), expected.floats.size());
      for (auto [value, want] : llvm::zip_equal(after.floats, expected.floats))
        if (!std::isnan(want) || !std::isnan(value)) // a root of something negative stays one
          EXPECT_NEAR(value, want, toleranceOf(function.getName()) * std::max(1.0, std::abs(want)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, RaiseTest,
                         testing::Values("activations.mlir", "norms.mlir", "rotary.mlir", "attention.mlir", "loss.mlir"));

} // namespace
