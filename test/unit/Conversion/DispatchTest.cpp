//===- DispatchTest.cpp - Steps as dispatches run -------------------------===//

#include "StepRunner.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace forebay::test;
using forebay::reference::Tensor;

static std::string step(const std::string &arguments, const std::string &results, const std::string &body) {
  return "func.func @step(" + arguments + ") -> (" + results + ") {\n%zero = arith.constant 0.0 : f32\n" + body + "\n}\n";
}

static std::string source(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(std::string(FOREBAY_SOURCE_ROOT) + "/" + path);
  EXPECT_TRUE(bool(file)) << path;
  return (*file)->getBuffer().str();
}

/// One contraction: shapes and maps; `init` is cleared.
static std::string contract(const std::string &a, const std::string &b, const std::string &c, const std::string &dims,
                            const std::string &mapA, const std::string &mapB, const std::string &mapC) {
  auto type = [](const std::string &shape) { return "tensor<" + shape + "xf32>"; };
  auto map = [&](const std::string &results) { return "affine_map<(" + dims + ") -> (" + results + ")>"; };
  return step("%a: " + type(a) + ", %b: " + type(b), type(c),
              "%e = tensor.empty() : " + type(c) + "\n%f = linalg.fill ins(%zero : f32) outs(%e : " + type(c) + ") -> " + type(c) +
                  "\n%0 = linalg.contract indexing_maps = [" + map(mapA) + ", " + map(mapB) + ", " + map(mapC) + "] ins(%a, %b : " +
                  type(a) + ", " + type(b) + ") outs(%f : " + type(c) + ") -> " + type(c) + "\nreturn %0 : " + type(c));
}

TEST(Contract, Forms) {
  using Kernels = std::vector<std::string>;
  struct Form {
    std::string a, b, c, dims, mapA, mapB, mapC;
    Kernels kernels;
  };
  const Form forms[] = {
      {"5x7", "7x3", "5x3", "m, n, k", "m, k", "k, n", "m, n", {"gemm"}},
      {"7x5", "7x3", "5x3", "m, n, k", "k, m", "k, n", "m, n", {"gemm"}},
      {"5x7", "3x7", "5x3", "m, n, k", "m, k", "n, k", "m, n", {"gemm"}},
      {"7x5", "3x7", "5x3", "m, n, k", "k, m", "n, k", "m, n", {"gemm"}},
      {"5x7", "7x3", "3x5", "m, n, k", "m, k", "k, n", "n, m", {"gemm"}},
      {"2x5x7", "7x3", "2x5x3", "b, m, n, k", "b, m, k", "k, n", "b, m, n", {"gemm"}},
      {"2x5x7", "2x7x3", "2x5x3", "b, m, n, k", "b, m, k", "b, k, n", "b, m, n", {"gemm"}},
      {"2x4x5x7", "2x4x3x7", "2x4x5x3", "b, h, m, n, k", "b, h, m, k", "b, h, n, k", "b, h, m, n", {"gemm"}},
      {"2x5x4x7", "2x3x4x7", "2x4x5x3", "b, h, m, n, k", "b, m, h, k", "b, n, h, k", "b, h, m, n", {"gemm"}},
      {"2x5x7", "2x5x3", "7x3", "b, s, m, n", "b, s, m", "b, s, n", "m, n", {"gemm"}},
      {"2x5x3x7", "3x7x4", "2x5x4", "b, s, h, d, n", "b, s, h, d", "h, d, n", "b, s, n", {"gemm"}},
      // The two parts of the depth lie apart in A: a copy.
      {"2x3x5x7", "3x7x4", "2x5x4", "b, s, h, d, n", "b, h, s, d", "h, d, n", "b, s, n", {"copy", "gemm"}},
      {"6", "6", "", "k", "k", "k", "", {"gemm"}},
      {"5x7", "7", "5", "m, k", "m, k", "k", "m", {"gemm"}},
      {"0x7", "7x3", "0x3", "m, n, k", "m, k", "k, n", "m, n", {"gemm"}},
      {"5x0", "0x3", "5x3", "m, n, k", "m, k", "k, n", "m, n", {"gemm"}},
      {"1x1", "1x1", "1x1", "m, n, k", "m, k", "k, n", "m, n", {"gemm"}},
      {"300x130", "130x700", "300x700", "m, n, k", "m, k", "k, n", "m, n", {"gemm"}},
  };
  for (const Form &form : forms) {
    SCOPED_TRACE("(" + form.mapA + ") (" + form.mapB + ") -> (" + form.mapC + ") on " + form.a);
    auto type = [](std::string shape) { return shape.empty() ? shape : shape; };
    std::string text = contract(type(form.a), type(form.b), type(form.c), form.dims, form.mapA, form.mapB, form.mapC);
    size_t at;
    while ((at = text.find("tensor<xf32>")) != std::string::npos)
      text.replace(at, 12, "tensor<f32>");
    StepRunner runner(text);
    runner.compare(1, 1e-4);
    EXPECT_EQ(runner.kernels(), form.kernels);
  }
}

TEST(Contract, OtherTypesAndFormsAreLoops) {
  std::string text = contract("5x7", "7x3", "5x3", "m, n, k", "m, k", "k, n", "m, n");
  for (const char *type : {"f64", "i64"}) {
    std::string other = text;
    for (size_t at; (at = other.find("f32")) != std::string::npos;)
      other.replace(at, 3, type);
    if (type[0] == 'i')
      other.replace(other.find("0.0"), 3, "0");
    StepRunner runner(other);
    runner.compare(5, 1e-12);
    EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"compiled"})) << type;
  }
  // A batch innermost in the result.
  StepRunner batch(contract("2x5x7", "2x7x3", "5x3x2", "b, m, n, k", "b, m, k", "b, k, n", "m, n, b"));
  batch.compare(6, 1e-5);
}

TEST(Contract, BiasIsPartOfTheProduct) {
  StepRunner runner(step("%a: tensor<2x5x7xf32>, %w: tensor<3x7xf32>, %b: tensor<3xf32>", "tensor<2x5x3xf32>", R"(
    %e = tensor.empty() : tensor<2x5x3xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    %0 = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (n, k)>,
      affine_map<(b, m, n, k) -> (b, m, n)>] ins(%a, %w : tensor<2x5x7xf32>, tensor<3x7xf32>) outs(%f : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    %bb = linalg.broadcast ins(%b : tensor<3xf32>) outs(%e : tensor<2x5x3xf32>) dimensions = [0, 1]
    %1 = arith.addf %bb, %0 : tensor<2x5x3xf32>
    return %1 : tensor<2x5x3xf32>)"));
  runner.compare(2, 1e-5);
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"gemm"}));
}

TEST(Contract, TransposedResultIsComputedTransposed) {
  StepRunner runner(step("%a: tensor<5x7xf32>, %b: tensor<7x3xf32>", "tensor<3x5xf32>", R"(
    %e = tensor.empty() : tensor<5x3xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x3xf32>) -> tensor<5x3xf32>
    %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<5x7xf32>, tensor<7x3xf32>) outs(%f : tensor<5x3xf32>) -> tensor<5x3xf32>
    %et = tensor.empty() : tensor<3x5xf32>
    %t = linalg.transpose ins(%0 : tensor<5x3xf32>) outs(%et : tensor<3x5xf32>) permutation = [1, 0]
    return %t : tensor<3x5xf32>)"));
  runner.compare(3, 1e-5);
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"gemm"}));
}

/// Query, key and value as slices of one product, heads by transposes, and back: nothing is copied.
TEST(Attention, FollowsStridesBothWays) {
  StepRunner runner(step("%qkv: tensor<2x5x24xf32>, %w: tensor<8x6xf32>", "tensor<10x6xf32>", R"(
    %q0 = tensor.extract_slice %qkv[0, 0, 0] [2, 5, 8] [1, 1, 1] : tensor<2x5x24xf32> to tensor<2x5x8xf32>
    %k0 = tensor.extract_slice %qkv[0, 0, 8] [2, 5, 8] [1, 1, 1] : tensor<2x5x24xf32> to tensor<2x5x8xf32>
    %v0 = tensor.extract_slice %qkv[0, 0, 16] [2, 5, 8] [1, 1, 1] : tensor<2x5x24xf32> to tensor<2x5x8xf32>
    %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [2, 5, 2, 4] : tensor<2x5x8xf32> into tensor<2x5x2x4xf32>
    %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [2, 5, 2, 4] : tensor<2x5x8xf32> into tensor<2x5x2x4xf32>
    %v1 = tensor.expand_shape %v0 [[0], [1], [2, 3]] output_shape [2, 5, 2, 4] : tensor<2x5x8xf32> into tensor<2x5x2x4xf32>
    %e = tensor.empty() : tensor<2x2x5x4xf32>
    %q = linalg.transpose ins(%q1 : tensor<2x5x2x4xf32>) outs(%e : tensor<2x2x5x4xf32>) permutation = [0, 2, 1, 3]
    %k = linalg.transpose ins(%k1 : tensor<2x5x2x4xf32>) outs(%e : tensor<2x2x5x4xf32>) permutation = [0, 2, 1, 3]
    %v = linalg.transpose ins(%v1 : tensor<2x5x2x4xf32>) outs(%e : tensor<2x2x5x4xf32>) permutation = [0, 2, 1, 3]
    %o, %lse = train.attention %q, %k, %v {scale = 0.5 : f64, causal} : (tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>)
      -> (tensor<2x2x5x4xf32>, tensor<2x2x5xf32>)
    %e2 = tensor.empty() : tensor<2x5x2x4xf32>
    %ot = linalg.transpose ins(%o : tensor<2x2x5x4xf32>) outs(%e2 : tensor<2x5x2x4xf32>) permutation = [0, 2, 1, 3]
    %oc = tensor.collapse_shape %ot [[0, 1], [2, 3]] : tensor<2x5x2x4xf32> into tensor<10x8xf32>
    %e3 = tensor.empty() : tensor<10x6xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e3 : tensor<10x6xf32>) -> tensor<10x6xf32>
    %y = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%oc, %w : tensor<10x8xf32>, tensor<8x6xf32>) outs(%f : tensor<10x6xf32>) -> tensor<10x6xf32>
    return %y : tensor<10x6xf32>)"));
  ASSERT_TRUE(runner.valid());
  EXPECT_EQ(runner.kernels(), (std::vector<std::string>{"attention", "gemm"}));
}

TEST(Reduce, AnyDimensions) {
  struct Form {
    std::string shape, result, dims, combiner, init;
    std::vector<std::string> kernels;
  };
  const Form forms[] = {
      {"4x5x6xf32", "5x6xf32", "[0]", "arith.addf", "0.0", {"reduce"}},
      {"4x5x6xf32", "4x6xf32", "[1]", "arith.addf", "0.0", {"reduce"}},
      {"4x5x6xf32", "4x5xf32", "[2]", "arith.maximumf", "0xFF800000", {"reduce"}},
      {"4x5x6xf32", "6xf32", "[0, 1]", "arith.addf", "0.0", {"reduce"}},
      {"4x5x6xf32", "f32", "[0, 1, 2]", "arith.addf", "0.0", {"reduce"}},
      {"4x5x6xf32", "5xf32", "[0, 2]", "arith.addf", "0.0", {"copy", "reduce"}},
      {"3x4x5x6xf32", "4x6xf32", "[0, 2]", "arith.addf", "0.0", {"copy", "reduce"}},
      {"4x5x6xf32", "4x6xf32", "[1]", "arith.mulf", "1.0", {"reduce"}},
      {"4x5x6xf32", "4x6xf32", "[1]", "arith.minimumf", "0x7F800000", {"reduce"}},
      // Not the neutral element: compiled.
      {"4x5x6xf32", "4x6xf32", "[1]", "arith.addf", "2.0", {"compiled"}},
      {"4x5x6xi64", "4x6xi64", "[1]", "arith.addi", "0", {"compiled"}},
      {"4x5x6xf64", "5xf64", "[0, 2]", "arith.addf", "0.0", {"compiled"}},
      {"300000xf32", "f32", "[0]", "arith.addf", "0.0", {"reduce"}},
  };
  for (const Form &form : forms) {
    SCOPED_TRACE(form.shape + " " + form.dims + " " + form.combiner);
    std::string type = form.shape.substr(form.shape.rfind('x') == std::string::npos ? 0 : form.shape.rfind('x') + 1);
    std::string x = "tensor<" + form.shape + ">", y = "tensor<" + form.result + ">";
    StepRunner runner("func.func @step(%x: " + x + ") -> " + y + " {\n%init = arith.constant " + form.init + " : " + type +
                      "\n%e = tensor.empty() : " + y + "\n%f = linalg.fill ins(%init : " + type + ") outs(%e : " + y + ") -> " + y +
                      "\n%0 = linalg.reduce ins(%x : " + x + ") outs(%f : " + y + ") dimensions = " + form.dims + "\n(%in: " + type +
                      ", %acc: " + type + ") {\n%s = " + form.combiner + " %in, %acc : " + type + "\nlinalg.yield %s : " + type +
                      "\n}\nreturn %0 : " + y + "\n}\n");
    runner.compare(4, 1e-3);
    EXPECT_EQ(runner.kernels(), form.kernels);
  }
}

TEST(Step, MlpMatchesReference) {
  StepRunner runner(source("test/Conversion/Inputs/mlp-step.mlir") + source("lib/Optimizers/adamw.mlir"));
  ASSERT_TRUE(runner.valid());
  std::vector<Tensor> arguments = runner.randomArguments(11);
  for (unsigned i : {6, 8})
    for (double &value : arguments[i].floats)
      value = std::abs(value); // Second moments.
  std::vector<Tensor> ours = runner.run(arguments);
  runner.compareTensors(ours, runner.reference(arguments), 2e-4);
  RunOptions options;
  options.inplace = options.reverse = true;
  runner.compareTensors(runner.run(arguments, options), ours, 0);
}
