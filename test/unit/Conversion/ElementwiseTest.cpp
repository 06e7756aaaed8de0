//===- ElementwiseTest.cpp - Compiled kernels run -------------------------===//

#include "StepRunner.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace forebay::test;
using forebay::reference::Tensor;

/// `@step(arguments) -> results` around `body`.
static std::string step(const std::string &arguments, const std::string &results, const std::string &body) {
  return "func.func @step(" + arguments + ") -> (" + results + ") {\n" + body + "\n}\n";
}

TEST(Elementwise, OneKernelForAChain) {
  for (std::string shape : {"0", "1", "3x5", "70000", "3x40001", "2x3x4x5x6x7"}) {
    std::string t = "tensor<" + shape + "xf32>";
    StepRunner runner(step("%a: " + t + ", %b: " + t, t,
                           "%0 = arith.mulf %a, %b : " + t + "\n%1 = math.tanh %0 : " + t + "\n%2 = arith.addf %1, %a : " + t +
                               "\nreturn %2 : " + t));
    runner.compare(1, 2e-7);
    EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled"})) << shape;
  }
}

TEST(Elementwise, BroadcastsAreStrides) {
  StepRunner runner(step("%a: tensor<7x33xf32>, %row: tensor<33xf32>, %column: tensor<7xf32>, %s: tensor<f32>", "tensor<7x33xf32>",
                         R"(
    %e = tensor.empty() : tensor<7x33xf32>
    %r = linalg.broadcast ins(%row : tensor<33xf32>) outs(%e : tensor<7x33xf32>) dimensions = [0]
    %c = linalg.broadcast ins(%column : tensor<7xf32>) outs(%e : tensor<7x33xf32>) dimensions = [1]
    %all = linalg.broadcast ins(%s : tensor<f32>) outs(%e : tensor<7x33xf32>) dimensions = [0, 1]
    %0 = arith.addf %a, %r : tensor<7x33xf32>
    %1 = arith.mulf %0, %c : tensor<7x33xf32>
    %2 = arith.subf %1, %all : tensor<7x33xf32>
    return %2 : tensor<7x33xf32>)"));
  runner.compare(2, 1e-6);
  EXPECT_EQ(runner.kernels().size(), 1u);
}

TEST(Elementwise, TransposesAndSlicesOfOperands) {
  StepRunner runner(step("%a: tensor<9x6xf32>, %b: tensor<4x20xf32>", "tensor<6x9xf32>, tensor<3x5xf32>", R"(
    %e = tensor.empty() : tensor<6x9xf32>
    %t = linalg.transpose ins(%a : tensor<9x6xf32>) outs(%e : tensor<6x9xf32>) permutation = [1, 0]
    %0 = math.absf %t : tensor<6x9xf32>
    %s = tensor.extract_slice %b[1, 3] [3, 5] [1, 3] : tensor<4x20xf32> to tensor<3x5xf32>
    %1 = arith.negf %s : tensor<3x5xf32>
    return %0, %1 : tensor<6x9xf32>, tensor<3x5xf32>)"));
  runner.compare(3, 0);
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled", "compiled"}));
}

TEST(Elementwise, FusesThroughReshapes) {
  StepRunner runner(step("%a: tensor<6x8xf32>, %b: tensor<3xf32>", "tensor<2x3x8xf32>", R"(
    %0 = math.exp %a : tensor<6x8xf32>
    %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 3, 8] : tensor<6x8xf32> into tensor<2x3x8xf32>
    %e = tensor.empty() : tensor<2x3x8xf32>
    %bb = linalg.broadcast ins(%b : tensor<3xf32>) outs(%e : tensor<2x3x8xf32>) dimensions = [0, 2]
    %2 = arith.mulf %1, %bb : tensor<2x3x8xf32>
    return %2 : tensor<2x3x8xf32>)"));
  runner.compare(4, 1e-6);
  EXPECT_EQ(runner.kernels().size(), 1u);
}

TEST(Elementwise, CollapsesWithinOneKernel) {
  // The broadcast operand has strides in the finer shape only.
  StepRunner runner(step("%a: tensor<2x3x8xf32>, %b: tensor<3xf32>, %c: tensor<6x8xf32>", "tensor<6x8xf32>", R"(
    %e = tensor.empty() : tensor<2x3x8xf32>
    %bb = linalg.broadcast ins(%b : tensor<3xf32>) outs(%e : tensor<2x3x8xf32>) dimensions = [0, 2]
    %0 = arith.mulf %a, %bb : tensor<2x3x8xf32>
    %1 = tensor.collapse_shape %0 [[0, 1], [2]] : tensor<2x3x8xf32> into tensor<6x8xf32>
    %2 = arith.addf %1, %c : tensor<6x8xf32>
    return %2 : tensor<6x8xf32>)"));
  runner.compare(5, 1e-6);
  EXPECT_EQ(runner.kernels().size(), 1u);
}

TEST(Elementwise, GroupsThatReadTheSameBecomeOne) {
  std::string t = "tensor<40x50xf32>";
  // SwiGLU backwards: two results from three operands; and a value that is needed both inside and outside.
  StepRunner runner(step("%dy: " + t + ", %gate: " + t + ", %up: " + t, t + ", " + t + ", " + t, R"(
    %0 = train.silu %gate : tensor<40x50xf32>
    %dup = arith.mulf %dy, %0 : tensor<40x50xf32>
    %1 = arith.mulf %dy, %up : tensor<40x50xf32>
    %dgate = train.silu_grad %1, %gate : tensor<40x50xf32>
    %sum = arith.addf %dup, %dgate : tensor<40x50xf32>
    return %dup, %dgate, %sum : tensor<40x50xf32>, tensor<40x50xf32>, tensor<40x50xf32>)"));
  runner.compare(13, 1e-6);
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled"}));
}

TEST(Elementwise, GroupsStayApartWhereSomethingIsBetween) {
  // The softmax needs the first result before the second group can run.
  StepRunner runner(step("%x: tensor<40x50xf32>", "tensor<40x50xf32>, tensor<40x50xf32>", R"(
    %0 = math.exp %x : tensor<40x50xf32>
    %1 = train.softmax %0 : tensor<40x50xf32>
    %2 = arith.addf %1, %x : tensor<40x50xf32>
    return %0, %2 : tensor<40x50xf32>, tensor<40x50xf32>)"));
  runner.compare(14, 1e-5);
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled", "softmax", "compiled"}));
}

TEST(Elementwise, ViewsOfAResultWaitForIt) {
  // The second operation reads the first one's result transposed: not the same point.
  StepRunner runner(step("%x: tensor<40x40xf32>", "tensor<40x40xf32>, tensor<40x40xf32>", R"(
    %0 = math.exp %x : tensor<40x40xf32>
    %e = tensor.empty() : tensor<40x40xf32>
    %t = linalg.transpose ins(%0 : tensor<40x40xf32>) outs(%e : tensor<40x40xf32>) permutation = [1, 0]
    %1 = arith.addf %t, %x : tensor<40x40xf32>
    return %0, %1 : tensor<40x40xf32>, tensor<40x40xf32>)"));
  runner.compare(15, 1e-6);
  EXPECT_EQ(runner.kernels().size(), 2u);
}

TEST(Elementwise, IndexExpressionsAreComputedInside) {
  StepRunner runner(step("%x: tensor<5x5xf32>", "tensor<5x5xf32>, tensor<1x5x5xi1>", R"(
    %m = train.causal_mask {window = 3 : i64} : tensor<1x5x5xi1>
    %mm = tensor.collapse_shape %m [[0, 1], [2]] : tensor<1x5x5xi1> into tensor<5x5xi1>
    %low = arith.constant dense<0xFF800000> : tensor<5x5xf32>
    %0 = arith.select %mm, %x, %low : tensor<5x5xi1>, tensor<5x5xf32>
    return %0, %m : tensor<5x5xf32>, tensor<1x5x5xi1>)"));
  runner.compare(6, 0);
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled", "compiled"}));
}

TEST(Elementwise, IntegersBooleansAndConversions) {
  StepRunner runner(step("%i: tensor<37xi64>, %j: tensor<37xi32>, %m: tensor<37xi1>, %x: tensor<37xf32>",
                         "tensor<37xi64>, tensor<37xi1>, tensor<37xf32>, tensor<37xf64>", R"(
    %j64 = arith.extsi %j : tensor<37xi32> to tensor<37xi64>
    %sum = arith.addi %i, %j64 : tensor<37xi64>
    %two = arith.constant dense<2> : tensor<37xi64>
    %big = arith.cmpi sgt, %sum, %two : tensor<37xi64>
    %both = arith.andi %big, %m : tensor<37xi1>
    %f = arith.sitofp %sum : tensor<37xi64> to tensor<37xf32>
    %picked = arith.select %both, %x, %f : tensor<37xi1>, tensor<37xf32>
    %wide = arith.extf %picked : tensor<37xf32> to tensor<37xf64>
    return %sum, %both, %picked, %wide : tensor<37xi64>, tensor<37xi1>, tensor<37xf32>, tensor<37xf64>)"));
  runner.compare(7, 0);
}

TEST(Elementwise, NaNAndInfinity) {
  StepRunner runner(step("%x: tensor<6xf32>, %y: tensor<6xf32>", "tensor<6xf32>, tensor<6xf32>, tensor<6xi1>", R"(
    %0 = arith.maximumf %x, %y : tensor<6xf32>
    %1 = arith.divf %x, %y : tensor<6xf32>
    %2 = arith.cmpf olt, %x, %y : tensor<6xf32>
    return %0, %1, %2 : tensor<6xf32>, tensor<6xf32>, tensor<6xi1>)"));
  ASSERT_TRUE(runner.valid());
  std::vector<Tensor> arguments{Tensor::ofFloats({6}, {NAN, 1, INFINITY, -INFINITY, 0, -1}),
                                Tensor::ofFloats({6}, {1, NAN, INFINITY, 2, 0, 0})};
  runner.compareTensors(runner.run(arguments), runner.reference(arguments), 0);
}

TEST(Elementwise, ConstantsInKernelsAndAsResults) {
  StepRunner runner(step("%x: tensor<2x3xf32>", "tensor<2x3xf32>, tensor<4xf32>, tensor<3xi64>", R"(
    %c = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %0 = arith.mulf %x, %c : tensor<2x3xf32>
    %splat = arith.constant dense<7.0> : tensor<4xf32>
    %table = arith.constant dense<[3, -1, 2]> : tensor<3xi64>
    return %0, %splat, %table : tensor<2x3xf32>, tensor<4xf32>, tensor<3xi64>)"));
  runner.compare(8, 1e-7);
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled", "fill", "compiled"}));
}

TEST(Elementwise, ActivationsMatchTheirDefinition) {
  std::string t = "tensor<1000xf32>";
  for (std::string op : {"train.gelu %x", "train.gelu %x {tanh}", "train.silu %x", "train.sigmoid %x", "train.gelu_grad %g, %x",
                         "train.gelu_grad %g, %x {tanh}", "train.silu_grad %g, %x"}) {
    StepRunner runner(step("%x: " + t + ", %g: " + t, t, "%0 = " + op + " : " + t + "\nreturn %0 : " + t));
    runner.compare(9, 1e-6);
    EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled"})) << op;
  }
}

TEST(Layout, ConcatPadInsert) {
  StepRunner runner(step("%a: tensor<2x3xf32>, %b: tensor<2x5xf32>, %d: tensor<6x9xf32>",
                         "tensor<2x11xf32>, tensor<5x6xf32>, tensor<6x9xf32>", R"(
    %0 = tensor.concat dim(1) %a, %b, %a : (tensor<2x3xf32>, tensor<2x5xf32>, tensor<2x3xf32>) -> tensor<2x11xf32>
    %zero = arith.constant 0.0 : f32
    %1 = tensor.pad %a low[1, 3] high[2, 0] {
    ^bb0(%i: index, %j: index):
      tensor.yield %zero : f32
    } : tensor<2x3xf32> to tensor<5x6xf32>
    %2 = tensor.insert_slice %b into %d[3, 2] [2, 5] [1, 1] : tensor<2x5xf32> into tensor<6x9xf32>
    return %0, %1, %2 : tensor<2x11xf32>, tensor<5x6xf32>, tensor<6x9xf32>)"));
  runner.compare(10, 0);
}

TEST(Layout, CopiesWhereNoStridesFit) {
  // A reshape of a transpose has no strides: a copy, then the kernel.
  StepRunner runner(step("%a: tensor<4x6xf32>", "tensor<24xf32>, tensor<6x4xf32>", R"(
    %e = tensor.empty() : tensor<6x4xf32>
    %t = linalg.transpose ins(%a : tensor<4x6xf32>) outs(%e : tensor<6x4xf32>) permutation = [1, 0]
    %c = tensor.collapse_shape %t [[0, 1]] : tensor<6x4xf32> into tensor<24xf32>
    %0 = math.exp %c : tensor<24xf32>
    return %0, %t : tensor<24xf32>, tensor<6x4xf32>)"));
  runner.compare(11, 1e-6);
  EXPECT_EQ(runner.kernels().front(), "copy");
}

TEST(Layout, ResultsAreBuffersOfTheirOwn) {
  StepRunner runner(step("%a: tensor<4xf32>", "tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>", R"(
    %0 = math.absf %a : tensor<4xf32>
    %1 = tensor.expand_shape %0 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
    return %0, %0, %1, %a : tensor<4xf32>, tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>)"));
  runner.compare(12, 0);
}
