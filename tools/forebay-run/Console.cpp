//===- Console.cpp - What a run prints ------------------------------------===//

#include "Console.h"
#include "Files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;
using Json = nlohmann::ordered_json;

static constexpr int64_t kTerminalPeriod = 100000000, kLogPeriod = 5000000000;

ProgressLine::ProgressLine(const Session &session, uint64_t lastStep)
    : session(session), last(lastStep), terminal(isatty(1)), forward(session.program().entry == "forward"),
      queueBusy(session.program().queues.size(), 0) {}

static void durationText(double seconds, char *text, size_t size) {
  if (seconds < 100)
    std::snprintf(text, size, "%.0f s", seconds);
  else if (seconds < 6000)
    std::snprintf(text, size, "%.0f min", seconds / 60);
  else
    std::snprintf(text, size, "%.1f h", seconds / 3600);
}

/// The sign of a NaN means nothing, but would be printed.
static double unsignedNan(double value) { return std::isnan(value) ? std::fabs(value) : value; }

void ProgressLine::show(const StepResult &result) {
  int64_t took = result.times.end - result.times.begin;
  for (size_t i = 0; i < queueBusy.size(); ++i)
    queueBusy[i] += result.times.busy[i];
  total += took;
  sincePrint += took;
  seen += result.tokens;
  tokensSincePrint += result.tokens;
  ++count;
  bool final = result.step == last;
  if (count > 1 && !final && result.times.end - printed < (terminal ? kTerminalPeriod : kLogPeriod))
    return;
  printed = result.times.end;
  char line[320], left[32];
  durationText(double(total) * 1e-9 / double(count) * double(last - std::min(last, result.step)), left, sizeof left);
  double rate = sincePrint > 0 ? double(tokensSincePrint) * 1e9 / double(sincePrint) : 0;
  sincePrint = 0;
  tokensSincePrint = 0;
  int used = std::snprintf(line, sizeof line, "%sstep %llu/%llu", terminal ? "\r" : "", (unsigned long long)result.step, (unsigned long long)last);
  auto add = [&](const char *format, auto... values) {
    if (used < int(sizeof line) - 8)
      used += std::snprintf(line + used, sizeof line - 8 - used, format, values...);
    used = std::min(used, int(sizeof line) - 8);
  };
  if (!forward)
    add("  loss %.5g  grad norm %.4g", unsignedNan(result.loss), unsignedNan(double(result.norm)));
  add("  %.0f tokens/s  %s left", rate, left);
  if (!forward && !result.applied && std::isfinite(result.norm))
    add("  %s", "not applied: an index is out of range"); // nothing else holds back an update with a finite norm
  else if (!forward && !result.applied)
    add("  skipped: %s is not finite", result.nonfinite >= 0 ? session.program().tensors[result.nonfinite].name.c_str() : "the gradient norm");
  // Blanks wipe what a longer line left.
  add("%s", terminal ? "\033[K" : "\n");
  open = terminal;
  for (int at = 0; at < used;) {
    ssize_t done = write(1, line + at, size_t(used - at));
    if (done <= 0)
      break; // nobody reads: the run goes on
    at += int(done);
  }
}

void ProgressLine::end() {
  if (open && write(1, "\n", 1) < 0)
    return;
  open = false;
}

namespace {

struct KernelTime {
  std::string name;
  int64_t nanoseconds = 0;
  uint64_t dispatches = 0;
  double flops = 0;
};

std::string kindOf(const Program &program, const Command &command) {
  if (command.kind == CommandKind::Dispatch)
    return program.kernels[command.kernel].name;
  static const char *const names[] = {"dispatch", "transfer", "feed", "scalars", "verdict (runtime)", "report"};
  return names[static_cast<unsigned>(command.kind)];
}

std::vector<KernelTime> timesByKernel(const Session &session) {
  const Program &program = session.program();
  std::vector<int64_t> nanoseconds;
  session.backend().commandTimes(session.device(), nanoseconds);
  std::vector<KernelTime> result;
  for (size_t i = 0; i < program.step.size(); ++i) {
    std::string name = kindOf(program, program.step[i]);
    auto it = std::find_if(result.begin(), result.end(), [&](const KernelTime &k) { return k.name == name; });
    if (it == result.end())
      it = result.insert(result.end(), KernelTime{name, 0, 0, 0});
    it->nanoseconds += nanoseconds[i];
    ++it->dispatches;
    it->flops += program.step[i].cost.flops;
  }
  std::sort(result.begin(), result.end(), [](const KernelTime &a, const KernelTime &b) { return a.nanoseconds > b.nanoseconds; });
  return result;
}

} // namespace

void forebay::rt::printSummary(const Session &session, const ProgressLine &line, const Progress &before) {
  const Program &program = session.program();
  const Progress &after = const_cast<Session &>(session).progress();
  double seconds = double(line.elapsed()) * 1e-9;
  std::printf("%llu steps in %.2f s", (unsigned long long)line.steps(), seconds);
  if (program.entry != "forward")
    std::printf(": %llu applied, %llu skipped, %llu clipped", (unsigned long long)(after.applied - before.applied),
                (unsigned long long)(after.skipped - before.skipped), (unsigned long long)(after.clipped - before.clipped));
  if (line.steps() != 0 && seconds > 0)
    std::printf("; %.4g s a step, %.0f tokens/s", seconds / double(line.steps()), double(line.tokens()) / seconds);
  std::printf("\n");
  if (session.speculates()) {
    const Speculation &counts = session.speculation();
    std::printf("updates before the verdict in %llu steps: %llu committed, %llu redone because they were clipped, %llu skipped\n",
                (unsigned long long)counts.speculated, (unsigned long long)counts.committed, (unsigned long long)counts.redone,
                (unsigned long long)counts.skipped);
  }
  if (line.steps() == 0 || seconds <= 0)
    return;
  std::printf("time by queue\n");
  for (size_t i = 0; i < program.queues.size(); ++i)
    std::printf("  %-10s busy %9.3f s  %5.1f %%\n", program.queues[i].name.c_str(), double(line.busy()[i]) * 1e-9,
                100 * double(line.busy()[i]) * 1e-9 / seconds);
  std::vector<KernelTime> kernels = timesByKernel(session);
  int64_t all = 0;
  for (const KernelTime &kernel : kernels)
    all += kernel.nanoseconds;
  std::printf("time by kernel\n");
  for (size_t i = 0; i < kernels.size() && i < 8 && all > 0; ++i)
    std::printf("  %-28s %9.3f s  %5.1f %%\n", kernels[i].name.c_str(), double(kernels[i].nanoseconds) * 1e-9,
                100 * double(kernels[i].nanoseconds) / double(all));
}

bool forebay::rt::writeProfile(const Session &session, const ProgressLine &line, const std::string &path, std::string &error) {
  const Program &program = session.program();
  std::vector<int64_t> nanoseconds;
  session.backend().commandTimes(session.device(), nanoseconds);
  Json json;
  json["steps"] = line.steps();
  json["seconds"] = double(line.elapsed()) * 1e-9;
  json["queues"] = Json::object();
  for (size_t i = 0; i < program.queues.size(); ++i)
    json["queues"][program.queues[i].name] = double(line.busy()[i]) * 1e-9;
  json["kernels"] = Json::array();
  for (const KernelTime &kernel : timesByKernel(session))
    json["kernels"].push_back({{"name", kernel.name},
                               {"seconds", double(kernel.nanoseconds) * 1e-9},
                               {"commands", kernel.dispatches},
                               {"flops_per_micro_step", kernel.flops}});
  std::map<std::string, double> phases;
  json["commands"] = Json::array();
  for (size_t i = 0; i < program.step.size(); ++i) {
    const Command &command = program.step[i];
    phases[command.phase] += double(nanoseconds[i]) * 1e-9;
    json["commands"].push_back({{"label", command.label},
                                {"kernel", kindOf(program, command)},
                                {"queue", program.queues[command.queue].name},
                                {"phase", command.phase},
                                {"seconds", double(nanoseconds[i]) * 1e-9}});
  }
  json["phases"] = phases;
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  AtomicFile file;
  return file.open(path, error) && file.write(text.data(), text.size(), error) && file.commit(error);
}
