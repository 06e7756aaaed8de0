//===- forebay-run.cpp - Runs a step.so -----------------------------------===//

#include "Checkpoint.h"
#include "Console.h"
#include "Describe.h"
#include "FileUses.h"
#include "Metrics.h"
#include "Options.h"
#include "Outputs.h"
#include "Signals.h"
#include "TraceFile.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;

namespace {

/// errno of the first write to the standard output that failed.
int outputErrno = 0;
bool isRun = false;

void flushOutput() {
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && outputErrno == 0)
    outputErrno = errno != 0 ? errno : EIO;
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
    feeds.bind(loaded->program, options.feeds, problems);
    checkOptions();
    checkFiles();
    if (problems.any())
      return false;
    if (!options.hasSteps) {
      options.steps = feeds.stepsAvailable();
      if (options.steps == 0) {
        feeds.reportNoSteps(problems);
        return false;
      }
    }
    Schedule &schedule = options.session.schedule;
    if (!schedule.hasTotal)
      schedule.total = std::max(options.steps, schedule.warmup);
    // Where a checkpoint may move the first step the feeds are looked at after it; elsewhere before a folder is made.
    bool mayMove = options.resume && isFolder(options.checkpointDir);
    if (!mayMove && !checkFeeds())
      return false;
    if (!openCheckpoint() || (mayMove && !checkFeeds()))
      return false;
    for (const std::string &notice : feeds.notices(before.attempts, todo))
      std::fprintf(stderr, "note: %s\n", printable(notice).c_str());
    return true;
  }

  bool checkFeeds() {
    todo = options.steps > before.attempts ? options.steps - before.attempts : 0;
    feeds.check(before.attempts, todo, problems);
    return !problems.any();
  }

  /// Options that this program would ignore.
  void checkOptions() {
    const Program &program = loaded->program;
    if (program.entry != "forward") {
      if (!options.saveOutputs.empty())
        problems.error("--save-outputs", "the program trains", "compile the model with --forward to get its outputs");
      bool hasRate = std::any_of(program.hyper.begin(), program.hyper.end(), [](const HyperDefault &hyper) { return hyper.name == "lr"; });
      if (options.hasSchedule && !hasRate)
        problems.error("--lr-schedule", "optimizer '" + program.optimizer + "' has no hyper-parameter 'lr'", "leave the option out");
      return;
    }
    for (auto [name, given] : {std::pair("--lr-schedule", options.hasSchedule), std::pair("--hyper", !options.session.hyper.empty()),
                               std::pair("--save-weights", !options.saveWeights.empty()), std::pair("--checkpoint-dir", !options.checkpointDir.empty()),
                               std::pair("FOREBAY_FAULT", options.session.fault)})
      if (given)
        problems.error(name, "the program does not train", "leave it out; a program made without --forward trains");
  }

  void checkFiles() {
    const Program &program = loaded->program;
    FileUses uses(problems);
    uses.input("the program", options.program);
    for (const auto &[what, path] : weightFiles(program, options.program, options.weights))
      uses.input(what, path);
    for (const auto &[input, path] : options.feeds.arrays)
      uses.input("read by --feed=" + input, path);
    uses.input("read by --tokens", options.feeds.tokens);
    uses.standardStreams();
    uses.checkpoints(options.checkpointDir);
    uses.output("--save-weights", options.saveWeights, FileUses::Replaced);
    uses.output("--metrics", options.metrics, FileUses::Streamed);
    uses.output("--trace", options.trace, FileUses::Streamed);
    uses.output("--profile", options.profile, FileUses::Streamed);
    if (!options.saveOutputs.empty() && program.entry == "forward")
      for (const Tensor &tensor : program.tensors)
        if (tensor.role == Role::Output || tensor.role == Role::Loss)
          uses.outputInFolder("--save-outputs", Outputs::pathOf(options.saveOutputs, tensor.name));
  }

  /// Finds what to go on from, and sees that this program can.
  bool openCheckpoint() {
    if (options.checkpointDir.empty())
      return true;
    checkpoints = std::make_unique<Checkpoints>(options.checkpointDir);
    checkpoints->setSettings({{"data", feeds.describe()}, {"learning rates", options.session.schedule.describe()}, {"--hyper", joined(options.session.hyper)}});
    if (!checkpoints->prepare(options.resume, problems))
      return false;
    if (!options.resume)
      return true;
    std::vector<std::string> notices;
    bool good = checkpoints->openNewest(problems, resumed, notices) && (!resumed || checkpoints->matches(loaded->program, problems, notices));
    for (const std::string &notice : notices)
      std::fprintf(stderr, "warning: %s\n", printable(notice).c_str());
    if (resumed)
      before = checkpoints->progress();
    return good;
  }

  bool start() {
    const Program &program = loaded->program;
    SessionOptions &own = options.session;
    own.attempts = before.attempts;
    // A trace keeps the last commands of each queue; short runs need less room.
    constexpr uint64_t kMostEvents = 1 << 20;
    if (!options.trace.empty())
      own.traceEvents = std::min<double>(double(program.step.size() + program.flush.size()) * program.accumulate * double(std::max<uint64_t>(todo, 1)) + 1,
                                         double(kMostEvents));
    session = Session::create(*loaded, own, problems);
    if (!session)
      return false;
    options.weights.skipParameters = resumed;
    if (!loadWeights(*session, options.program, options.weights, problems))
      return false;
    if (resumed)
      checkpoints->restore(*session);
    if (!options.saveOutputs.empty() && !outputs.open(program, options.saveOutputs, problems))
      return false;
    if (!options.metrics.empty() && !metrics.open(options.metrics, *session, before.attempts, problems))
      return false;
    data = std::make_unique<RunData>(feeds, options.saveOutputs.empty() ? nullptr : &outputs);
    session->setData(data.get());
    line = std::make_unique<ProgressLine>(*session, options.steps);
    if (resumed)
      std::printf("going on after step %llu of %llu\n", (unsigned long long)before.attempts, (unsigned long long)options.steps);
    if (todo == 0)
      std::printf("nothing to do: %llu steps have run already\n", (unsigned long long)before.attempts);
    flushOutput();
    return true;
  }

  void train() {
    setActivity(kSteps);
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
      if (session->reportBadIndex(problems))
        failed = true;
      else if (checkpoints && options.checkpointEvery != 0 && session->progress().attempts % options.checkpointEvery == 0)
        saveCheckpoint();
    }
    line->end();
  }

  void saveCheckpoint() {
    if (session->progress().attempts == saved)
      return;
    std::string error;
    setActivity("the checkpoint to be written");
    bool written = checkpoints->save(*session, error);
    setActivity(kSteps);
    if (written) {
      saved = session->progress().attempts;
      return;
    }
    // A run that cannot keep its state would only find out at its end.
    problems.error(error, "the checkpoint was not written; the ones before are untouched", "see that the folder is there and has room, then go on with --resume");
    failed = true;
  }

  int finish() {
    bool stopped = interrupted != 0;
    if (checkpoints && !failed)
      saveCheckpoint();
    std::string error;
    const char *room = "the run has ended: make room, and run again";
    setActivity("the outputs to be written");
    // Outputs of a run that failed would look whole: none.
    if (!options.saveOutputs.empty() && !failed && !outputs.commit(session->progress().attempts, error))
      problems.error("--save-outputs=" + options.saveOutputs, error, room);
    setActivity("the weights to be written");
    if (!options.saveWeights.empty() && !saveWeights(*session, options.saveWeights, error))
      problems.error("--save-weights=" + options.saveWeights, error, room);
    setActivity("the metrics, trace and profile to be written");
    if (!metrics.close(error))
      problems.error("--metrics=" + options.metrics, error, "later steps are not in it; the training is not affected");
    uint64_t lost = 0;
    if (!options.trace.empty() && !writeTrace(*session, options.trace, lost, error))
      problems.error("--trace=" + options.trace, error, "the training is not affected");
    if (lost != 0)
      std::fprintf(stderr, "note: --trace: the first %llu commands no longer fitted\n", (unsigned long long)lost);
    if (!options.profile.empty() && !writeProfile(*session, *line, options.profile, error))
      problems.error("--profile=" + options.profile, error, "the training is not affected");
    printSummary(*session, *line, before);
    if (stopped)
      std::printf("stopped after step %llu\n", (unsigned long long)session->progress().attempts);
    flushOutput();
    if (problems.any())
      return 1;
    return stopped ? 128 + interrupted : 0;
  }

  static constexpr const char *kSteps = "the steps that have begun to end";

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
  bool resumed = false, failed = false; ///< failed: no more steps, no more checkpoints
};

int print(const std::string &text) {
  std::fputs(text.c_str(), stdout);
  flushOutput();
  return 0;
}

int runTool(int argc, char **argv, Problems &problems) {
  RunOptions options;
  bool ok = parseOptions(argc, argv, options, problems);
  if (!ok)
    return 1;
  if (options.help)
    return print(kHelp);
  if (options.version)
    return print(std::string("forebay-run ") + FOREBAY_VERSION + " (program version " + std::to_string(kProgramAbi) + ", kernel interface " +
                 std::to_string(FOREBAY_KERNEL_ABI) + ")\n");
  if (options.calibrate) {
    installSignalHandlers();
    return calibrate(options.calibration, problems);
  }
  if (!options.describe.empty()) {
    Program program;
    if (!readProgram(options.program, program, problems))
      return 1;
    return print(options.describe == "text" ? describeText(program) : describeJson(program, options.describe == "commands"));
  }
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe must not end a run
  isRun = true;
  installSignalHandlers();
  return Run(options, problems).run();
}

/// A file that we open must not become the standard output because the shell has closed that.
void keepStandardStreams() {
  for (int fd : {0, 1, 2})
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
      return;
}

} // namespace

int main(int argc, char **argv) {
  keepStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN); // a file that grows too large is an error like any other
  Problems problems;
  int status = 1;
  try {
    status = runTool(argc, argv, problems);
  } catch (const std::bad_alloc &) {
    problems.error("forebay-run", "out of memory", "free memory, or compile for a smaller batch");
  } catch (const std::exception &e) {
    problems.error("forebay-run", e.what(), "this is a bug in forebay-run, or in a file that it read");
  }
  flushOutput();
  // A run does not depend on who reads its progress.
  if (outputErrno != 0 && !(isRun && (outputErrno == EPIPE || outputErrno == EBADF)))
    problems.error("stdout", std::strerror(outputErrno), isRun ? "the run has ended; only what it prints is lost" : "redirect the output to a place with room");
  std::fputs(problems.text().c_str(), stderr);
  return problems.any() ? 1 : status;
}
