//===- TimeReport.cpp - The part of a plan's report about time ------------===//

#include "TimeReport.h"

#include "forebay/Planning/Timeline.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>

using namespace forebay;
using namespace forebay::planning;

template <typename... Args> static std::string format(const char *pattern, Args... args) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

static DType computeType(const Program &program) {
  return program.precision == "bf16" ? DType::BF16 : program.precision == "fp16" ? DType::F16 : DType::F32;
}

/// Products and attentions that forward and backward run in a step.
static double executedFlops(const Program &program) {
  double flops = 0;
  for (const Command &c : program.step) {
    if (c.kind != CommandKind::Dispatch || (c.phase != "forward" && c.phase != "backward") ||
        (c.cost.cls != OpClass::Matmul && c.cost.cls != OpClass::Attention))
      continue;
    uint32_t times = c.predicate == Predicate::Always ? program.accumulate : c.predicate == Predicate::LaterMicro ? program.accumulate - 1 : 1;
    flops += c.cost.flops * times;
  }
  return flops;
}

static std::vector<TimeReport::Idle> idleOf(const Program &program, const SimModel &model, const SimResult &result, uint32_t queue) {
  std::vector<double> byTask = idleByTask(model, result, queue);
  std::map<std::pair<std::string, std::string>, double> sums;
  for (size_t i = 0; i < byTask.size(); ++i)
    if (byTask[i] > 0)
      sums[{program.queues[program.step[i].queue].name, program.step[i].phase}] += byTask[i];
  std::vector<TimeReport::Idle> list;
  // Of a step that is shown in part the rest is alike.
  double shown = std::accumulate(byTask.begin(), byTask.end(), 0.0), idle = std::max(result.stepSeconds - result.busy[queue], 0.0);
  double scale = result.shownSeconds < result.stepSeconds && shown > 0 ? idle / shown : 1;
  for (auto &[where, seconds] : sums)
    list.push_back({where.first, where.second, scale * seconds});
  std::stable_sort(list.begin(), list.end(), [](const TimeReport::Idle &a, const TimeReport::Idle &b) { return a.seconds > b.seconds; });
  return list;
}

std::optional<TimeReport> planning::reportTime(const Program &program, const Machine &machine, std::string &why) {
  if (!canSimulate(program, machine, why))
    return std::nullopt;
  SimModel model = modelOf(program, machine);
  SimResult result = simulate(model, /*spans=*/true);
  if (!result.stuck.empty()) {
    why = result.stuck;
    return std::nullopt;
  }
  TimeReport report;
  report.stepSeconds = result.stepSeconds;
  std::vector<char> used(model.queues);
  for (const Command &c : program.step)
    used[c.queue] = 1;
  for (uint32_t q = 0; q < model.queues; ++q)
    if (used[q])
      report.queues.push_back({program.queues[q].name, result.busy[q]});
  report.engine = machine.queues[machine.computeQueue].name;
  for (uint32_t q = 0; q < model.queues; ++q)
    if (program.queues[q].name == report.engine)
      report.idle = idleOf(program, model, result, q);
  for (size_t c = 0; c < model.channels.size(); ++c)
    if (model.channels[c].rate > 0 && result.moved[c] > 0)
      report.channels.push_back({model.channels[c].name, result.moved[c], model.channels[c].rate});
  report.peakFlops = machine.peak(computeType(program));
  if (report.stepSeconds <= 0)
    return report;
  report.tokensPerSecond = program.tokensPerMicroStep * static_cast<double>(program.accumulate) / report.stepSeconds;
  report.passes = program.entry == "forward" ? 1 : 3;
  report.flops = report.passes * program.flopsPerToken * report.tokensPerSecond;
  report.executedFlops = executedFlops(program) / report.stepSeconds;
  return report;
}

//===----------------------------------------------------------------------===//
// What would help most next
//===----------------------------------------------------------------------===//

std::vector<Sensitivity> planning::findSensitivities(const Program &program, const Machine &machine) {
  std::vector<Sensitivity> result;
  std::string why;
  if (!canSimulate(program, machine, why))
    return result;
  auto with = [&](const std::string &what, auto improve) {
    Machine better = machine;
    improve(better);
    result.push_back({what + " +10%", simulate(modelOf(program, better)).stepSeconds});
  };
  auto scaleBandwidth = [](MachineQueue &queue) {
    queue.bandwidth *= 1.1;
    for (double &bandwidth : queue.classBandwidth)
      bandwidth *= 1.1;
  };
  with(machine.queues[machine.computeQueue].name + " flops", [&](Machine &m) {
    for (uint32_t q = 0; q < m.queues.size(); ++q)
      if (m.onComputeEngine(q))
        for (ComputeRate &rate : m.queues[q].rates)
          rate.flops *= 1.1;
  });
  with(machine.spaces[machine.computeSpace].name + " bandwidth", [&](Machine &m) {
    m.spaces[m.computeSpace].bandwidth *= 1.1;
    for (uint32_t q = 0; q < m.queues.size(); ++q)
      if (m.onComputeEngine(q))
        scaleBandwidth(m.queues[q]);
  });
  if (machine.offloads()) {
    with(machine.spaces[machine.hostSpace].name + " bandwidth", [&](Machine &m) { m.spaces[m.hostSpace].bandwidth *= 1.1; });
    for (uint32_t copies : {machine.toCompute, machine.toHost})
      with(machine.queues[copies].name + " link", [&](Machine &m) {
        for (Curve::Point &point : m.queues[copies].link.points)
          point.y *= 1.1;
      });
  }
  if (machine.hostQueue != machine.computeQueue)
    with(machine.queues[machine.hostQueue].name + " optimizer", [&](Machine &m) {
      MachineQueue &host = m.queues[m.hostQueue];
      double &bandwidth = host.classBandwidth[static_cast<unsigned>(OpClass::Optimizer)];
      bandwidth = 1.1 * (bandwidth > 0 ? bandwidth : host.bandwidth);
      for (ComputeRate &rate : host.rates)
        if (rate.cls == OpClass::Optimizer)
          rate.flops *= 1.1;
    });
  std::stable_sort(result.begin(), result.end(), [](const Sensitivity &a, const Sensitivity &b) { return a.stepSeconds < b.stepSeconds; });
  return result;
}

//===----------------------------------------------------------------------===//
// For people, for scripts
//===----------------------------------------------------------------------===//

std::string planning::readableSeconds(double seconds) {
  if (seconds >= 1 || seconds == 0)
    return format("%.3f s", seconds);
  return seconds >= 1e-3 ? format("%.2f ms", seconds * 1e3) : format("%.2f us", seconds * 1e6);
}

static std::string percent(double share) { return format("%.1f%%", 100 * share); }

static std::string readableRate(double rate) {
  return rate >= 1e12 ? format("%.2f TB/s", rate * 1e-12) : format("%.1f GB/s", rate * 1e-9);
}

static std::string flopsText(double flops) { return flops >= 1e12 ? format("%.1f TFLOPS", flops * 1e-12) : format("%.3g GFLOPS", flops * 1e-9); }

static void addTable(const PlanReport &report, const TimeReport &time, std::string &out) {
  auto row = [&](std::string label, std::string second, std::string third) {
    label.resize(22, ' ');
    out += label + pad(std::move(second), 14) + pad(std::move(third), 14) + "\n";
  };
  row("busy in a step", "time", "share");
  for (const TimeReport::Queue &queue : time.queues)
    row("  " + queue.name, readableSeconds(queue.busy), percent(time.share(queue)));
  for (const TimeReport::Channel &channel : time.channels)
    if (channel.rate > 1) // of an engine that queues share: 1
      row("  " + channel.name + " traffic", readableRate(channel.rate), percent(time.share(channel)));
  bool first = true;
  for (const TimeReport::Idle &idle : time.idle) {
    if (idle.seconds < 1e-3 * time.stepSeconds)
      break;
    if (first)
      row(time.engine + " waits for", "time", "of the step");
    first = false;
    row("  " + idle.queue + ", " + idle.phase, readableSeconds(idle.seconds), percent(idle.seconds / time.stepSeconds));
  }
  if (!report.worth.empty())
    row("step without an option", "time", "longer by");
  for (const OptionWorth &option : report.worth) {
    row("", option.seconds > 0 ? readableSeconds(option.seconds) : "no room", option.seconds > 0 ? percent(option.seconds / time.stepSeconds - 1) : "-");
    out.insert(out.size() - 1, "  " + option.name);
  }
  if (report.sensitivities.empty())
    return;
  row("what would help", "saves", "of the step");
  for (const Sensitivity &s : report.sensitivities) {
    double saved = time.stepSeconds - s.stepSeconds, share = saved / time.stepSeconds;
    // Less than what the simulator's steps differ by.
    bool nothing = share < 5e-4;
    row("  " + s.what, nothing ? "nothing" : readableSeconds(saved), nothing ? "-" : percent(share));
  }
  if (!report.sensitivityNote.empty())
    out += "  " + report.sensitivityNote + "\n";
}

std::string planning::timeText(const PlanReport &report) {
  if (!report.time)
    return report.noTime.empty() ? "" : "no time: " + report.noTime + "\n";
  const TimeReport &time = *report.time;
  std::string out = "step " + readableSeconds(time.stepSeconds);
  if (time.tokensPerSecond > 0)
    out += format(", %.4g tokens/s", time.tokensPerSecond);
  for (const TimeReport::Queue &queue : time.queues)
    if (queue.name == time.engine)
      out += ", " + queue.name + " idle for " + readableSeconds(std::max(time.stepSeconds - queue.busy, 0.0)) + " of it";
  out += "\n";
  if (report.boundSeconds)
    out += "lower bound " + readableSeconds(*report.boundSeconds) + format(" (the step is %.3f of it), binding: ", time.stepSeconds / *report.boundSeconds) +
           report.binding + "\n";
  if (time.flops > 0) {
    out += flopsText(time.flops) + format(" = %u x forward flops per token x tokens/s", time.passes);
    if (std::optional<double> mfu = time.mfu())
      out += ", MFU " + percent(*mfu) + " of " + flopsText(time.peakFlops);
    out += "\n";
  }
  if (time.executedFlops > 0) {
    out += flopsText(time.executedFlops) + " executed by products and attention, recomputation included";
    if (std::optional<double> mfu = time.executedMfu())
      out += ", " + percent(*mfu);
    out += "\n";
  }
  addTable(report, time, out);
  return out;
}

std::string planning::timeJson(const PlanReport &report) {
  std::string out;
  auto field = [&](const char *name, const std::string &value) { out += std::string(",\n  \"") + name + "\": " + value; };
  auto number = [](std::optional<double> value) { return value ? format("%.17g", *value) : std::string("null"); };
  // A value that is 0 because the program has no tokens is not known.
  auto known = [&](double value, double unit = 1) { return number(value > 0 ? std::optional<double>(value * unit) : std::nullopt); };
  const TimeReport time = report.time.value_or(TimeReport());
  field("step_s", number(report.time ? std::optional<double>(time.stepSeconds) : std::nullopt));
  field("bound_s", number(report.boundSeconds));
  field("binding", report.boundSeconds ? jsonText(report.binding) : "null");
  field("tflops", known(time.flops, 1e-12));
  field("mfu", number(time.mfu()));
  field("tokens_per_s", known(time.tokensPerSecond));
  field("tflops_executed", known(time.executedFlops, 1e-12));
  field("mfu_executed", number(time.executedMfu()));
  if (!report.time)
    return out;
  std::string list;
  for (const TimeReport::Queue &queue : time.queues)
    list += (list.empty() ? "" : ", ") + jsonText(queue.name) + ": {\"busy_s\": " + number(queue.busy) + ", \"share\": " + number(time.share(queue)) + "}";
  field("queues", "{" + list + "}");
  list.clear();
  for (const TimeReport::Idle &idle : time.idle)
    list += (list.empty() ? "" : ", ") + std::string("{\"queue\": ") + jsonText(idle.queue) + ", \"phase\": " + jsonText(idle.phase) + ", \"seconds\": " + number(idle.seconds) + "}";
  field("idle", "[" + list + "]");
  list.clear();
  for (const TimeReport::Channel &channel : time.channels)
    list += (list.empty() ? "" : ", ") + std::string("{\"name\": ") + jsonText(channel.name) + ", \"moved\": " + number(channel.moved) + ", \"rate\": " +
            number(channel.rate) + ", \"share\": " + number(time.share(channel)) + "}";
  field("channels", "[" + list + "]");
  list.clear();
  std::string options;
  for (const OptionWorth &option : report.worth)
    options += (options.empty() ? "" : ", ") + std::string("{\"option\": ") + jsonText(option.name) + ", \"step_s\": " +
               (option.seconds > 0 ? number(option.seconds) : "null") + "}";
  field("without", "[" + options + "]");
  for (const Sensitivity &s : report.sensitivities)
    list += (list.empty() ? "" : ", ") + std::string("{\"what\": ") + jsonText(s.what) + ", \"step_s\": " + number(s.stepSeconds) + "}";
  field("sensitivity", "[" + list + "]");
  return out;
}
