//===- MachineTest.cpp - Machines as text, seconds from their rates -------===//

#include "forebay/Planning/Machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace forebay;
using namespace forebay::planning;

namespace {

std::vector<std::pair<double, double>> pointsOf(const Curve &curve) {
  std::vector<std::pair<double, double>> points;
  for (const Curve::Point &point : curve.points)
    points.push_back({point.x, point.y});
  return points;
}

void expectEqual(const Machine &a, const Machine &b) {
  EXPECT_EQ(a.name, b.name);
  ASSERT_EQ(a.spaces.size(), b.spaces.size());
  for (size_t i = 0; i < a.spaces.size(); ++i) {
    EXPECT_EQ(a.spaces[i].name, b.spaces[i].name);
    EXPECT_EQ(a.spaces[i].capacity, b.spaces[i].capacity);
    EXPECT_EQ(a.spaces[i].total, b.spaces[i].total);
    EXPECT_EQ(a.spaces[i].bandwidth, b.spaces[i].bandwidth);
  }
  ASSERT_EQ(a.queues.size(), b.queues.size());
  for (size_t i = 0; i < a.queues.size(); ++i) {
    const MachineQueue &p = a.queues[i], &q = b.queues[i];
    EXPECT_EQ(p.name, q.name);
    EXPECT_EQ(p.compute, q.compute);
    EXPECT_EQ(p.launch, q.launch);
    EXPECT_EQ(p.cores, q.cores);
    EXPECT_EQ(p.bandwidth, q.bandwidth);
    EXPECT_EQ(p.classBandwidth, q.classBandwidth);
    EXPECT_EQ(p.peaks, q.peaks);
    EXPECT_EQ(pointsOf(p.link), pointsOf(q.link));
    ASSERT_EQ(p.rates.size(), q.rates.size());
    for (size_t r = 0; r < p.rates.size(); ++r) {
      EXPECT_EQ(p.rates[r].cls, q.rates[r].cls);
      EXPECT_EQ(p.rates[r].type, q.rates[r].type);
      EXPECT_EQ(p.rates[r].flops, q.rates[r].flops);
      EXPECT_EQ(pointsOf(p.rates[r].share), pointsOf(q.rates[r].share));
    }
  }
  EXPECT_EQ(a.computeSpace, b.computeSpace);
  EXPECT_EQ(a.hostSpace, b.hostSpace);
  EXPECT_EQ(a.computeQueue, b.computeQueue);
  EXPECT_EQ(a.hostQueue, b.hostQueue);
  EXPECT_EQ(a.toCompute, b.toCompute);
  EXPECT_EQ(a.toHost, b.toHost);
  EXPECT_EQ(a.sideQueue, b.sideQueue);
}

/// Everything filled in, with numbers that decimal text would round.
Machine makeMachine(uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-300, 300);
  auto real = [&] { return std::exp2(exponent(random)); };
  auto curve = [&] {
    Curve curve;
    double x = real();
    for (uint32_t i = random() % 4; i > 0; --i, x *= 1 + real() / (1 + real()))
      if (curve.points.empty() || x > curve.points.back().x)
        curve.points.push_back({x, real()});
    return curve;
  };
  Machine m;
  const char *names[] = {"hbm", "", "with blank", "per%cent\nline", "\xc3\xa4"};
  m.name = names[seed % 5];
  for (const char *name : names)
    m.spaces.push_back({name, random(), (uint64_t(random()) << 32) | 1, random() % 2 ? real() : 0});
  for (const char *name : names) {
    MachineQueue q;
    q.name = name;
    q.compute = random() % 2;
    q.launch = real();
    q.cores = random();
    q.bandwidth = real();
    for (double &bandwidth : q.classBandwidth)
      bandwidth = random() % 2 ? real() : 0;
    for (uint32_t i = random() % 4; i > 0; --i)
      q.rates.push_back({OpClass(random() % 7), DType(random() % 10), real(), curve()});
    for (uint32_t i = random() % 3; i > 0; --i)
      q.peaks.push_back({DType(random() % 10), real()});
    q.link = curve();
    m.queues.push_back(std::move(q));
  }
  m.computeSpace = 1, m.hostSpace = 2, m.computeQueue = 3, m.hostQueue = 0, m.toCompute = 4, m.toHost = 1, m.sideQueue = int32_t(seed % 6) - 1;
  return m;
}

TEST(MachineText, ReadsBackExactly) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Machine m = makeMachine(seed), back;
    std::string error;
    ASSERT_TRUE(parseMachine(toText(m), back, error)) << error << "\n" << toText(m);
    expectEqual(m, back);
    EXPECT_EQ(toText(back), toText(m));
  }
}

TEST(MachineText, DamageIsAnError) {
  std::string text = toText(makeMachine(7)), error;
  Machine m;
  EXPECT_FALSE(parseMachine("", m, error));
  EXPECT_EQ(error, "the machine ends before its line 'roles'");
  EXPECT_FALSE(parseMachine("forebay-machine 2\n", m, error));
  EXPECT_EQ(error, "line 1 of the machine is not 'forebay-machine 1'");
  auto bad = [&](const std::string &line) {
    EXPECT_FALSE(parseMachine("forebay-machine 1\n" + line + "\n", m, error)) << line;
    EXPECT_EQ(error, "line 2 of the machine is malformed: " + line);
  };
  for (const char *line : {"", "space hbm 1 2", "space hbm 1 2 1p+0 3", "space hbm x 2 1p+0", "space hbm -1 2 1p+0", "space hbm 1 2 inf", "space a%2 1 2 1p+0",
                           "link 1p+0 1p+0", "queue gpu dances 1p+0 1 1p+0", "nonsense", "roles 0 0 0 0 0", "roles 0 0 0 0 0 0 -1 -1 -1 0"})
    bad(line);
  std::string queue = "forebay-machine 1\nqueue gpu computes 0p+0 1 1p+0\n";
  for (const char *line : {"class sums 1p+0", "rate matmul f99 1p+0", "rate matmul f32 1p+0 1p+0", "rate matmul f32 1p+0 1p+1 1p+0 1p+0 1p+0", "peak f32"}) {
    EXPECT_FALSE(parseMachine(queue + line + "\n", m, error)) << line;
    EXPECT_EQ(error, std::string("line 3 of the machine is malformed: ") + line);
  }
  EXPECT_FALSE(parseMachine(queue + "space hbm 1 1 0p+0\nroles 0 0 0 0 0 1 -1 -1 -1\n", m, error));
  EXPECT_EQ(error, "the machine's line 'roles' names a memory or queue that it does not have");
  // No prefix of a machine is a machine.
  for (size_t length = 0; length + 1 < text.size(); ++length)
    EXPECT_FALSE(parseMachine(text.substr(0, length), m, error) && toText(m) == text) << length;
}

TEST(Curve, IsLinearInTheLogarithm) {
  Curve curve{{{1024, 10}, {4096, 30}, {8192, 31}}};
  EXPECT_EQ(curve.at(1), 10);
  EXPECT_EQ(curve.at(1024), 10);
  EXPECT_NEAR(curve.at(2048), 20, 1e-12);
  EXPECT_EQ(curve.at(4096), 30);
  EXPECT_EQ(curve.at(1e9), 31);
  EXPECT_EQ(Curve().at(5), 0);
}

TEST(Seconds, OfDispatches) {
  Machine m;
  MachineQueue gpu;
  gpu.launch = 2;
  gpu.bandwidth = 100;
  gpu.classBandwidth[unsigned(OpClass::Optimizer)] = 50;
  gpu.rates.push_back({OpClass::Matmul, DType::BF16, 1000, {{{64, 0.5}, {128, 1}}}});
  gpu.rates.push_back({OpClass::Attention, DType::BF16, 500, {}});
  m.queues.push_back(gpu);
  auto seconds = [&](OpClass cls, DType type, double flops, uint64_t bytes, uint64_t width = 0) { return dispatchSeconds(m, 0, {cls, type, flops, bytes, width}); };
  EXPECT_EQ(seconds(OpClass::Matmul, DType::BF16, 10000, 10), 2 + 10);
  EXPECT_EQ(seconds(OpClass::Matmul, DType::BF16, 10000, 10, 64), 2 + 20);
  EXPECT_EQ(seconds(OpClass::Matmul, DType::BF16, 10000, 5000, 4096), 2 + 50);
  EXPECT_EQ(seconds(OpClass::Matmul, DType::F32, 10000, 100), 2 + 1) << "no rate in this type: bytes count";
  EXPECT_EQ(seconds(OpClass::Attention, DType::BF16, 10000, 10), 2 + 20);
  EXPECT_EQ(seconds(OpClass::Reduction, DType::BF16, 10000, 10), 2 + 10) << "at the rate of products";
  EXPECT_EQ(seconds(OpClass::Optimizer, DType::F32, 10, 100), 2 + 2);
}

TEST(Seconds, OfCopies) {
  Machine m;
  MachineQueue up;
  up.launch = 0.5;
  up.link.points = {{100, 10}, {10000, 30}};
  m.queues.push_back(up);
  EXPECT_EQ(copySeconds(m, 0, 50), 0.5 + 5);
  EXPECT_EQ(copySeconds(m, 0, 1000), 0.5 + 50);
  EXPECT_EQ(copySeconds(m, 0, 30000), 0.5 + 1000);
}

} // namespace
