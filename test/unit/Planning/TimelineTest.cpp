//===- TimelineTest.cpp - Times in reports, memory over time, plan files --===//

#include "RandomProblem.h"
#include "TimedMachine.h"
#include "forebay/Planning/PlanFile.h"
#include "forebay/Planning/PlanReport.h"
#include "forebay/Planning/Timeline.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::planning::test;

namespace {

Program randomProgram(std::mt19937 &rng, unsigned trial, const Machine &machine, const char *policy) {
  Shape shape;
  shape.layers = 2 + trial % 6;
  shape.accumulate = 1 + trial % 3;
  Problem problem = makeProblem(rng, shape);
  std::string error;
  auto trained = trainedParameters(problem, error);
  Placement placement = findPolicy(policy)->place(problem, trained, machine);
  Schedule schedule = buildSchedule(problem, trained, machine, placement, error);
  EXPECT_EQ(error, "");
  Layout layout = layOut(schedule, machine, true);
  auto commands = makeCommands(schedule, layout);
  uint32_t events = deriveWaits(commands, machine.queues.size(), problem.accumulate, shadowPairs(schedule, layout));
  Program program = makeProgram(machine, problem, schedule, layout, std::move(commands), events);
  for (uint32_t b = 0; b < schedule.buffers.size(); ++b) {
    const Buffer &buffer = schedule.buffers[b];
    const BufferLayout &at = layout.buffers[b];
    program.values.push_back({buffer.label, buffer.role, buffer.space, at.offset, buffer.bytes, at.first, at.last, buffer.persistent});
  }
  return program;
}

/// One product of 40 GFLOP in 0.5 s, then a copy of 60 MB to the host in 0.1 s (launches not counted), which the next step waits for.
Program twoCommands() {
  Program p;
  p.policy = "none";
  p.machine = "superchip";
  p.precision = "fp32";
  p.entry = "train";
  p.spaces = {{"hbm", 1 << 20, 1 << 20}, {"host", 1 << 20, 1 << 20}};
  p.queues = {{"gpu", true}, {"cpu", true}, {"h2d", false}, {"d2h", false}};
  p.events = 2;
  p.step.resize(2);
  Command &product = p.step[0], &copy = p.step[1];
  product.kind = CommandKind::Dispatch;
  product.phase = "forward";
  product.cost.cls = OpClass::Matmul;
  product.cost.flops = 40e9;
  product.cost.bytes = 1;
  product.cost.width = 512;
  product.signal = 0;
  product.waits = {{1, 1}};
  copy.kind = CommandKind::Copy;
  copy.queue = 3;
  copy.phase = "backward";
  copy.operands = {{0, 0, 60000000, Access::Read}, {1, 0, 60000000, Access::Write}};
  copy.waits = {{0, 0}};
  copy.signal = 1;
  p.flopsPerToken = 2e6;
  p.tokensPerMicroStep = 1000;
  return p;
}

Machine plainMachine() {
  Machine m = timedSuperchip();
  for (MachineQueue &queue : m.queues)
    queue.launch = 0;
  m.queues[0].rates[0].flops = 80e9;
  return m;
}

TEST(Times, ClosedForm) {
  PlanReport r = makeReport(twoCommands(), plainMachine());
  ASSERT_TRUE(r.time) << r.noTime;
  EXPECT_NEAR(r.time->stepSeconds, 0.6, 1e-9);
  EXPECT_NEAR(r.time->tokensPerSecond, 1000 / 0.6, 1e-6);
  EXPECT_NEAR(r.time->flops, 3 * 2e6 * 1000 / 0.6, 1);
  EXPECT_NEAR(r.time->executedFlops, 40e9 / 0.6, 1);
  EXPECT_NEAR(*r.time->mfu(), 1e10 / 120e9, 1e-9);
  EXPECT_NEAR(*r.time->executedMfu(), 40e9 / 0.6 / 120e9, 1e-9);
  ASSERT_EQ(r.time->queues.size(), 2u); // those with commands
  EXPECT_EQ(r.time->queues[1].name, "d2h");
  EXPECT_NEAR(r.time->queues[0].busy, 0.5, 1e-9);
  EXPECT_NEAR(r.time->queues[1].busy, 0.1, 1e-9);
  EXPECT_NEAR(r.time->share(r.time->queues[1]), 1 / 6., 1e-9);
  ASSERT_EQ(r.time->idle.size(), 1u);
  EXPECT_EQ(r.time->idle[0].queue, "d2h");
  EXPECT_NEAR(r.time->idle[0].seconds, 0.1, 1e-9);
  ASSERT_EQ(r.time->channels.size(), 3u); // hbm, host, the link that is used
  EXPECT_NEAR(r.time->share(r.time->channels[1]), 60e6 / (1e9 * 0.6), 1e-9);

  // 10% more of what counts saves its part of the step, of anything else nothing.
  auto list = findSensitivities(twoCommands(), plainMachine());
  ASSERT_EQ(list.size(), 6u);
  EXPECT_EQ(list[0].what, "gpu flops +10%");
  EXPECT_NEAR(list[0].stepSeconds, 0.5 / 1.1 + 0.1, 1e-9);
  EXPECT_EQ(list[1].what, "d2h link +10%");
  EXPECT_NEAR(list[1].stepSeconds, 0.5 + 0.1 / 1.1, 1e-9);
  for (size_t i = 2; i < 6; ++i)
    EXPECT_NEAR(list[i].stepSeconds, 0.6, 1e-9) << list[i].what;

  Program forward = twoCommands();
  forward.entry = "forward";
  EXPECT_NEAR(makeReport(forward, plainMachine()).time->flops, 2e6 * 1000 / 0.6, 1);
}

TEST(Times, TextAndJson) {
  PlanReport r = makeReport(twoCommands(), plainMachine());
  r.boundSeconds = 0.5;
  r.binding = "gpu";
  r.sensitivities = findSensitivities(twoCommands(), plainMachine());
  std::string text = toText(r);
  for (const char *part :
       {"step 600.00 ms, 1667 tokens/s, gpu idle for 100.00 ms of it\n", "lower bound 500.00 ms (the step is 1.200 of it), binding: gpu\n",
        "10 GFLOPS = 3 x forward flops per token x tokens/s, MFU 8.3% of 120 GFLOPS\n",
        "66.7 GFLOPS executed by products and attention, recomputation included, 55.6%\n", "  gpu                      500.00 ms         83.3%\n",
        "  host traffic              1.0 GB/s         10.0%\n", "  gpu flops +10%            45.45 ms          7.6%\n",
        "  h2d link +10%              nothing             -\n",
        "gpu waits for                   time   of the step\n  d2h, backward            100.00 ms         16.7%\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "in\n" << text;
  std::string json = toJson(r);
  for (const char *part : {"\"step_s\": 0.6", "\"bound_s\": 0.5", "\"binding\": \"gpu\"", "\"tflops\": 0.0", "\"mfu\": 0.083333", "\"tokens_per_s\": 1666.66",
                           "\"tflops_executed\": 0.0666", "\"mfu_executed\": 0.5555", "\"queues\": {\"gpu\": {\"busy_s\": 0.5, ", "\"sensitivity\": [{\"what\": \"gpu flops +10%\", "})
    EXPECT_NE(json.find(part), std::string::npos) << part << " in\n" << json;
}

TEST(Times, WhyThereAreNone) {
  EXPECT_EQ(makeReport(twoCommands()).noTime, "the program does not say what its machine's rates are");
  EXPECT_NE(toText(makeReport(twoCommands())).find("no time: the program does not say what its machine's rates are\n"), std::string::npos);
  PlanReport r = makeReport(twoCommands(), superchip());
  EXPECT_FALSE(r.time);
  EXPECT_EQ(r.noTime, "machine 'superchip' has no rates");
  EXPECT_EQ(makeReport(twoCommands(), cpu()).noTime, "machine 'cpu' has no memory 'hbm'");
  Machine other = plainMachine();
  other.queues[3].name = "down";
  EXPECT_EQ(makeReport(twoCommands(), other).noTime, "machine 'superchip' has no engine 'd2h'");
  EXPECT_TRUE(findSensitivities(twoCommands(), other).empty());
  Program damaged = twoCommands();
  damaged.machineModel = "no machine";
  EXPECT_EQ(makeReport(damaged).noTime.rfind("the program's machine cannot be read: ", 0), 0u) << makeReport(damaged).noTime;
  damaged.machineModel = toText(plainMachine());
  EXPECT_NEAR(makeReport(damaged).time->stepSeconds, 0.6, 1e-9);
}

/// At no time lives more than the arena holds, on any queue's progress; nothing lives shorter than its commands run.
TEST(Timeline, MemoryStaysInItsArena) {
  std::mt19937 rng(11);
  for (unsigned trial = 0; trial < 60; ++trial)
    for (const char *policy : {"resident", "zero-offload", "weight-flow"}) {
      Machine machine = timedSuperchip();
      Program program = randomProgram(rng, trial, machine, policy);
      SimResult result = simulate(modelOf(program, machine), true);
      ASSERT_EQ(result.stuck, "");
      std::vector<Life> lives = livesOf(program, result);
      ASSERT_FALSE(lives.empty());
      PlanReport report = makeReport(program, machine);
      for (uint32_t s = 0; s < program.spaces.size(); ++s) {
        MemoryCurve curve = memoryOf(program, result, lives, s);
        EXPECT_LE(curve.peak, program.spaces[s].arenaBytes) << policy << ", trial " << trial;
        ASSERT_FALSE(curve.points.empty());
        EXPECT_EQ(curve.points[0].time, 0);
        uint64_t persistent = 0;
        for (const Value &value : program.values)
          if (value.space == s && value.persistent)
            persistent += (value.bytes + 63) / 64 * 64;
        for (const MemoryPoint &point : curve.points) {
          uint64_t sum = 0;
          for (uint64_t bytes : point.bytes)
            sum += bytes;
          EXPECT_GE(sum, persistent);
          EXPECT_LT(point.time, result.stepSeconds);
        }
      }
    }
}

/// By hand: a value lives from the copy that brings it to the end of its later reader, over the end of the step.
TEST(Timeline, LivesReachIntoTheNextStep) {
  Program p = twoCommands();
  // The copy holds 64 bytes of hbm from the product that made them to its own end; the next product does not wait.
  p.step[0].waits.clear();
  p.step[0].operands = {{0, 0, 64, Access::Write}};
  p.step[1].operands[0] = {0, 0, 60000000, Access::Read};
  p.values = {{"g", Role::Gradient, 0, 0, 64, 0, 1, false}, {"w", Role::Parameter, 0, 128, 100, 0, 1, true}};
  SimResult result = simulate(modelOf(p, plainMachine()), true);
  EXPECT_NEAR(result.stepSeconds, 0.5, 1e-9);
  std::vector<Life> lives = livesOf(p, result);
  ASSERT_EQ(lives.size(), 1u);
  EXPECT_NEAR(lives[0].start, 0, 1e-9);
  EXPECT_NEAR(lives[0].end, 0.6, 1e-9);
  MemoryCurve curve = memoryOf(p, result, lives, 0);
  ASSERT_EQ(curve.roles, (std::vector<Role>{Role::Parameter, Role::Gradient}));
  ASSERT_EQ(curve.points.size(), 2u); // two of them for 0.1 s, then one
  EXPECT_EQ(curve.points[0].bytes, (std::vector<uint64_t>{128, 128}));
  EXPECT_NEAR(curve.points[1].time, 0.1, 1e-9);
  EXPECT_EQ(curve.points[1].bytes, (std::vector<uint64_t>{128, 64}));
  EXPECT_EQ(curve.peak, 256u);
}

/// GPU 1 s, then CPU 2 s, then a copy of 1 s that the next step's GPU waits for: it stands still for 2 s of CPU and 1 s of copy. A second copy that ends earlier
/// is nobody's reason.
TEST(Timeline, IdleIsWhatRunsMeanwhile) {
  SimModel m;
  m.queues = 4;
  m.tasks.resize(4);
  for (uint32_t i = 0; i < 4; ++i)
    m.tasks[i].queue = i;
  m.tasks[0].seconds = 1;
  m.tasks[1].seconds = 2;
  m.tasks[2].seconds = 1;
  m.tasks[3].seconds = 0.5;
  m.tasks[0].afterPrevious = {2, 3};
  m.tasks[1].after = {0};
  m.tasks[2].after = {1};
  m.tasks[3].after = {0};
  SimResult r = simulate(m, true);
  ASSERT_NEAR(r.stepSeconds, 4, 1e-9);
  std::vector<Cause> causes = causesOf(m, r);
  auto cause = [&](uint32_t task) {
    for (size_t s = 0; s < r.spans.size(); ++s)
      if (r.spans[s].task == task)
        return causes[s];
    return Cause();
  };
  EXPECT_EQ(r.spans[cause(0).span].task, 2u);
  EXPECT_TRUE(cause(0).before);
  EXPECT_NEAR(cause(0).idle, 3, 1e-9);
  EXPECT_EQ(r.spans[cause(2).span].task, 1u);
  EXPECT_FALSE(cause(2).before);
  std::vector<double> idle = idleByTask(m, r, 0);
  EXPECT_NEAR(idle[0], 0, 1e-9);
  EXPECT_NEAR(idle[1], 2, 1e-9);
  EXPECT_NEAR(idle[2], 1, 1e-9);
  EXPECT_NEAR(idle[3], 0, 1e-9);
}

/// All of the idle time has a reason, whatever the program.
TEST(Timeline, IdleAddsUp) {
  std::mt19937 rng(17);
  for (unsigned trial = 0; trial < 30; ++trial) {
    Machine machine = timedSuperchip();
    Program program = randomProgram(rng, trial, machine, trial % 2 ? "zero-offload" : "weight-flow");
    SimModel model = modelOf(program, machine);
    SimResult result = simulate(model, true);
    for (uint32_t q = 0; q < model.queues; ++q) {
      double sum = 0;
      for (double seconds : idleByTask(model, result, q))
        sum += seconds;
      if (result.busy[q] > 0)
        EXPECT_NEAR(sum, result.stepSeconds - result.busy[q], 2e-3 * result.stepSeconds) << "queue " << q << ", trial " << trial;
    }
  }
}

/// A fixed plan on a better machine: no rate that grows makes the step longer by more than 1%, no latency that grows makes it shorter by more than 1%.
TEST(Times, BetterMachinesAreNotSlower) {
  std::mt19937 rng(23);
  double worst = 0;
  for (unsigned trial = 0; trial < 60; ++trial)
    for (const char *policy : {"resident", "zero-offload", "weight-flow"}) {
      Machine machine = timedSuperchip();
      Program program = randomProgram(rng, trial, machine, policy);
      for (Command &c : program.step) {
        if (c.kind != CommandKind::Dispatch)
          continue;
        c.cost.flops = 1e3 * (1 + rng() % 1000);
        c.cost.cls = c.phase == "update" ? OpClass::Optimizer : rng() % 2 ? OpClass::Matmul : OpClass::Elementwise;
      }
      double base = simulate(modelOf(program, machine)).stepSeconds;
      ASSERT_GT(base, 0);
      auto with = [&](auto change) {
        Machine other = machine;
        change(other, 1 + (1 + rng() % 100) / 100.);
        return simulate(modelOf(program, other)).stepSeconds;
      };
      for (double seconds : {with([](Machine &m, double f) { m.queues[0].rates[0].flops *= f; }), with([](Machine &m, double f) { m.queues[0].bandwidth *= f; }),
                             with([](Machine &m, double f) { m.spaces[0].bandwidth *= f; }), with([](Machine &m, double f) { m.spaces[1].bandwidth *= f; }),
                             with([](Machine &m, double f) { m.queues[1].bandwidth *= f; }),
                             with([](Machine &m, double f) { m.queues[1].classBandwidth[static_cast<unsigned>(OpClass::Optimizer)] *= f; }),
                             with([](Machine &m, double f) {
                               for (Curve::Point &point : m.queues[m.toCompute].link.points)
                                 point.y *= f;
                             }),
                             with([](Machine &m, double f) {
                               for (Curve::Point &point : m.queues[m.toHost].link.points)
                                 point.y *= f;
                             })}) {
        worst = std::max(worst, seconds / base - 1);
        EXPECT_LE(seconds, 1.01 * base) << policy << ", trial " << trial;
      }
      for (uint32_t q = 0; q < machine.queues.size(); ++q) {
        double seconds = with([&](Machine &m, double f) { m.queues[q].launch *= f; });
        worst = std::max(worst, 1 - seconds / base);
        EXPECT_GE(seconds, 0.99 * base) << policy << ", trial " << trial << ", queue " << q;
      }
    }
  RecordProperty("worst", std::to_string(worst));
}

TEST(PlanFile, ReadsBack) {
  std::mt19937 rng(3);
  PlanFile plan{randomProgram(rng, 1, superchip(), "zero-offload"), {{"notes", std::string("a\0b\n\n", 5)}}};
  std::string bytes = writePlan(plan, makeReport(plan.program));
  EXPECT_EQ(bytes.rfind("forebay plan 1\npolicy ", 0), 0u);
  PlanFile back;
  std::string error;
  ASSERT_TRUE(parsePlan(bytes, back, error)) << error;
  EXPECT_EQ(serialize(back.program), serialize(plan.program));
  EXPECT_EQ(back.sections, plan.sections);

  std::string path = testing::TempDir() + "/plan-file-test";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_TRUE(readPlan(path, back, error)) << error;
  // Whatever is cut or changed is an error, and nothing is read out of bounds.
  for (size_t cut = 0; cut < bytes.size(); cut += 1 + cut / 50)
    EXPECT_FALSE(parsePlan(std::string_view(bytes).substr(0, cut), back, error)) << cut;
  auto problem = [&](std::string text) {
    error.clear();
    EXPECT_FALSE(parsePlan(text, back, error)) << text.substr(0, 40);
    return error;
  };
  EXPECT_EQ(problem("hello"), "neither a plan nor a step.so");
  EXPECT_EQ(problem("forebay plan 2\n\n"), "the plan has version 2, this tool reads version 1");
  EXPECT_EQ(problem("forebay plan 1\nsection x y\n\n"), "the plan is damaged: 'section x y'");
  EXPECT_EQ(problem("forebay plan 1\nsection x 9\n\nab"), "the plan is cut: section 'x' has 9 bytes, there are 2");
  EXPECT_EQ(problem("forebay plan 1\n\n"), "the plan is damaged: it has no program");
  EXPECT_EQ(problem(bytes + "x"), "the plan is damaged: 1 bytes too many");
  EXPECT_FALSE(readPlan(testing::TempDir() + "/absent", back, error));
  EXPECT_FALSE(readPlan(testing::TempDir(), back, error));

  // Decisions of a section of their own replace the program's.
  PlanFile forced{plan.program, {{"placement", "forebay-placement 1 0\n"}}};
  ASSERT_TRUE(parsePlan(writePlan(forced, makeReport(plan.program)), back, error)) << error;
  EXPECT_EQ(back.program.placement, "forebay-placement 1 0\n");

  plan.program.step[0].queue = 99;
  std::ofstream(path, std::ios::binary) << writePlan(plan, makeReport(PlanFile().program));
  EXPECT_FALSE(readPlan(path, back, error));
  EXPECT_NE(error.find("names a queue, memory, kernel, tensor or event that does not exist"), std::string::npos) << error;
}

} // namespace
