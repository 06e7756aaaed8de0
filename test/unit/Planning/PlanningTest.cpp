//===- PlanningTest.cpp - Placement, layout and waits on random steps -----===//
//
// Field reports A11, C1, C3, C5 (docs/field-reports.md).
//
//===----------------------------------------------------------------------===//

#include "RaceReference.h"
#include "RandomProblem.h"
#include "SymbolicRun.h"
#include "forebay/Planning/Packer.h"
#include "forebay/Planning/RaceVerifier.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>
#include <set>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::planning::test;

// Sanitizers are many times slower; they look for other things than speed.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
constexpr double kSlack = 20;
#else
constexpr double kSlack = 1;
#endif

namespace {

struct Planned {
  Problem problem;
  std::vector<TrainedParameter> trained;
  Machine machine;
  Placement placement;
  Schedule schedule;
  Layout layout;
  Program program;
};

Planned plan(Problem problem, const Machine &machine, const std::string &policy, bool hold = true, uint64_t budget = ~0ull) {
  Planned p;
  p.problem = std::move(problem);
  p.machine = machine;
  std::string error;
  p.trained = trainedParameters(p.problem, error);
  EXPECT_EQ(error, "");
  Machine told = machine;
  told.spaces[0].capacity = std::min(told.spaces[0].capacity, budget);
  p.placement = findPolicy(policy)->place(p.problem, p.trained, told);
  p.schedule = buildSchedule(p.problem, p.trained, machine, p.placement, error);
  EXPECT_EQ(error, "");
  p.layout = layOut(p.schedule, machine, hold);
  auto commands = makeCommands(p.schedule, p.layout);
  uint32_t events = deriveWaits(commands, machine.queues.size(), p.problem.accumulate, shadowPairs(p.schedule, p.layout));
  p.program = makeProgram(machine, p.problem, p.schedule, p.layout, std::move(commands), events);
  return p;
}

/// Buffers that live at the same time do not overlap, unless one took over the other's bytes.
void expectDisjoint(const Planned &p) {
  auto root = [&](uint32_t b) {
    while (p.layout.buffers[b].over >= 0)
      b = p.layout.buffers[b].over;
    return b;
  };
  for (uint32_t a = 0; a < p.schedule.buffers.size(); ++a) {
    const BufferLayout &la = p.layout.buffers[a];
    EXPECT_LE(la.offset + p.schedule.buffers[a].bytes, p.layout.spaces[p.schedule.buffers[a].space].arenaBytes);
    EXPECT_EQ(la.offset % 64, 0u);
    for (uint32_t b = 0; b < a; ++b) {
      const BufferLayout &lb = p.layout.buffers[b];
      bool together = p.schedule.buffers[a].space == p.schedule.buffers[b].space && la.first <= lb.last && lb.first <= la.last;
      bool overlap = la.offset < lb.offset + p.schedule.buffers[b].bytes && lb.offset < la.offset + p.schedule.buffers[a].bytes;
      if (root(a) == root(b))
        continue;
      EXPECT_FALSE(together && overlap) << p.schedule.buffers[a].label << ", " << p.schedule.buffers[b].label;
    }
  }
}

/// Every element of every parameter is measured once and updated once.
void expectCovered(const Planned &p) {
  std::map<int32_t, std::vector<std::pair<uint64_t, uint64_t>>> normed, updated; // operation: parts of operand 0
  for (const ScheduledOp &op : p.schedule.ops) {
    if (op.kind != CommandKind::Dispatch || op.parameter < 0 || op.predicate == Predicate::Redo)
      continue;
    auto &list = op.phase == Phase::Update ? updated : normed;
    list[op.op].push_back({op.operands[0].offset, op.operands[0].bytes});
    EXPECT_EQ(op.params[op.phase == Phase::Update ? 1 : 0] * 4, static_cast<int64_t>(op.operands[0].bytes));
  }
  for (const TrainedParameter &t : p.trained)
    for (auto *list : {&normed[t.norm], &updated[t.update]}) {
      std::sort(list->begin(), list->end());
      uint64_t next = 0;
      for (auto [offset, bytes] : *list) {
        EXPECT_EQ(offset, next);
        next += bytes;
      }
      EXPECT_EQ(next, t.elements * 4);
    }
}

/// Policy zero-offload with updates before the verdict: of all buckets, or of every other (a parameter may have pieces of both kinds); on the host, or with one
/// micro-step beside the compute engine.
class Speculating : public PlacementPolicy {
public:
  Speculating(const char *called, bool some, bool streams) : called(called), some(some), streams(streams) {}
  const char *name() const override { return called; }
  bool supports(const Machine &machine, std::string &) const override { return machine.offloads(); }
  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    Placement placement = findPolicy("zero-offload")->place(problem, trained, machine);
    for (size_t b = 0; b < placement.buckets.size(); ++b) {
      BucketPlacement &place = placement.bucketPlacements[b];
      if (some && b % 2)
        continue;
      place.time = UpdateTime::Speculative;
      if (streams && problem.accumulate == 1) {
        place.streamed = true;
        place.gradientSpace = machine.computeSpace;
        place.updateQueue = machine.computeQueue;
        place.normOnDevice = true;
      }
    }
    placement.uploadLag = problem.ops.size() % 3;
    return placement;
  }

private:
  const char *called;
  bool some, streams;
};
const bool known = registerPolicy("speculate", [] { return std::make_unique<Speculating>("speculate", false, false); }) &&
                   registerPolicy("speculate-some", [] { return std::make_unique<Speculating>("speculate-some", true, false); }) &&
                   registerPolicy("stream-and-speculate", [] { return std::make_unique<Speculating>("stream-and-speculate", false, true); });

struct Variant {
  const char *policy;
  Machine machine;
  double room = 1; ///< budget of the compute space that the policy is told: 0, what it needs at least, to 1, what it takes
};
std::vector<Variant> variants() {
  return {{"resident", cpu()}, {"resident", superchip()}, {"zero-offload", superchip()},
          {"weight-flow", superchip()}, {"weight-flow", superchip(), 0.5}, {"weight-flow", superchip(), 0},
          {"speculate", superchip()}, {"speculate-some", superchip()}, {"stream-and-speculate", superchip()}};
}

Planned plan(const Problem &problem, const Variant &v, bool hold = true) {
  if (v.room == 1)
    return plan(problem, v.machine, v.policy, hold);
  Planned least = plan(problem, v.machine, v.policy, false, 0);
  uint64_t budget = layOutSmallest(least.schedule, v.machine).spaces[0].arenaBytes;
  if (v.room > 0) {
    uint64_t most = plan(problem, v.machine, v.policy).layout.spaces[0].arenaBytes;
    budget += most > budget ? (most - budget) * v.room : 0;
  }
  return plan(problem, v.machine, v.policy, hold, budget);
}

TEST(Planning, RandomStepsAreRaceFree) {
  std::mt19937 rng(3);
  for (unsigned i = 0; i < 250; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 6;
    shape.accumulate = 1 + rng() % 5;
    shape.states = rng() % 3;
    Problem problem = makeProblem(rng, shape);
    for (const Variant &v : variants()) {
      Planned p = plan(problem, v, rng() % 2);
      std::string error;
      EXPECT_TRUE(verifyProgram(p.program, error)) << "step " << i << ", " << v.policy << ", K " << shape.accumulate << ": " << error;
      expectDisjoint(p);
      if (std::string(v.policy) != "stream-and-speculate") // there operand 0 is in a slot
        expectCovered(p);
      for (const Command &c : p.program.step)
        for (const Range &r : c.operands)
          EXPECT_TRUE(c.kind == CommandKind::Copy || r.offset % 64 == 0) << c.label << " has an operand that is not aligned";
    }
  }
}

/// No wait is superfluous: without any one of them the verifier finds a race.
TEST(Planning, EveryWaitIsNeeded) {
  std::mt19937 rng(4);
  unsigned removed = 0, superfluous = 0;
  for (unsigned i = 0; i < 60; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 4;
    shape.accumulate = 1 + rng() % 5;
    Problem problem = makeProblem(rng, shape);
    for (const Variant &v : variants()) {
      Planned p = plan(problem, v, rng() % 2);
      for (size_t c = 0; c < p.program.step.size(); ++c)
        for (size_t w = 0; w < p.program.step[c].waits.size(); ++w) {
          Program program = p.program;
          auto &waits = program.step[c].waits;
          waits.erase(waits.begin() + w);
          std::string error;
          bool needed = !verifyProgram(program, error);
          ++removed;
          // Each of a pair counts as both: what makes a dropped step good waits for the update of a clipped one, too.
          superfluous += !needed;
          if (needed || std::string(v.policy) == "stream-and-speculate")
            continue;
          ADD_FAILURE() << "step " << i << ", " << v.policy << ", K " << shape.accumulate << ": wait " << w
                                                      << " of command " << c << " " << program.step[c].label << " is not needed";
        }
    }
  }
  EXPECT_GT(removed, 1000u);
  EXPECT_LT(superfluous, removed / 100);
}

/// Moving any operand, or dropping any write, of a lowered schedule is found or harmless; the verifier and a table of bytes must agree on
/// what is written first.
TEST(Planning, EveryValueComesFromItsWriter) {
  // Runs the commands in program order on symbolic bytes: what a command reads must be what the schedule says it reads.
  std::mt19937 rng(5);
  for (unsigned i = 0; i < 60; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 5;
    shape.accumulate = 1 + rng() % 3;
    Problem problem = makeProblem(rng, shape);
    for (const Variant &v : variants()) {
      Planned p = plan(problem, v);
      // 64-byte cells of each arena hold the buffer (its root, in place) that wrote them last.
      std::vector<std::vector<int64_t>> cells;
      for (const SpaceLayout &space : p.layout.spaces)
        cells.emplace_back(space.arenaBytes / 64 + 1, -1);
      auto root = [&](int64_t b) {
        while (p.layout.buffers[b].over >= 0)
          b = p.layout.buffers[b].over;
        return b;
      };
      for (uint32_t b = 0; b < p.schedule.buffers.size(); ++b)
        if (p.schedule.buffers[b].persistent)
          for (uint64_t at = 0; at < p.schedule.buffers[b].bytes; at += 64)
            cells[p.schedule.buffers[b].space][(p.layout.buffers[b].offset + at) / 64] = b;
      for (unsigned round = 0; round < 2 * shape.accumulate; ++round)
        for (const ScheduledOp &op : p.schedule.ops) {
          unsigned micro = round % shape.accumulate;
          bool first = micro == 0, last = micro + 1 == shape.accumulate;
          if ((op.predicate == Predicate::FirstMicro && !first) || (op.predicate == Predicate::LaterMicro && first) ||
              (op.predicate >= Predicate::LastMicro && !last))
            continue;
          for (int writing = 0; writing < 2; ++writing)
            for (const BufferRange &r : op.operands) {
              if ((r.access != Access::Read) != writing)
                continue;
              auto &space = cells[p.schedule.buffers[r.buffer].space];
              uint64_t begin = p.layout.buffers[r.buffer].offset + r.offset;
              for (uint64_t at = begin / 64; at * 64 < begin + r.bytes; ++at) {
                if (writing)
                  space[at] = root(r.buffer);
                else
                  ASSERT_EQ(space[at], root(r.buffer)) << op.label << " reads " << p.schedule.buffers[r.buffer].label;
              }
            }
        }
    }
  }
}

/// The schedule, run in program order on its addresses, reports and leaves what the problem says, whatever moves.
TEST(Planning, SchedulesComputeTheProblem) {
  std::mt19937 rng(12);
  for (unsigned i = 0; i < 120; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 6;
    shape.accumulate = 1 + rng() % 4;
    shape.states = rng() % 3;
    Problem problem = makeProblem(rng, shape);
    Symbolic symbolic(problem, 4);
    SymbolicResult wanted = symbolic.reference();
    for (const Variant &v : variants()) {
      Planned p = plan(problem, v, rng() % 2);
      EXPECT_TRUE(symbolic.scheduled(p.schedule, p.layout, p.program.step) == wanted)
          << "step " << i << ", " << v.policy << " " << v.room << ", K " << shape.accumulate;
    }
  }
}

/// Tokens against a table of bytes.
TEST(Planning, TrueDependences) {
  std::mt19937 rng(10);
  for (unsigned i = 0; i < 40; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 4;
    shape.accumulate = 1 + rng() % 2;
    Planned p = plan(makeProblem(rng, shape), superchip(), i % 2 ? "weight-flow" : "zero-offload");
    auto got = trueDependences(p.schedule);
    std::vector<std::vector<std::set<uint32_t>>> writers; // buffer, 4-byte cell
    for (const Buffer &b : p.schedule.buffers)
      writers.emplace_back((b.bytes + 3) / 4);
    for (uint32_t o = 0; o < p.schedule.ops.size(); ++o) {
      const ScheduledOp &op = p.schedule.ops[o];
      std::set<uint32_t> wanted;
      for (const BufferRange &r : op.operands)
        if (r.access == Access::Read)
          for (uint64_t at = r.offset / 4; at * 4 < r.offset + r.bytes; ++at)
            wanted.insert(writers[r.buffer][at].begin(), writers[r.buffer][at].end());
      ASSERT_EQ(std::set<uint32_t>(got[o].begin(), got[o].end()), wanted) << op.label;
      for (const BufferRange &r : op.operands)
        if (r.access != Access::Read)
          for (uint64_t at = r.offset / 4; at * 4 < r.offset + r.bytes; ++at) {
            if (op.predicate == Predicate::Always)
              writers[r.buffer][at].clear();
            writers[r.buffer][at].insert(o);
          }
    }
  }
}

TEST(Planning, Buckets) {
  std::mt19937 rng(6);
  for (unsigned i = 0; i < 300; ++i) {
    Shape shape;
    shape.layers = 1 + rng() % 8;
    Problem problem = makeProblem(rng, shape);
    std::string error;
    auto trained = trainedParameters(problem, error);
    auto buckets = formBuckets(problem, trained);
    std::vector<std::vector<Piece>> pieces(trained.size());
    uint32_t complete = 0;
    for (const Bucket &bucket : buckets) {
      uint64_t bytes = 0;
      bool partial = false;
      for (const Piece &piece : bucket.pieces) {
        bytes += piece.count * 4;
        partial |= piece.count != trained[piece.parameter].elements;
        EXPECT_EQ(piece.first % 1024, 0u);
        // In the order in which gradients are complete.
        EXPECT_GE(trained[piece.parameter].completeAt, complete);
        complete = trained[piece.parameter].completeAt;
        pieces[piece.parameter].push_back(piece);
      }
      EXPECT_EQ(bytes, bucket.bytes);
      EXPECT_LE(bytes, problem.bucketBytes);
      if (partial)
        EXPECT_EQ(bucket.pieces.size(), 1u);
    }
    for (size_t t = 0; t < trained.size(); ++t) {
      uint64_t next = 0;
      for (const Piece &piece : pieces[t]) {
        EXPECT_EQ(piece.first, next);
        next += piece.count;
      }
      EXPECT_EQ(next, trained[t].elements);
    }
  }
}

TEST(Planning, ZeroOffloadPlacesState) {
  std::mt19937 rng(7);
  Shape shape;
  shape.random = false;
  Problem problem = makeProblem(rng, shape);
  problem.bucketBytes = 8192; // one layer
  Planned p = plan(problem, superchip(), "zero-offload");
  std::map<Role, std::set<std::string>> spaces;
  for (const Buffer &b : p.schedule.buffers)
    if (b.persistent)
      spaces[b.role].insert(p.machine.spaces[b.space].name);
  EXPECT_EQ(spaces[Role::Parameter], std::set<std::string>{"host"});
  EXPECT_EQ(spaces[Role::Moment], std::set<std::string>{"host"});
  EXPECT_EQ(spaces[Role::WeightCopy], std::set<std::string>{"hbm"});
  EXPECT_EQ(spaces[Role::Input], std::set<std::string>{"hbm"});
  // A bucket's gradients leave right after the operation that completes it, before the last backward operation.
  size_t firstCopy = 0, lastBackward = 0;
  for (size_t i = 0; i < p.schedule.ops.size(); ++i) {
    const ScheduledOp &op = p.schedule.ops[i];
    if (op.kind == CommandKind::Copy && op.queue == p.machine.toHost && !firstCopy)
      firstCopy = i;
    if (op.kind == CommandKind::Dispatch && op.queue == p.machine.computeQueue)
      lastBackward = i;
  }
  EXPECT_GT(firstCopy, 0u);
  EXPECT_LT(firstCopy, lastBackward);
  // Updates on the cpu queue, what forward needs first in front.
  uint32_t before = 0;
  for (const ScheduledOp &op : p.schedule.ops)
    if (op.phase == Phase::Update && op.kind == CommandKind::Dispatch) {
      EXPECT_EQ(op.queue, p.machine.hostQueue);
      for (const Bucket &bucket : p.placement.buckets)
        if (static_cast<int32_t>(p.trained[bucket.pieces[0].parameter].update) == op.op) {
          EXPECT_GE(bucket.firstUse, before);
          before = bucket.firstUse;
        }
    }
  // The next forward does not wait for all weights: its first command waits for less than the last copy up.
  const Command *lastUp = nullptr;
  for (const Command &c : p.program.step)
    if (c.kind == CommandKind::Copy && c.queue == p.machine.toCompute)
      lastUp = &c;
  ASSERT_NE(lastUp, nullptr);
  for (const Command &c : p.program.step)
    if (c.kind == CommandKind::Dispatch && c.queue == p.machine.computeQueue) {
      for (const Wait &w : c.waits)
        EXPECT_NE(static_cast<int32_t>(w.event), lastUp->signal);
      break;
    }
}

/// One random change to a lowered schedule: the verifier and brute force must judge it alike.
TEST(Planning, CorruptedSchedulesAgreeWithBruteForce) {
  std::mt19937 rng(8);
  unsigned racy = 0, safe = 0;
  for (unsigned i = 0; i < 400; ++i) {
    Shape shape;
    shape.layers = 1;
    shape.width = 1;
    shape.states = rng() % 2;
    shape.activationBytes = 64;
    shape.accumulate = 1 + rng() % 3;
    Variant v = variants()[rng() % 6]; // without a verdict there is no speculation
    Program program = plan(makeProblem(rng, shape), v, rng() % 2).program;
    // The reference knows nothing of the runtime's step number; without Verdict and Scalars there is none.
    for (Command &c : program.step) {
      if (c.predicate == Predicate::Apply)
        c.predicate = Predicate::LastMicro;
      if (c.kind == CommandKind::Verdict || c.kind == CommandKind::Scalars) {
        c.kind = CommandKind::Dispatch;
        c.kernel = 0;
      }
    }
    Command &c = program.step[rng() % program.step.size()];
    Range *r = c.operands.empty() ? nullptr : &c.operands[rng() % c.operands.size()];
    switch (rng() % 5) {
    case 0:
      if (!c.waits.empty())
        c.waits.erase(c.waits.begin() + rng() % c.waits.size());
      break;
    case 1:
      if (!c.waits.empty())
        c.waits[0].distance = 1;
      break;
    case 2:
      c.queue = rng() % program.queues.size();
      program.queues[c.queue].compute = true;
      break;
    case 3:
      c.predicate = static_cast<Predicate>(rng() % 4);
      break;
    case 4:
      if (r && c.kind == CommandKind::Dispatch)
        r->offset = rng() % (program.spaces[r->space].arenaBytes - r->bytes + 1);
      break;
    }
    std::string error;
    bool got = verifyProgram(program, error);
    // What is wrong with a command in itself (operands that overlap, ...) is not the reference's business.
    if (!got && error.find("overlap") != std::string::npos)
      continue;
    bool wanted = reference(program);
    EXPECT_EQ(got, wanted) << i << ": " << error;
    ++(wanted ? safe : racy);
  }
  EXPECT_GT(racy, 50u);
  EXPECT_GT(safe, 50u);
}

/// `budget`: of the compute space.
void expectFast(const char *policy, unsigned layers, uint64_t budget = ~0ull) {
  std::mt19937 rng(9);
  Shape shape;
  shape.layers = layers;
  shape.random = true;
  Problem problem = makeProblem(rng, shape);
  const std::clock_t start = std::clock(); // of this process: other jobs share the machine
  Planned p = plan(problem, superchip(), policy, true, budget);
  double planned = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::string error;
  EXPECT_TRUE(verifyProgram(p.program, error)) << error;
  double verified = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC - planned;
  std::printf("%zu commands: planned in %.2f s, verified in %.2f s\n", p.program.step.size(), planned, verified);
  for (size_t s = 0; s < p.layout.spaces.size(); ++s)
    std::printf("%s: %.4f\n", p.machine.spaces[s].name.c_str(), double(p.layout.spaces[s].arenaBytes) / p.layout.spaces[s].liveBytes);
  EXPECT_GT(p.program.step.size(), 6u * layers);
  EXPECT_LT(planned, 20 * kSlack);
}

TEST(Planning, LargeStepIsFast) { expectFast("zero-offload", 1500); } // more than 10,000 commands
TEST(Planning, LargeFlowIsFast) { expectFast("weight-flow", 750); }
TEST(Planning, NarrowLargeFlowIsFast) { expectFast("weight-flow", 750, 1 << 20); } // it prefetches, and activations leave

/// A large parameter and the smallest buckets: the work must not grow with the square of the pieces.
TEST(Planning, ManyPiecesAreFast) {
  std::mt19937 rng(11);
  Shape shape;
  shape.layers = 2;
  shape.random = false;
  shape.width = 1 << 20; // 16M elements
  Problem problem = makeProblem(rng, shape);
  problem.bucketBytes = 4096;
  const std::clock_t start = std::clock(); // of this process: other jobs share the machine
  Planned p = plan(problem, superchip(), "zero-offload");
  trueDependences(p.schedule);
  double planned = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::string error;
  EXPECT_TRUE(verifyProgram(p.program, error)) << error;
  double all = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%zu commands: planned in %.2f s, verified in %.2f s\n", p.program.step.size(), planned, all - planned);
  EXPECT_GT(p.program.step.size(), 100000u);
  EXPECT_LT(planned, 30 * kSlack);
}

} // namespace
