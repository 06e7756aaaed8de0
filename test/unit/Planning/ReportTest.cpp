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
