//===- FlowTest.cpp - Weights that come and go ----------------------------===//

#include "RandomProblem.h"
#include "SymbolicRun.h"
#include "forebay/Planning/Flow.h"
#include "forebay/Planning/RaceVerifier.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::planning::test;

namespace {

/// A step written down by hand: forward operations, then backward ones, each with the weights that it reads.
struct HandMade {
  Problem problem;

  uint32_t weight(uint64_t bytes) {
    problem.values.push_back({"w" + std::to_string(problem.arguments.size()), Role::Parameter, bytes});
    problem.arguments.push_back({static_cast<uint32_t>(problem.values.size() - 1), -1});
    return problem.values.size() - 1;
  }
  /// Reads `operands`, returns its result.
  uint32_t op(Phase phase, std::vector<uint32_t> operands, uint64_t bytes = 64) {
    ProblemOp o;
    o.phase = phase;
    o.label = "op" + std::to_string(problem.ops.size());
    problem.values.push_back({"v" + std::to_string(problem.ops.size()), Role::Activation, bytes});
    o.operands = std::move(operands);
    o.results = {static_cast<uint32_t>(problem.values.size() - 1)};
    o.kernel = 0;
    o.tiles = {1};
    problem.ops.push_back(std::move(o));
    return problem.values.size() - 1;
  }
  uint32_t forward(std::vector<uint32_t> operands, uint64_t bytes = 64) { return op(Phase::Forward, std::move(operands), bytes); }
  uint32_t backward(std::vector<uint32_t> operands, uint64_t bytes = 64) { return op(Phase::Backward, std::move(operands), bytes); }

  std::vector<Fetch> flow(uint64_t unitBytes, uint32_t distance) const {
    std::vector<bool> flows(problem.values.size());
    for (const ProblemArgument &a : problem.arguments)
      flows[a.value] = true;
    return flowValues(problem, flows, {unitBytes, distance});
  }
};

/// "w0[0-2] w1[1-1] before 0; ...": what comes when.
std::string text(const Problem &problem, const std::vector<Fetch> &fetches) {
  std::string out;
  for (const Fetch &f : fetches) {
    out += out.empty() ? "" : "; ";
    for (const Fetch::Part &p : f.parts)
      out += problem.values[p.value].label + "[" + std::to_string(p.first) + "-" + std::to_string(p.last) + "] ";
    out += "before " + std::to_string(f.before);
  }
  return out;
}

TEST(Flow, Units) {
  HandMade m;
  uint32_t a = m.weight(100), bias = m.weight(10), b = m.weight(50), c = m.weight(50), large = m.weight(1000);
  uint32_t x = m.forward({a, bias});
  x = m.forward({x, b});
  x = m.forward({x});
  x = m.forward({x, c});
  m.forward({x, large});
  // Up to the limit; what one operation reads is never divided, even above it; a weight larger than the limit is a unit of its own.
  EXPECT_EQ(text(m.problem, m.flow(100, 0)), "w0[0-0] w1[0-0] before 0; w2[1-1] w3[3-3] before 1; w4[4-4] before 4");
  EXPECT_EQ(text(m.problem, m.flow(1, 0)), "w0[0-0] w1[0-0] before 0; w2[1-1] before 1; w3[3-3] before 3; w4[4-4] before 4");
  EXPECT_EQ(text(m.problem, m.flow(160, 0)), "w0[0-0] w1[0-0] w2[1-1] before 0; w3[3-3] before 3; w4[4-4] before 4");
  // So many units ahead.
  EXPECT_EQ(text(m.problem, m.flow(1, 1)), "w0[0-0] w1[0-0] before 0; w2[1-1] before 0; w3[3-3] before 1; w4[4-4] before 3");
  EXPECT_EQ(text(m.problem, m.flow(1, 2)), "w0[0-0] w1[0-0] before 0; w2[1-1] before 0; w3[3-3] before 0; w4[4-4] before 1");
  EXPECT_EQ(m.flow(100, 0)[1].bytes, 100u);
  EXPECT_EQ(m.flow(100, 0)[0].bytes, 110u);
}

TEST(Flow, ForwardAndBackward) {
  HandMade m;
  uint32_t w[4], x = m.weight(1);
  for (uint32_t &v : w)
    v = m.weight(100);
  for (uint32_t v : w)
    x = m.forward({x, v}); // 0..3
  for (int i = 3; i >= 0; --i)
    x = m.backward({x, w[i]}); // 4..7
  // The last of forward is what backward needs at once: it stays. The others go and come again.
  EXPECT_EQ(text(m.problem, m.flow(1, 0)),
            "w0[0-0] w1[0-0] before 0; w2[1-1] before 1; w3[2-2] before 2; w4[3-4] before 3; w3[5-5] before 5; w2[6-6] before 6; w1[7-7] before 7");
  // Two units ahead, that one would be issued again while it is still in use: it stays, too.
  EXPECT_EQ(text(m.problem, m.flow(1, 2)),
            "w0[0-0] w1[0-0] before 0; w2[1-1] before 0; w3[2-5] before 0; w4[3-4] before 1; w2[6-6] before 2; w1[7-7] before 3");
  // A window as large as the model: nothing goes.
  EXPECT_EQ(text(m.problem, m.flow(1000, 1)), "w0[0-0] w1[0-7] w2[1-6] w3[2-5] w4[3-4] before 0");
}

TEST(Flow, TiedAndShared) {
  HandMade m;
  uint32_t embedding = m.weight(100), shared = m.weight(100), other[6];
  for (uint32_t &v : other)
    v = m.weight(100);
  uint32_t x = m.forward({embedding}); // 0
  x = m.forward({x, shared});          // 1
  x = m.forward({x});                  // 2
  x = m.forward({x, shared});          // 3: the same weight in the next layer stays
  for (uint32_t v : other)
    x = m.forward({x, v}); // 4..9
  x = m.forward({x, shared});    // 10: six units later it comes again
  x = m.forward({x, embedding}); // 11: the head
  x = m.backward({x});           // 12
  x = m.backward({x, embedding}); // 13: its gradient follows at once
  EXPECT_EQ(text(m.problem, m.flow(1, 1)), "w0[0-0] before 0; w1[1-3] before 0; w2[4-4] before 1; w3[5-5] before 4; w4[6-6] before 5; w5[7-7] before 6; "
                                           "w6[8-8] before 7; w7[9-9] before 8; w1[10-10] before 9; w0[11-13] before 10");
  // Read twice by one operation: once there.
  m.forward({embedding, embedding});
  EXPECT_EQ(m.flow(1, 1).back().parts.size(), 1u);
}

TEST(Flow, IdleActivations) {
  HandMade m;
  uint32_t w = m.weight(1);
  uint32_t a = m.forward({w}, 100), b = m.forward({a}, 1000), c = m.forward({b}, 100), d = m.forward({c}, 10);
  m.forward({a, d});     // 4: a is read late in forward
  uint32_t g = m.backward({d, w}); // 5: d has no time to be away
  g = m.backward({g, c}); // 6
  g = m.backward({g, b}); // 7
  m.backward({g, a, b}); // 8
  auto idle = idleActivations(m.problem);
  ASSERT_EQ(idle.size(), 3u);
  // Bytes times operations in between: b 1000 * (7 - 2 - 1), a 100 * (8 - 4 - 1), c 100 * (6 - 3 - 1).
  EXPECT_EQ(idle[0].value, b);
  EXPECT_EQ(idle[0].after, 2u);
  EXPECT_EQ(idle[0].first, 7u);
  EXPECT_EQ(idle[0].last, 8u);
  EXPECT_EQ(idle[1].value, a);
  EXPECT_EQ(idle[1].after, 4u);
  EXPECT_EQ(idle[2].value, c);
  // Outputs stay where they are reported from.
  m.problem.outputs.push_back({"b", b, Role::Output});
  EXPECT_EQ(idleActivations(m.problem).size(), 2u);
}

/// A policy that contradicts itself is told so.
TEST(Flow, ImpossiblePlacements) {
  HandMade m;
  uint32_t w = m.weight(64), a = m.forward({w}), b = m.forward({a});
  m.backward({b});
  m.backward({a, w}); // 3
  Machine machine = superchip();
  auto errorOf = [&](std::vector<Fetch> fetches, std::vector<Offload> offloads) {
    Placement placement;
    placement.arguments = {{machine.hostSpace, WeightSource::Flow}};
    placement.fetches = {{{{w, 0, 3}}, 64, 0}};
    placement.fetches.insert(placement.fetches.end(), fetches.begin(), fetches.end());
    placement.offloads = std::move(offloads);
    std::string error;
    buildSchedule(m.problem, {}, machine, placement, error);
    return error;
  };
  EXPECT_EQ(errorOf({}, {}), "");
  EXPECT_EQ(errorOf({{{{a, 3, 3}}, 64, 3}}, {{a, 1}}), "");
  EXPECT_EQ(errorOf({{{{a, 3, 3}}, 64, 3}}, {}), "'v0' is fetched while it is not on the host");
  EXPECT_EQ(errorOf({{{{a, 3, 3}}, 64, 3}, {{{a, 3, 3}}, 64, 3}}, {{a, 1}}), "'v0' is fetched while it is there");
  EXPECT_EQ(errorOf({}, {{a, 1}, {a, 1}}), "'v0' is offloaded while it is not in the compute space only");
}

struct Planned {
  Placement placement;
  Schedule schedule;
  Layout layout;
  Program program;
};

Planned plan(const Problem &problem, uint64_t hbm, uint64_t host = 1ull << 40) {
  Planned p;
  Machine machine = superchip();
  machine.spaces[0].capacity = hbm;
  machine.spaces[1].capacity = host;
  std::string error;
  auto trained = trainedParameters(problem, error);
  p.placement = findPolicy("weight-flow")->place(problem, trained, machine);
  p.schedule = buildSchedule(problem, trained, machine, p.placement, error);
  EXPECT_EQ(error, "");
  p.layout = layOut(p.schedule, machine);
  auto commands = makeCommands(p.schedule, p.layout);
  uint32_t events = deriveWaits(commands, machine.queues.size(), problem.accumulate, shadowPairs(p.schedule, p.layout));
  p.program = makeProgram(machine, problem, p.schedule, p.layout, std::move(commands), events);
  return p;
}

int64_t number(const Placement &placement, const std::string &key) {
  for (const Decision &d : placement.decisions)
    if (d.name == "WeightsFlow" && d.accepted)
      for (auto &[name, value] : d.numbers)
        if (name == key)
          return value;
  return -1;
}

/// Equal layers, so large that one of them fills the memory: it runs without prefetch, and says so; with more it goes ahead.
TEST(Flow, OnlyOneLayerFits) {
  std::mt19937 rng(20);
  Shape shape;
  shape.layers = 6;
  shape.random = false;
  shape.width = 256;
  Problem problem = makeProblem(rng, shape);
  problem.bucketBytes = 64 << 10;
  Machine machine = superchip();
  uint64_t layer = 0;
  for (const ProblemArgument &a : problem.arguments)
    if (problem.values[a.value].role == Role::Parameter)
      layer += problem.values[a.value].bytes;
  layer /= shape.layers;
  uint64_t least = plan(problem, 0).layout.spaces[0].arenaBytes;
  EXPECT_LT(least, 3 * layer); // a layer's weights, its gradient, activations
  Planned tight = plan(problem, least);
  EXPECT_EQ(number(tight.placement, "distance"), 0);
  EXPECT_EQ(number(tight.placement, "units"), number(tight.placement, "awaited_units"));
  EXPECT_GT(tight.placement.offloads.size(), 0u);
  Planned roomy = plan(problem, 1ull << 40);
  EXPECT_EQ(number(roomy.placement, "distance"), 2);
  EXPECT_EQ(number(roomy.placement, "awaited_units"), 1);
  EXPECT_TRUE(roomy.placement.offloads.empty());
  // In between activations stay and prefetching gets shorter, then activations leave.
  EXPECT_LE(plan(problem, roomy.layout.spaces[0].arenaBytes - 1).layout.spaces[0].arenaBytes, roomy.layout.spaces[0].arenaBytes - 1);

  Symbolic symbolic(problem, 3);
  SymbolicResult wanted = symbolic.reference();
  for (const Planned *p : {&tight, &roomy}) {
    std::string error;
    EXPECT_TRUE(verifyProgram(p->program, error)) << error;
    EXPECT_TRUE(symbolic.scheduled(p->schedule, p->layout, p->program.step) == wanted);
    // Exhaustive: without any one wait there is a race.
    size_t waits = 0, acrossSteps = 0;
    Program program = p->program;
    for (Command &c : program.step)
      for (size_t w = 0; w < c.waits.size(); ++w, ++waits) {
        Wait wait = c.waits[w];
        acrossSteps += wait.distance == 1 && c.label.rfind("fetch w", 0) == 0;
        c.waits.erase(c.waits.begin() + w);
        EXPECT_FALSE(verifyProgram(program, error)) << "wait " << w << " of " << c.label;
        c.waits.insert(c.waits.begin() + w, wait);
      }
    EXPECT_GT(waits, 20u);
    EXPECT_GT(acrossSteps, 0u) << "fetches wait for the updates of the step before";
  }
}

/// A fetch waits for the update of its own weights only, what forward needs first is updated first.
TEST(Flow, FirstFetchWaitsForFirstUpdate) {
  std::mt19937 rng(21);
  Shape shape;
  shape.layers = 5;
  shape.random = false;
  Problem problem = makeProblem(rng, shape);
  problem.bucketBytes = 4096;
  Planned p = plan(problem, 1ull << 40);
  std::vector<std::string> updates;
  std::map<int32_t, std::string> signaller;
  for (const Command &c : p.program.step) {
    if (c.phase == "update" && c.kind == CommandKind::Dispatch)
      updates.push_back(c.label);
    if (c.signal >= 0)
      signaller[c.signal] = c.label;
  }
  ASSERT_GE(updates.size(), 10u); // large weights in pieces
  EXPECT_TRUE(updates[0] == "update w0" || updates[0] == "update b0") << updates[0];
  for (const Command &c : p.program.step)
    if (c.label.rfind("fetch w0", 0) == 0 && c.phase == "forward") {
      bool found = false;
      for (const Wait &w : c.waits)
        if (w.distance == 1 && signaller[w.event].rfind("update", 0) == 0) {
          found = true;
          EXPECT_EQ(signaller[w.event].back(), '0') << signaller[w.event];
        }
      EXPECT_TRUE(found);
    }
}

/// What the smallest plan needs is exact: every budget from there on is kept, none below it.
TEST(Flow, BudgetsAreExact) {
  std::mt19937 rng(22);
  unsigned offloaded = 0, unprefetched = 0;
  for (unsigned i = 0; i < 80; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 6;
    shape.accumulate = 1 + rng() % 3;
    Problem problem = makeProblem(rng, shape);
    uint64_t least = plan(problem, 0).layout.spaces[0].arenaBytes, most = plan(problem, 1ull << 40).layout.spaces[0].arenaBytes;
    EXPECT_GT(plan(problem, least - 64).layout.spaces[0].arenaBytes, least - 64);
    for (unsigned k = 0; k <= 4; ++k) {
      uint64_t budget = k == 0 ? least : least + rng() % (most > least ? most - least + 1 : 1);
      Planned p = plan(problem, budget);
      EXPECT_LE(p.layout.spaces[0].arenaBytes, budget) << i;
      std::string error;
      EXPECT_TRUE(verifyProgram(p.program, error)) << error;
      offloaded += !p.placement.offloads.empty();
      unprefetched += number(p.placement, "distance") == 0;
    }
    // Enough in one memory only: the plan names what it needs of the other.
    Planned host = plan(problem, 1ull << 40, 64);
    EXPECT_TRUE(host.placement.offloads.empty());
    uint64_t needs = host.layout.spaces[1].arenaBytes;
    EXPECT_LE(plan(problem, 1ull << 40, needs).layout.spaces[1].arenaBytes, needs);
  }
  EXPECT_GT(offloaded, 40u);
  EXPECT_GT(unprefetched, 40u);
}

/// The estimate is the layout's lower bound, and the profile's largest entry.
TEST(Flow, Estimate) {
  std::mt19937 rng(23);
  for (unsigned i = 0; i < 60; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 6;
    Planned p = plan(makeProblem(rng, shape), rng() % 2 ? 0 : 1ull << 40);
    Machine machine = superchip();
    Layout bound = estimate(p.schedule, machine), tight = layOut(p.schedule, machine, false);
    for (uint32_t space = 0; space < 2; ++space) {
      EXPECT_EQ(bound.spaces[space].liveBytes, tight.spaces[space].liveBytes);
      auto live = liveBytes(p.schedule, bound, space);
      EXPECT_EQ(*std::max_element(live.begin(), live.end()), tight.spaces[space].liveBytes);
    }
  }
}

} // namespace
