//===- EngineTest.cpp - Backends against a sequential run --------------===//
//
// Field reports C1, C2, C6 (docs/field-reports.md).
//
//===----------------------------------------------------------------------===//

#include "TestProgram.h"
#include "WorkerGroup.h"

#include <atomic>
#include <cmath>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::testing;

namespace {

struct Closer {
  const Backend *backend;
  void operator()(Device *device) const { backend->close(device); }
};
using DevicePtr = std::unique_ptr<Device, Closer>;

DevicePtr open(const Backend &backend, const BackendConfig &config) {
  std::string error;
  DevicePtr device(backend.open(config, error), Closer{&backend});
  EXPECT_TRUE(device) << error;
  return device;
}

void drain(const Backend &backend, Device *device, uint64_t from, uint64_t to) {
  for (uint64_t step = from; step < to; ++step) {
    StepTimes times;
    ASSERT_TRUE(backend.wait(device, step, int64_t(60) * 1000000000, times)) << "step " << step << " does not end";
    EXPECT_LE(times.begin, times.end);
    backend.release(device);
  }
}

std::vector<std::vector<char>> contents(const Backend &backend, Device *device, const Program &program) {
  std::vector<std::vector<char>> result;
  for (uint32_t space = 0; space < program.spaces.size(); ++space) {
    result.emplace_back(program.spaces[space].arenaBytes);
    backend.read(device, space, 0, result.back().data(), result.back().size());
  }
  return result;
}

/// Commands of every kind on random ranges, 2 compute and 2 copy queues, K of 1 to 3.
Program randomProgram(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](uint64_t n) { return random() % n; };
  Program program;
  program.spaces = {{"hbm", 64 * 40, 64 * 40}, {"host", 64 * 64, 64 * 64}};
  program.queues = {{"gpu", true}, {"cpu", true}, {"h2d", false}, {"d2h", false}};
  program.kernels = {{"mix", false}};
  program.accumulate = 1 + below(3);
  program.scratchBytes = 64;
  program.scalarResults = 3;
  program.groups.resize(2);
  Tensor input;
  input.name = "input";
  input.role = Role::Input;
  input.type = DType::U8;
  input.shape = {100};
  input.space = 0;
  input.offset = 0;
  input.bytes = 100;
  program.tensors = {input};
  // Behind block 40 of the host: what applied steps exchange.
  Tensor home = input;
  home.name = "home";
  home.role = Role::Moment;
  home.space = 1;
  home.shape = {64 * 12};
  home.offset = 64 * 40;
  home.bytes = 64 * 12;
  Tensor shadow = home;
  shadow.role = Role::Shadow;
  shadow.copyOf = 1;
  shadow.offset = 64 * 52;
  program.tensors.insert(program.tensors.end(), {home, shadow});
  auto range = [&](uint64_t bytes, Access access) {
    uint64_t blocks = (bytes + 63) / 64;
    if (below(3) == 0)
      return Range{1, 64 * (40 + 12 * below(2) + below(12 - blocks + 1)), bytes, access};
    return Range{uint32_t(below(2)), 64 * below(40 - blocks + 1), bytes, access};
  };
  size_t commands = 6 + below(25), verdictAt = below(commands);
  bool verdictSeen = false;
  for (size_t i = 0; i < commands; ++i) {
    Command command;
    command.queue = uint32_t(below(4));
    command.predicate = Predicate(below(verdictSeen ? 7 : 5));
    if (!verdictSeen && command.predicate == Predicate::Apply)
      command.predicate = Predicate::Speculate;
    else if (verdictSeen && command.predicate > Predicate::Apply)
      command.predicate = command.predicate == Predicate::Speculate ? Predicate::Redo : Predicate::Restore;
    if (i == verdictAt) {
      command.kind = CommandKind::Verdict;
      command.predicate = Predicate::LastMicro;
      command.operands = {range(16, Access::Read)};
      verdictSeen = true;
    } else if (command.queue < 2) {
      switch (below(8)) {
      case 0:
        command.kind = CommandKind::Feed;
        command.index = 0;
        command.operands = {range(100, Access::Write)};
        break;
      case 1:
        command.kind = CommandKind::Scalars;
        command.index = int32_t(below(2));
        command.operands = {range(12, Access::Write)};
        break;
      case 2:
        command.kind = CommandKind::Report;
        command.operands = {range(1 + below(200), Access::Read)};
        break;
      default: {
        command.kind = CommandKind::Dispatch;
        command.kernel = 0;
        uint64_t a = below(300), b = below(300), c = 1 + below(600);
        // The result overlaps no input, else the order of tiles would show; drawing again keeps that rare case out.
        do
          command.operands = {range(a, Access::Read), range(b, Access::Read), range(c, Access::ReadWrite)};
        while (overlap(command.operands[0], command.operands[2]) || overlap(command.operands[1], command.operands[2]));
        command.tiles = {int64_t(below(9)), int64_t(below(5))};
        if (below(2))
          command.tiles.pop_back();
        command.params = {int64_t(a), int64_t(b), int64_t(c), command.tiles[0], command.tiles.size() > 1 ? command.tiles[1] : 0};
        command.scratch = 64;
      }
      }
    } else {
      command.kind = CommandKind::Copy;
      for (uint64_t pair = 0; pair < 1 + below(2); ++pair) {
        uint64_t bytes = 1 + below(500);
        Range from, to;
        do
          from = range(bytes, Access::Read), to = range(bytes, Access::Write);
        while (overlap(from, to));
        command.operands.push_back(from);
        command.operands.push_back(to);
      }
    }
    program.step.push_back(command);
  }
  // Two copies of reports have an order only on one queue.
  for (Command &command : program.step)
    if (command.kind == CommandKind::Report)
      command.queue = 0;
  addAllWaits(program);
  return program;
}

void compareWithSequential(const Backend &backend, uint64_t seed, unsigned threads, bool delays) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ", threads " + std::to_string(threads));
  Program program = randomProgram(seed);
  std::string error;
  ASSERT_TRUE(validateProgram(program, error)) << error;
  constexpr uint64_t steps = 7;
  std::vector<fb_kernel_fn> kernels = {mixKernel};
  std::vector<std::vector<char>> want;
  for (const Space &space : program.spaces)
    want.emplace_back(space.arenaBytes, 0);
  Host reference;
  runSequentially(program, kernels, steps, reference, want);

  Host host;
  BackendConfig config;
  config.program = &program;
  config.kernels = kernels;
  config.threads = threads;
  config.hooks = host.hooks();
  config.delays = delays;
  config.delaySeed = seed;
  DevicePtr device = open(backend, config);
  ASSERT_TRUE(device);
  // In two goes: the second meets queues that sleep.
  backend.start(device.get(), 3);
  drain(backend, device.get(), 0, 3);
  backend.start(device.get(), steps - 3);
  drain(backend, device.get(), 3, steps);
  std::vector<std::vector<char>> got = contents(backend, device.get(), program);
  if (reference.appliedBefore[steps] % 2)
    exchangePairs(program, got);
  for (size_t space = 0; space < want.size(); ++space)
    EXPECT_EQ(got[space], want[space]) << "space " << space;
  EXPECT_EQ(host.reports, reference.reports);
  EXPECT_EQ(host.verdicts, reference.verdicts);
}

//===----------------------------------------------------------------------===//
// Conformance suite: every backend runs all of it
//===----------------------------------------------------------------------===//

class Conformance : public ::testing::TestWithParam<const Backend *> {
protected:
  const Backend &backend = *GetParam();
};

TEST_P(Conformance, Version) {
  EXPECT_EQ(backend.version, kBackendVersion);
  EXPECT_STRNE(backend.name, "");
}

TEST_P(Conformance, ArenasHaveThePlannedSize) {
  Program program;
  program.spaces = {{"a", 64, 64}, {"empty", 0, 0}, {"big", (5u << 20) + 192, 8u << 20}};
  program.queues = {{"cpu", true}};
  BackendConfig config;
  config.program = &program;
  DevicePtr device = open(backend, config);
  ASSERT_TRUE(device);
  for (uint32_t space = 0; space < 3; ++space)
    EXPECT_EQ(backend.arenaBytes(device.get(), space), program.spaces[space].arenaBytes);
  std::vector<char> bytes((5u << 20) + 192, 1);
  backend.read(device.get(), 2, 0, bytes.data(), bytes.size());
  EXPECT_EQ(bytes, std::vector<char>(bytes.size(), 0)) << "arenas start as zeros";
  std::vector<char> some = {1, 2, 3, 4};
  backend.write(device.get(), 2, bytes.size() - 4, some.data(), 4);
  backend.read(device.get(), 2, bytes.size() - 4, bytes.data(), 4);
  EXPECT_EQ(std::vector<char>(bytes.begin(), bytes.begin() + 4), some);
  if (auto *base = static_cast<char *>(backend.map(device.get(), 2)))
    EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 64, 0u);
}

TEST_P(Conformance, TooMuchMemoryIsAnError) {
  Program program;
  program.spaces = {{"huge", uint64_t(1) << 62, uint64_t(1) << 62}};
  program.queues = {{"cpu", true}};
  BackendConfig config;
  config.program = &program;
  std::string error;
  EXPECT_EQ(backend.open(config, error), nullptr);
  EXPECT_NE(error.find("space huge"), std::string::npos) << error;
}

TEST_P(Conformance, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 60; ++seed)
    compareWithSequential(backend, seed, 1 + unsigned(seed % 4), false);
}

TEST_P(Conformance, RandomProgramsWithDelays) {
  for (uint64_t seed = 1; seed <= 24; ++seed)
    compareWithSequential(backend, 1000 + seed, 1 + unsigned(seed % 4), true);
}

/// What the suite is worth: without waits the same programs must go wrong when queues are delayed.
TEST_P(Conformance, MissingWaitsAreSeen) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "races on purpose";
#endif
#endif
  unsigned wrong = 0;
  for (uint64_t seed = 1; seed <= 12 && wrong == 0; ++seed) {
    Program program;
    program.spaces = {{"a", 256, 256}};
    program.queues = {{"gpu", true}, {"d2h", false}};
    program.kernels = {{"mix", false}};
    program.scratchBytes = 64;
    Command mix, copy;
    mix.kind = CommandKind::Dispatch;
    mix.kernel = 0;
    mix.operands = {{0, 0, 8, Access::Read}, {0, 0, 8, Access::Read}, {0, 64, 8, Access::ReadWrite}};
    mix.params = {8, 8, 8, 1, 0};
    mix.tiles = {1};
    copy.kind = CommandKind::Copy;
    copy.queue = 1;
    copy.operands = {{0, 64, 8, Access::Read}, {0, 0, 8, Access::Write}};
    program.step = {mix, copy};
    std::vector<std::vector<char>> want(1, std::vector<char>(256, 0));
    Host host;
    runSequentially(program, {mixKernel}, 6, host, want);
    BackendConfig config;
    config.program = &program;
    config.kernels = {mixKernel};
    config.threads = 2;
    config.hooks = host.hooks();
    config.delays = true;
    config.delaySeed = seed;
    DevicePtr device = open(backend, config);
    backend.start(device.get(), 6);
    drain(backend, device.get(), 0, 6);
    wrong += contents(backend, device.get(), program) != want;
  }
  EXPECT_GT(wrong, 0u);
}

/// A skipped command does not wait: here the first kernel ends only after the last has run, which waits for the skipped one.
TEST_P(Conformance, SkippedCommandsSignalAtOnce) {
  static std::atomic<int> flag;
  flag = 0;
  Program program;
  program.spaces = {{"a", 192, 192}};
  program.queues = {{"gpu", true}, {"cpu", true}, {"d2h", false}};
  program.kernels = {{"wait", false}, {"raise", false}};
  program.events = 2;
  Command wait, skipped, raise;
  wait.kind = raise.kind = CommandKind::Dispatch;
  wait.kernel = 0;
  wait.tiles = {1};
  wait.signal = 0;
  skipped.kind = CommandKind::Copy;
  skipped.predicate = Predicate::LaterMicro;
  skipped.queue = 2;
  skipped.waits = {{0, 0}};
  skipped.signal = 1;
  raise.kernel = 1;
  raise.queue = 1;
  raise.tiles = {1};
  raise.waits = {{1, 0}};
  program.step = {wait, skipped, raise};
  BackendConfig config;
  config.program = &program;
  config.threads = 2;
  config.kernels = {[](void *const *, const int64_t *, int32_t, int64_t, void *) {
                      for (int i = 0; i < 5000 && flag == 0; ++i)
                        usleep(1000);
                      flag = flag == 1 ? 2 : -1;
                    },
                    [](void *const *, const int64_t *, int32_t, int64_t, void *) { flag = 1; }};
  DevicePtr device = open(backend, config);
  backend.start(device.get(), 1);
  drain(backend, device.get(), 0, 1);
  EXPECT_EQ(flag, 2);
}

/// Apply commands wait and then follow the verdict of their step.
TEST_P(Conformance, ApplyFollowsTheVerdict) {
  Program program;
  program.spaces = {{"a", 192, 192}};
  program.queues = {{"gpu", true}, {"cpu", true}};
  program.kernels = {{"increment", false}};
  program.events = 1;
  program.accumulate = 2;
  Command verdict, update;
  verdict.kind = CommandKind::Verdict;
  verdict.predicate = Predicate::LastMicro;
  verdict.operands = {{0, 64, 16, Access::Read}};
  verdict.signal = 0;
  update.kind = CommandKind::Dispatch;
  update.kernel = 0;
  update.tiles = {1};
  update.queue = 1;
  update.predicate = Predicate::Apply;
  update.operands = {{0, 0, 8, Access::ReadWrite}};
  update.waits = {{0, 0}};
  program.step = {verdict, update};
  Host host;
  BackendConfig config;
  config.program = &program;
  config.threads = 1; // the two queues take turns
  config.hooks = host.hooks();
  config.delays = true;
  config.kernels = {[](void *const *operands, const int64_t *, int32_t, int64_t, void *) { ++*static_cast<int64_t *>(operands[0]); }};
  DevicePtr device = open(backend, config);
  backend.start(device.get(), 30);
  drain(backend, device.get(), 0, 30);
  int64_t value = 0;
  backend.read(device.get(), 0, 0, &value, 8);
  EXPECT_EQ(value, 20);
}

/// A flush runs once each time it is asked for, after the last step, with waits among its own commands only.
TEST_P(Conformance, Flush) {
  Program program;
  program.spaces = {{"a", 128, 128}};
  program.queues = {{"cpu", true}, {"d2h", false}};
  program.kernels = {{"increment", false}};
  program.events = 3;
  Command step, add, copy;
  step.kind = add.kind = CommandKind::Dispatch;
  step.kernel = add.kernel = 0;
  step.tiles = add.tiles = {1};
  step.operands = add.operands = {{0, 0, 8, Access::ReadWrite}};
  step.signal = 0;
  add.waits = {{0, 0}};
  add.signal = 1;
  copy.kind = CommandKind::Copy;
  copy.queue = 1;
  copy.operands = {{0, 0, 8, Access::Read}, {0, 64, 8, Access::Write}};
  copy.waits = {{1, 0}};
  copy.signal = 2;
  program.step = {step};
  program.flush = {add, copy};
  std::string error;
  ASSERT_TRUE(validateProgram(program, error)) << error;
  BackendConfig config;
  config.program = &program;
  config.kernels = {[](void *const *operands, const int64_t *, int32_t, int64_t, void *) { ++*static_cast<int64_t *>(operands[0]); }};
  DevicePtr device = open(backend, config);
  int64_t value = 0;
  for (uint64_t round = 1; round <= 3; ++round) {
    backend.start(device.get(), 2);
    drain(backend, device.get(), 2 * (round - 1), 2 * round);
    backend.flush(device.get());
    backend.read(device.get(), 0, 64, &value, 8);
    EXPECT_EQ(value, int64_t(3 * round));
  }
}

TEST_P(Conformance, StopEndsAtAStepOnAllQueues) {
  Program program = randomProgram(5);
  Host host;
  BackendConfig config;
  config.program = &program;
  config.kernels = {mixKernel};
  config.threads = 2;
  config.hooks = host.hooks();
  DevicePtr device = open(backend, config);
  backend.start(device.get(), 1000000);
  drain(backend, device.get(), 0, 3);
  uint64_t last = backend.stop(device.get());
  EXPECT_GE(last, 3u);
  EXPECT_LE(last, 3u + kStepsInFlight);
  drain(backend, device.get(), 3, last);
  StepTimes times;
  EXPECT_FALSE(backend.wait(device.get(), last, 30000000, times)) << "a step ran after stop";
  std::vector<std::vector<char>> want;
  for (const Space &space : program.spaces)
    want.emplace_back(space.arenaBytes, 0);
  Host reference;
  runSequentially(program, {mixKernel}, last, reference, want);
  if (reference.appliedBefore[last] % 2)
    exchangePairs(program, want);
  EXPECT_EQ(contents(backend, device.get(), program), want);
}

/// With steps still running, and others that nobody has begun: the owner may be gone after an error.
TEST_P(Conformance, CloseWhileStepsRun) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Program program = randomProgram(seed);
    Host host;
    BackendConfig config;
    config.program = &program;
    config.kernels = {mixKernel};
    config.hooks = host.hooks();
    config.threads = 1 + seed % 3;
    config.delays = true;
    config.delaySeed = seed;
    DevicePtr device = open(backend, config);
    backend.start(device.get(), 1000);
    StepTimes times;
    if (seed % 2)
      ASSERT_TRUE(backend.wait(device.get(), 0, int64_t(60) * 1000000000, times));
    if (seed % 4 == 3)
      backend.release(device.get());
  }
}

/// NaN in element 0 of the chosen gradient, at the chosen step only.
TEST_P(Conformance, Fault) {
  Program program;
  program.spaces = {{"a", 256, 256}};
  program.queues = {{"cpu", true}};
  program.kernels = {{"norm_partials", false}};
  program.tensors.resize(2);
  for (int32_t i = 0; i < 3; ++i) {
    Command command;
    command.kind = CommandKind::Dispatch;
    command.kernel = 0;
    command.tensor = i / 2; // parameter 0 is split in two
    command.operands = {{0, uint64_t(64 * i), 8, Access::Read}};
    command.tiles = {1};
    program.step.push_back(command);
  }
  BackendConfig config;
  config.program = &program;
  config.kernels = {[](void *const *, const int64_t *, int32_t, int64_t, void *) {}};
  config.fault.enabled = true;
  config.fault.step = 1;
  config.fault.tensors = {0};
  DevicePtr device = open(backend, config);
  auto value = [&](uint64_t offset) {
    float result;
    backend.read(device.get(), 0, offset, &result, 4);
    return result;
  };
  backend.start(device.get(), 1);
  drain(backend, device.get(), 0, 1);
  EXPECT_EQ(value(0), 0.0f);
  backend.start(device.get(), 1);
  drain(backend, device.get(), 1, 2);
  EXPECT_TRUE(std::isnan(value(0)));
  EXPECT_EQ(value(4), 0.0f);
  EXPECT_EQ(value(64), 0.0f) << "the second piece of a split parameter";
  EXPECT_EQ(value(128), 0.0f) << "another parameter";
}

TEST_P(Conformance, TraceKeepsTheLastEvents) {
  Program program = randomProgram(8);
  Host host;
  BackendConfig config;
  config.program = &program;
  config.kernels = {mixKernel};
  config.hooks = host.hooks();
  config.traceEvents = 4;
  DevicePtr device = open(backend, config);
  backend.start(device.get(), 9);
  drain(backend, device.get(), 0, 9);
  for (uint32_t queue = 0; queue < program.queues.size(); ++queue) {
    std::vector<TraceEvent> events;
    uint64_t lost = 0;
    backend.trace(device.get(), queue, events, lost);
    EXPECT_LE(events.size(), 4u);
    EXPECT_TRUE(lost == 0 || events.size() == 4);
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(program.step[events[i].command].queue, queue);
      EXPECT_LE(events[i].begin, events[i].end);
      EXPECT_TRUE(i == 0 || events[i - 1].end <= events[i].begin);
    }
  }
}

/// Denormals survive on workers, whatever this thread's mode is.
TEST_P(Conformance, DenormalsAreKept) {
  Program program;
  program.spaces = {{"a", 64, 64}};
  program.queues = {{"cpu", true}};
  program.kernels = {{"halve", false}};
  Command command;
  command.kind = CommandKind::Dispatch;
  command.kernel = 0;
  command.operands = {{0, 0, 32, Access::ReadWrite}};
  command.tiles = {8};
  program.step = {command};
  BackendConfig config;
  config.program = &program;
  config.threads = 4;
  config.kernels = {[](void *const *operands, const int64_t *, int32_t, int64_t tile, void *) {
    usleep(2000); // so that every worker gets a tile
    volatile float tiny = 1.1754944e-38f;
    static_cast<float *>(operands[0])[tile] = tiny * 0.5f;
  }};
#if defined(__x86_64__)
  unsigned saved = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(saved | 0x8040); // threads inherit this
#endif
  DevicePtr device = open(backend, config);
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(saved);
#endif
  backend.start(device.get(), 1);
  drain(backend, device.get(), 0, 1);
  uint32_t bits[8];
  backend.read(device.get(), 0, 0, bits, 32);
  for (uint32_t value : bits)
    EXPECT_EQ(value, 0x00400000u);
}

INSTANTIATE_TEST_SUITE_P(Host, Conformance, ::testing::Values(&hostBackend()),
                         [](const auto &info) { return std::string(info.param->name); });

//===----------------------------------------------------------------------===//
// Programs that no backend may run
//===----------------------------------------------------------------------===//

std::string reason(const std::function<void(Program &)> &spoil) {
  Program program = randomProgram(1);
  spoil(program);
  std::string error;
  return validateProgram(program, error) ? "valid" : error;
}

size_t find(const Program &program, CommandKind kind) {
  for (size_t i = 0; i < program.step.size(); ++i)
    if (program.step[i].kind == kind)
      return i;
  ADD_FAILURE() << "no such command";
  return 0;
}

TEST(Validate, NamesWhatIsWrong) {
  EXPECT_EQ(reason([](Program &) {}), "valid");
  auto expect = [](const char *text, const std::function<void(Program &)> &spoil) {
    std::string got = reason(spoil);
    EXPECT_NE(got.find(text), std::string::npos) << got;
  };
  expect("0 micro-steps", [](Program &p) { p.accumulate = 0; });
  expect("no queues", [](Program &p) { p.queues.clear(); });
  expect("contradict", [](Program &p) { p.tensors[0].bytes = 99; });
  expect("negative or too large", [](Program &p) { p.tensors[0].shape = {int64_t(1) << 62, 8}; });
  expect("lies outside its arena", [](Program &p) { p.tensors[0].offset = 64 * 40 - 99; });
  expect("lies outside its arena", [](Program &p) { p.tensors[0].space = 2; });
  expect("an operand lies outside", [](Program &p) { p.step[0].operands[0].offset = UINT64_MAX - 63; });
  expect("queue does not exist", [](Program &p) { p.step[1].queue = 4; });
  expect("event that does not exist", [](Program &p) { p.step[1].signal = 4000; });
  expect("has a signaller already", [](Program &p) { p.step[1].signal = 0; });
  expect("nobody signals", [](Program &p) { p.step[1].waits = {{p.events, 0}}; });
  expect("later command", [](Program &p) { p.step[1].waits = {{2, 0}}; });
  expect("further back", [](Program &p) { p.step[1].waits = {{2, 2}}; });
  expect("kernel does not exist", [](Program &p) { p.step[find(p, CommandKind::Dispatch)].kernel = 1; });
  expect("dispatch on a copy queue", [](Program &p) { p.step[find(p, CommandKind::Dispatch)].queue = 2; });
  expect("tiles is negative", [](Program &p) { p.step[find(p, CommandKind::Dispatch)].tiles = {-1}; });
  expect("more scratch", [](Program &p) { p.step[find(p, CommandKind::Dispatch)].scratch = 65; });
  expect("byte 8 of hbm, is not aligned", [](Program &p) { p.step[find(p, CommandKind::Dispatch)].operands[0] = {0, 8, 8, Access::Read}; });
  expect("names a kernel", [](Program &p) { p.step[find(p, CommandKind::Copy)].kernel = 0; });
  expect("belongs to a parameter", [](Program &p) { p.step[0].tensor = 3; });
  expect("life is impossible", [](Program &p) { p.values.push_back({"v", Role::Activation, 0, 0, 1, 2, 1, false}); });
  expect("space or life", [](Program &p) { p.values.push_back({"v", Role::Activation, 2, 0, 1, 1, 1, false}); });
  expect("more events", [](Program &p) { p.events = 1000000000; });
  expect("odd number", [](Program &p) { p.step[find(p, CommandKind::Copy)].operands.pop_back(); });
  expect("different sizes", [](Program &p) { p.step[find(p, CommandKind::Copy)].operands[0].bytes = 0; });
  expect("second verdict", [](Program &p) {
    p.step.push_back(p.step[find(p, CommandKind::Verdict)]);
    p.step.back().signal = -1;
    p.step.back().waits.clear();
  });
  expect("a copy of a parameter of another size", [](Program &p) { p.tensors[0].copyOf = 100; });
  expect("element type unknown", [](Program &p) { p.tensors[0].type = DType(100); });
  expect("feeds something that is not an input", [](Program &p) { p.step[find(p, CommandKind::Feed)].index = 100; });
  expect("feeds a range of another size", [](Program &p) { p.step[find(p, CommandKind::Feed)].operands[0].bytes = 1; });
  auto scalars = [](Program &p, int32_t index, uint64_t bytes) {
    Command command;
    command.kind = CommandKind::Scalars;
    command.index = index;
    command.operands = {{0, 0, bytes, Access::Write}};
    p.groups.resize(1);
    p.scalarResults = 2;
    p.step.push_back(command);
  };
  expect("parameter group does not exist", [&](Program &p) { scalars(p, 1, 8); });
  expect("scalars do not fit their range", [&](Program &p) { scalars(p, 0, 7); });
  expect("verdict without its 4 numbers", [](Program &p) { p.step[find(p, CommandKind::Verdict)].operands.clear(); });
  expect("report without one operand", [](Program &p) { p.step[find(p, CommandKind::Report)].operands.clear(); });
  expect("reports a tensor that does not exist", [](Program &p) { p.step[find(p, CommandKind::Report)].index = 100; });
  expect("kind unknown", [](Program &p) { p.step[find(p, CommandKind::Report)].kind = CommandKind(100); });
  expect("verdict that is not at the last micro-step", [](Program &p) { p.step[find(p, CommandKind::Verdict)].predicate = Predicate::FirstMicro; });
  expect("verdict in the flush list", [](Program &p) {
    p.flush = {p.step[find(p, CommandKind::Verdict)]};
    p.flush[0].signal = -1;
    p.flush[0].waits.clear();
    p.flush[0].operands = {{0, 0, 16, Access::Read}};
  });
  expect("scalars in a program without a verdict", [&](Program &p) {
    scalars(p, 0, 8);
    p.tensors.resize(1);
    p.step[find(p, CommandKind::Verdict)].kind = CommandKind::Report;
    for (Command &command : p.step)
      if (afterVerdict(command.predicate))
        command.predicate = Predicate::Always;
  });
  expect("shadows in a program without a verdict", [&](Program &p) {
    p.step[find(p, CommandKind::Verdict)].kind = CommandKind::Report;
    for (Command &command : p.step)
      if (afterVerdict(command.predicate))
        command.predicate = Predicate::Always;
  });
  expect("is the shadow of nothing", [](Program &p) { p.tensors[2].copyOf = -1; });
  expect("is the shadow of no parameter or moment of its size beside it", [](Program &p) { p.tensors[1].space = 0, p.tensors[1].offset = 0; });
  expect("do not both begin on 64 bytes", [](Program &p) { p.tensors[1].offset += 8; });
  expect("is a second shadow of", [](Program &p) {
    for (size_t i = 0; i < p.tensors.size(); ++i)
      if (p.tensors[i].role == Role::Shadow)
        return p.tensors.push_back(p.tensors[i]);
  });
  expect("overlap, and applied steps exchange one of them", [](Program &p) {
    p.tensors.push_back(p.tensors[1]);
    p.tensors.back().role = Role::Buffer;
  });
  for (Predicate predicate : {Predicate::Speculate, Predicate::Redo, Predicate::Restore})
    expect("no step that it could speculate about", [&](Program &p) {
      Command late;
      late.kind = CommandKind::Copy;
      late.predicate = predicate;
      p.flush = {late};
    });
  expect("starts with bytes of another size", [](Program &p) { p.tensors[0].initial = "1234"; });
  expect("only a part of what a step exchanges", [](Program &p) { p.step[find(p, CommandKind::Report)].operands = {{1, 64 * 51, 65, Access::Read}}; });
  expect("no step whose parameters", [](Program &p) {
    Command report;
    report.kind = CommandKind::Report;
    report.operands = {{1, 64 * 40, 64, Access::Read}};
    p.flush = {report};
  });
  for (Predicate predicate : {Predicate::Redo, Predicate::Restore})
    expect("comes later or never", [&](Program &p) {
      p.step[find(p, CommandKind::Verdict)].kind = CommandKind::Report;
      p.step.back().predicate = predicate;
    });
  expect("speculates in a program without a verdict", [](Program &p) {
    p.tensors.resize(1);
    p.step[find(p, CommandKind::Verdict)].kind = CommandKind::Report;
    for (Command &command : p.step)
      if (afterVerdict(command.predicate))
        command.predicate = Predicate::Always;
    for (Command &command : p.step)
      if (command.kind == CommandKind::Scalars)
        command.kind = CommandKind::Report;
    p.step.back().predicate = Predicate::Speculate;
  });
  expect("comes later or never", [](Program &p) {
    p.step[0].predicate = Predicate::Apply;
    p.step[find(p, CommandKind::Verdict)].kind = CommandKind::Report;
  });
}

/// The destructor calls right after the last job, when helpers may still be on their way to it.
TEST(WorkerGroup, EndsWhileHelpersAreLate) {
  std::atomic<uint64_t> ran{0};
  host::Job job;
  job.kernel = [](void *const *operands, const int64_t *, int32_t, int64_t, void *) { ++*static_cast<std::atomic<uint64_t> *>(operands[0]); };
  void *operands[] = {&ran};
  job.operands = operands;
  job.phaseEnd = {4};
  job.tiles = 4;
  job.parallel = true;
  constexpr uint64_t kRounds = 3000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    host::WorkerGroup workers(4, 0, round % 2 * 100, nullptr, nullptr);
    workers.enter();
    workers.run(job);
  }
  EXPECT_EQ(ran.load(), 4 * kRounds);
}

} // namespace
