//===- SessionTest.cpp - Whole runs of a small program -----------------===//
//
// Field reports A1, A5, A11, A12, B5, B9 (docs/field-reports.md).
//
//===----------------------------------------------------------------------===//

#include "Folder.h"
#include "TinyModel.h"

#include "Checkpoint.h"
#include "Console.h"
#include "Describe.h"
#include "Metrics.h"
#include "Session.h"
#include "TraceFile.h"
#include "Weights.h"

#include "forebay/Planning/RaceVerifier.h"

#include <atomic>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;
using namespace forebay::testing;

//===----------------------------------------------------------------------===//
// Counting allocations: everything that goes through malloc, on all threads
//===----------------------------------------------------------------------===//

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define FOREBAY_SANITIZED 1
#endif
#endif

static std::atomic<bool> counting{false};
static std::atomic<uint64_t> allocations{0};

#if !defined(FOREBAY_SANITIZED)
#include "CountingMalloc.inc"
#endif

namespace {

std::string readText(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Rows drawn from a seed.
class TinyData : public StepData {
public:
  explicit TinyData(const Program &program) : program(program) {
    std::mt19937 random(5);
    for (int i = 0; i < 200; ++i) {
      std::vector<float> row;
      std::vector<int64_t> id;
      for (int j = 0; j < kRows * kWidth; ++j)
        row.push_back(float(int(random() % 200) - 100) / 64.0f);
      for (int j = 0; j < kRows; ++j)
        id.push_back(random() % 6 == 0 ? -100 : int64_t(random() % kVocab));
      x.push_back(row);
      ids.push_back(id);
    }
  }
  void feed(uint32_t tensor, uint64_t micro, void *destination) override {
    if (program.tensors[tensor].name == "x")
      std::memcpy(destination, x[micro].data(), x[micro].size() * 4);
    else
      std::memcpy(destination, ids[micro].data(), ids[micro].size() * 8);
  }
  const Program &program;
  std::vector<std::vector<float>> x;
  std::vector<std::vector<int64_t>> ids;
};

struct Opened {
  std::unique_ptr<LoadedProgram> loaded;
  std::unique_ptr<TinyData> data;
  std::unique_ptr<Session> session;
};

/// Opens a session over the tiny program whose weights lie in `folder`.
Opened open(const Folder &folder, const TinyOptions &tiny, const SessionOptions &options, bool weights = true) {
  Opened result;
  Problems problems;
  Program program = tinyProgram(tiny);
  std::vector<float> values = tinyInitial();
  std::string model = "header..header.." + std::string(reinterpret_cast<char *>(values.data()), values.size() * 4);
  program.modelPath = folder.file("tiny.onnx", model);
  program.modelBytes = model.size();
  program.modelHash = hashBytes(model.data(), model.size());
  result.loaded = makeProgram(std::move(program), tinyKernels(), problems);
  EXPECT_TRUE(result.loaded) << problems.text();
  if (!result.loaded)
    return result;
  result.session = Session::create(*result.loaded, options, problems);
  EXPECT_TRUE(result.session) << problems.text();
  if (!result.session)
    return result;
  result.data = std::make_unique<TinyData>(result.session->program());
  result.session->setData(result.data.get());
  if (weights) {
    EXPECT_TRUE(loadWeights(*result.session, "", {}, problems)) << problems.text();
  }
  return result;
}

std::vector<float> tensor(const Session &session, const std::string &name) {
  int index = session.find(name);
  EXPECT_GE(index, 0) << name;
  std::vector<float> result(session.program().tensors[index].bytes / 4);
  session.read(size_t(index), result.data());
  return result;
}

std::vector<float> initial(size_t first, size_t count) {
  std::vector<float> all = tinyInitial();
  return {all.begin() + first, all.begin() + first + count};
}

std::map<std::string, std::vector<float>> state(const Session &session) {
  std::map<std::string, std::vector<float>> result;
  for (const Tensor &t : session.program().tensors)
    if (t.role == Role::Parameter || t.role == Role::Moment)
      result[t.name] = tensor(session, t.name);
  return result;
}

TEST(Session, TrainsLikePlainLoops) {
  for (bool offload : {false, true})
    for (uint32_t k : {1u, 3u})
      for (unsigned threads : {1u, 2u, 4u}) {
        SCOPED_TRACE(std::to_string(offload) + " K " + std::to_string(k) + " threads " + std::to_string(threads));
        Folder folder;
        TinyOptions tiny;
        tiny.offload = offload;
        tiny.accumulate = k;
        SessionOptions options;
        options.threads = threads;
        std::string error, hint;
        ASSERT_TRUE(Schedule::parse("cosine:warmup=3,total=12,min_ratio=0.1", options.schedule, error, hint));
        options.delays = threads == 2;
        Opened opened = open(folder, tiny, options);
        ASSERT_TRUE(opened.session);
        TinyReference reference;
        std::vector<StepResult> results;
        EXPECT_EQ(opened.session->run(15, [&](const StepResult &r) { results.push_back(r); }), 15u);
        opened.session->flush();
        auto rate = [&](uint64_t t) { return 0.125 * options.schedule.factor(t); };
        for (uint32_t step = 0; step < 15; ++step)
          reference.step({opened.data->x.begin() + step * k, opened.data->x.begin() + (step + 1) * k},
                         {opened.data->ids.begin() + step * k, opened.data->ids.begin() + (step + 1) * k}, tiny, rate, 0.5);
        ASSERT_EQ(results.size(), 15u);
        for (size_t i = 0; i < 15; ++i) {
          EXPECT_EQ(results[i].step, i + 1);
          EXPECT_EQ(results[i].loss, reference.losses[i]);
          EXPECT_NEAR(results[i].norm, reference.norms[i], 1e-5 * reference.norms[i]);
          EXPECT_EQ(results[i].lr, reference.rates[i]);
          EXPECT_TRUE(results[i].applied);
          EXPECT_FALSE(results[i].clipped);
          EXPECT_EQ(results[i].nonfinite, -1);
          EXPECT_EQ(results[i].tokens, uint64_t(4 * k));
        }
        EXPECT_EQ(tensor(*opened.session, "layer.weight"), reference.w);
        EXPECT_EQ(tensor(*opened.session, "embed.weight"), reference.e);
        EXPECT_EQ(tensor(*opened.session, "layer.weight/momentum"), reference.mw);
        EXPECT_EQ(tensor(*opened.session, "frozen.bias"), initial(8, 2));
        EXPECT_LT(results.back().loss, results.front().loss);
      }
}

TEST(Session, GroupsAndHyper) {
  Folder folder;
  SessionOptions options;
  options.hyper = {"lr=0.0625", "momentum=0.5", "momentum=0.75"};
  Opened opened = open(folder, {}, options);
  ASSERT_TRUE(opened.session);
  TinyReference reference;
  // The second group fixed its momentum (0.25); both follow the new rate, the second with lr_scale 2.
  auto rate = [&](uint64_t) { return 0.0625; };
  opened.session->run(4, nullptr);
  for (uint32_t step = 0; step < 4; ++step)
    reference.step({opened.data->x[step]}, {opened.data->ids[step]}, {}, rate, 0.75);
  EXPECT_EQ(tensor(*opened.session, "layer.weight"), reference.w);
  EXPECT_EQ(tensor(*opened.session, "embed.weight"), reference.e);

  Problems problems;
  options.hyper = {"beta1=0.9", "lr", "lr=fast", "lr=-1", "momentum=inf"};
  EXPECT_FALSE(Session::create(*opened.loaded, options, problems));
  EXPECT_EQ(problems.text(), "error: --hyper=beta1=0.9: optimizer 'tiny' has no hyper-parameter 'beta1'\nnote: known keys: momentum, lr\n"
                             "error: --hyper=lr: 'lr' is not KEY=VALUE\nnote: known keys: momentum, lr\n"
                             "error: --hyper=lr=fast: 'fast' is no value for 'lr'\nnote: a finite number such as 0.1 or 1e-3\n"
                             "error: --hyper=lr=-1: 'lr' is negative\nnote: it must be at least 0\n"
                             "error: --hyper=momentum=inf: 'inf' is no value for 'momentum'\nnote: a finite number such as 0.1 or 1e-3\n");
}

TEST(Session, ClippingIsCounted) {
  Folder folder;
  TinyOptions tiny;
  tiny.clip = true;
  tiny.clipNorm = 0.5;
  Opened opened = open(folder, tiny, {});
  ASSERT_TRUE(opened.session);
  TinyReference reference;
  uint64_t clipped = 0;
  opened.session->run(10, [&](const StepResult &r) {
    EXPECT_EQ(r.clipped, r.norm > 0.5f);
    clipped += r.clipped;
  });
  for (uint32_t step = 0; step < 10; ++step)
    reference.step({opened.data->x[step]}, {opened.data->ids[step]}, tiny, [](uint64_t) { return 0.125; }, 0.5);
  EXPECT_GT(clipped, 0u);
  EXPECT_EQ(opened.session->progress().clipped, clipped);
  for (size_t i = 0; i < reference.w.size(); ++i)
    EXPECT_NEAR(tensor(*opened.session, "layer.weight")[i], reference.w[i], 1e-5);
}

/// Where not even committed steps gain by it: off from the first step on, and its own counters say so.
TEST(Session, SpeculationThatGainsNothingNeverRuns) {
  Folder folder;
  TinyOptions tiny;
  tiny.offload = true;
  Opened plain = open(folder, tiny, {});
  tiny.speculate = true;
  tiny.rejectLimit = kNeverSpeculate;
  Opened never = open(folder, tiny, {});
  tiny.rejectLimit = 0; // until the first rejection
  Opened once = open(folder, tiny, {});
  ASSERT_TRUE(plain.session && never.session && once.session);
  EXPECT_EQ(never.session->find("assumed"), -1) << "the assumed verdict is nobody's to write";
  for (Opened *one : {&plain, &never, &once})
    one->session->run(5, [&](const StepResult &r) { EXPECT_EQ(r.speculated, one == &once) << r.step; });
  EXPECT_EQ(state(*never.session), state(*plain.session));
  EXPECT_EQ(never.session->speculation().speculated, 0u);
}

/// Losses, norms, weights and moments with updates before the verdict are those without, to the last bit: where they are committed, redone because they were clipped,
/// dropped because of a NaN, and while speculation is off.
TEST(Session, SpeculationChangesNoBit) {
  for (uint32_t k : {1u, 3u})
    for (double clipNorm : {0.0, k == 1 ? 2.0 : 1.5}) // some steps are over it
      for (double limit : {1.0, 0.1})
        for (unsigned seed : {0u, 1u, 2u}) {
          SCOPED_TRACE("K " + std::to_string(k) + " clip " + std::to_string(clipNorm) + " limit " + std::to_string(limit) + " seed " + std::to_string(seed));
          Folder folder;
          TinyOptions tiny;
          tiny.offload = true;
          tiny.accumulate = k;
          tiny.clip = clipNorm > 0;
          tiny.clipNorm = clipNorm;
          SessionOptions options;
          options.threads = 1 + seed;
          options.delays = seed != 0;
          options.delaySeed = seed;
          options.fault = true;
          options.faultStep = 6;
          options.faultPattern = "embed";
          Opened plain = open(folder, tiny, options);
          tiny.speculate = true;
          tiny.rejectLimit = limit;
          Opened opened = open(folder, tiny, options);
          ASSERT_TRUE(plain.session && opened.session);
          EXPECT_FALSE(plain.session->speculates());
          EXPECT_TRUE(opened.session->speculates());
          std::vector<StepResult> wanted, got;
          // In goes of an odd number of steps: what is read between them lies in the shadows every other time.
          for (int go = 0; go < 5; ++go) {
            plain.session->run(5, [&](const StepResult &r) { wanted.push_back(r); });
            opened.session->run(5, [&](const StepResult &r) { got.push_back(r); });
            EXPECT_EQ(state(*opened.session), state(*plain.session)) << go;
          }
          double rejected = 0; // with weights that fall by 1/16 a step
          Speculation counts;
          for (size_t i = 0; i < wanted.size(); ++i) {
            EXPECT_EQ(got[i].loss, wanted[i].loss);
            EXPECT_EQ(std::isnan(got[i].norm), std::isnan(wanted[i].norm));
            EXPECT_TRUE(got[i].norm == wanted[i].norm || std::isnan(got[i].norm));
            EXPECT_EQ(got[i].applied, wanted[i].applied);
            EXPECT_EQ(got[i].clipped, wanted[i].clipped);
            EXPECT_EQ(got[i].speculated, rejected <= limit);
            EXPECT_EQ(got[i].committed, got[i].speculated && got[i].applied && !got[i].clipped);
            rejected += ((!got[i].applied || got[i].clipped) - rejected) / 16;
            counts.speculated += got[i].speculated;
            counts.committed += got[i].committed;
            counts.redone += got[i].speculated && got[i].clipped;
            counts.skipped += got[i].speculated && !got[i].applied;
          }
          const Speculation &said = opened.session->speculation();
          EXPECT_EQ(said.speculated, counts.speculated);
          EXPECT_EQ(said.committed, counts.committed);
          EXPECT_EQ(said.redone, counts.redone);
          EXPECT_EQ(said.skipped, counts.skipped);
          EXPECT_EQ(said.speculated, said.committed + said.redone + said.skipped);
          EXPECT_FALSE(wanted[5].applied);
          EXPECT_GT(said.committed, 0u);
          EXPECT_EQ(said.redone > 0, clipNorm > 0);
          EXPECT_EQ(said.speculated == 25, limit == 1 || clipNorm == 0) << "off for a while";
        }
}

/// What a user writes between steps is what the next step reads, wherever the last one left the parameter.
TEST(Session, WritesMeetTheCommittedPlace) {
  Folder folder;
  TinyOptions tiny;
  tiny.offload = true;
  Opened plain = open(folder, tiny, {});
  tiny.speculate = true;
  Opened opened = open(folder, tiny, {});
  const std::vector<float> values = {0.5f, -0.25f, 2};
  for (Opened *one : {&plain, &opened}) {
    one->session->run(3, nullptr);
    one->session->write(one->session->find("layer.weight"), values.data());
    one->session->refreshCopies();
    EXPECT_EQ(tensor(*one->session, "layer.weight"), values);
    one->session->run(2, nullptr);
  }
  EXPECT_EQ(state(*opened.session), state(*plain.session));
}

/// A bad gradient skips the update: t, moments and schedule stay, the data moves on.
TEST(Session, NonFiniteGradientsSkip) {
  for (bool offload : {false, true}) {
    Folder folder;
    TinyOptions tiny;
    tiny.offload = offload;
    SessionOptions options;
    options.fault = true;
    options.faultStep = 4;
    options.faultPattern = "^layer";
    options.threads = 2;
    std::string error, hint;
    ASSERT_TRUE(Schedule::parse("linear:total=9", options.schedule, error, hint));
    Opened opened = open(folder, tiny, options);
    ASSERT_TRUE(opened.session);
    TinyReference reference;
    std::vector<StepResult> results;
    opened.session->run(8, [&](const StepResult &r) { results.push_back(r); });
    for (uint32_t step = 0; step < 8; ++step)
      reference.step({opened.data->x[step]}, {opened.data->ids[step]}, tiny, [&](uint64_t t) { return 0.125 * options.schedule.factor(t); }, 0.5,
                     step == 3);
    EXPECT_EQ(tensor(*opened.session, "layer.weight"), reference.w);
    EXPECT_EQ(tensor(*opened.session, "embed.weight/momentum"), reference.me);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(results[i].applied, i != 3);
      EXPECT_EQ(results[i].lr, reference.rates[i]) << i;
      EXPECT_EQ(results[i].loss, reference.losses[i]);
      EXPECT_EQ(results[i].nonfinite, i == 3 ? opened.session->find("layer.weight") : -1);
    }
    EXPECT_TRUE(std::isnan(results[3].norm));
    EXPECT_EQ(results[4].lr, results[3].lr) << "the schedule stays";
    EXPECT_EQ(opened.session->progress().applied, 7u);
    EXPECT_EQ(opened.session->progress().skipped, 1u);
    EXPECT_EQ(opened.session->progress().attempts, 8u);
  }
}

/// Two parameters whose gradient is one value have one norm command, which names the first.
TEST(Session, FaultsHitSharedGradients) {
  Program program = tinyProgram({});
  Command *norms[2], *updates[2];
  for (const char *name : {"norm", "update"}) {
    size_t i = 0;
    for (Command &command : program.step)
      if (command.kind == CommandKind::Dispatch && command.label == name)
        (name[0] == 'n' ? norms : updates)[i++] = &command;
    ASSERT_EQ(i, 2u);
  }
  // As if embed.weight, with the elements of layer.weight alone, were updated with the gradient of that.
  updates[1]->operands[1] = updates[0]->operands[1];
  updates[1]->params = updates[0]->params;
  updates[1]->tiles = updates[0]->tiles;
  norms[1]->tensor = -1;
  auto run = [&](const std::string &pattern, std::string &text) {
    Problems problems;
    auto loaded = makeProgram(program, tinyKernels(), problems);
    EXPECT_TRUE(loaded) << problems.text();
    SessionOptions options;
    options.fault = true;
    options.faultStep = 2;
    options.faultPattern = pattern;
    std::vector<std::string> names;
    auto session = Session::create(*loaded, options, problems);
    text = problems.text();
    if (!session)
      return names;
    TinyData data(program);
    session->setData(&data);
    session->run(3, [&](const StepResult &r) { names.push_back(r.nonfinite < 0 ? "" : program.tensors[r.nonfinite].name); });
    return names;
  };
  std::string text;
  EXPECT_EQ(run("^embed", text), (std::vector<std::string>{"", "layer.weight", ""})) << text;
  EXPECT_EQ(run("^layer", text), (std::vector<std::string>{"", "layer.weight", ""})) << text;
  // No norm of its gradient at all: an error, not silence.
  updates[1]->operands[1] = norms[1]->operands[0];
  EXPECT_EQ(run("weight", text), std::vector<std::string>());
  EXPECT_EQ(text, "error: FOREBAY_FAULT: no command of the program takes the norm of the gradient of embed.weight\nnote: choose another parameter\n");
}

TEST(Session, NothingIsAllocatedAfterLoad) {
#if defined(FOREBAY_SANITIZED)
  GTEST_SKIP() << "sanitizers have their own malloc";
#endif
  for (bool offload : {false, true}) {
    Folder folder;
    TinyOptions tiny;
    tiny.offload = offload;
    tiny.accumulate = 2;
    SessionOptions options;
    options.threads = 3;
    options.traceEvents = 100;
    Opened opened = open(folder, tiny, options);
    ASSERT_TRUE(opened.session);
    Metrics metrics;
    Problems problems;
    ASSERT_TRUE(metrics.open(folder.path + "/m.jsonl", *opened.session, 0, problems)) << problems.text();
    ProgressLine line(*opened.session, 20);
    std::function<void(const StepResult &)> done = [&](const StepResult &r) {
      metrics.write(r);
      line.show(r);
      // Over steps 2 to 20, as far as this thread has seen.
      if (r.step == 1)
        counting = true;
      if (r.step == 20)
        counting = false;
    };
    allocations = 0;
    opened.session->run(20, done);
    EXPECT_EQ(allocations, 0u) << "offload " << offload;
    // The counter works.
    counting = true;
    std::string *volatile proof = new std::string(1000, 'x');
    counting = false;
    delete proof;
    EXPECT_EQ(allocations, 2u);
  }
}

/// Two sessions of one process at once: an index out of range ends the one that met it.
TEST(Session, BadIndicesStayInTheirSession) {
  // y = table[id], a table of two rows of one.
  Program program = tinyForwardProgram();
  program.kernels = {{"embedding", false}};
  program.tensors[0].type = DType::I64;
  program.tensors[0].shape = {2};
  program.tensors[1].shape = {2};
  program.tensors[1].bytes = 8;
  program.step[1].kernel = 0;
  program.step[1].params = {2, 1, 2, 8, 4, 2, 0};
  program.step[1].operands = {{0, 64, 8, Access::Read}, {0, 0, 16, Access::Read}, {0, 128, 8, Access::Write}};
  program.tensors[2].shape = {2};
  program.tensors[2].bytes = program.step[2].operands[0].bytes = 8;
  Problems problems;
  auto loaded = makeProgram(program, tinyKernels(), problems);
  ASSERT_TRUE(loaded) << problems.text();
  struct Ids : StepData {
    int64_t id = 1;
    void feed(uint32_t, uint64_t, void *destination) override { static_cast<int64_t *>(destination)[0] = static_cast<int64_t *>(destination)[1] = id; }
  } good, bad;
  bad.id = 5;
  std::unique_ptr<Session> sessions[2];
  for (auto &session : sessions)
    ASSERT_TRUE(session = Session::create(*loaded, {}, problems)) << problems.text();
  sessions[0]->setData(&good);
  sessions[1]->setData(&bad);
  kernels::reportBadIndex(7, 2); // what another thread of the process meets is nobody's
  std::thread other([&] { sessions[1]->run(200, nullptr); });
  uint64_t ran = sessions[0]->run(200, nullptr);
  other.join();
  EXPECT_EQ(ran, 200u);
  EXPECT_FALSE(sessions[0]->reportBadIndex(problems)) << problems.text();
  EXPECT_TRUE(sessions[1]->reportBadIndex(problems));
  EXPECT_NE(problems.text().find("error: step 1: index 5 is out of range, there are 2 rows\n"), std::string::npos) << problems.text();
}

TEST(Session, ArenasAreWhatThePlanSays) {
  Folder folder;
  TinyOptions tiny;
  tiny.offload = true;
  Opened opened = open(folder, tiny, {});
  ASSERT_TRUE(opened.session);
  const Backend &backend = opened.session->backend();
  for (uint32_t space = 0; space < 2; ++space)
    EXPECT_EQ(backend.arenaBytes(opened.session->device(), space), opened.session->program().spaces[space].arenaBytes);
}

TEST(Session, TooLittleMemoryIsSaidBeforeItIsMapped) {
  Problems problems;
  Program program = tinyProgram({});
  program.spaces[0].arenaBytes = program.spaces[0].capacity = uint64_t(1) << 50;
  auto loaded = makeProgram(program, tinyKernels(), problems);
  ASSERT_TRUE(loaded) << problems.text();
  EXPECT_FALSE(Session::create(*loaded, {}, problems));
  EXPECT_NE(problems.text().find("error: program: needs 1024.0 TiB of memory (host 1024.0 TiB), "), std::string::npos) << problems.text();
}

TEST(Session, PageCacheIsNotUsedMemory) {
  Folder folder;
  EXPECT_EQ(controlGroupRoom(folder.path), std::nullopt);
  folder.file("memory.max", "max\n");
  folder.file("memory.current", "700\n");
  EXPECT_EQ(controlGroupRoom(folder.path), std::nullopt) << "no limit";
  folder.file("memory.max", "1000\n");
  EXPECT_EQ(controlGroupRoom(folder.path), 300u) << "no statistics";
  folder.file("memory.stat", "anon 100\nfile 600\nactive_file 350\ninactive_file 250\nworkingset_refault_file 9\n");
  EXPECT_EQ(controlGroupRoom(folder.path), 550u);
  folder.file("memory.current", "1300\n");
  EXPECT_EQ(controlGroupRoom(folder.path), 0u) << "full is not unknown";
  folder.file("memory.current", "200\n");
  EXPECT_EQ(controlGroupRoom(folder.path), 1000u) << "the files are read at different times";
}

TEST(Session, RacyProgramsAreRefused) {
  TinyOptions tiny;
  tiny.offload = true;
  Program program = tinyProgram(tiny);
  Problems problems;
  EXPECT_TRUE(makeProgram(program, tinyKernels(), problems)) << problems.text();
  for (Command &command : program.step)
    if (command.phase == "update" && command.kind == CommandKind::Copy)
      command.waits.clear();
  EXPECT_FALSE(makeProgram(program, tinyKernels(), problems));
  EXPECT_NE(problems.text().find("layer.weight"), std::string::npos) << problems.text();
}

TEST(Session, MissingKernelsAreAllNamed) {
  Problems problems;
  Program program = tinyProgram({});
  program.kernels[2].name = "norm_of_tomorrow";
  auto compiled = tinyKernels();
  compiled.erase("tiny_update");
  compiled.erase("tiny_scalars");
  EXPECT_FALSE(makeProgram(program, compiled, problems));
  EXPECT_EQ(problems.text().substr(0, 82), "error: program: kernels are missing: tiny_update, norm_of_tomorrow, tiny_scalars\nn");
}

TEST(Session, StopsOnRequest) {
  Folder folder;
  Opened opened = open(folder, {}, {});
  ASSERT_TRUE(opened.session);
  std::atomic<int> stop{0};
  uint64_t ran = opened.session->run(
      150, [&](const StepResult &r) { stop = r.step == 5; usleep(1000); }, &stop);
  EXPECT_GE(ran, 5u);
  EXPECT_LT(ran, 20u);
  uint64_t more = opened.session->run(2, nullptr);
  EXPECT_EQ(more, 2u);
  EXPECT_EQ(opened.session->progress().attempts, ran + 2);
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

TEST(Checkpoint, ResumesWithTheSameBits) {
  for (bool offload : {false, true}) {
    Folder folder;
    TinyOptions tiny;
    tiny.offload = offload;
    tiny.accumulate = 2;
    SessionOptions options;
    options.fault = true;
    options.faultStep = 3;
    options.faultPattern = "embed";
    std::string error, hint;
    ASSERT_TRUE(Schedule::parse("cosine:warmup=2,total=20", options.schedule, error, hint));
    Opened whole = open(folder, tiny, options);
    std::vector<double> losses;
    whole.session->run(12, [&](const StepResult &r) { losses.push_back(r.loss); });

    Opened first = open(folder, tiny, options);
    first.session->run(5, nullptr);
    Checkpoints checkpoints(folder.path + "/deep/er");
    Problems problems;
    ASSERT_TRUE(checkpoints.prepare(false, problems)) << problems.text();
    ASSERT_TRUE(checkpoints.save(*first.session, error)) << error;

    // Resumed under the other placement: the checkpoint knows nothing of it.
    tiny.offload = !offload;
    options.attempts = 5;
    Opened second = open(folder, tiny, options, false);
    bool found = false;
    std::vector<std::string> notices;
    Checkpoints again(folder.path + "/deep/er");
    ASSERT_TRUE(again.openNewest(problems, found, notices) && found) << problems.text();
    EXPECT_EQ(again.progress().attempts, 5u);
    EXPECT_EQ(again.progress().applied, 4u);
    EXPECT_EQ(again.progress().skipped, 1u);
    ASSERT_TRUE(again.matches(second.session->program(), problems, notices) && notices.empty()) << problems.text();
    again.restore(*second.session);
    second.session->run(7, [&](const StepResult &r) {
      EXPECT_EQ(r.loss, losses[r.step - 1]) << r.step;
    });
    EXPECT_EQ(second.session->progress().attempts, 12u);
    EXPECT_EQ(second.session->progress().applied, 11u);
    EXPECT_EQ(state(*second.session), state(*whole.session));
  }
}

TEST(Checkpoint, DamagedOnesArePassedOver) {
  Folder folder;
  Opened opened = open(folder, {}, {});
  Checkpoints checkpoints(folder.path + "/c");
  Problems problems;
  std::string error;
  ASSERT_TRUE(checkpoints.prepare(false, problems));
  for (int i = 0; i < 4; ++i) {
    opened.session->run(1, nullptr);
    ASSERT_TRUE(checkpoints.save(*opened.session, error)) << error;
  }
  EXPECT_EQ(access((folder.path + "/c/step-00000002.safetensors").c_str(), F_OK), -1) << "only the newest two stay";
  std::string newest = folder.path + "/c/step-00000004.safetensors", older = folder.path + "/c/step-00000003.safetensors";
  std::string content = readText(newest);
  bool found;
  std::vector<std::string> notices;
  auto attempt = [&](const std::string &bytes) {
    std::ofstream(newest, std::ios::binary) << bytes;
    found = false;
    notices.clear();
    Checkpoints fresh(folder.path + "/c");
    EXPECT_TRUE(fresh.openNewest(problems, found, notices)) << problems.text();
    EXPECT_TRUE(found);
    return fresh.progress().attempts;
  };
  EXPECT_EQ(attempt(content), 4u);
  EXPECT_TRUE(notices.empty());
  EXPECT_EQ(attempt(content.substr(0, content.size() - 5)), 3u);
  EXPECT_EQ(notices.size(), 1u);
  EXPECT_EQ(attempt(""), 3u);
  std::string flipped = content;
  flipped[flipped.size() - 7] ^= 1;
  EXPECT_EQ(attempt(flipped), 3u) << "one bit of a weight";
  EXPECT_NE(notices[0].find("is damaged: its checksum does not match"), std::string::npos) << notices[0];
  flipped = content;
  flipped[flipped.find("\"attempts\":\"4\"") + 12] = '5';
  EXPECT_EQ(attempt(flipped), 3u) << "a number in the header";
  // Both damaged: an error, not a silent start from the beginning.
  std::ofstream(older, std::ios::binary) << "x";
  Checkpoints fresh(folder.path + "/c");
  EXPECT_FALSE(fresh.openNewest(problems, found, notices));
  EXPECT_NE(problems.text().find("no checkpoint in " + folder.path + "/c is whole"), std::string::npos) << problems.text();
  // None at all: from the start.
  Problems none;
  Checkpoints empty(folder.path + "/none");
  EXPECT_TRUE(empty.openNewest(none, found, notices));
  EXPECT_FALSE(found);
}

TEST(Checkpoint, OfAnotherModelIsRefused) {
  Folder folder;
  TinyOptions tiny;
  Opened opened = open(folder, tiny, {});
  Checkpoints checkpoints(folder.path);
  Problems problems;
  std::string error;
  opened.session->run(1, nullptr);
  ASSERT_TRUE(checkpoints.save(*opened.session, error)) << error;
  tiny.accumulate = 2;
  Opened other = open(folder, tiny, {});
  bool found;
  std::vector<std::string> notices;
  ASSERT_TRUE(checkpoints.openNewest(problems, found, notices) && found);
  EXPECT_FALSE(checkpoints.matches(other.session->program(), problems, notices));
  EXPECT_NE(problems.text().find("was written with 1 micro-steps in a step, the program has 2"), std::string::npos) << problems.text();

  Program program = tinyProgram({});
  for (Tensor &t : program.tensors)
    if (t.name == "frozen.bias")
      t.name = "frozen.gain";
  Problems more;
  ASSERT_TRUE(checkpoints.openNewest(more, found, notices) && found);
  EXPECT_FALSE(checkpoints.matches(program, more, notices));
  EXPECT_NE(more.text().find("lacks frozen.gain\n"), std::string::npos) << more.text();
  EXPECT_NE(more.text().find("has frozen.bias, which the program does not know\n"), std::string::npos) << more.text();

  auto differences = [&](auto change) {
    Program changed = opened.loaded->program;
    change(changed);
    Problems some;
    EXPECT_TRUE(checkpoints.openNewest(some, found, notices) && found);
    EXPECT_EQ(checkpoints.matches(changed, some, notices), !some.any());
    return some.text();
  };
  auto tensorOf = [](Program &p, const std::string &name) -> Tensor & {
    return *std::find_if(p.tensors.begin(), p.tensors.end(), [&](const Tensor &t) { return t.name == name; });
  };
  EXPECT_EQ(differences([](Program &) {}), "");
  EXPECT_TRUE(notices.empty());
  std::string text = differences([&](Program &p) { tensorOf(p, "embed.weight").trainable = false; });
  EXPECT_NE(text.find("was written with embed.weight trained, the program does not train it\nnote: resume with"), std::string::npos) << text;
  text = differences([&](Program &p) { tensorOf(p, "frozen.bias").trainable = true; });
  EXPECT_NE(text.find("was written with frozen.bias frozen, the program trains it\n"), std::string::npos) << text;
  text = differences([](Program &p) { p.optimizer = "adamw"; });
  EXPECT_NE(text.find("was written by optimizer tiny, the program has adamw\n"), std::string::npos) << text;
  text = differences([&](Program &p) { tensorOf(p, "input_ids").shape = {4, 2}; });
  EXPECT_NE(text.find("was written with rows [2, 2] of input 'input_ids', the program has [4, 2]; its place in the data would be another\n"), std::string::npos) << text;
  text = differences([&](Program &p) { tensorOf(p, "x").name = "pixels"; });
  EXPECT_NE(text.find("was written by a program without the input 'pixels'\n"), std::string::npos) << text;
  text = differences([&](Program &p) { tensorOf(p, "layer.weight/momentum").shape = {3, 1}; });
  EXPECT_NE(text.find("'layer.weight/momentum' has shape [3] of f32, the program's is [3, 1] of f32\n"), std::string::npos) << text;
  text = differences([&](Program &p) { tensorOf(p, "layer.weight/momentum").name = "layer.weight/exp_avg"; });
  EXPECT_NE(text.find("lacks layer.weight/exp_avg\n"), std::string::npos) << text;
  EXPECT_EQ(differences([](Program &p) { p.hasClip = true, p.clipNorm = 0.5; }), "");
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("was written with gradient clipping at none, the program has 0.5"), std::string::npos) << notices[0];
  EXPECT_EQ(differences([](Program &p) { p.modelHash = 1; }), "");
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("was written by a program of another model file; the parameters are the same"), std::string::npos) << notices[0];

  // Hyper-parameters and groups as compiled: warnings.
  auto ends = [&](size_t i, const std::string &text) { return notices.size() > i && notices[i].find(".safetensors was written with " + text) != std::string::npos; };
  EXPECT_EQ(differences([](Program &p) {
              p.hyper[1].value = 0.1;
              p.groups[1].values[0] = 0.3;
              p.groups[0].fixed[1] = true;
            }), "");
  ASSERT_EQ(notices.size(), 3u);
  EXPECT_TRUE(ends(0, "lr = 0.125 as compiled, the program has 0.1")) << notices[0];
  EXPECT_TRUE(ends(1, "group values (none) for layer.weight, the program has lr=0.125")) << notices[1];
  EXPECT_TRUE(ends(2, "group values lr_scale=2, momentum=0.25 for embed.weight, the program has lr_scale=2, momentum=0.3")) << notices[2];
  EXPECT_EQ(differences([&](Program &p) { tensorOf(p, "embed.weight").group = 0; }), "");
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_TRUE(ends(0, "group values lr_scale=2, momentum=0.25 for embed.weight, the program has (none)")) << notices[0];
}

TEST(Checkpoint, FoldersOfOtherRuns) {
  Folder folder;
  Opened opened = open(folder, {}, {});
  Problems problems;
  std::string error, where = folder.path + "/c";
  {
    Checkpoints checkpoints(where);
    ASSERT_TRUE(checkpoints.prepare(false, problems)) << problems.text();
    opened.session->run(3, nullptr);
    ASSERT_TRUE(checkpoints.save(*opened.session, error)) << error;
    Checkpoints second(where);
    EXPECT_FALSE(second.prepare(true, problems)) << "at the same time";
    EXPECT_NE(problems.text().find("another run is writing to it\nnote: wait for its end, or choose another folder\n"), std::string::npos) << problems.text();
  }
  Problems fresh;
  EXPECT_FALSE(Checkpoints(where).prepare(false, fresh));
  EXPECT_EQ(fresh.text(), "error: --checkpoint-dir=" + where + ": holds checkpoints of an earlier run, the newest of step 3\n"
                          "note: give --resume to go on with that run, or choose another folder\n");

  // Leftovers of a killed run go; a damaged checkpoint with a higher number neither counts nor pushes whole ones out.
  std::ofstream(where + "/step-00000009.safetensors") << "x";
  std::ofstream(where + "/step-00000004.safetensors.tmp1") << "x";
  Problems none;
  Checkpoints again(where);
  ASSERT_TRUE(again.prepare(true, none)) << none.text();
  EXPECT_NE(access((where + "/step-00000004.safetensors.tmp1").c_str(), F_OK), 0);
  bool found = false;
  std::vector<std::string> notices;
  ASSERT_TRUE(again.openNewest(none, found, notices) && found);
  EXPECT_EQ(again.progress().attempts, 3u);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("step-00000009.safetensors: is too short for a safetensors file; going on from "), std::string::npos) << notices[0];
  auto there = [&](int step) { return access((where + "/step-0000000" + std::to_string(step) + ".safetensors").c_str(), F_OK) == 0; };
  for (int step : {4, 5}) {
    opened.session->run(1, nullptr);
    ASSERT_TRUE(again.save(*opened.session, error)) << error;
    EXPECT_TRUE(there(step) && there(step - 1) && !there(step - 2) && there(9)) << step;
  }
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

std::string weightErrors(Opened &opened, const WeightOptions &options) {
  Problems problems;
  loadWeights(*opened.session, "", options, problems);
  return problems.text();
}

TEST(Weights, SaveAndLoad) {
  Folder folder;
  TinyOptions tiny;
  tiny.offload = true;
  Opened opened = open(folder, tiny, {});
  opened.session->run(3, nullptr);
  auto trained = state(*opened.session);
  std::string path = folder.path + "/w.safetensors", error;
  ASSERT_TRUE(saveWeights(*opened.session, path, error)) << error;
  MappedFile file;
  TensorFile content;
  ASSERT_TRUE(file.open(path, error) && parseSafetensors(file.view(), content, error)) << error;
  EXPECT_EQ(content.tensors.size(), 4u) << "parameters, frozen and unused ones too; no moments, no buffers, no copies";
  EXPECT_EQ(content.tensors["embed.weight"].shape, (std::vector<int64_t>{5, 1}));
  Opened fresh = open(folder, tiny, {});
  WeightOptions options;
  options.source = path;
  EXPECT_EQ(weightErrors(fresh, options), "");
  EXPECT_EQ(tensor(*fresh.session, "layer.weight"), trained["layer.weight"]);
  // The weight copies follow: the next loss is that of the trained weights.
  double loss = 0, wanted = 0;
  fresh.session->progress().attempts = 3;
  fresh.session->run(1, [&](const StepResult &r) { loss = r.loss; });
  opened.session->run(1, [&](const StepResult &r) { wanted = r.loss; });
  EXPECT_EQ(loss, wanted);
}

TEST(Weights, Errors) {
  Folder folder;
  Opened opened = open(folder, {}, {});
  WeightOptions options;
  options.source = folder.path + "/none";
  EXPECT_NE(weightErrors(opened, options).find("/none: no such file or folder\nnote: it takes a .safetensors file, the .onnx model, or a folder that holds either\n"), std::string::npos);

  // Missing and wrong tensors, all at once.
  std::vector<TensorToWrite> tensors;
  std::vector<float> zeros(100, 0.5f);
  auto add = [&](const char *name, DType type, std::vector<int64_t> shape, uint64_t bytes) {
    tensors.push_back({name, type, shape, bytes, [&zeros, bytes](const auto &sink) { return sink(zeros.data(), bytes); }});
  };
  std::string path = folder.path + "/w.safetensors", error;
  add("layer.weight", DType::F32, {4}, 16);
  add("embed.weight", DType::I32, {5, 1}, 20);
  ASSERT_TRUE(writeSafetensors(path, tensors, {}, error));
  options.source = path;
  std::string text = weightErrors(opened, options);
  EXPECT_NE(text.find("'layer.weight' has shape [4], the model's is [3]\nnote: these weights are of another model\n"), std::string::npos) << text;
  EXPECT_NE(text.find("'embed.weight' has elements of type i32, the model's are f32\nnote: f32 parameters take F32, BF16 and F16; others their own type\n"), std::string::npos) << text;
  tensors.clear();
  add("layer.weight", DType::BF16, {3}, 6);
  add("extra", DType::F32, {1}, 4);
  ASSERT_TRUE(writeSafetensors(path, tensors, {}, error));
  text = weightErrors(opened, options);
  EXPECT_EQ(text, "error: --weights=" + path + ": 3 tensors have no data\nnote: --init=SEED draws absent parameters\nnote: missing: embed.weight [5, 1]\nnote: missing: frozen.bias [2]\n"
                  "note: missing: unused.weight [2]\n");
  // The rest is drawn.
  options.hasInit = true;
  options.initSeed = 3;
  EXPECT_EQ(weightErrors(opened, options), "");
  float drawn[5];
  initialWeights("embed.weight", {5, 1}, 3, drawn, 5);
  EXPECT_EQ(tensor(*opened.session, "embed.weight"), std::vector<float>(drawn, drawn + 5));
  EXPECT_EQ(tensor(*opened.session, "frozen.bias"), std::vector<float>(2, 0.0f));
  EXPECT_EQ(tensor(*opened.session, "unused.weight"), std::vector<float>(2, 1.0f));
  options.hasInit = false;

  // Two files of a folder with the same tensor.
  Folder both;
  ASSERT_TRUE(writeSafetensors(both.path + "/a.safetensors", tensors, {}, error) && writeSafetensors(both.path + "/b.safetensors", tensors, {}, error));
  options.source = both.path;
  EXPECT_NE(weightErrors(opened, options).find("tensor 'extra' is in more than one file\nnote: name one file, or a folder where each tensor is once\n"), std::string::npos);

  // The recorded model has changed, is cut, is gone.
  options.source = "";
  std::string model = readText(folder.path + "/tiny.onnx"), changed = model;
  changed[20] ^= 1;
  folder.file("tiny.onnx", changed);
  EXPECT_NE(weightErrors(opened, options).find("is not the model that was compiled: its content differs"), std::string::npos);
  folder.file("tiny.onnx", model.substr(0, 30));
  EXPECT_NE(weightErrors(opened, options).find("has 30 bytes, the model that was compiled has " + std::to_string(model.size())), std::string::npos);
  unlink((folder.path + "/tiny.onnx").c_str());
  text = weightErrors(opened, options);
  EXPECT_NE(text.find("error: weights: the model is not there: " + folder.path + "/tiny.onnx"), std::string::npos) << text;
  EXPECT_NE(text.find("--init=SEED"), std::string::npos) << text;
  options.hasInit = true;
  EXPECT_EQ(weightErrors(opened, options), "");
  // In a folder given by name.
  Folder moved;
  moved.file("tiny.onnx", model);
  options.hasInit = false;
  options.source = moved.path;
  EXPECT_EQ(weightErrors(opened, options), "");
  options.source = moved.path + "/tiny.onnx";
  EXPECT_EQ(weightErrors(opened, options), "");
  EXPECT_EQ(tensor(*opened.session, "layer.weight"), initial(0, 3));
}

TEST(Weights, ExternalData) {
  Folder folder;
  std::vector<float> values = tinyInitial();
  std::string bytes(reinterpret_cast<char *>(values.data()), values.size() * 4), model = "model";
  Program program = tinyProgram({});
  program.modelPath = folder.file("tiny.onnx", model);
  program.modelBytes = model.size();
  program.modelHash = hashBytes(model.data(), model.size());
  for (Tensor &t : program.tensors)
    if (t.role == Role::Parameter) {
      t.file = "data/tiny.data";
      t.fileOffset -= 16;
    }
  program.dataFiles = {{"data/tiny.data", bytes.size(), hashBytes(bytes.data(), bytes.size()), true}};
  Problems problems;
  auto loaded = makeProgram(program, tinyKernels(), problems);
  ASSERT_TRUE(loaded) << problems.text();
  Opened opened;
  opened.session = Session::create(*loaded, {}, problems);
  ASSERT_TRUE(opened.session) << problems.text();
  std::string path = folder.path + "/data/tiny.data";
  WeightOptions options;
  EXPECT_NE(weightErrors(opened, options).find("error: " + path + ": No such file or directory\nnote: external data of the model; give --weights=FILE|DIR with the weights, or --init=SEED\n"), std::string::npos);
  ASSERT_EQ(mkdir((folder.path + "/data").c_str(), 0777), 0);
  folder.file("data/tiny.data", bytes);
  options.verify = true;
  EXPECT_EQ(weightErrors(opened, options), "");
  EXPECT_EQ(tensor(*opened.session, "embed.weight"), initial(3, 5));

  folder.file("data/tiny.data", bytes.substr(0, bytes.size() - 4));
  EXPECT_NE(weightErrors(opened, {}).find("has 44 bytes, it had 48 when the model was compiled\nnote: compile the model again, or give --weights=FILE|DIR\n"), std::string::npos) << weightErrors(opened, {});
  std::string changed = bytes;
  changed[13] ^= 4;
  folder.file("data/tiny.data", changed);
  EXPECT_EQ(weightErrors(opened, {}), "") << "only --verify looks at the content";
  EXPECT_NE(weightErrors(opened, options).find("has changed since the model was compiled"), std::string::npos);
  loaded->program.dataFiles[0].hashed = false;
  EXPECT_NE(weightErrors(opened, options).find("cannot be verified: the program holds no hash of it\nnote: leave --verify out\n"), std::string::npos);
  // Files that the program says nothing about are still not read beyond their end.
  loaded->program.dataFiles.clear();
  folder.file("data/tiny.data", bytes.substr(0, 20));
  std::string text = weightErrors(opened, {});
  EXPECT_NE(text.find("data/tiny.data: is too short: 'embed.weight' ends at byte 32 of 20\nnote: restore the file that the model was compiled with, or give --weights=FILE|DIR\n"), std::string::npos) << text;
  EXPECT_NE(text.find("'unused.weight' ends at byte 48 of 20"), std::string::npos) << "all of them";
  // Absent, but drawn.
  unlink(path.c_str());
  options = {};
  options.hasInit = true;
  EXPECT_EQ(weightErrors(opened, options), "");
}

TEST(Weights, ReducedTypesWidenExactly) {
  Folder folder;
  Opened opened = open(folder, {}, {});
  for (DType type : {DType::BF16, DType::F16}) {
    // 1.5, -2^-24 * 3 (a denormal in f16), infinity
    uint16_t bits[3] = {type == DType::F16 ? uint16_t(0x3e00) : uint16_t(0x3fc0), type == DType::F16 ? uint16_t(0x8003) : uint16_t(0xb440),
                        type == DType::F16 ? uint16_t(0x7c00) : uint16_t(0x7f80)};
    std::vector<TensorToWrite> tensors = {{"layer.weight", type, {3}, 6, [&](const auto &sink) { return sink(bits, 6); }}};
    std::string error;
    ASSERT_TRUE(writeSafetensors(folder.path + "/w.safetensors", tensors, {}, error));
    WeightOptions options;
    options.source = folder.path + "/w.safetensors";
    options.hasInit = true;
    EXPECT_EQ(weightErrors(opened, options), "");
    EXPECT_EQ(tensor(*opened.session, "layer.weight"), (std::vector<float>{1.5f, -3 * 0x1p-24f, INFINITY}));
  }
}

//===----------------------------------------------------------------------===//
// Metrics, trace, description
//===----------------------------------------------------------------------===//

TEST(Metrics, LinesReadBackToTheSameBits) {
  Folder folder;
  TinyOptions tiny;
  tiny.offload = true;
  SessionOptions options;
  options.fault = true;
  options.faultStep = 2;
  options.faultPattern = "layer";
  options.threads = 2;
  Opened opened = open(folder, tiny, options);
  Metrics metrics;
  Problems problems;
  std::string path = folder.path + "/m.jsonl";
  ASSERT_TRUE(metrics.open(path, *opened.session, 0, problems)) << problems.text();
  std::vector<StepResult> results;
  opened.session->run(4, [&](const StepResult &r) {
    metrics.write(r);
    results.push_back(r);
  });
  std::string error;
  ASSERT_TRUE(metrics.close(error)) << error;
  std::istringstream text(readText(path));
  std::string line;
  std::vector<nlohmann::json> rows;
  while (std::getline(text, line))
    rows.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_FALSE(rows[0].contains("step"));
  for (const char *key : {"forebay", "machine", "instruction_set", "blas", "threads", "policy"})
    EXPECT_TRUE(rows[0].contains(key)) << key;
  EXPECT_EQ(rows[0]["threads"], 2);
  for (size_t i = 0; i < 4; ++i) {
    const auto &row = rows[i + 1];
    EXPECT_EQ(row["step"], i + 1);
    EXPECT_EQ(row["loss"].get<double>(), results[i].loss);
    EXPECT_EQ(row["lr"].get<double>(), 0.125);
    EXPECT_EQ(row["applied"], i != 1);
    EXPECT_EQ(row["clipped"], false);
    EXPECT_EQ(row["tokens"], 4);
    EXPECT_EQ(row["loss_scale"], 1);
    EXPECT_GT(row["step_s"].get<double>(), 0);
    EXPECT_EQ(row["queue_s"].size(), 4u);
    if (i == 1) {
      EXPECT_TRUE(row["grad_norm"].is_null());
      EXPECT_EQ(row["nonfinite"], "layer.weight");
    } else {
      EXPECT_EQ(row["grad_norm"].get<float>(), results[i].norm);
      EXPECT_TRUE(row["nonfinite"].is_null());
    }
  }
  // A resumed run keeps the lines up to its step and writes no second header.
  Metrics again;
  ASSERT_TRUE(again.open(path, *opened.session, 2, problems));
  results[3].step = 3;
  again.write(results[3]);
  ASSERT_TRUE(again.close(error));
  std::string after = readText(path);
  EXPECT_EQ(std::count(after.begin(), after.end(), '\n'), 4);
  EXPECT_NE(after.find("\"step\": 2,"), std::string::npos);
  EXPECT_EQ(after.find("\"step\": 4,"), std::string::npos);

  Metrics full;
  EXPECT_FALSE(full.open("/dev/full", *opened.session, 0, problems));
  EXPECT_NE(problems.text().find("error: --metrics=/dev/full: No space left on device"), std::string::npos) << problems.text();
}

TEST(Trace, HoldsEveryCommand) {
  Folder folder;
  TinyOptions tiny;
  tiny.offload = true;
  SessionOptions options;
  options.traceEvents = 1000;
  Opened opened = open(folder, tiny, options);
  opened.session->run(3, nullptr);
  uint64_t lost;
  std::string error, path = folder.path + "/t.json";
  ASSERT_TRUE(writeTrace(*opened.session, path, lost, error)) << error;
  EXPECT_EQ(lost, 0u);
  nlohmann::json trace = nlohmann::json::parse(readText(path));
  size_t slices = 0, names = 0;
  std::map<int, double> end;
  for (const auto &event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      names += event["name"] == "thread_name";
      continue;
    }
    ++slices;
    EXPECT_GE(event["ts"].get<double>() + 0.002, end[event["tid"]]) << "slices of a queue follow each other";
    end[event["tid"]] = event["ts"].get<double>() + event["dur"].get<double>();
    EXPECT_LE(event["args"]["step"].get<int>(), 3);
  }
  EXPECT_EQ(names, 4u);
  EXPECT_EQ(slices, 3 * opened.session->program().step.size());
}

TEST(Describe, TellsWhatIsInside) {
  TinyOptions tiny;
  tiny.offload = true;
  Program program = tinyProgram(tiny);
  std::string text = describeText(program);
  for (const char *part : {"policy zero-offload", "input_ids", "0 to 4 or -100", "trained parameters", "frozen parameters", "moments", "weight copies",
                           "no path from the loss to unused.weight", "hbm", "arena", "norm_partials", "copied hbm to host"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  nlohmann::json json = nlohmann::json::parse(describeJson(program, true));
  EXPECT_EQ(json["spaces"][0]["arena_bytes"], program.spaces[0].arenaBytes);
  EXPECT_EQ(json["spaces"][0]["live_bytes"], program.spaces[0].arenaBytes) << "everything here is live for ever";
  EXPECT_EQ(json["step"].size(), program.step.size());
  EXPECT_EQ(json["tensors"].size(), program.tensors.size());
}

/// Whatever the bytes of a program say, looking at it is safe. The checksum is made right again, so that the checks behind it are met.
TEST(Describe, SpoiltProgramsAreRefusedOrHarmless) {
  TinyOptions tiny;
  tiny.offload = true;
  std::string good = serialize(tinyProgram(tiny));
  std::mt19937 random(3);
  unsigned described = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      size_t at = 20 + random() % (bytes.size() - 28);
      const unsigned char values[] = {0, 1, 2, 0x7f, 0x80, 0xff, static_cast<unsigned char>(random())};
      bytes[at] = char(values[random() % 7]);
    }
    uint64_t hash = hashBytes(bytes.data(), bytes.size() - 8);
    std::memcpy(&bytes[bytes.size() - 8], &hash, 8);
    Program program;
    std::string error;
    if (!deserialize(bytes, program, error) || !validateProgram(program, error) || !verifyProgram(program, error)) {
      EXPECT_FALSE(error.empty());
      ++refused;
      continue;
    }
    EXPECT_FALSE(describeText(program).empty());
    EXPECT_FALSE(describeJson(program, true).empty());
    ++described;
  }
  EXPECT_GT(described, 100u);
  EXPECT_GT(refused, 100u);
}

} // namespace
