//===- GradientTest.cpp - Every gradient against finite differences -------===//
//
// Cases are functions in the .mlir files of this folder: floating-point arguments are differentiated unless they carry
// `test.constant`, integer ones are not. The loss is the sum over all floating-point results, each element times a random
// weight, so that a wrong entry anywhere in a Jacobian shows. `train-differentiate` runs on it; the reference interpreter
// evaluates both the gradients and, for central differences, the loss, in double precision.
//
// On arguments: `test.range = [lo, hi]` (default [-2, 2]; integers [lo, hi)), `test.values = dense<...>`, and
// `test.grad = dense<...>`: the expected gradient of the plain sum, where no derivative exists (ties, bounds).
//
// `Gradients.EveryOperationHasACase` fails when an operation with GradientOpInterface is in no case.
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Pipelines/Pipelines.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>
#include <set>

using namespace mlir;
using namespace forebay;
using namespace forebay::reference;

namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;

/// The case files, parsed once.
struct CaseFiles {
  CaseFiles() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    for (const char *name : {"elementwise.mlir", "structured.mlir", "tensor.mlir", "train.mlir", "attention.mlir"}) {
      auto module = parseSourceFile<ModuleOp>(std::string(FOREBAY_GRADIENT_CASES "/") + name, &context);
      if (!module)
        continue;
      for (auto func : module->getOps<func::FuncOp>())
        cases.push_back(func);
      files.push_back(std::move(module));
    }
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> files;
  std::vector<func::FuncOp> cases;
};

CaseFiles &caseFiles() {
  static CaseFiles files;
  return files;
}

bool isFloat(Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }

bool hasExpectedGradient(func::FuncOp func) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (func.getArgAttr(i, "test.grad"))
      return true;
  return false;
}

/// A module whose @forward returns the loss of `func`.
OwningOpRef<ModuleOp> makeForward(func::FuncOp func, std::mt19937_64 &random) {
  MLIRContext *context = func.getContext();
  OpBuilder builder(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder, func.getLoc());
  builder.setInsertionPointToStart(module->getBody());
  auto forward = cast<func::FuncOp>(builder.clone(*func.getOperation()));
  forward.setName("forward");
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (isFloat(forward.getArgumentTypes()[i]) && !forward.getArgAttr(i, "test.constant")) {
      forward.setArgAttr(i, train::kTrainableAttr, builder.getUnitAttr());
      forward.setArgAttr(i, train::kNameAttr, builder.getStringAttr("arg" + std::to_string(i)));
    }

  Operation *terminator = forward.getBody().front().getTerminator();
  Location loc = terminator->getLoc();
  builder.setInsertionPoint(terminator);
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  Value loss = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, 0.0));
  std::uniform_real_distribution<double> weight(0.5, 1.5);
  bool plain = hasExpectedGradient(func);
  for (Value result : terminator->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || !isFloat(type))
      continue;
    auto wide = type.clone(builder.getF64Type());
    if (!type.getElementType().isF64())
      result = arith::ExtFOp::create(builder, loc, wide, result);
    SmallVector<double> weights(type.getNumElements());
    for (double &value : weights)
      value = plain ? 1.0 : weight(random);
    Value factor = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(wide, ArrayRef(weights)));
    Value product = arith::MulFOp::create(builder, loc, result, factor);
    loss = linalg::ReduceOp::create(builder, loc, ValueRange{product}, ValueRange{loss},
                                    llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())),
                                    [](OpBuilder &b, Location loc, ValueRange args) {
                                      Value sum = arith::AddFOp::create(b, loc, args[1], args[0]);
                                      linalg::YieldOp::create(b, loc, sum);
                                    })
               ->getResult(0);
  }
  terminator->setOperands(loss);
  forward.setType(FunctionType::get(context, forward.getArgumentTypes(), {scalar}));
  forward.removeResAttrsAttr();
  forward.setResultAttr(0, train::kRoleAttr, train::RoleAttr::get(context, train::Role::Loss));
  return module;
}

Tensor makeArgument(func::FuncOp func, unsigned index, std::mt19937_64 &random) {
  Tensor tensor(func.getArgumentTypes()[index]);
  if (auto values = func.getArgAttrOfType<DenseElementsAttr>(index, "test.values")) {
    if (tensor.isFloat)
      for (auto [i, value] : llvm::enumerate(values.getValues<FloatAttr>()))
        tensor.floats[i] = value.getValueAsDouble();
    else
      for (auto [i, value] : llvm::enumerate(values.getValues<APInt>()))
        tensor.ints[i] = value.getBitWidth() == 1 ? value.getZExtValue() : value.getSExtValue();
    return tensor;
  }
  double low = tensor.isFloat ? -2.0 : 0.0, high = 2.0;
  if (auto range = func.getArgAttrOfType<ArrayAttr>(index, "test.range")) {
    auto number = [](Attribute attribute) {
      if (auto integer = dyn_cast<IntegerAttr>(attribute))
        return double(integer.getInt());
      return cast<FloatAttr>(attribute).getValueAsDouble();
    };
    low = number(range[0]), high = number(range[1]);
  }
  std::uniform_real_distribution<double> uniform(low, high);
  for (double &value : tensor.floats)
    value = uniform(random);
  for (int64_t &value : tensor.ints)
    value = int64_t(std::floor(uniform(random)));
  return tensor;
}

double lossOf(ModuleOp module, ArrayRef<Tensor> arguments) {
  auto results = evaluate(module.lookupSymbol<func::FuncOp>("forward"), arguments);
  EXPECT_TRUE(succeeded(results));
  return succeeded(results) ? results->front().floats[0] : NAN;
}

/// Empty when the gradients of `func` are right, else what is wrong.
std::string check(func::FuncOp func) {
  std::mt19937_64 random(1234);
  OwningOpRef<ModuleOp> forward = makeForward(func, random);
  if (failed(verify(*forward)))
    return "the case does not verify";
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    arguments.push_back(makeArgument(func, i, random));

  // As built, and as the pipeline leaves it.
  for (bool simplify : {false, true}) {
    OwningOpRef<ModuleOp> step = forward->clone();
    PassManager passes(func.getContext());
    passes.addPass(createTrainDifferentiate());
    if (simplify) {
      passes.addPass(createCanonicalizerPass());
      passes.addPass(createCSEPass());
    }
    if (failed(passes.run(*step)))
      return "train-differentiate fails";
    auto function = step->lookupSymbol<func::FuncOp>("step");
    auto results = evaluate(function, arguments);
    if (failed(results))
      return "the step cannot be evaluated";
    if (std::fabs(results->front().floats[0] - lossOf(*forward, arguments)) > 1e-12)
      return "differentiation changed the loss";

    unsigned next = 1;
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      if (!isFloat(func.getArgumentTypes()[i]) || func.getArgAttr(i, "test.constant"))
        continue;
      if (next == results->size())
        return "argument " + std::to_string(i) + " has no gradient";
      const Tensor &gradient = (*results)[next++];
      auto expected = func.getArgAttrOfType<DenseElementsAttr>(i, "test.grad");
      if (hasExpectedGradient(func) && !expected)
        continue;
      double largest = 1.0;
      for (double value : gradient.floats)
        largest = std::max(largest, std::fabs(value));
      for (int64_t at = 0; at < gradient.size(); ++at) {
        double want;
        if (expected) {
          want = expected.isSplat() ? expected.getSplatValue<FloatAttr>().getValueAsDouble()
                                    : expected.getValues<FloatAttr>()[at].getValueAsDouble();
        } else {
          std::vector<Tensor> moved = arguments;
          double &value = moved[i].floats[at], x = value, h = kStep * std::max(1.0, std::fabs(x));
          value = x + h;
          double above = lossOf(*forward, moved);
          value = x - h;
          want = (above - lossOf(*forward, moved)) / (2.0 * h);
        }
        if (!(std::fabs(gradient.floats[at] - want) <= kTolerance * largest)) {
          char text[200];
          snprintf(text, sizeof(text), "argument %u, element %lld: gradient %.12g, difference quotient %.12g", i,
                   (long long)at, gradient.floats[at], want);
          return text;
        }
      }
    }
    if (next != results->size())
      return "more gradients than arguments";
  }
  return "";
}

class Gradients : public testing::TestWithParam<size_t> {};

TEST_P(Gradients, MatchFiniteDifferences) { EXPECT_EQ(check(caseFiles().cases[GetParam()]), ""); }

INSTANTIATE_TEST_SUITE_P(Cases, Gradients, testing::Range<size_t>(0, caseFiles().cases.size()),
                         [](const auto &info) { return caseFiles().cases[info.param].getName().str(); });

TEST(GradientCases, AllFilesParse) { EXPECT_EQ(caseFiles().files.size(), 5u); }

/// The operations of a case through which a gradient may go: with an operand that depends on an argument, or sources
/// without operands.
TEST(GradientCases, EveryOperationHasACase) {
  std::set<std::string> covered;
  for (func::FuncOp func : caseFiles().cases) {
    DenseSet<Value> dependent;
    for (BlockArgument argument : func.getArguments())
      if (isFloat(argument.getType()) && !func.getArgAttr(argument.getArgNumber(), "test.constant"))
        dependent.insert(argument);
    for (Operation &op : func.getBody().front()) {
      bool reached = llvm::any_of(op.getOperands(), [&](Value value) { return dependent.contains(value); });
      if (reached)
        dependent.insert(op.result_begin(), op.result_end());
      bool source = isa<arith::ConstantOp, linalg::FillOp>(op) || op.getNumOperands() == 0;
      if (reached || source)
        covered.insert(op.getName().getStringRef().str());
    }
  }
  unsigned number = 0;
  for (RegisteredOperationName name : caseFiles().context.getRegisteredOperations()) {
    if (!name.hasInterface<train::GradientOpInterface>())
      continue;
    ++number;
    EXPECT_TRUE(covered.count(name.getStringRef().str())) << name.getStringRef().str() << " has no gradient case";
  }
  EXPECT_GT(number, 50u);
}

/// A multiply-add counts 2, whatever the maps.
TEST(Costs, MatrixProducts) {
  int64_t flops = 0;
  unsigned products = 0;
  for (func::FuncOp func : caseFiles().cases)
    if (func.getName() == "contract_linear" || func.getName() == "matmul" || func.getName() == "batch_matmul")
      func.walk([&](train::CostOpInterface op) {
        flops += op.getFlops();
        ++products;
      });
  EXPECT_EQ(products, 3u);
  EXPECT_EQ(flops, 2 * (2 * 3 * 7 * 5) + 2 * (3 * 2 * 4) + 2 * (2 * 3 * 1 * 4));
}

/// The comparison itself can fail: a detached path has a difference quotient but no gradient.
TEST(GradientCases, AWrongGradientIsSeen) {
  auto module = parseSourceString<ModuleOp>(R"(
    func.func @wrong(%x: tensor<3xf64>) -> tensor<3xf64> {
      %d = train.detach %x : tensor<3xf64>
      %y = arith.mulf %x, %d : tensor<3xf64>
      return %y : tensor<3xf64>
    })", &caseFiles().context);
  ASSERT_TRUE(module);
  EXPECT_NE(check(module->lookupSymbol<func::FuncOp>("wrong")), "");
}

} // namespace
