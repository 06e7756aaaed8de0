//===- ReportTest.cpp - Sizes, budgets and the plan's report --------------===//

#include "forebay/Planning/Machine.h"
#include "forebay/Planning/PlanReport.h"

#include <gtest/gtest.h>

using namespace forebay;
using namespace forebay::planning;

namespace {

TEST(Sizes, Parse) {
  uint64_t bytes = 0;
  EXPECT_TRUE(parseSize("4096", bytes));
  EXPECT_EQ(bytes, 4096u);
  EXPECT_TRUE(parseSize("64MiB", bytes));
  EXPECT_EQ(bytes, 64u << 20);
  EXPECT_TRUE(parseSize("4096GiB", bytes));
  EXPECT_EQ(bytes, 4096ull << 30);
  EXPECT_TRUE(parseSize("0", bytes));
  for (const char *bad : {"", "MiB", "1MB", "1 MiB", "-1", "1.5GiB", "0x10", "99999999999999999999", "18446744073709551615KiB", "1mib"})
    EXPECT_FALSE(parseSize(bad, bytes)) << bad;
}

TEST(Sizes, FormatReadsBack) {
  for (uint64_t bytes : {0ull, 1ull, 1023ull, 1024ull, 1536ull, 1ull << 20, 3ull << 29, 5ull << 30, 12345678ull}) {
    uint64_t back = 1;
    EXPECT_TRUE(parseSize(formatSize(bytes), back)) << formatSize(bytes);
    EXPECT_EQ(back, bytes);
  }
  EXPECT_EQ(formatSize(3ull << 29), "1536MiB");
  EXPECT_EQ(readableSize(1536), "1.50 KiB");
  EXPECT_EQ(readableSize(12), "12 B");
}

TEST(Sizes, OverrideMemory) {
  Machine m;
  m.name = "m";
  m.spaces = {{"hbm", 1}, {"host", 2}};
  std::string error;
  EXPECT_TRUE(overrideMemory(m, "", error));
  EXPECT_TRUE(overrideMemory(m, "host=1KiB,hbm=5", error));
  EXPECT_EQ(m.spaces[0].capacity, 5u);
  EXPECT_EQ(m.spaces[1].capacity, 1024u);
  EXPECT_FALSE(overrideMemory(m, "disk=1", error));
  EXPECT_EQ(error, "machine 'm' has no memory 'disk' (it has: hbm, host)");
  EXPECT_FALSE(overrideMemory(m, "hbm", error));
  EXPECT_EQ(error, "'hbm' is not NAME=SIZE, with a size above 0 in bytes, KiB, MiB or GiB");
}

/// Two spaces, one buffer that another takes over in place at command 1.
Program makeProgram() {
  Program p;
  p.policy = "zero-offload";
  p.machine = "superchip-emu";
  p.spaces = {{"hbm", 320, 1 << 20}, {"host", 64, 32}};
  p.step.resize(4);
  p.step[0].kind = CommandKind::Copy;
  p.step[0].operands = {{0, 0, 100, Access::Read}, {1, 0, 100, Access::Write}};
  p.step[3].waits = {{0, 0}};
  Tensor w{};
  w.name = "w";
  w.role = Role::Parameter;
  w.bytes = 40;
  w.trainable = true;
  Tensor f = w;
  f.trainable = false;
  f.bytes = 20;
  p.tensors = {w, f};
  p.values = {{"w", Role::Parameter, 0, 0, 40, 0, 3, true},
              {"a", Role::Activation, 0, 64, 100, 0, 1, false},
              {"b", Role::Gradient, 0, 64, 100, 1, 2, false}, // in place over a
              {"c", Role::Activation, 0, 192, 128, 1, 1, false},
              {"d", Role::Activation, 0, 64, 128, 3, 3, false},
              {"e", Role::Activation, 0, 192, 64, 3, 3, false},
              {"h", Role::Gradient, 1, 0, 64, 0, 3, false}};
  p.flopsPerToken = 1.5e9;
  return p;
}

TEST(Report, Numbers) {
  PlanReport r = makeReport(makeProgram());
  EXPECT_FALSE(r.fits);
  EXPECT_EQ(r.parameters, 15u);
  EXPECT_EQ(r.trainedParameters, 10u);
  ASSERT_EQ(r.spaces.size(), 2u);
  EXPECT_EQ(r.spaces[0].peak, 320u);
  EXPECT_EQ(r.spaces[0].live, 64u + 128 + 128); // a and b share bytes: counted once
  EXPECT_EQ(r.spaces[0].peakCommand, 1u);
  EXPECT_EQ(r.spaces[0].roles[Role::Parameter], 64u);
  EXPECT_EQ(r.spaces[0].roles[Role::Gradient], 128u);
  EXPECT_EQ(r.spaces[0].roles[Role::Activation], 128u);
  // Each role by itself: b is largest after the peak, a before it.
  EXPECT_EQ(r.spaces[0].rolesPeak[Role::Parameter], 64u);
  EXPECT_EQ(r.spaces[0].rolesPeak[Role::Gradient], 128u);
  EXPECT_EQ(r.spaces[0].rolesPeak[Role::Activation], 192u); // d and e at command 3, where less lives in all
  EXPECT_DOUBLE_EQ(r.spaces[0].fragmentation(), 1.0);
  EXPECT_EQ(r.copied[1], 100u);
  EXPECT_EQ(smallestBudget(r), "hbm=1KiB,host=1KiB");
}

TEST(Report, Text) {
  std::string text = toText(makeReport(makeProgram()));
  EXPECT_NE(text.find("policy zero-offload on machine superchip-emu: does not fit\n"), std::string::npos) << text;
  EXPECT_NE(text.find("memory                           hbm          host\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  gradient                     128 B          64 B\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  activation                   128 B             -\n  unused at the peak "), std::string::npos) << text;
  EXPECT_NE(text.find("largest over the step\n  parameter "), std::string::npos) << text;
  EXPECT_NE(text.find("  activation                   192 B             -\narena / live bytes "), std::string::npos) << text;
  EXPECT_NE(text.find("parameters 15 (trained: 10), forward flops per token 1.5e+09\n"), std::string::npos) << text;
}

/// Weights that come and go: one fetch is waited for, one is ahead of use, an activation returns.
TEST(Report, Flow) {
  Program p = makeProgram();
  p.queues = {{"gpu", true}, {"cpu", true}, {"h2d", false}};
  p.spaces[1].arenaBytes = 4096;
  p.values = {{"w", Role::WeightCopy, 0, 0, 64, 0, 1, false},
              {"v", Role::WeightCopy, 0, 64, 128, 2, 5, false},
              {"a", Role::Activation, 0, 0, 64, 6, 7, false},
              {"x", Role::WeightCopy, 0, 256, 64, 0, 8, true}};
  auto command = [](CommandKind kind, uint32_t queue, std::vector<Range> operands) {
    Command c;
    c.kind = kind;
    c.queue = queue;
    c.operands = std::move(operands);
    return c;
  };
  auto copy = [&](uint64_t offset, uint64_t bytes) {
    return command(CommandKind::Copy, 2, {{1, 0, bytes, Access::Read}, {0, offset, bytes, Access::Write}});
  };
  auto dispatch = [&](uint32_t queue, uint64_t offset) { return command(CommandKind::Dispatch, queue, {{queue, offset, 64, Access::Read}}); };
  p.step = {copy(0, 64), dispatch(0, 0), copy(64, 128), dispatch(1, 64), dispatch(0, 256), dispatch(0, 64), copy(0, 64), dispatch(0, 0), copy(256, 64)};
  PlanReport r = makeReport(p);
  EXPECT_EQ(r.flow.fetches, 2u);
  EXPECT_EQ(r.flow.awaited, 1u);
  EXPECT_EQ(r.flow.bytes, 192u);
  EXPECT_EQ(r.flow.awaitedBytes, 64u);
  EXPECT_EQ(r.flow.activationBytes, 64u);
  EXPECT_NE(toText(r).find("weights flow: 2 fetches, 1 ahead of use, 1 waited for (64 B)\nactivations offloaded between forward and backward: 64 B\n"),
            std::string::npos);
  EXPECT_NE(toJson(r).find("\"flow\": {\"fetches\": 2, \"awaited\": 1, \"bytes\": 192, \"awaited_bytes\": 64, \"activation_bytes\": 64}"),
            std::string::npos);
  p.step.erase(p.step.begin() + 4); // nothing is left on the compute queue to hide the second; one on another queue hides nothing
  p.values[1].last = 4;
  p.values[2] = {"a", Role::Activation, 0, 0, 64, 5, 6, false};
  EXPECT_NE(toText(makeReport(p)).find("weights flow: 2 fetches, no prefetch possible: each fetch waits\n"), std::string::npos);
}

TEST(Report, Json) {
  std::string json = toJson(makeReport(makeProgram()));
  for (const char *part :
       {"\"policy\": \"zero-offload\"", "\"fits\": false", "\"step_s\": null", "\"bound_s\": null", "\"binding\": null", "\"tflops\": null",
        "\"mfu\": null", "\"tokens_per_s\": null", "\"peak\": {\"hbm\": 320, \"host\": 64}", "\"capacity\": {\"hbm\": 1048576, \"host\": 32}",
        "\"roles\": {\"hbm\": {\"parameter\": 64, \"gradient\": 128, \"activation\": 128}, \"host\": {\"gradient\": 64}}",
        "\"roles_peak\": {\"hbm\": {\"parameter\": 64, \"gradient\": 128, \"activation\": 192}, \"host\": {\"gradient\": 64}}", "\"parameters\": 15",
        "\"flops_per_token\": 1500000000"})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in\n" << json;
}

} // namespace
