//===- MixedPrecisionTest.cpp - Mixed precision changes types only --------===//
//
// Loss and gradients of whole models, evaluated with plain loops in double: with train-mixed-precision and without they are equal as long as
// nothing is rounded, and near each other when every result is rounded to its type.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Import/Import.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Support/Diagnostics.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mlir;
using namespace forebay;
using namespace forebay::reference;

namespace {

struct Model {
  const char *name;
  std::vector<std::pair<std::string, int64_t>> dims;
};

class MixedPrecisionTest : public testing::TestWithParam<Model> {
public:
  MixedPrecisionTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// @step of loss and gradients.
  OwningOpRef<ModuleOp> differentiated(StringRef precision) {
    ImportOptions options;
    options.model = std::string(MODELS "/") + GetParam().name + "/model.onnx";
    options.dims = GetParam().dims;
    Diagnostics diags;
    OwningOpRef<ModuleOp> module = importOnnx(context, options, diags);
    if (!module)
      return nullptr;
    PassManager manager(&context);
    buildForwardPipeline(manager, precision);
    manager.addPass(createTrainDifferentiate());
    manager.addPass(createCanonicalizerPass());
    manager.addPass(createCSEPass());
    return succeeded(manager.run(*module)) ? std::move(module) : nullptr;
  }

  /// Weights near those of a fresh model, inputs in their ranges.
  static std::vector<Tensor> arguments(func::FuncOp step) {
    std::mt19937_64 generator(3);
    std::normal_distribution<double> normal;
    std::vector<Tensor> values;
    for (auto [i, type] : llvm::enumerate(step.getArgumentTypes())) {
      Tensor tensor(type);
      auto role = step.getArgAttrOfType<train::RoleAttr>(i, train::kRoleAttr);
      bool vector = tensor.rank() < 2, parameter = role && role.getValue() == train::Role::Parameter;
      for (double &value : tensor.floats)
        value = parameter ? (vector ? 1 : 0) + 0.1 * normal(generator) : std::abs(normal(generator)) + 0.1;
      for (int64_t &value : tensor.ints)
        value = generator() % 3;
      values.push_back(std::move(tensor));
    }
    return values;
  }

  static double norm(const Tensor &tensor) {
    double sum = 0;
    for (double value : tensor.floats)
      sum += value * value;
    return std::sqrt(sum);
  }
  static double distance(Tensor a, const Tensor &b) {
    for (size_t i = 0; i < a.floats.size(); ++i)
      a.floats[i] -= b.floats[i];
    return norm(a);
  }

  MLIRContext context;
};

TEST_P(MixedPrecisionTest, ChangesTypesOnly) {
  OwningOpRef<ModuleOp> wide = differentiated("fp32");
  ASSERT_TRUE(wide);
  auto plain = wide->lookupSymbol<func::FuncOp>("step");
  std::vector<Tensor> inputs = arguments(plain);
  auto want = evaluate(plain, inputs);
  ASSERT_TRUE(succeeded(want));
  for (auto [precision, tolerance] : {std::pair<StringRef, double>("bf16", 0.1), {"fp16", 0.02}}) {
    SCOPED_TRACE(precision.str());
    OwningOpRef<ModuleOp> module = differentiated(precision);
    ASSERT_TRUE(module);
    auto step = module->lookupSymbol<func::FuncOp>("step");
    // The types that others see do not change.
    ASSERT_EQ(step.getFunctionType(), plain.getFunctionType());
    unsigned narrow = 0;
    step.walk([&](train::CastOp) { ++narrow; });
    EXPECT_GT(narrow, 0u);

    EvaluateOptions rounded;
    rounded.roundToType = true;
    auto exact = evaluate(step, inputs), real = evaluate(step, inputs, rounded);
    ASSERT_TRUE(succeeded(exact) && succeeded(real));
    double off = 0;
    for (size_t i = 0; i < want->size(); ++i) {
      const Tensor &expected = (*want)[i];
      if (!expected.isFloat)
        continue;
      EXPECT_LE(distance((*exact)[i], expected), 1e-9 * norm(expected) + 1e-15) << "result " << i;
      EXPECT_LE(distance((*real)[i], expected), tolerance * norm(expected) + 1e-3) << "result " << i;
      off = std::max(off, distance((*real)[i], expected));
    }
    EXPECT_GT(off, 0); // something was rounded
  }
}

const std::vector<std::pair<std::string, int64_t>> kTokens = {{"batch", 2}, {"seq", 5}};
INSTANTIATE_TEST_SUITE_P(Models, MixedPrecisionTest,
                         testing::Values(Model{"mlp-mse", {{"batch", 4}}}, Model{"mlp-classifier", {}}, Model{"gpt2", kTokens},
                                         Model{"llama", kTokens}, Model{"qwen3", kTokens}, Model{"phi4", kTokens}, Model{"bert", kTokens},
                                         Model{"gemma2-opset18", kTokens}, Model{"seedoss", kTokens}),
                         [](auto &info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
