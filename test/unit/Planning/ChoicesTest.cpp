//===- ChoicesTest.cpp - Whatever is decided, the step is the same --------===//
//
// Every combination of what policy auto can decide is a plan: random ones, also such as no search would take, in fp32 and mixed precision.
//
//===----------------------------------------------------------------------===//

#include "PlanSearch.h"
#include "SmallProblem.h"
#include "SymbolicRun.h"
#include "forebay/Planning/Packer.h"
#include "forebay/Planning/RaceVerifier.h"

#include <gtest/gtest.h>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::planning::test;

namespace {

PlanChoices randomChoices(std::mt19937 &rng, const PlanSpace &space) {
  PlanChoices choices = space.resident();
  const unsigned only = rng() % 8; // one way for all, or any
  for (UpdateWay &way : choices.buckets)
    way = static_cast<UpdateWay>(only < 6 ? only : rng() % 6);
  for (ActivationWay &way : choices.groups)
    way = static_cast<ActivationWay>(rng() % 3);
  const unsigned flow = rng() % 3; // none, all, some
  for (size_t a = 0; a < choices.flows.size(); ++a) {
    choices.flows[a] = flow == 1 || (flow == 2 && rng() % 2);
    choices.masters[a] = rng() % 2;
    choices.inPlace[a] = rng() % 4 == 0;
  }
  choices.window = {space.problem.bucketBytes, static_cast<uint32_t>(1 + rng() % 3)};
  choices.castOnDevice = rng() % 2;
  choices.uploadLag = rng() % 4;
  choices.streamSlots = 1 + rng() % 3;
  choices.lead = rng() % 3;
  return choices;
}

struct Count {
  size_t masters = 0, streamedMasters = 0, plans = 0;
};

/// Of all plans the commands, at their addresses, compute what the problem says, whatever the verdicts are; they are accepted by the race verifier; and they are read back from text.
TEST(Choices, EveryPlanComputesTheProblem) {
  std::mt19937 rng(31);
  Count count;
  for (unsigned trial = 0; trial < 80; ++trial) {
    Machine machine = randomSuperchip(rng);
    SmallProblem small(rng, 10);
    small.multiple = trial % 4 ? 1024 : 16;
    Problem problem = small.make();
    std::string error;
    auto trained = trainedParameters(problem, error);
    ASSERT_EQ(error, "");
    PlanSpace space(problem, trained, machine, problem.bucketBytes);
    Symbolic symbolic(problem, 6);
    SymbolicResult wanted = symbolic.reference();
    for (unsigned i = 0; i < 6; ++i) {
      Placement placement = space.realize(randomChoices(rng, space));
      Schedule schedule = buildSchedule(problem, trained, machine, placement, error);
      ASSERT_EQ(error, "") << trial << ", " << i;
      Layout layout = layOut(schedule, machine, rng() % 2);
      auto commands = makeCommands(schedule, layout);
      uint32_t events = deriveWaits(commands, machine.queues.size(), problem.accumulate, shadowPairs(schedule, layout));
      Program program = makeProgram(machine, problem, schedule, layout, std::move(commands), events);
      EXPECT_TRUE(verifyProgram(program, error)) << trial << ", " << i << ": " << error;
      if (small.multiple == 1024) // Symbolic can show no other casts
        EXPECT_TRUE(symbolic.scheduled(schedule, layout, program.step) == wanted) << trial << ", " << i << ", K " << problem.accumulate;
      for (const Command &c : program.step) // as kernels demand
        for (const Range &r : c.operands)
          EXPECT_TRUE(c.kind != CommandKind::Dispatch || r.offset % kAlignment == 0) << trial << ", " << i << ": " << c.label;
      ++count.plans;
      for (size_t b = 0; b < placement.buckets.size(); ++b)
        if (placement.arguments[trained[placement.buckets[b].pieces[0].parameter].argument].source == WeightSource::FlowCast)
          ++(placement.bucketPlacements[b].streamed ? count.streamedMasters : count.masters);
      Placement again;
      ASSERT_TRUE(parsePlacement(toText(placement, problem), problem, trained, machine, again, error)) << error;
      EXPECT_EQ(toText(again, problem), toText(placement, problem));
    }
  }
  EXPECT_GT(count.masters, 30u);
  EXPECT_GT(count.streamedMasters, 10u);
}

/// Weights that come from the masters leave no copy in the compute type anywhere: of a model whose weights all do, both memories hold 12 bytes a parameter for ever, and what moves for a
/// step are twice the weights in fp32.
TEST(Choices, MastersTakeNoRoom) {
  std::mt19937 rng(32);
  unsigned seen = 0;
  while (seen < 10) {
    Machine machine = randomSuperchip(rng);
    Problem problem = SmallProblem(rng, 10).make();
    std::string error;
    auto trained = trainedParameters(problem, error);
    if (trained[0].castWeight < 0 || problem.accumulate > 1)
      continue;
    ++seen;
    PlanSpace space(problem, trained, machine, problem.bucketBytes);
    PlanChoices choices = space.resident();
    choices.buckets.assign(choices.buckets.size(), seen % 2 ? UpdateWay::Host : UpdateWay::Streamed);
    choices.flows.assign(choices.flows.size(), true);
    choices.masters.assign(choices.masters.size(), true);
    choices.window = {4096, 1};
    Schedule schedule = buildSchedule(problem, trained, machine, space.realize(choices), error);
    ASSERT_EQ(error, "");
    uint64_t elements = 0, forEver = 0, fetched = 0;
    for (const TrainedParameter &p : trained)
      elements += p.elements;
    for (const Buffer &buffer : schedule.buffers)
      forEver += buffer.persistent && buffer.role != Role::Input && buffer.role != Role::Control ? buffer.bytes : 0;
    EXPECT_EQ(forEver, 12 * elements);
    for (const ScheduledOp &op : schedule.ops)
      if (op.kind == CommandKind::Copy && op.phase != Phase::Update && op.queue == machine.fetchQueue())
        for (size_t i = 0; i < op.operands.size(); i += 2)
          fetched += op.operands[i].bytes;
    EXPECT_LE(fetched, 8 * elements);
    EXPECT_GE(fetched, 4 * elements); // what forward reads last stays for backward
  }
}

} // namespace
