//===- ToProgramTest.cpp - From dispatches to a program -------------------===//

#include "forebay/Dialect/Offload/Transforms/Passes.h"
#include "forebay/Dialect/Offload/Transforms/ToProgram.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Planning/Machine.h"
#include "forebay/Planning/PlanReport.h"
#include "forebay/Planning/Policy.h"
#include "forebay/Planning/RaceVerifier.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using forebay::Command;
using forebay::CommandKind;
using forebay::Program;
using forebay::Role;
using forebay::Tensor;

namespace {

class ToProgram : public testing::Test {
public:
  ToProgram() {
    DialectRegistry registry;
    forebay::registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  Program lower(const char *file, const char *machine, const char *policy, uint64_t bucketBytes = 64 << 20) {
    auto module = parseSourceFile<ModuleOp>(std::string(FOREBAY_TEST_DIR "/Dialect/Offload/Inputs/") + file, ParserConfig(&context));
    EXPECT_TRUE(module);
    PassManager manager(&context);
    forebay::OffloadPlanOptions options;
    options.machine = machine;
    options.policy = policy;
    options.bucketBytes = bucketBytes;
    manager.addPass(forebay::createOffloadPlan(options));
    manager.addPass(forebay::createOffloadLowerToCmd());
    EXPECT_TRUE(succeeded(manager.run(*module)));
    FailureOr<Program> program = forebay::offload::toProgram(*module);
    EXPECT_TRUE(succeeded(program));
    return succeeded(program) ? *program : Program();
  }

  static const Tensor *find(const Program &p, const std::string &name, Role role) {
    for (const Tensor &t : p.tensors)
      if (t.name == name && t.role == role)
        return &t;
    ADD_FAILURE() << "no tensor " << name;
    return &p.tensors[0];
  }

  MLIRContext context;
};

/// Policies from elsewhere may be made of ours, but a program that undoes updates in place would lose bits.
TEST_F(ToProgram, RefusesUpdatesThatAreUndoneInPlace) {
  ASSERT_TRUE(forebay::planning::registerPolicy("undoes", [] { return forebay::planning::makeSuperOffload(true); }));
  auto module = parseSourceFile<ModuleOp>(FOREBAY_TEST_DIR "/Dialect/Offload/Inputs/mlp.mlir", ParserConfig(&context));
  ASSERT_TRUE(module);
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { said += diagnostic.str(); });
  PassManager manager(&context);
  forebay::OffloadPlanOptions options;
  options.machine = "superchip-emu";
  options.policy = "undoes";
  manager.addPass(forebay::createOffloadPlan(options));
  EXPECT_TRUE(failed(manager.run(*module)));
  EXPECT_EQ(said, "--policy=undoes: it undoes updates by inverse arithmetic, which leaves other bits in weights whose step is clipped or dropped");
}

TEST_F(ToProgram, Fields) {
  Program p = lower("mlp.mlir", "superchip-emu", "zero-offload");
  std::string error;
  EXPECT_TRUE(verifyProgram(p, error)) << error;
  EXPECT_EQ(p.machine, "superchip-emu");
  EXPECT_EQ(p.policy, "zero-offload");
  EXPECT_EQ(p.precision, "fp32");
  EXPECT_EQ(p.entry, "train");
  EXPECT_EQ(p.modelPath, "/models/mlp.onnx");
  EXPECT_EQ(p.modelBytes, 1000u);
  EXPECT_EQ(p.modelHash, ~0ull);
  ASSERT_EQ(p.dataFiles.size(), 1u);
  EXPECT_EQ(p.dataFiles[0].name, "mlp.onnx.data");
  EXPECT_EQ(p.dataFiles[0].bytes, 500000u);
  EXPECT_FALSE(p.dataFiles[0].hashed);
  ASSERT_EQ(p.spaces.size(), 2u);
  EXPECT_EQ(p.spaces[0].name, "hbm");
  EXPECT_EQ(p.spaces[0].capacity, 2ull << 30);
  EXPECT_EQ(p.spaces[1].capacity, 8ull << 30);
  ASSERT_EQ(p.queues.size(), 4u);
  EXPECT_TRUE(p.queues[0].compute && p.queues[1].compute && !p.queues[2].compute && !p.queues[3].compute);
  EXPECT_EQ(p.accumulate, 1u);
  EXPECT_TRUE(p.hasClip);
  EXPECT_EQ(p.clipNorm, 1.0);
  ASSERT_EQ(p.dims.size(), 1u);
  EXPECT_EQ(p.dims[0], (std::pair<std::string, int64_t>("batch", 16)));
  EXPECT_EQ(p.tokensPerMicroStep, 16); // elements of labels, the first integer input
  EXPECT_EQ(p.batch, 16);
  EXPECT_EQ(p.sequence, 0);
  EXPECT_EQ(p.flopsPerToken, (524288.0 + 1048576.0) / 16); // forward products only
  EXPECT_EQ(p.scratchBytes, 4096u);
  EXPECT_TRUE(p.flush.empty());

  EXPECT_EQ(p.optimizer, "sgd");
  EXPECT_EQ(p.scalarResults, 2u);
  ASSERT_EQ(p.hyper.size(), 4u);
  EXPECT_EQ(p.hyper[0].name, "lr");
  EXPECT_EQ(p.hyper[2].name, "nesterov");
  EXPECT_TRUE(p.hyper[2].isBool);
  EXPECT_EQ(p.hyper[2].value, 1.0);
  ASSERT_EQ(p.groups.size(), 2u);
  EXPECT_EQ(p.groups[0].values, (std::vector<double>{1e-3, 0.9, 1.0, 0.01}));
  EXPECT_EQ(p.groups[0].lrScale, 1.0);
  EXPECT_EQ(p.groups[1].values, (std::vector<double>{1e-3, 0.9, 1.0, 0.0}));
  EXPECT_EQ(p.groups[1].fixed, (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(p.groups[1].lrScale, 0.5);

  const Tensor *w1 = find(p, "w1", Role::Parameter), *copy = find(p, "w1", Role::WeightCopy), *b1 = find(p, "b1", Role::Parameter);
  EXPECT_TRUE(w1->trainable);
  EXPECT_EQ(w1->group, 0);
  EXPECT_EQ(w1->space, 1u);
  EXPECT_EQ(w1->file, "mlp.onnx.data");
  EXPECT_EQ(w1->shape, (std::vector<int64_t>{64, 256}));
  EXPECT_EQ(&p.tensors[copy->copyOf], w1);
  EXPECT_EQ(copy->space, 0u);
  EXPECT_FALSE(b1->trainable);
  EXPECT_EQ(b1->space, 0u); // one home, where forward reads it
  EXPECT_EQ(b1->fileOffset, 65536u);
  EXPECT_EQ(b1->group, -1);
  EXPECT_EQ(find(p, "w2", Role::Parameter)->group, 1);
  EXPECT_TRUE(find(p, "unused", Role::Parameter)->noGradient);
  EXPECT_EQ(find(p, "w1/momentum_buffer", Role::Moment)->space, 1u);
  const Tensor *labels = find(p, "labels", Role::Input);
  EXPECT_TRUE(labels->hasRange && labels->hasIgnore);
  EXPECT_EQ(labels->lo, 0);
  EXPECT_EQ(labels->hi, 128);
  EXPECT_EQ(labels->ignore, -100);
  EXPECT_EQ(find(p, "loss", Role::Loss)->bytes, 4u);
  EXPECT_EQ(find(p, "verdict", Role::Control)->space, 1u);

  for (const Command &c : p.step) {
    if (c.kind == CommandKind::Report)
      EXPECT_EQ(p.tensors[c.index].name, "loss");
    if (c.kind == CommandKind::Feed)
      EXPECT_EQ(p.tensors[c.index].role, Role::Input);
    if (c.tensor >= 0)
      EXPECT_EQ(p.tensors[c.tensor].role, Role::Parameter);
  }
  std::string bytes = serialize(p);
  Program back;
  ASSERT_TRUE(deserialize(bytes, back, error)) << error;
  EXPECT_EQ(serialize(back), bytes);

  auto report = forebay::planning::makeReport(p);
  EXPECT_EQ(report.parameters, 64u * 256 + 256 + 256 * 128 + 8);
  EXPECT_EQ(report.trainedParameters, 64u * 256 + 256 * 128);
  for (auto &space : report.spaces)
    EXPECT_LE(space.fragmentation(), 1.05);
}

/// Exhaustive on small programs: each wait is needed.
TEST_F(ToProgram, EveryWaitIsNeeded) {
  for (const char *file : {"mlp.mlir", "accumulate.mlir"})
    for (const char *policy : {"resident", "zero-offload", "weight-flow"})
      for (uint64_t bucket : {4096ull, 64ull << 20}) {
        Program p = lower(file, "superchip-emu", policy, bucket);
        std::string error;
        EXPECT_TRUE(verifyProgram(p, error)) << error;
        size_t waits = 0;
        for (Command &c : p.step)
          for (size_t w = 0; w < c.waits.size(); ++w, ++waits) {
            forebay::Wait wait = c.waits[w];
            c.waits.erase(c.waits.begin() + w);
            EXPECT_FALSE(verifyProgram(p, error)) << file << ", " << policy << ": wait " << w << " of " << c.label;
            c.waits.insert(c.waits.begin() + w, wait);
          }
        EXPECT_GT(waits, 4u);
      }
}

TEST_F(ToProgram, Accumulation) {
  Program p = lower("accumulate.mlir", "superchip-emu", "zero-offload");
  EXPECT_EQ(p.accumulate, 2u);
  EXPECT_FALSE(p.hasClip);
  EXPECT_EQ(find(p, "w/grad", Role::Accumulator)->space, 1u);
}

TEST_F(ToProgram, RatesOfTheMachine) {
  Program p = lower("mlp.mlir", "gh200-96", "zero-offload");
  forebay::planning::Machine m;
  std::string error;
  ASSERT_TRUE(forebay::planning::parseMachine(p.machineModel, m, error)) << error;
  EXPECT_EQ(m.name, "gh200-96");
  EXPECT_TRUE(m.timed());
  EXPECT_EQ(m.peak(forebay::DType::BF16), 990e12);
  EXPECT_EQ(m.queues[m.computeQueue].name, "gpu");
  ASSERT_GE(m.sideQueue, 0);
  EXPECT_EQ(m.queues[m.sideQueue].name, "side");
  EXPECT_EQ(m.queues[m.sideQueue].rates.size(), m.queues[m.computeQueue].rates.size());
  EXPECT_EQ(m.spaces[m.hostSpace].bandwidth, 500e9);
  // Fig. 7 of the SuperOffload paper: 64 MB at 400 and 385 GB/s, the launch of the copy included.
  EXPECT_NEAR(64e6 / copySeconds(m, m.toCompute, 64000000), 400e9, 1e9);
  EXPECT_NEAR(64e6 / copySeconds(m, m.toHost, 64000000), 385e9, 1e9);
  EXPECT_NEAR(250e3 / copySeconds(m, m.toCompute, 250000), 60e9, 1e9);
}

// What must hold between the numbers of any machine.
TEST_F(ToProgram, PresetsAreConsistent) {
  for (const char *name : {"cpu", "superchip-emu", "gh200-96", "gh200-144", "gb200", "h200-pcie5", "a100-pcie4"}) {
    SCOPED_TRACE(name);
    forebay::planning::Machine m;
    std::string error;
    ASSERT_TRUE(forebay::planning::parseMachine(lower("mlp.mlir", name, "resident").machineModel, m, error)) << error;
    EXPECT_EQ(m.name, name);
    EXPECT_TRUE(m.timed());
    bool gpu = std::string(name) != "cpu" && std::string(name) != "superchip-emu";
    EXPECT_EQ(m.sideQueue >= 0, gpu);
    EXPECT_EQ(m.peak(forebay::DType::BF16) > 0, gpu);
    for (const auto &queue : m.queues) {
      const auto &space = m.spaces[queue.compute && queue.name != "cpu" ? m.computeSpace : m.hostSpace];
      EXPECT_GE(queue.launch, 0);
      EXPECT_LT(queue.launch, 1e-4);
      if (!queue.compute) {
        ASSERT_FALSE(queue.link.points.empty());
        for (const auto &point : queue.link.points)
          EXPECT_LE(point.y, space.bandwidth) << queue.name;
        continue;
      }
      EXPECT_GT(queue.bandwidth, 0);
      EXPECT_LE(queue.bandwidth, space.bandwidth) << queue.name;
      for (double bandwidth : queue.classBandwidth)
        EXPECT_LE(bandwidth, space.bandwidth) << queue.name;
      ASSERT_FALSE(queue.rates.empty());
      for (const auto &rate : queue.rates) {
        if (gpu && queue.name != "cpu")
          EXPECT_LE(rate.flops, m.peak(rate.type)) << queue.name;
        for (const auto &point : rate.share.points)
          EXPECT_LE(point.y, 1) << queue.name;
      }
    }
  }
}

} // namespace
