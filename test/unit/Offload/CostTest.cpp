//===- CostTest.cpp - Costs from the IR to the command table --------------===//

#include "../../../lib/Dialect/Offload/Transforms/AsyncReader.h"
#include "../../../lib/Dialect/Offload/Transforms/Machine.h"
#include "../../../lib/Dialect/Offload/Transforms/ProblemBuilder.h"

#include "forebay/Dialect/Offload/Transforms/Passes.h"
#include "forebay/Dialect/Offload/Transforms/ToProgram.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Planning/Schedule.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <gtest/gtest.h>

#include <map>

using namespace mlir;
using forebay::CommandKind;
using forebay::Cost;
using forebay::DType;
using forebay::OpClass;
using forebay::Program;
using forebay::planning::OpKind;
using forebay::planning::Problem;
using forebay::planning::ProblemOp;

namespace {

/// A layer of attention between an embedding and the loss; batch 2, sequence 40, width 64, vocabulary 1000.
constexpr const char *kModel = R"mlir(
func.func @forward(%ids: tensor<2x40xi64> {train.name = "ids", train.role = #train.role<input>},
                   %labels: tensor<80xi64> {train.name = "labels", train.role = #train.role<input>},
                   %table: tensor<1000x64xf32> {train.name = "table", train.role = #train.role<parameter>, train.trainable},
                   %frozen: tensor<64xf32> {train.name = "frozen", train.role = #train.role<parameter>},
                   %head: tensor<1000x64xf32> {train.name = "head", train.role = #train.role<parameter>, train.trainable})
    -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>}) {
  %x = train.embedding %table, %ids : (tensor<1000x64xf32>, tensor<2x40xi64>) -> tensor<2x40x64xf32>
  %n, %r = train.rms_norm %x weight(%frozen) {eps = 1.0e-6 : f64} : (tensor<2x40x64xf32>, tensor<64xf32>) -> (tensor<2x40x64xf32>, tensor<2x40xf32>)
  %q = tensor.expand_shape %n [[0], [1, 2], [3]] output_shape [2, 1, 40, 64] : tensor<2x40x64xf32> into tensor<2x1x40x64xf32>
  %a, %lse = train.attention %q, %q, %q {scale = 0.125 : f64, causal}
    : (tensor<2x1x40x64xf32>, tensor<2x1x40x64xf32>, tensor<2x1x40x64xf32>) -> (tensor<2x1x40x64xf32>, tensor<2x1x40xf32>)
  %f = tensor.collapse_shape %a [[0, 1, 2], [3]] : tensor<2x1x40x64xf32> into tensor<80x64xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<80x1000xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<80x1000xf32>) -> tensor<80x1000xf32>
  %logits = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%f, %head : tensor<80x64xf32>, tensor<1000x64xf32>) outs(%z : tensor<80x1000xf32>) -> tensor<80x1000xf32>
  %loss, %l = train.cross_entropy %logits, %labels : (tensor<80x1000xf32>, tensor<80xi64>) -> (tensor<f32>, tensor<80xf32>)
  return %loss : tensor<f32>
}
)mlir";

class CostTest : public testing::Test {
public:
  CostTest() {
    DialectRegistry registry;
    forebay::registerAllDialects(registry);
    static bool registered = (forebay::registerAllPasses(), true);
    (void)registered;
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  void run(ModuleOp module, const std::string &pipeline) {
    PassManager manager(&context);
    ASSERT_TRUE(succeeded(parsePassPipeline(pipeline, manager)));
    ASSERT_TRUE(succeeded(manager.run(module))) << pipeline;
  }

  OwningOpRef<ModuleOp> dispatches(const std::string &options = "") {
    auto module = parseSourceString<ModuleOp>(kModel, ParserConfig(&context));
    if (module)
      run(*module, "train-set-optimizer{optimizer=adamw},forebay-train{" + options + "},forebay-dispatch");
    return module;
  }

  static const ProblemOp &find(const forebay::offload::StepProblem &step, StringRef kernel) {
    for (const ProblemOp &op : step.problem.ops)
      if (op.kernel >= 0) {
        auto attr = func::FuncOp(step.kernels[op.kernel])->getAttrOfType<forebay::offload::KernelAttr>(forebay::offload::kKernelAttr);
        if (attr.getName() == kernel)
          return op;
      }
    ADD_FAILURE() << "no kernel " << kernel.str();
    return step.problem.ops[0];
  }

  MLIRContext context;
};

TEST_F(CostTest, Classes) {
  OwningOpRef<ModuleOp> module = dispatches();
  ASSERT_TRUE(module);
  auto step = forebay::offload::buildProblem(*module);
  ASSERT_TRUE(succeeded(step));
  constexpr uint64_t kTokens = 80, kWidth = 64, kVocabulary = 1000;

  // Rows are read, not the table.
  Cost cost = find(*step, "embedding").cost;
  EXPECT_EQ(cost.cls, OpClass::Gather);
  EXPECT_EQ(cost.bytes, kTokens * 8 + 2 * kTokens * kWidth * 4);
  // The gradient of the table is written whole.
  EXPECT_EQ(find(*step, "embedding_grad").cost.bytes, kTokens * 8 + kTokens * kWidth * 4 + kVocabulary * kWidth * 4);

  // Of the pairs only those that the causal mask leaves; Q, K, V are read once each.
  uint64_t pairs = 0;
  for (int q = 0; q < 40; ++q)
    for (int k = 0; k < 40; ++k)
      pairs += k <= q;
  cost = find(*step, "attention").cost;
  EXPECT_EQ(cost.cls, OpClass::Attention);
  EXPECT_EQ(cost.flops, 2.0 * 2 * pairs * (64 + 64));
  EXPECT_EQ(cost.bytes, (4 * kTokens * kWidth + kTokens) * 4);
  EXPECT_EQ(find(*step, "attention_grad").cost.flops, 2.0 * 2 * pairs * (3 * 64 + 2 * 64));

  cost = find(*step, "gemm").cost;
  EXPECT_EQ(cost.cls, OpClass::Matmul);
  EXPECT_EQ(cost.type, DType::F32);
  EXPECT_EQ(cost.flops, 2.0 * kTokens * kWidth * kVocabulary);
  EXPECT_EQ(cost.width, kWidth);
  EXPECT_EQ(cost.bytes, (kTokens * kWidth + kVocabulary * kWidth + kTokens * kVocabulary) * 4);

  cost = find(*step, "rms_norm").cost;
  EXPECT_EQ(cost.cls, OpClass::Reduction);
  EXPECT_EQ(cost.bytes, (2 * kTokens * kWidth + kWidth + kTokens) * 4);
  EXPECT_EQ(find(*step, "cross_entropy").cost.bytes, kTokens * kVocabulary * 4 + kTokens * (8 + 4) + 4); // its workspace apart

  bool updates = false;
  for (const ProblemOp &op : step->problem.ops) {
    if (op.kind != OpKind::Update)
      continue;
    updates = true;
    EXPECT_EQ(op.cost.cls, OpClass::Optimizer);
    uint64_t small = 0; // scalars and verdict
    for (size_t i = op.operands.size() - 2; i < op.operands.size(); ++i)
      small += step->problem.values[op.operands[i]].bytes;
    EXPECT_EQ(op.cost.bytes, 7 * kVocabulary * kWidth * 4 + small); // parameter, gradient, two moments; all but the gradient are written
  }
  EXPECT_TRUE(updates);
}

/// What the planner was told is what the schedule says when it is read back, and what the commands say.
TEST_F(CostTest, ProblemScheduleAndCommandsAgree) {
  for (const char *options : {"", "accumulate=2", "precision=bf16", "precision=bf16 accumulate=2"})
    for (const char *policy : {"resident", "zero-offload", "weight-flow", "superoffload"})
      for (uint64_t bucket : {64u << 20, 4096u}) {
        OwningOpRef<ModuleOp> module = dispatches(options);
        ASSERT_TRUE(module);
        auto machine = forebay::offload::loadMachine("gh200-96", module->getLoc());
        ASSERT_TRUE(succeeded(machine));
        auto step = forebay::offload::buildProblem(*module);
        ASSERT_TRUE(succeeded(step));
        Problem problem = step->problem;
        problem.bucketBytes = bucket;
        std::string error;
        auto trained = trainedParameters(problem, error);
        auto placement = forebay::planning::findPolicy(policy)->place(problem, trained, *machine);
        auto schedule = buildSchedule(problem, trained, *machine, placement, error);
        ASSERT_EQ(error, "");

        run(*module, "offload-plan{machine=gh200-96 policy=" + std::string(policy) + " bucket-bytes=" + std::to_string(bucket) + "}");
        auto read = forebay::offload::readSchedule(module->lookupSymbol<func::FuncOp>("step"), *machine);
        ASSERT_TRUE(succeeded(read));
        run(*module, "offload-lower-to-cmd");
        FailureOr<Program> program = forebay::offload::toProgram(*module);
        ASSERT_TRUE(succeeded(program));

        ASSERT_EQ(schedule.ops.size(), read->schedule.ops.size());
        ASSERT_EQ(schedule.ops.size(), program->step.size());
        size_t checked = 0;
        for (size_t i = 0; i < schedule.ops.size(); ++i) {
          if (schedule.ops[i].kind != CommandKind::Dispatch)
            continue;
          const Cost &want = schedule.ops[i].cost;
          for (const Cost *cost : {&read->schedule.ops[i].cost, &program->step[i].cost}) {
            EXPECT_EQ(cost->cls, want.cls) << schedule.ops[i].label;
            EXPECT_EQ(cost->type, want.type);
            EXPECT_EQ(cost->flops, want.flops);
            EXPECT_EQ(cost->bytes, want.bytes) << schedule.ops[i].label;
            EXPECT_EQ(cost->width, want.width);
          }
          EXPECT_GT(want.bytes, 0u) << schedule.ops[i].label;
          ++checked;
        }
        EXPECT_GT(checked, 10u);
        // Tokens and the full square, whatever runs.
        EXPECT_EQ(program->flopsPerToken, (2.0 * 2 * 40 * 40 * 128 + 2.0 * 80 * 64 * 1000) / 80);
      }
}

/// Each parameter is cast once and read in bf16; gradients come out in bf16 and are cast for what follows; masters and moments stay fp32.
TEST_F(CostTest, MixedPrecision) {
  for (const char *options : {"precision=bf16", "precision=fp16", "precision=bf16 accumulate=2"}) {
    OwningOpRef<ModuleOp> wideModule = dispatches(), module = dispatches(options);
    ASSERT_TRUE(module);
    auto wide = forebay::offload::buildProblem(*wideModule), step = forebay::offload::buildProblem(*module);
    ASSERT_TRUE(succeeded(wide) && succeeded(step));
    const Problem &problem = step->problem;
    std::string error;
    auto trained = trainedParameters(problem, error);
    ASSERT_EQ(error, "");
    ASSERT_EQ(trained.size(), 2u);
    std::map<std::string, int> casts; // by parameter
    for (const ProblemOp &op : problem.ops) {
      if (op.kind == OpKind::CastWeight) {
        ++casts[problem.values[op.operands[0]].label];
        EXPECT_EQ(op.cost.cls, OpClass::Cast);
        EXPECT_EQ(op.cost.bytes, problem.values[op.operands[0]].bytes / 2 * 3);
        EXPECT_EQ(problem.values[op.operands[0]].role, forebay::Role::Parameter);
      }
      // Nothing but casts and updates reads a master.
      for (uint32_t operand : op.operands)
        EXPECT_TRUE(problem.values[operand].role != forebay::Role::Parameter || op.kind == OpKind::CastWeight || op.kind == OpKind::Update) << op.label;
    }
    EXPECT_EQ(casts, (std::map<std::string, int>{{"frozen", 1}, {"head", 1}, {"table", 1}}));
    for (const auto &p : trained) {
      uint64_t bytes = problem.values[problem.arguments[p.argument].value].bytes;
      EXPECT_EQ(bytes, 1000u * 64 * 4);
      ASSERT_GE(p.castWeight, 0);
      EXPECT_EQ(problem.values[p.weight].bytes, bytes / 2);
      ASSERT_GE(p.castGradient, 0);
      EXPECT_EQ(problem.ops[p.castGradient].kind, OpKind::CastGradient);
      EXPECT_EQ(problem.values[p.gradient].bytes, bytes / 2);
      EXPECT_EQ(problem.values[p.gradient32].bytes, bytes);
      for (uint32_t state : p.states)
        EXPECT_EQ(problem.values[problem.arguments[state].value].bytes, bytes);
      EXPECT_EQ(p.accumulate >= 0, problem.accumulate > 1);
      EXPECT_GE(p.norm, 0);
    }
    // The same products in another type, with half the traffic.
    DType type = StringRef(options).contains("fp16") ? DType::F16 : DType::BF16;
    std::string suffix = type == DType::F16 ? "_f16" : "_bf16";
    for (std::string name : {"gemm", "attention", "attention_grad"}) {
      const Cost &now = find(*step, name + suffix).cost, &before = find(*wide, name).cost;
      EXPECT_EQ(now.type, type);
      EXPECT_EQ(now.cls, before.cls);
      EXPECT_EQ(now.flops, before.flops);
      EXPECT_EQ(now.width, before.width);
      uint64_t lse = name == "gemm" ? 0 : 80 * 4; // stays fp32
      EXPECT_EQ(now.bytes, (before.bytes - lse) / 2 + lse) << name;
    }
    EXPECT_EQ(find(*step, "embedding").cost.bytes, 80u * 8 + 2 * 80 * 64 * 2);
    // Logits are bf16, the loss and its statistics fp32.
    EXPECT_EQ(find(*step, "cross_entropy" + suffix).cost.bytes, 80u * 1000 * 2 + 80 * (8 + 4) + 4);
    for (const auto &output : problem.outputs)
      EXPECT_EQ(problem.values[output.value].bytes, 4u);
  }
}

} // namespace
