//===- forebay-run.cpp - Runs a step.so -----------------------------------===//

#include "Checkpoint.h"
#include "Console.h"
#include "Describe.h"
#include "Metrics.h"
#include "Options.h"
#include "Outputs.h"
#include "TraceFile.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sys/stat.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;

namespace {

std::atomic<int> interrupted{0};

/// The first signal lets the step end; the second ends at once.
void onSignal(int number) {
  if (interrupted.exchange(number) != 0)
    _exit(128 + number);
}

void installHandlers() {
  struct sigaction action {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

class RunData : public StepData {
public:
  RunData(const Feeds &feeds, Outputs *outputs) : feeds(feeds), outputs(outputs) {}
  void feed(uint32_t tensor, uint64_t micro, void *destination) override { feeds.fill(tensor, micro, destination); }
  void output(uint32_t tensor, uint64_t micro, const void *source, uint64_t bytes) override {
    if (outputs)
      outputs->write(tensor, micro, source, bytes);
  }

private:
  const Feeds &feeds;
  Outputs *outputs;
};

/// Looks now, not after hours of training, whether a file can be made.
void checkWritable(const char *option, const std::string &path, Problems &problems) {
  if (path.empty())
    return;
  std::string where = std::string(option) + "=" + path;
  if (isFolder(path))
    problems.error(where, "is a folder");
  else if (!isFolder(folderOf(path)))
    problems.error(where, "folder " + folderOf(path) + " is not there");
  else if (access(exists(path) ? path.c_str() : folderOf(path).c_str(), W_OK) != 0)
    problems.error(where, std::strerror(errno));
}

class Run {
public:
  Run(RunOptions &options, Problems &problems) : options(options), problems(problems) {}

  /// Exit status.
  int run() {
    if (!load() || !start())
      return 1;
    train();
    return finish();
  }

private:
  bool load() {
    loaded = loadProgram(options.program, problems);
    if (!loaded)
      return false;
    const Program &program = loaded->program;
    feeds.bind(program, options.feeds, problems);
    checkWritable("--save-weights", options.saveWeights, problems);
    checkWritable("--trace", options.trace, problems);
    checkWritable("--profile", options.profile, problems);
    bool forward = program.entry == "forward";
    if (!options.saveOutputs.empty() && !forward)
      problems.error("--save-outputs", "the program trains").note("compile the model with --forward to get its outputs");
    if (forward && !options.checkpointDir.empty())
      problems.error("--checkpoint-dir", "the program does not train: nothing changes that could be kept");
    if (problems.any())
      return false;
    bool found = false;
    if (!options.checkpointDir.empty()) {
      checkpoints = std::make_unique<Checkpoints>(options.checkpointDir);
      std::vector<std::string> notices;
      if (!checkpoints->prepare(problems) || (options.resume && !checkpoints->openNewest(problems, found, notices)))
        return false;
      for (const std::string &notice : notices)
        std::fprintf(stderr, "warning: %s\n", notice.c_str());
    }
    resumed = found;
    if (resumed)
      before = checkpoints->progress();
    if (!options.hasSteps) {
      options.steps = feeds.stepsAvailable();
      if (options.steps == 0) {
        problems.error("--steps", "the data does not say how many steps to run").note("give --steps=N");
        return false;
      }
    }
    todo = options.steps > before.attempts ? options.steps - before.attempts : 0;
    feeds.check(before.attempts, todo, problems);
    if (problems.any())
      return false;
    for (const std::string &notice : feeds.notices(before.attempts, todo))
      std::fprintf(stderr, "note: %s\n", notice.c_str());
    return true;
  }

  bool start() {
    const Program &program = loaded->program;
    SessionOptions &own = options.session;
    if (!own.schedule.hasTotal)
      own.schedule.total = std::max(options.steps, own.schedule.warmup);
    own.attempts = before.attempts;
    if (!options.trace.empty())
      own.traceEvents = std::min<uint64_t>((program.step.size() + program.flush.size()) * program.accumulate * std::max<uint64_t>(todo, 1) + 1,
                                           uint64_t(1) << 20);
    session = Session::create(*loaded, own, problems);
    if (!session)
      return false;
    options.weights.skipParameters = resumed;
    if (!loadWeights(*session, options.program, options.weights, problems))
      return false;
    if (resumed && !checkpoints->restore(*session, problems))
      return false;
    if (!options.metrics.empty() && !metrics.open(options.metrics, *session, before.attempts, problems))
      return false;
    if (!options.saveOutputs.empty() && !outputs.open(program, options.saveOutputs, problems))
      return false;
    data = std::make_unique<RunData>(feeds, options.saveOutputs.empty() ? nullptr : &outputs);
    session->setData(data.get());
    line = std::make_unique<ProgressLine>(*session, options.steps);
    if (resumed)
      std::printf("going on after step %llu of %llu\n", (unsigned long long)before.attempts, (unsigned long long)options.steps);
    if (todo == 0)
      std::printf("nothing to do: %llu steps have run already\n", (unsigned long long)before.attempts);
    std::fflush(stdout);
    return true;
  }

  void train() {
    std::signal(SIGPIPE, SIG_IGN); // a closed pipe must not end a run
    installHandlers();
    std::function<void(const StepResult &)> done = [this](const StepResult &result) {
      metrics.write(result);
      line->show(result);
    };
    uint64_t left = todo;
    saved = before.attempts;
    while (left != 0 && interrupted == 0 && !failed) {
      uint64_t piece = left;
      if (checkpoints && options.checkpointEvery != 0)
        piece = std::min(left, options.checkpointEvery - session->progress().attempts % options.checkpointEvery);
      left -= std::min(left, session->run(piece, done, &interrupted));
      session->flush();
      if (checkpoints && options.checkpointEvery != 0 && session->progress().attempts % options.checkpointEvery == 0)
        saveCheckpoint();
    }
    line->end();
  }

  void saveCheckpoint() {
    if (session->progress().attempts == saved)
      return;
    std::string error;
    if (checkpoints->save(*session, error)) {
      saved = session->progress().attempts;
      return;
    }
    // A run that cannot keep its state would only find out at its end.
    problems.error(error, "the checkpoint was not written; the ones before are untouched");
    failed = true;
  }

  int finish() {
    bool stopped = interrupted != 0;
    if (checkpoints && !failed)
      saveCheckpoint();
    std::string error;
    if (!options.saveOutputs.empty() && !outputs.commit(session->progress().attempts, error))
      problems.error("--save-outputs=" + options.saveOutputs, error);
    if (!options.saveWeights.empty() && !saveWeights(*session, options.saveWeights, error))
      problems.error("--save-weights=" + options.saveWeights, error);
    if (!metrics.close(error))
      problems.error("--metrics=" + options.metrics, error + "; later steps are not in it");
    uint64_t lost = 0;
    if (!options.trace.empty() && !writeTrace(*session, options.trace, lost, error))
      problems.error("--trace=" + options.trace, error);
    if (lost != 0)
      std::fprintf(stderr, "note: --trace: the first %llu commands no longer fitted\n", (unsigned long long)lost);
    if (!options.profile.empty() && !writeProfile(*session, *line, options.profile, error))
      problems.error("--profile=" + options.profile, error);
    printSummary(*session, *line, before);
    if (stopped)
      std::printf("stopped after step %llu\n", (unsigned long long)session->progress().attempts);
    std::fflush(stdout);
    if (problems.any())
      return 1;
    return stopped ? 128 + interrupted : 0;
  }

  RunOptions &options;
  Problems &problems;
  std::unique_ptr<LoadedProgram> loaded;
  Feeds feeds;
  Outputs outputs;
  std::unique_ptr<RunData> data;
  std::unique_ptr<Checkpoints> checkpoints;
  std::unique_ptr<Session> session;
  std::unique_ptr<ProgressLine> line;
  Metrics metrics;
  Progress before;
  uint64_t todo = 0, saved = 0;
  bool resumed = false, failed = false;
};

int runTool(int argc, char **argv, Problems &problems) {
  RunOptions options;
  bool ok = parseOptions(argc, argv, options, problems);
  if (!ok)
    return 1;
  if (options.help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  if (options.version) {
    std::printf("forebay-run %s (program version %u, kernel interface %d)\n", FOREBAY_VERSION, kProgramAbi, FOREBAY_KERNEL_ABI);
    return 0;
  }
  if (options.calibrate) {
    problems.error("--calibrate", "measuring a machine comes with the planner's machine files, which this version does not have")
        .note("compile for a machine that is known: cpu, superchip-emu");
    return 1;
  }
  if (!options.describe.empty()) {
    Program program;
    if (!readProgram(options.program, program, problems))
      return 1;
    std::string text = options.describe == "text" ? describeText(program) : describeJson(program, options.describe == "commands");
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  return Run(options, problems).run();
}

} // namespace

int main(int argc, char **argv) {
  Problems problems;
  int status = 1;
  try {
    status = runTool(argc, argv, problems);
  } catch (const std::bad_alloc &) {
    problems.error("forebay-run", "out of memory");
  } catch (const std::exception &e) {
    problems.error("forebay-run", e.what());
  }
  std::fflush(stdout);
  std::fputs(problems.text().c_str(), stderr);
  return problems.any() ? 1 : status;
}
