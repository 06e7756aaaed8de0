//===- SimulatorTest.cpp - Closed forms, and two models of one plan -------===//

#include "RandomProblem.h"
#include "TimedMachine.h"
#include "forebay/Planning/Simulator.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::planning::test;

namespace {

SimTask task(uint32_t queue, double seconds, std::vector<uint32_t> after = {}, std::vector<uint32_t> afterPrevious = {}) {
  SimTask t;
  t.queue = queue;
  t.seconds = seconds;
  t.after = std::move(after);
  t.afterPrevious = std::move(afterPrevious);
  return t;
}

SimSpan spanOf(const SimResult &result, uint32_t task, uint32_t micro = 0) {
  for (const SimSpan &span : result.spans)
    if (span.task == task && span.micro == micro)
      return span;
  ADD_FAILURE() << "no span of task " << task;
  return {};
}

/// Two copies of 100 and 50 units, each 100 units/s alone, share 100 units/s: 50 each until the small one has ended at 1 s, then the other alone.
TEST(Simulator, TwoCopiesShareAMemory) {
  SimModel m;
  m.channels = {{"memory", 100}};
  m.queues = 3;
  m.tasks = {task(0, 1), task(1, 0.5), task(2, 0, {0, 1})};
  m.tasks[0].uses = {{0, 100}};
  m.tasks[1].uses = {{0, 50}};
  // The next step begins when both have ended.
  m.tasks[0].afterPrevious = m.tasks[1].afterPrevious = {2};
  SimResult r = simulate(m, true);
  EXPECT_EQ(r.stuck, "");
  EXPECT_DOUBLE_EQ(spanOf(r, 1).end - spanOf(r, 1).start, 1.0);
  EXPECT_DOUBLE_EQ(spanOf(r, 0).end - spanOf(r, 0).start, 1.5);
  EXPECT_DOUBLE_EQ(r.stepSeconds, 1.5);
  EXPECT_DOUBLE_EQ(r.moved[0], 150);
}

/// Max-min: one task wants 20 units/s, two want 80 of 100. The small one gets all it wants, the others 40 each; when it has ended at 1 s, 50 each for the
/// 40 units that are left.
TEST(Simulator, SmallWantsAreServedFirst) {
  SimModel m;
  m.channels = {{"memory", 100}};
  m.queues = 3;
  for (double want : {20, 80, 80}) {
    m.tasks.push_back(task(m.tasks.size(), 1));
    m.tasks.back().uses = {{0, want}};
  }
  m.tasks[0].afterPrevious = m.tasks[1].afterPrevious = m.tasks[2].afterPrevious = {0, 1, 2};
  SimResult r = simulate(m, true);
  EXPECT_NEAR(spanOf(r, 0).end - spanOf(r, 0).start, 1.0, 1e-12);
  EXPECT_NEAR(spanOf(r, 1).end - spanOf(r, 1).start, 1 + 40 / 50., 1e-12);
  EXPECT_NEAR(r.stepSeconds, 1.8, 1e-12);
}

/// Latency is not work: it is not stretched by sharing, and nothing is taken from a channel meanwhile.
TEST(Simulator, LatencyDoesNotShare) {
  SimModel m;
  m.channels = {{"memory", 100}};
  m.queues = 2;
  m.tasks = {task(0, 1), task(1, 1)};
  m.tasks[0].uses = m.tasks[1].uses = {{0, 100}};
  m.tasks[1].latency = 0.5;
  m.tasks[0].afterPrevious = m.tasks[1].afterPrevious = {0, 1};
  SimResult r = simulate(m, true);
  // Alone for 0.5 s, then 50 units left shared: 1 s more; then the other has 50 left, alone: 0.5 s.
  EXPECT_DOUBLE_EQ(spanOf(r, 0).end - spanOf(r, 0).start, 1.5);
  EXPECT_DOUBLE_EQ(spanOf(r, 1).end - spanOf(r, 1).start, 2.0);
  EXPECT_DOUBLE_EQ(r.busy[1], 2.0);
}

/// Four queues with 1 s of work each. Where threads make the copies they and the cpu queue share its core; the gpu queue has its own.
TEST(Simulator, CopiesByThreadsTakeCores) {
  Machine machine = timedSuperchip();
  for (MachineSpace &space : machine.spaces)
    space.bandwidth = 0;
  Program program;
  for (const MachineSpace &space : machine.spaces)
    program.spaces.push_back({space.name, 0, space.capacity});
  for (MachineQueue &queue : machine.queues) {
    program.queues.push_back({queue.name, queue.compute});
    queue.launch = 0;
    queue.bandwidth = 1e9;
    queue.classBandwidth = {};
    queue.link.points = {{4096, 1e9}};
    queue.cores = queue.compute ? 1 : 0;
  }
  for (uint32_t q : {machine.computeQueue, machine.hostQueue, machine.toCompute, machine.toHost}) {
    Command c;
    c.kind = machine.queues[q].compute ? CommandKind::Dispatch : CommandKind::Copy;
    c.queue = q;
    c.cost.bytes = 1000000000;
    uint32_t from = q == machine.toCompute || q == machine.hostQueue ? machine.hostSpace : machine.computeSpace;
    c.operands = {{from, 0, 1000000000, Access::Read}, {machine.queues[q].compute ? from : 1 - from, 0, 1000000000, Access::Write}};
    program.step.push_back(std::move(c));
  }
  EXPECT_NEAR(simulate(modelOf(program, machine), true).stepSeconds, 1, 1e-9);
  machine.queues[machine.toCompute].cores = machine.queues[machine.toHost].cores = 1;
  SimResult shared = simulate(modelOf(program, machine), true);
  EXPECT_NEAR(shared.stepSeconds, 3, 1e-9);
  EXPECT_NEAR(spanOf(shared, 0).end - spanOf(shared, 0).start, 1, 1e-9);
  EXPECT_NEAR(spanOf(shared, 1).end - spanOf(shared, 1).start, 3, 1e-9);
}

/// GPU: forward 1 s, backward 2 s. The CPU updates for 5 s after backward; forward needs the update of the step before only at its end. The CPU binds:
/// its 5 s and nothing else, since backward of the next step runs under the update of this one.
TEST(Simulator, CpuBoundCycle) {
  SimModel m;
  m.queues = 2;
  m.tasks = {task(0, 1), task(0, 2), task(1, 5, {1})};
  SimResult r = simulate(m, true);
  EXPECT_NEAR(r.stepSeconds, 5.0, 1e-9);
  EXPECT_NEAR(r.busy[0], 3.0, 1e-9);
  EXPECT_NEAR(r.busy[1], 5.0, 1e-9);
}

/// The same with forward waiting for the update: nothing overlaps.
TEST(Simulator, ChainAcrossTheBoundary) {
  SimModel m;
  m.queues = 2;
  m.tasks = {task(0, 1, {}, {2}), task(0, 2), task(1, 5, {1})};
  SimResult r = simulate(m, true);
  EXPECT_NEAR(r.stepSeconds, 8.0, 1e-9);
  // Only backward needs it: forward (1 s) is hidden under the update.
  m.tasks[0].afterPrevious.clear();
  m.tasks[1].afterPrevious = {2};
  r = simulate(m, true);
  EXPECT_NEAR(r.stepSeconds, 7.0, 1e-9);
  // The step shown begins with its forward, at the end of the backward before; the update of the step before runs for 5 s from then on.
  EXPECT_NEAR(spanOf(r, 0).start, 0, 1e-9);
  EXPECT_NEAR(spanOf(r, 1).start, 5, 1e-9);
  EXPECT_NEAR(spanOf(r, 2).end, 12, 1e-9); // in the next step
}

/// Micro-steps: what runs first, later, last; what waits for a verdict runs as in a step that is applied.
TEST(Simulator, Predicates) {
  SimModel m;
  m.queues = 1;
  m.accumulate = 3;
  for (auto [predicate, seconds] : {std::pair(Predicate::Always, 1.), {Predicate::FirstMicro, 10.}, {Predicate::LaterMicro, 100.}, {Predicate::LastMicro, 1e3},
                                    {Predicate::Apply, 1e4}, {Predicate::Speculate, 1e5}, {Predicate::Redo, 1e6}, {Predicate::Restore, 1e7}}) {
    m.tasks.push_back(task(0, seconds));
    m.tasks.back().predicate = predicate;
  }
  EXPECT_NEAR(simulate(m).stepSeconds, 3 + 10 + 200 + 1e3 + 1e4 + 1e5, 1e-6);
  m.accumulate = 1; // the first micro-step is the last
  EXPECT_NEAR(simulate(m).stepSeconds, 1 + 10 + 1e3 + 1e4 + 1e5, 1e-6);
}

/// What this step skips because of the verdict waits for the verdict; what a micro-step skips anyway waits for nothing.
TEST(Simulator, SkippedTasks) {
  SimModel m;
  m.queues = 2;
  m.tasks = {task(0, 3), task(1, 5, {0}), task(1, 1)};
  m.tasks[0].afterPrevious = {2};
  m.tasks[1].predicate = Predicate::Redo;
  EXPECT_NEAR(simulate(m).stepSeconds, 3 + 1, 1e-9);
  m.tasks[1].predicate = Predicate::LaterMicro;
  EXPECT_NEAR(simulate(m).stepSeconds, 3, 1e-9);
}

/// Of many micro-steps the middle ones are alike: 2 s of GPU each, which hide 1 s of CPU; an update of 5 s and a feed once.
TEST(Simulator, ManyMicroSteps) {
  SimModel m;
  m.channels = {{"memory", 10}};
  m.queues = 2;
  m.tasks = {task(0, 4, {}, {3}), task(0, 2), task(1, 1, {1}), task(1, 5, {1})};
  m.tasks[0].predicate = Predicate::FirstMicro;
  m.tasks[3].predicate = Predicate::Apply;
  m.tasks[1].uses = {{0, 3}};
  for (uint32_t micros : {2u, 16u, 17u, 1000u, 1u << 20}) {
    m.accumulate = micros;
    SimResult r = simulate(m, true);
    EXPECT_NEAR(r.stepSeconds, 4 + 2. * micros + 1 + 5, 1e-6 * micros) << micros;
    EXPECT_NEAR(r.busy[1], 1. * micros + 5, 1e-6 * micros) << micros;
    EXPECT_NEAR(r.moved[0], 3. * micros, 1e-6 * micros) << micros;
    EXPECT_EQ(r.micros, std::min(micros, 16u));
    EXPECT_NEAR(r.shownSeconds, 10 + 2. * r.micros, 1e-6);
    EXPECT_EQ(r.spans.size(), 4u * r.micros);
  }
}

TEST(Simulator, StuckIsReported) {
  SimModel m;
  m.queues = 2;
  m.tasks = {task(0, 1, {1}), task(1, 1, {0})};
  SimResult r = simulate(m);
  EXPECT_EQ(r.stuck, "tasks wait for each other: queue 0 at task 0 of micro-step 0; queue 1 at task 1 of micro-step 0;");
  EXPECT_EQ(simulate(SimModel()).stepSeconds, 0);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Every buffer at an address of its own: nothing waits for bytes to be free.
Layout spreadOut(const Schedule &schedule, const Machine &machine) {
  Layout layout = estimate(schedule, machine);
  std::vector<uint64_t> next(machine.spaces.size());
  for (size_t b = 0; b < schedule.buffers.size(); ++b) {
    uint64_t &at = next[schedule.buffers[b].space];
    layout.buffers[b].over = -1;
    layout.buffers[b].offset = at;
    at += (schedule.buffers[b].bytes + 63) / 64 * 64;
  }
  for (size_t s = 0; s < next.size(); ++s)
    layout.spaces[s].arenaBytes = next[s];
  return layout;
}

struct Times {
  double schedule, apart, packed;
};

Times timesOf(const Problem &problem, const Machine &machine, const char *policy) {
  std::string error;
  auto trained = trainedParameters(problem, error);
  Placement placement = findPolicy(policy)->place(problem, trained, machine);
  Schedule schedule = buildSchedule(problem, trained, machine, placement, error);
  EXPECT_EQ(error, "");
  auto fromCommands = [&](const Layout &layout) {
    auto commands = makeCommands(schedule, layout);
    uint32_t events = deriveWaits(commands, machine.queues.size(), problem.accumulate, shadowPairs(schedule, layout));
    SimResult r = simulate(modelOf(makeProgram(machine, problem, schedule, layout, commands, events), machine));
    EXPECT_EQ(r.stuck, "");
    return r.stepSeconds;
  };
  SimResult planned = simulate(modelOf(schedule, machine, problem.accumulate));
  EXPECT_EQ(planned.stuck, "");
  return {planned.stepSeconds, fromCommands(spreadOut(schedule, machine)), fromCommands(layOut(schedule, machine, true))};
}

/// The step is as long from the schedule as from the commands, where no bytes are used twice.
TEST(Simulator, ScheduleAndCommandsAgree) {
  std::mt19937 rng(5);
  unsigned counted = 0;
  for (unsigned trial = 0; trial < 120; ++trial) {
    Shape shape;
    shape.layers = 2 + trial % 7;
    shape.accumulate = 1 + trial % 3;
    Problem problem = makeProblem(rng, shape);
    addWork(rng, problem);
    for (const char *policy : {"resident", "zero-offload", "weight-flow"}) {
      Times t = timesOf(problem, timedSuperchip(), policy);
      ASSERT_GT(t.schedule, 0);
      EXPECT_NEAR(t.apart / t.schedule, 1, 0.002) << policy << ", trial " << trial;
      // Packing adds waits for bytes that another queue still uses, and takes none away.
      EXPECT_GT(t.packed / t.schedule, 0.998) << policy << ", trial " << trial;
      if (policy == std::string("resident"))
        EXPECT_LT(t.packed / t.schedule, 1.02) << "trial " << trial;
      ++counted;
    }
  }
  EXPECT_EQ(counted, 360u);
}

/// A queue that computes for 1 s and 2 s, then knows the verdict; another that updates for 3 s as soon as the first second is over, or after the verdict. The next step
/// begins when the update is there.
TEST(Simulator, RejectLimitFromThreeOutcomes) {
  SimModel model;
  model.queues = 2;
  SimTask early = task(1, 3, {0}), late = task(1, 3, {2});
  early.predicate = Predicate::Speculate;
  late.predicate = Predicate::Redo;
  model.tasks = {task(0, 1, {}, {1, 3}), early, task(0, 2), late};
  // Committed 1 + 3 s; redone 1 + 3 + 3 s; off 1 + 2 + 3 s.
  EXPECT_NEAR(rejectLimit(model), 2.0 / 3, 1e-9);
  model.tasks[0].afterPrevious.clear(); // nobody waits for the update, and the queue has time for one, but not for two
  model.tasks[1].seconds = model.tasks[3].seconds = 2;
  EXPECT_EQ(rejectLimit(model), kNeverSpeculate);
  model.tasks = {task(0, 1, {}, {1, 3}), early, task(0, 2), late};
  model.tasks[3].seconds = 0; // to redo costs nothing
  EXPECT_EQ(rejectLimit(model), kNeverSpeculate) << "nor does not to speculate";
}

} // namespace
