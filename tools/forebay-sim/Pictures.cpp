//===- Pictures.cpp - A simulated step to look at -------------------------===//

#include "Pictures.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <cmath>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::sim;
using llvm::StringRef;
using llvm::json::OStream;

static const char kPage[] =
#include "timeline.html.inc"
    ;
/// What the page holds in the place of its data.
static constexpr StringRef kData = "FOREBAY_DATA";

static const char *const kKinds[] = {"dispatch", "copy", "feed", "scalars", "verdict", "report"};
static const char *const kPredicates[] = {"always", "first micro-step", "later micro-steps", "last micro-step", "if the step is applied",
                                          "while speculation is on", "if speculation was off or wrong", "if a speculated step is not applied"};

SimulatedStep::SimulatedStep(const Program &program, const PlanReport &report, const Machine &machine, std::string why)
    : program(program), report(report), model(modelOf(program, machine)), result(simulate(model, true)), decisions(std::move(why)) {
  std::vector<Life> lives = livesOf(program, result);
  for (uint32_t s = 0; s < program.spaces.size(); ++s)
    memory.push_back(memoryOf(program, result, lives, s));
}

static int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

static std::string labelOf(const Program &program, const Command &command) {
  std::string label = command.label;
  if (label.empty())
    label = command.kernel >= 0 ? program.kernels[command.kernel].name : kKinds[static_cast<unsigned>(command.kind)];
  return llvm::json::fixUTF8(label);
}

static uint64_t bytesOf(const Command &command) {
  if (command.kind != CommandKind::Copy && command.cost.bytes)
    return command.cost.bytes;
  uint64_t bytes = 0;
  for (size_t i = 0; i < command.operands.size(); i += command.kind == CommandKind::Copy ? 2 : 1)
    bytes += command.operands[i].bytes;
  return bytes;
}

namespace {

/// The data of the page: columns, because there are tens of thousands of rows.
class PageData {
public:
  PageData(llvm::raw_ostream &os, const SimulatedStep &step) : json(os), step(step), program(step.program) {}

  void write() {
    json.object([&] {
      json.attribute("title", "Forebay: policy " + llvm::json::fixUTF8(program.policy) + " on " + llvm::json::fixUTF8(step.report.machine));
      json.attribute("step", nanoseconds(step.result.shownSeconds));
      json.attribute("accumulate", int64_t(step.result.micros));
      json.attributeArray("facts", [&] { writeFacts(); });
      names("kinds", kKinds, std::size(kKinds));
      names("predicates", kPredicates, std::size(kPredicates));
      json.attributeArray("kernels", [&] {
        for (const Kernel &kernel : program.kernels)
          json.value(llvm::json::fixUTF8(kernel.name));
      });
      json.attributeArray("queues", [&] {
        for (size_t q = 0; q < program.queues.size(); ++q)
          json.object([&] {
            json.attribute("name", llvm::json::fixUTF8(program.queues[q].name));
            json.attribute("share", step.result.stepSeconds > 0 ? step.result.busy[q] / step.result.stepSeconds : 0.0);
          });
      });
      writeCommands();
      writeSpans();
      json.attributeArray("decisions", [&] { writeDecisions(); });
      json.attributeArray("spaces", [&] {
        for (size_t s = 0; s < program.spaces.size(); ++s)
          writeSpace(s);
      });
    });
  }

private:
  void names(StringRef key, const char *const *list, size_t count) {
    json.attributeArray(key, [&] {
      for (size_t i = 0; i < count; ++i)
        json.value(list[i]);
    });
  }

  template <typename List, typename F> void column(StringRef key, const List &list, F value) {
    json.attributeArray(key, [&] {
      for (const auto &entry : list)
        json.value(value(entry));
    });
  }

  void fact(StringRef name, const std::string &value, bool bad = false) {
    json.array([&] {
      json.value(name);
      json.value(value);
      json.value(bad);
    });
  }

  void writeFacts() {
    const TimeReport &time = *step.report.time;
    auto text = [](const char *pattern, double value) {
      char buffer[64];
      std::snprintf(buffer, sizeof buffer, pattern, value);
      return std::string(buffer);
    };
    fact("step", readableSeconds(time.stepSeconds));
    if (step.report.boundSeconds) {
      fact("lower bound", readableSeconds(*step.report.boundSeconds));
      fact("step / bound", text("%.3f", time.stepSeconds / *step.report.boundSeconds));
      fact("binding", step.report.binding);
    }
    if (time.tokensPerSecond > 0)
      fact("tokens/s", text("%.4g", time.tokensPerSecond));
    if (time.flops > 0)
      fact("TFLOPS (3 x forward)", text("%.4g", time.flops * 1e-12));
    if (std::optional<double> mfu = time.mfu())
      fact("MFU", text("%.1f%%", 100 * *mfu));
    if (std::optional<double> mfu = time.executedMfu())
      fact("MFU, executed", text("%.1f%%", 100 * *mfu));
    fact("memory", step.report.fits ? "fits" : "does not fit", !step.report.fits);
    for (const SpaceReport &space : step.report.spaces)
      fact(space.name, readableSize(space.peak) + " of " + readableSize(space.capacity), space.peak > space.capacity);
    fact("commands", std::to_string(program.step.size()));
    if (step.result.micros < program.accumulate)
      fact("micro-steps shown", std::to_string(step.result.micros) + " of " + std::to_string(program.accumulate));
  }

  /// [taken, name, subject, reason, "key=value"...]
  void writeDecisions() {
    for (StringRef rest = step.decisions; !rest.empty();) {
      auto [line, tail] = rest.split('\n');
      rest = tail;
      llvm::SmallVector<StringRef> fields;
      line.drop_front(line.empty() ? 0 : 1).split(fields, '\t');
      json.array([&] {
        json.value(line.starts_with("+"));
        for (StringRef field : fields)
          json.value(llvm::json::fixUTF8(field));
      });
    }
  }

  void writeCommands() {
    std::vector<std::string> labels, phases;
    llvm::StringMap<int64_t> labelNumber, phaseNumber;
    auto number = [](llvm::StringMap<int64_t> &numbers, std::vector<std::string> &list, std::string text) {
      auto [it, isNew] = numbers.try_emplace(text, list.size());
      if (isNew)
        list.push_back(std::move(text));
      return it->second;
    };
    std::vector<int64_t> label, phase;
    for (const Command &c : program.step) {
      label.push_back(number(labelNumber, labels, labelOf(program, c)));
      phase.push_back(number(phaseNumber, phases, c.phase.empty() ? "other" : llvm::json::fixUTF8(c.phase)));
    }
    auto same = [](const auto &value) { return value; };
    column("labels", labels, same);
    column("phases", phases, same);
    json.attributeObject("commands", [&] {
      column("label", label, same);
      column("phase", phase, same);
      column("queue", program.step, [](const Command &c) { return int64_t(c.queue); });
      column("kind", program.step, [](const Command &c) { return int64_t(c.kind); });
      column("kernel", program.step, [](const Command &c) { return int64_t(c.kernel); });
      column("predicate", program.step, [](const Command &c) { return int64_t(c.predicate); });
      column("bytes", program.step, [](const Command &c) { return bytesOf(c); });
      column("flops", program.step, [](const Command &c) { return std::round(c.cost.flops); });
      column("alone", step.model.tasks, [](const SimTask &task) { return nanoseconds(task.latency + task.seconds); });
    });
  }

  void writeSpans() {
    const std::vector<SimSpan> &spans = step.result.spans;
    std::vector<Cause> causes = causesOf(step.model, step.result);
    json.attributeObject("spans", [&] {
      column("start", spans, [](const SimSpan &s) { return nanoseconds(s.start); });
      // Ends are rounded, not durations: what touches on the clock touches here.
      column("duration", spans, [](const SimSpan &s) { return nanoseconds(s.end) - nanoseconds(s.start); });
      column("task", spans, [](const SimSpan &s) { return int64_t(s.task); });
      column("micro", spans, [](const SimSpan &s) { return int64_t(s.micro); });
      column("after", causes, [&](const Cause &c) { return c.span < 0 ? int64_t(-1) : int64_t(spans[c.span].task); });
      column("idle", causes, [](const Cause &c) { return nanoseconds(c.idle); });
    });
  }

  void writeSpace(size_t s) {
    const MemoryCurve &curve = step.memory[s];
    json.object([&] {
      json.attribute("name", llvm::json::fixUTF8(program.spaces[s].name));
      json.attribute("arena", program.spaces[s].arenaBytes);
      json.attribute("capacity", program.spaces[s].capacity);
      json.attribute("peak", curve.peak);
      column("roles", curve.roles, [](Role role) { return name(role); });
      column("time", curve.points, [](const MemoryPoint &p) { return nanoseconds(p.time); });
      json.attributeArray("bytes", [&] {
        for (size_t r = 0; r < curve.roles.size(); ++r)
          json.array([&] {
            for (const MemoryPoint &point : curve.points)
              json.value(point.bytes[r]);
          });
      });
    });
  }

  OStream json;
  const SimulatedStep &step;
  const Program &program;
};

} // namespace

void sim::writePage(llvm::raw_ostream &os, const SimulatedStep &step) {
  std::string data;
  llvm::raw_string_ostream text(data);
  PageData(text, step).write();
  auto [before, after] = StringRef(kPage).split(kData);
  os << before;
  // Within a script element only this would end it.
  for (StringRef rest = data; !rest.empty();) {
    auto [part, tail] = rest.split("</");
    os << part;
    if (part.size() != rest.size())
      os << "<\\/";
    rest = tail;
  }
  os << after;
}

void sim::writeTrace(llvm::raw_ostream &os, const SimulatedStep &step) {
  const Program &program = step.program;
  auto event = [](const char *phase, int64_t thread, std::string name) {
    return llvm::json::Object{{"ph", phase}, {"pid", 1}, {"tid", thread}, {"name", std::move(name)}}; // a StringRef would not be copied
  };
  auto microseconds = [](double seconds) { return std::round(seconds * 1e9) * 1e-3; };
  os << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
  bool first = true;
  auto put = [&](llvm::json::Object object) {
    os << (first ? "" : ",\n") << llvm::json::Value(std::move(object));
    first = false;
  };
  llvm::json::Object process = event("M", 0, "process_name");
  process["args"] = llvm::json::Object{{"name", "forebay-sim"}};
  put(std::move(process));
  for (size_t q = 0; q < program.queues.size(); ++q) {
    llvm::json::Object thread = event("M", q + 1, "thread_name");
    thread["args"] = llvm::json::Object{{"name", llvm::json::fixUTF8(program.queues[q].name)}};
    put(std::move(thread));
  }
  for (const SimSpan &span : step.result.spans) {
    const Command &c = program.step[span.task];
    if (span.end <= span.start)
      continue;
    llvm::json::Object slice = event("X", c.queue + 1, labelOf(program, c));
    slice["ts"] = microseconds(span.start);
    slice["dur"] = microseconds(span.end) - microseconds(span.start);
    slice["cat"] = llvm::json::fixUTF8(c.phase);
    slice["args"] = llvm::json::Object{{"command", span.task}, {"micro", span.micro}, {"bytes", bytesOf(c)}, {"predicate", kPredicates[static_cast<unsigned>(c.predicate)]}};
    put(std::move(slice));
  }
  for (size_t s = 0; s < program.spaces.size(); ++s)
    for (const MemoryPoint &point : step.memory[s].points) {
      llvm::json::Object counter = event("C", 0, llvm::json::fixUTF8(program.spaces[s].name) + " bytes");
      counter["ts"] = microseconds(point.time);
      llvm::json::Object roles;
      for (size_t r = 0; r < point.bytes.size(); ++r)
        roles[name(step.memory[s].roles[r])] = point.bytes[r];
      counter["args"] = std::move(roles);
      put(std::move(counter));
    }
  os << "\n]}\n";
}
