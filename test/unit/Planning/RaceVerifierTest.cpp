//===- RaceVerifierTest.cpp - The race verifier against brute force -------===//
//
// Field reports A11, C2 (docs/field-reports.md).
//
//===----------------------------------------------------------------------===//

#include "RaceReference.h"
#include "forebay/Planning/RaceVerifier.h"

#include <gtest/gtest.h>
#include <functional>
#include <random>
#include <sstream>

using namespace forebay;
using namespace forebay::planning::test;

namespace {

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Program base(unsigned queues, unsigned accumulate) {
  Program p;
  p.accumulate = accumulate;
  p.spaces = {{"hbm", 64, 64}, {"host", 64, 64}};
  for (unsigned q = 0; q < queues; ++q)
    p.queues.push_back({"q" + std::to_string(q), true});
  p.kernels = {{"k", false}};
  Tensor t{};
  t.name = "state";
  t.role = Role::Parameter;
  t.type = DType::U8;
  t.shape = {16};
  t.bytes = 16;
  p.tensors = {t, t};
  p.tensors[1].space = 1;
  return p;
}

Command dispatch(uint32_t queue, std::vector<Range> operands) {
  Command c;
  c.kind = CommandKind::Dispatch;
  c.kernel = 0;
  c.queue = queue;
  c.operands = std::move(operands);
  return c;
}

/// Random commands, everything signals; waits on most of what conflicts, some dropped, some made up.
Program randomProgram(std::mt19937 &rng) {
  auto pick = [&](unsigned n) { return static_cast<unsigned>(rng() % n); };
  Program p = base(1 + pick(3), 1 + pick(5));
  unsigned n = 2 + pick(5);
  p.events = n;
  unsigned keep = pick(3) ? 100 : 90;
  for (unsigned i = 0; i < n; ++i) {
    Command c = dispatch(pick(p.queues.size()), {});
    uint32_t space = pick(2);
    uint64_t at = 0;
    for (unsigned o = 0, count = 1 + pick(2); o < count; ++o) {
      at += pick(3) * 8;
      uint64_t size = 8 * (1 + pick(2));
      // Mostly reads of state and writes anywhere, so that some programs are fine.
      bool reads = pick(2);
      c.operands.push_back({space, reads && pick(4) ? at % 16 / 8 * 8 : at, reads ? 8 : size, reads ? Access::Read : Access::Write});
      at += size;
      if (o && c.operands[0].offset < c.operands[1].offset + c.operands[1].bytes &&
          c.operands[1].offset < c.operands[0].offset + c.operands[0].bytes)
        c.operands.pop_back();
    }
    static const Predicate predicates[] = {Predicate::Always, Predicate::Always, Predicate::FirstMicro, Predicate::LaterMicro,
                                           Predicate::LastMicro};
    c.predicate = predicates[pick(5)];
    c.signal = i;
    c.label = "c" + std::to_string(i);
    p.step.push_back(c);
  }
  for (unsigned b = 0; b < n; ++b)
    for (unsigned a = 0; a < n; ++a)
      if (a != b && p.step[a].queue != p.step[b].queue &&
          (Reference::conflict(p.step[a], p.step[b]) ? pick(100) < keep : pick(100) < 5))
        p.step[b].waits.push_back({a, a < b ? 0u : 1u});
  return p;
}

TEST(RaceVerifier, AgreesWithBruteForce) {
  std::mt19937 rng(1);
  unsigned safe = 0, racy = 0;
  for (unsigned i = 0; i < 6000; ++i) {
    Program p = randomProgram(rng);
    std::string error;
    bool wanted = reference(p), got = verifyProgram(p, error);
    ASSERT_EQ(got, wanted) << "program " << i << ": " << error;
    ++(wanted ? safe : racy);
    EXPECT_EQ(got, error.empty());
  }
  // Both kinds must occur, or the comparison says nothing.
  EXPECT_GT(safe, 300u);
  EXPECT_GT(racy, 300u);
}

TEST(RaceVerifier, RemovedWaitsAgreeWithBruteForce) {
  std::mt19937 rng(2);
  unsigned needed = 0, implied = 0;
  for (unsigned i = 0; i < 3000; ++i) {
    Program p = randomProgram(rng);
    std::string error;
    if (!verifyProgram(p, error))
      continue;
    for (Command &c : p.step)
      for (size_t w = 0; w < c.waits.size(); ++w) {
        Wait wait = c.waits[w];
        c.waits.erase(c.waits.begin() + w);
        bool wanted = reference(p);
        ASSERT_EQ(verifyProgram(p, error), wanted);
        ++(wanted ? implied : needed);
        c.waits.insert(c.waits.begin() + w, wait);
      }
  }
  EXPECT_GT(needed, 50u);
  EXPECT_GT(implied, 50u);
}

std::string errorOf(const Program &p) {
  std::string error;
  EXPECT_FALSE(verifyProgram(p, error));
  return error;
}

/// A pair in the host's memory, home at 0 and shadow at 64, 16 bytes each, and a copy of the parameter at 128.
Program pairedBase(unsigned queues, unsigned accumulate) {
  Program p = base(queues, accumulate);
  p.spaces[1] = {"host", 192, 192};
  Tensor shadow = p.tensors[1], copy = shadow;
  shadow.role = Role::Shadow;
  shadow.copyOf = copy.copyOf = 1;
  shadow.offset = 64;
  copy.role = Role::WeightCopy;
  copy.offset = 128;
  p.tensors.insert(p.tensors.end(), {shadow, copy});
  return p;
}

/// Random steps with a verdict and updates before and after: mostly those that a pair and a copy need, some left out, some more; waits on all that conflicts as if
/// each of a pair were both and on the verdict, some dropped.
Program randomSpeculation(std::mt19937 &rng) {
  auto pick = [&](unsigned n) { return static_cast<unsigned>(rng() % n); };
  Program p = pairedBase(2 + pick(2), 1 + pick(2));
  const Pairs pairs(p);
  std::vector<Command> before, after;
  auto add = [&](Predicate predicate, std::vector<Range> operands) {
    Command c = dispatch(pick(p.queues.size()), std::move(operands));
    c.predicate = predicate;
    bool early = predicate == Predicate::Speculate || (!afterVerdict(predicate) && pick(2));
    auto &list = early ? before : after;
    list.insert(list.begin() + (pick(5) ? list.size() : pick(list.size() + 1)), std::move(c));
  };
  const Range home{1, 0, 16, Access::Read}, shadow{1, 64, 16, Access::Write}, copy{1, 128, 16, Access::Write};
  auto half = [](Range r) { return r.bytes = 8, r; };
  // One update for all, or each half its own way.
  for (unsigned part = 0, parts = 1 + pick(2); part < parts; ++part) {
    auto of = [&](Range r) { return r.bytes /= parts, r.offset += part * r.bytes, r; };
    bool speculates = pick(4), copies = pick(2);
    std::vector<Range> update{of(home), of(shadow)}, restore{of(home), of(copy)};
    if (copies)
      update.push_back(of(copy));
    if (speculates && pick(16))
      add(Predicate::Speculate, update);
    if (pick(16))
      add(speculates ? Predicate::Redo : Predicate::Apply, pick(16) ? update : std::vector<Range>{of(home), half(of(shadow))});
    if (speculates && (copies ? pick(16) : !pick(8)))
      add(Predicate::Restore, restore);
  }
  for (unsigned more = pick(3); more > 0; --more) {
    static const Predicate any[] = {Predicate::Always, Predicate::LastMicro, Predicate::Speculate, Predicate::Apply, Predicate::Redo, Predicate::Restore};
    bool reads = pick(2), transient = pick(2);
    uint64_t at = transient ? 32 + 8 * pick(3) : 64 * pick(3) + 8 * pick(2);
    add(any[pick(6)], {{transient ? 0u : 1u, at, 8, reads ? Access::Read : Access::Write}});
  }
  Command decide;
  decide.kind = CommandKind::Verdict;
  decide.predicate = Predicate::LastMicro;
  decide.queue = pick(p.queues.size());
  decide.operands = {{0, 0, 16, Access::Read}};
  unsigned verdict = before.size(), drop = pick(2) ? 0 : 8;
  p.step = std::move(before);
  p.step.push_back(decide);
  p.step.insert(p.step.end(), after.begin(), after.end());
  unsigned n = p.events = p.step.size();
  for (unsigned i = 0; i < n; ++i) {
    p.step[i].signal = i;
    p.step[i].label = "c" + std::to_string(i);
  }
  auto conflicts = [&](const Command &a, const Command &b) {
    auto either = a.operands;
    for (const Range &r : a.operands)
      if (auto other = pairs.exchanged(r))
        either.push_back(*other);
    return Reference::conflict(either, b.operands);
  };
  auto asks = [&](const Command &c) { return c.predicate > Predicate::LastMicro || pairs.touches(c.operands[0]); };
  for (unsigned b = 0; b < n; ++b)
    for (unsigned a = 0; a < n; ++a)
      if (a != b && p.step[a].queue != p.step[b].queue && pick(100) >= drop &&
          (conflicts(p.step[a], p.step[b]) || (a == verdict && asks(p.step[b])) || (b == verdict && a > b && afterVerdict(p.step[a].predicate))))
        p.step[b].waits.push_back({a, a < b ? 0u : 1u});
  return p;
}

std::string print(const Program &p) {
  std::ostringstream out;
  for (const Command &c : p.step) {
    out << "\n  " << c.label << " on " << c.queue << " predicate " << static_cast<int>(c.predicate) << ":";
    for (const Range &r : c.operands)
      out << (r.access == Access::Read ? " reads " : " writes ") << r.space << " [" << r.offset << ", " << r.offset + r.bytes << ")";
    for (Wait w : c.waits)
      out << ", waits for " << w.event << " of " << w.distance << " before";
  }
  return out.str();
}

/// What the verifier lets pass is safe whatever becomes of the steps. (It takes more to run than does, so it may refuse what brute force allows.)
TEST(RaceVerifier, SpeculationIsSafeWhateverTheVerdict) {
  std::mt19937 rng(3);
  unsigned passed = 0, racy = 0, refused = 0;
  for (unsigned i = 0; i < 2000; ++i) {
    Program p = randomSpeculation(rng);
    std::string error;
    bool safe = referenceWithSpeculation(p), got = verifyProgram(p, error);
    ASSERT_TRUE(safe || !got) << "program " << i << " K " << p.accumulate << " " << error << ":" << print(p);
    ++(got ? passed : safe ? refused : racy);
  }
  EXPECT_GT(passed, 300u);
  EXPECT_GT(racy, 300u);
  EXPECT_LT(refused, 200u) << "of " << passed << " and " << racy;
}

/// An update into a shadow, before the verdict and again after it.
Program speculatingUpdate() {
  Program p = pairedBase(2, 1);
  p.events = 2;
  Command verdict, update = dispatch(1, {{1, 0, 16, Access::Read}, {1, 64, 16, Access::Write}}), redo = update;
  verdict.kind = CommandKind::Verdict;
  verdict.predicate = Predicate::LastMicro;
  verdict.operands = {{0, 0, 16, Access::Read}};
  verdict.signal = 0;
  verdict.label = "verdict";
  verdict.waits = {{1, 1}};
  update.predicate = Predicate::Speculate;
  update.label = "update";
  update.waits = {{0, 1}};
  redo.predicate = Predicate::Redo;
  redo.label = "redo";
  redo.waits = {{0, 0}};
  redo.signal = 1;
  p.step = {update, verdict, redo};
  return p;
}

/// Without the wait for the verdict nobody knows which of a pair is which.
TEST(RaceVerifier, WhatIsExchangedWaitsForTheVerdict) {
  Program p = speculatingUpdate();
  std::string error;
  EXPECT_TRUE(verifyProgram(p, error)) << error;
  p.step[0].waits.clear();
  p.step[0].queue = 0;
  p.step[0].signal = 2;
  p.step[2].waits.push_back({2, 0});
  p.events = 3;
  p.step[1].queue = 1; // where the waits of the verdict and of 'redo' order them
  EXPECT_EQ(errorOf(p), "race: command 0 'update' (q0) touches host [0, 16) while command 1 'verdict' (q1) of the previous iteration may still exchange it");
  p = speculatingUpdate();
  p.step[0].operands[0].bytes = 24;
  EXPECT_EQ(errorOf(p), "command 0 'update': an operand is partly inside what steps exchange");
}

/// Whatever becomes of a step, and whether or not it is speculated, the same bytes are renewed.
TEST(RaceVerifier, WhatAStepExchangesIsWhole) {
  auto error = [](const std::function<void(Program &)> &change) {
    Program p = speculatingUpdate();
    change(p);
    return errorOf(p);
  };
  const char *hole = "a step that is applied exchanges 'state', and host [72, 80) of it may not have been written";
  EXPECT_EQ(error([](Program &p) { p.step[0].operands[1].bytes = p.step[2].operands[1].bytes = 8; }), hole);
  EXPECT_EQ(error([](Program &p) { p.step[2].operands[1].bytes = 8; }), hole) << "not while speculation is off";
  EXPECT_EQ(error([](Program &p) { p.step[0].operands[1].bytes = 8; }), hole) << "not where it is committed";
  EXPECT_EQ(error([](Program &p) { p.step[0].operands.push_back({1, 128, 16, Access::Write}); }),
            "command 0 'update' (q1) runs before the verdict, and nothing after it makes good host [128, 144) of a step that is clipped");
  EXPECT_EQ(error([](Program &p) {
              for (int i : {0, 2})
                p.step[i].operands.push_back({1, 128, 16, Access::Write});
            }),
            "command 0 'update' (q1) runs before the verdict, and nothing after it makes good host [128, 144) of a step that is dropped");
  EXPECT_EQ(error([](Program &p) { p.step[2].operands.push_back({1, 128, 16, Access::Write}); }),
            "command 2 'redo' (q1) makes good host [128, 144), but what writes it last before does not run before the verdict");
  EXPECT_EQ(error([](Program &p) { p.step[0].operands[1].offset = 0; }),
            "command 0 'update' runs before the verdict and writes what only an applied step may change: host [0, 16)");
  EXPECT_EQ(error([](Program &p) { // program order: the redone update would be overwritten by the speculated one
              std::rotate(p.step.begin(), p.step.begin() + 1, p.step.end());
            }),
            "command 2 'update' (q1) runs before the verdict, and nothing after it makes good host [64, 80) of a step that is clipped");
}

/// What reads it after the verdict, or whatever the step becomes, would have other bytes where the step was speculated.
TEST(RaceVerifier, OnlySpeculationReadsWhatItHasWritten) {
  auto error = [](const std::function<void(Program &)> &change) {
    Program p = speculatingUpdate();
    for (Command *c : {&p.step[0], &p.step[2]})
      c->operands.push_back({1, 128, 16, Access::Write});
    Command restore = dispatch(1, {{1, 0, 16, Access::Read}, {1, 128, 16, Access::Write}});
    restore.predicate = Predicate::Restore;
    restore.label = "restore";
    restore.waits = {{0, 0}};
    p.step[2].signal = -1;
    restore.signal = 1;
    p.step.push_back(restore);
    std::string plain;
    EXPECT_TRUE(verifyProgram(p, plain)) << plain;
    change(p);
    return errorOf(p);
  };
  EXPECT_EQ(error([](Program &p) { // a forward that comes between
              Command forward = dispatch(1, {{1, 128, 16, Access::Read}});
              forward.label = "forward";
              p.step.insert(p.step.begin() + 1, forward);
            }),
            "command 1 'forward' (q1) reads host [128, 144), which command 0 'update' (q1) has only written if the step is speculated");
  EXPECT_EQ(error([](Program &p) { p.step[2].operands = {{1, 64, 16, Access::Read}, {1, 64, 16, Access::Write}, {1, 128, 16, Access::Write}}; }),
            "command 2 'redo' (q1) reads host [64, 80), which command 0 'update' (q1) has only written if the step is speculated");
  EXPECT_EQ(error([](Program &p) { p.step[3].operands[0].offset = 64; }),
            "command 3 'restore' (q1) reads host [0, 16), which command 0 'update' (q1) has only written if the step is speculated");
}

TEST(RaceVerifier, PairsAndConstantsAreChecked) {
  auto error = [](const std::function<void(Program &)> &change) {
    Program p = speculatingUpdate();
    change(p);
    return errorOf(p);
  };
  EXPECT_EQ(error([](Program &p) { p.tensors[2].copyOf = 0; }), "tensor 'state' is the shadow of no parameter or moment of its size beside it");
  EXPECT_EQ(error([](Program &p) { p.tensors[2].copyOf = -1; }), "tensor 'state' is the shadow of nothing");
  EXPECT_EQ(error([](Program &p) { p.tensors[2].offset = 80; }), "tensor 'state' and what it is the shadow of do not both begin on 64 bytes");
  EXPECT_EQ(error([](Program &p) {
              p.tensors.push_back(p.tensors[2]);
              p.tensors.back().offset = 128;
            }),
            "tensor 'state' is a second shadow of 'state', beside 'state'");
  const char *overlap = "tensors 'state' and 'copy' overlap, and applied steps exchange one of them with its shadow";
  EXPECT_EQ(error([](Program &p) { p.tensors[3].name = "copy", p.tensors[3].offset = 72; }), overlap);
  EXPECT_EQ(error([](Program &p) { p.tensors[3].name = "copy", p.tensors[3].offset = 8; }), overlap);
  auto constant = [](Program &p) {
    p.tensors[3].role = Role::Control;
    p.tensors[3].copyOf = -1;
    p.tensors[3].initial = std::string(16, 'x');
  };
  EXPECT_EQ(error([&](Program &p) {
              constant(p);
              p.tensors[3].name = "assumed";
              p.tensors[3].initial.pop_back();
            }),
            "tensor 'assumed' begins with another number of bytes than it has");
  EXPECT_EQ(error([&](Program &p) {
              constant(p);
              p.step[2].operands.push_back({1, 136, 16, Access::Write});
            }),
            "command 2 'redo' writes a tensor that keeps the bytes it begins with");
}

TEST(RaceVerifier, AFlushHangsOnNoStep) {
  const char *expected = "flush command 0 'late' hangs on which step was applied, and a flush comes after no step";
  for (bool touches : {false, true}) {
    Program p = speculatingUpdate();
    Command late = dispatch(0, {{1, touches ? 0u : 128u, 16, Access::Read}});
    late.predicate = touches ? Predicate::Always : Predicate::Restore;
    late.label = "late";
    p.flush = {late};
    EXPECT_EQ(errorOf(p), expected);
  }
}

/// Producer on one queue, consumer on another, slot reused in the next iteration.
Program producerConsumer() {
  Program p = base(2, 1);
  p.events = 2;
  p.step = {dispatch(0, {{0, 32, 8, Access::Write}}), dispatch(1, {{0, 32, 8, Access::Read}})};
  p.step[0].label = "produce";
  p.step[1].label = "consume";
  p.step[0].signal = 0;
  p.step[1].signal = 1;
  p.step[1].waits = {{0, 0}};
  p.step[0].waits = {{1, 1}};
  return p;
}

TEST(RaceVerifier, ProducerConsumer) {
  Program p = producerConsumer();
  std::string error;
  EXPECT_TRUE(verifyProgram(p, error)) << error;
  p.step[1].waits.clear();
  EXPECT_EQ(errorOf(p), "race: command 1 'consume' (q1) reads hbm [32, 40) while command 0 'produce' (q0) of the same iteration may still write it");
  p = producerConsumer();
  p.step[0].waits.clear();
  EXPECT_EQ(errorOf(p), "race: command 0 'produce' (q0) writes hbm [32, 40) while command 1 'consume' (q1) of the previous iteration may still read it");
}

TEST(RaceVerifier, ReadBeforeWrite) {
  Program p = producerConsumer();
  std::swap(p.step[0], p.step[1]);
  p.step[0].waits = {{0, 1}};
  p.step[1].waits = {{1, 0}};
  EXPECT_EQ(errorOf(p), "command 0 'consume' (q1) reads hbm [32, 40), which nothing has written in this iteration");
  for (Command &c : p.step)
    c.operands[0].offset = 8; // state: what the last iteration left
  std::string error;
  EXPECT_TRUE(verifyProgram(p, error)) << error;
}

/// A skipped command passes on nothing that it would have waited for.
TEST(RaceVerifier, ChainThroughSkippedCommand) {
  Program p = base(3, 2);
  p.events = 3;
  p.step = {dispatch(0, {{0, 32, 8, Access::Write}}), dispatch(1, {}), dispatch(2, {{0, 32, 8, Access::Read}})};
  for (int i = 0; i < 3; ++i)
    p.step[i].signal = i;
  p.step[1].waits = {{0, 0}};
  p.step[2].waits = {{1, 0}};
  p.step[0].waits = {{2, 1}};
  std::string error;
  EXPECT_TRUE(verifyProgram(p, error)) << error;
  p.step[1].predicate = Predicate::LastMicro;
  EXPECT_NE(errorOf(p).find("race: "), std::string::npos);
}

TEST(RaceVerifier, Apply) {
  Program p = base(2, 1);
  p.events = 1;
  Command verdict;
  verdict.kind = CommandKind::Verdict;
  verdict.operands = {{0, 0, 16, Access::Read}};
  verdict.label = "verdict";
  verdict.signal = 0;
  Command update = dispatch(0, {{1, 0, 8, Access::Write}});
  update.predicate = Predicate::Apply;
  update.label = "update";
  p.step = {verdict, update};
  std::string error;
  EXPECT_TRUE(verifyProgram(p, error)) << error;
  p.step[1].queue = 1;
  EXPECT_EQ(errorOf(p), "race: command 1 'update' (q1) reads the verdict while command 0 'verdict' (q0) of the same iteration may still write it");
  p.step[1].waits = {{0, 0}};
  // Now the next verdict may come before the update has looked at this one.
  EXPECT_EQ(errorOf(p), "race: command 0 'verdict' (q0) writes the verdict while command 1 'update' (q1) of the previous iteration may still read it");
  p.step[1].signal = 1;
  p.events = 2;
  p.step[0].waits = {{1, 1}};
  EXPECT_TRUE(verifyProgram(p, error)) << error;
  p.step.erase(p.step.begin());
  p.step[0].signal = -1;
  p.events = 1;
  EXPECT_EQ(errorOf(p), "command 0 'update' waits for an event that nobody signals");
  p.step[0].waits.clear();
  EXPECT_EQ(errorOf(p), "command 0 'update' (q1) reads the verdict, which nothing has written in this iteration");
}

TEST(RaceVerifier, Structure) {
  auto broken = [](auto change) {
    Program p = producerConsumer();
    change(p);
    return errorOf(p);
  };
  EXPECT_EQ(broken([](Program &p) { p.accumulate = 0; }), "accumulate is 0");
  EXPECT_EQ(broken([](Program &p) { p.queues.clear(); }), "no queue or no memory space");
  EXPECT_EQ(broken([](Program &p) { p.events = ~0u; }), "more events than commands");
  EXPECT_EQ(broken([](Program &p) { p.spaces[0].capacity = 63; }), "the arena of hbm is larger than its capacity");
  EXPECT_EQ(broken([](Program &p) { p.tensors[0].offset = ~0ull; }), "tensor 'state' lies outside its arena");
  EXPECT_EQ(broken([](Program &p) { p.tensors[0].shape = {-1}; }), "tensor 'state' has an impossible shape");
  EXPECT_EQ(broken([](Program &p) { p.tensors[0].shape = {15}; }), "tensor 'state' has another size than its shape");
  EXPECT_EQ(broken([](Program &p) { p.tensors[0].copyOf = 9; }), "tensor 'state' is a copy of no parameter");
  EXPECT_EQ(broken([](Program &p) { p.tensors[0].group = 0; }), "tensor 'state' is in no known group");
  EXPECT_EQ(broken([](Program &p) { p.values = {{"v", Role::Activation, 0, 60, 8, 0, 0, false}}; }),
            "value 'v' lies outside its arena");
  EXPECT_EQ(broken([](Program &p) { p.values = {{"v", Role::Activation, 0, 0, 8, 0, 2, false}}; }), "value 'v' lives outside the step");
  EXPECT_EQ(broken([](Program &p) { p.groups = {{{1.0}, {true}, 1}}; }),
            "a parameter group has not one value for each hyper-parameter");
  EXPECT_EQ(broken([](Program &p) { p.step[1].queue = 2; }), "command 1 'consume' is on no queue");
  EXPECT_EQ(broken([](Program &p) { p.step[1].operands[0].space = 2; }), "command 1 'consume': an operand lies outside its arena");
  EXPECT_EQ(broken([](Program &p) { p.step[1].operands[0].bytes = ~0ull; }), "command 1 'consume': an operand lies outside its arena");
  EXPECT_EQ(broken([](Program &p) { p.step[1].kernel = -1; }), "command 1 'consume' names no kernel");
  EXPECT_EQ(broken([](Program &p) { p.queues[1].compute = false; }), "command 1 'consume' is a dispatch on a copy queue");
  EXPECT_EQ(broken([](Program &p) { p.step[1].scratch = 1; }), "command 1 'consume' needs more scratch than the program has");
  EXPECT_EQ(broken([](Program &p) { p.step[1].tiles = {-1}; }), "command 1 'consume' has a negative number of tiles");
  EXPECT_EQ(broken([](Program &p) { p.step[1].signal = 2; }), "command 1 'consume' signals an event that does not exist");
  EXPECT_EQ(broken([](Program &p) { p.step[1].signal = 0; }), "command 1 'consume' signals event 0, which command 0 signals too");
  EXPECT_EQ(broken([](Program &p) { p.step[1].waits = {{7, 0}}; }), "command 1 'consume' waits for an event that nobody signals");
  EXPECT_EQ(broken([](Program &p) { p.step[1].waits = {{0, 2}}; }), "command 1 'consume' waits across more than one iteration");
  EXPECT_EQ(broken([](Program &p) { p.step[0].waits = {{1, 0}}; }),
            "command 0 'produce' waits for command 1, which is not before it: a deadlock");
  EXPECT_EQ(broken([](Program &p) { p.step[0].operands.push_back({0, 36, 8, Access::Read}); }),
            "command 0 'produce': two of its operands overlap");
  EXPECT_EQ(broken([](Program &p) { p.step[1].kind = CommandKind::Copy; }), "command 1 'consume': a copy without destination");
  EXPECT_EQ(broken([](Program &p) {
              p.step[1].kind = CommandKind::Copy;
              p.step[1].operands.push_back({1, 0, 16, Access::Write});
            }),
            "command 1 'consume': source and destination of a copy do not fit");
  EXPECT_EQ(broken([](Program &p) { p.step[1].kind = CommandKind::Feed; }), "command 1 'consume': a feed that does not fit its input");
  EXPECT_EQ(broken([](Program &p) { p.step[1].kind = CommandKind::Scalars; }),
            "command 1 'consume': scalars that do not fit their group");
  EXPECT_EQ(broken([](Program &p) { p.step[1].kind = CommandKind::Verdict; }), "command 1 'consume': a verdict has 16 bytes");
  EXPECT_EQ(broken([](Program &p) { p.step[1].kind = CommandKind::Report; }),
            "command 1 'consume': a report that does not fit its tensor");
  EXPECT_EQ(broken([](Program &p) {
              p.groups = {{{}, {}, 1}};
              Command verdict;
              verdict.kind = CommandKind::Verdict;
              verdict.operands = {{0, 0, 16, Access::Read}};
              Command scalars;
              scalars.kind = CommandKind::Scalars;
              scalars.index = 0;
              scalars.operands = {{0, 40, 0, Access::Write}};
              scalars.label = "scalars";
              p.step.push_back(verdict);
              p.step.push_back(scalars);
            }),
            "command 3 'scalars' comes after the verdict: it would see the wrong step number");
}

TEST(RaceVerifier, Flush) {
  Program p = producerConsumer();
  p.flush = {p.step[1]}; // reads what the step left: fine, all queues are idle
  p.flush[0].waits.clear();
  std::string error;
  EXPECT_TRUE(verifyProgram(p, error)) << error;
  p.flush.push_back(p.step[0]);
  p.flush[1].waits.clear();
  EXPECT_EQ(errorOf(p), "race: command 1 'produce' (q0) writes hbm [32, 40) while command 0 'consume' (q1) of the same iteration may still read it");
}

} // namespace
