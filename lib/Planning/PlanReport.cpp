//===- PlanReport.cpp - What a plan needs, for people and scripts ---------===//

#include "forebay/Planning/PlanReport.h"

#include "TimeReport.h"
#include "forebay/Planning/Machine.h"
#include "forebay/Planning/Packer.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>
#include <tuple>

using namespace forebay;
using namespace forebay::planning;

/// The largest sum of `change` up to some time, and the first time at which it is reached.
static std::pair<uint64_t, uint32_t> largest(const std::map<uint32_t, int64_t> &change) {
  int64_t live = 0, most = 0;
  uint32_t at = 0;
  for (auto [time, delta] : change) {
    live += delta;
    if (live > most) {
      most = live;
      at = time;
    }
  }
  return {most, at};
}

/// Copies up whose targets begin to live there: fetches. Those for which nothing runs between them and their first reader are waited for.
static FlowReport reportFlow(const Program &program) {
  std::map<std::pair<uint32_t, uint64_t>, Role> begins; // command, offset in the first space
  for (const Value &v : program.values)
    if (!v.persistent && v.space == 0)
      begins[{v.first, v.offset}] = v.role;
  FlowReport report;
  for (uint32_t i = 0; i < program.step.size(); ++i) {
    const Command &c = program.step[i];
    if (c.kind != CommandKind::Copy || c.operands.size() < 2 || c.operands[0].space == 0 || c.operands[1].space != 0)
      continue;
    auto role = begins.find({i, c.operands[1].offset});
    if (role == begins.end() || (role->second != Role::WeightCopy && role->second != Role::Activation))
      continue;
    uint64_t bytes = 0;
    std::set<uint64_t> targets;
    for (size_t k = 1; k < c.operands.size(); k += 2) {
      bytes += c.operands[k].bytes;
      targets.insert(c.operands[k].offset);
    }
    if (role->second == Role::Activation) {
      report.activationBytes += bytes;
      continue;
    }
    auto reads = [&](const Command &command) {
      return std::any_of(command.operands.begin(), command.operands.end(),
                         [&](const Range &r) { return r.space == 0 && r.access == Access::Read && targets.count(r.offset); });
    };
    uint32_t reader = i + 1;
    while (reader < program.step.size() && !(program.step[reader].kind == CommandKind::Dispatch && reads(program.step[reader])))
      ++reader;
    bool hidden = reader < program.step.size() && std::any_of(program.step.begin() + i + 1, program.step.begin() + reader, [&](const Command &command) {
      return command.kind == CommandKind::Dispatch && command.queue == program.step[reader].queue;
    });
    ++report.fetches;
    report.bytes += bytes;
    if (!hidden) {
      ++report.awaited;
      report.awaitedBytes += bytes;
    }
  }
  return report;
}

static PlanReport reportMemory(const Program &program) {
  PlanReport report;
  report.policy = program.policy;
  report.note = placementNote(program.placement);
  report.machine = program.machine;
  report.flopsPerToken = program.flopsPerToken;
  report.scratchBytes = program.scratchBytes;
  report.workspaceBytes = program.workspaceBytes;
  report.commands = program.step.size();
  report.speculation = describeSpeculation(program);
  for (const Command &c : program.step) {
    report.waits += c.waits.size();
    if (c.kind != CommandKind::Copy || c.predicate == Predicate::LaterMicro || c.predicate == Predicate::Redo || c.predicate == Predicate::Restore)
      continue;
    for (size_t i = 0; i + 1 < c.operands.size(); i += 2)
      if (c.operands[i].space != c.operands[i + 1].space)
        report.copied[c.operands[i].space == 0] += c.operands[i].bytes;
  }
  for (const Tensor &t : program.tensors) {
    if (t.role != Role::Parameter)
      continue;
    report.parameters += t.bytes / byteSize(t.type);
    if (t.trainable && !t.noGradient)
      report.trainedParameters += t.bytes / byteSize(t.type);
  }

  report.flow = reportFlow(program);
  std::vector<Value> values = livesForSums(program);
  for (uint32_t s = 0; s < program.spaces.size(); ++s) {
    SpaceReport space;
    space.name = program.spaces[s].name;
    space.peak = program.spaces[s].arenaBytes;
    space.capacity = program.spaces[s].capacity;
    report.fits &= space.peak <= space.capacity;
    std::map<uint32_t, int64_t> change;
    std::map<Role, std::map<uint32_t, int64_t>> changeOf;
    for (const Value &v : values)
      if (v.space == s)
        for (auto *list : {&change, &changeOf[v.role]}) {
          (*list)[v.first] += roundUp(v.bytes);
          (*list)[v.last + 1] -= roundUp(v.bytes);
        }
    std::tie(space.live, space.peakCommand) = largest(change);
    for (auto &[role, list] : changeOf)
      space.rolesPeak[role] = largest(list).first;
    for (const Value &v : values)
      if (v.space == s && v.first <= space.peakCommand && space.peakCommand <= v.last)
        space.roles[v.role] += roundUp(v.bytes);
    report.spaces.push_back(std::move(space));
  }
  return report;
}

std::optional<Machine> planning::machineOf(const Program &program, std::string &why) {
  Machine machine;
  if (program.machineModel.empty())
    why = "the program does not say what its machine's rates are";
  else if (std::string error; parseMachine(program.machineModel, machine, error))
    return machine;
  else
    why = "the program's machine cannot be read: " + error;
  return std::nullopt;
}

PlanReport planning::makeReport(const Program &program) {
  std::string why;
  if (std::optional<Machine> machine = machineOf(program, why))
    return makeReport(program, *machine);
  PlanReport report = reportMemory(program);
  report.noTime = why;
  return report;
}

PlanReport planning::makeReport(const Program &program, const Machine &machine) {
  PlanReport report = reportMemory(program);
  report.time = reportTime(program, machine, report.noTime);
  if (program.machine == machine.name)
    report.worth = optionWorths(program.placement);
  if (program.boundSeconds > 0 && program.machine == machine.name) {
    report.boundSeconds = program.boundSeconds;
    report.binding = program.binding;
  }
  return report;
}

std::string planning::pad(std::string text, size_t width) {
  if (text.size() < width)
    text.insert(0, width - text.size(), ' ');
  return text;
}

static std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(at, ",");
  return text;
}

std::string planning::toText(const PlanReport &report) {
  constexpr size_t kLabel = 22, kColumn = 14;
  std::string out = "policy " + report.policy + " on machine " + report.machine + (report.fits ? "" : ": does not fit") + "\n";
  if (!report.note.empty())
    out += report.note + "\n";
  auto row = [&](std::string label, auto cell) {
    label.resize(kLabel, ' ');
    out += label;
    for (const SpaceReport &space : report.spaces)
      out += pad(cell(space), kColumn);
    out += "\n";
  };
  row("memory", [](const SpaceReport &s) { return s.name; });
  row("capacity", [](const SpaceReport &s) { return readableSize(s.capacity); });
  row("arena (planned peak)", [](const SpaceReport &s) { return readableSize(s.peak); });
  auto roleRows = [&](std::map<Role, uint64_t> SpaceReport::*table) {
    std::set<Role> roles;
    for (const SpaceReport &space : report.spaces)
      for (auto &[role, bytes] : space.*table)
        roles.insert(role);
    for (Role role : roles)
      row(std::string("  ") + name(role), [&](const SpaceReport &s) {
        auto it = (s.*table).find(role);
        return it == (s.*table).end() ? std::string("-") : readableSize(it->second);
      });
  };
  roleRows(&SpaceReport::roles);
  row("  unused at the peak", [](const SpaceReport &s) { return readableSize(s.peak - s.live); });
  out += "largest over the step\n";
  roleRows(&SpaceReport::rolesPeak);
  row("arena / live bytes", [](const SpaceReport &s) {
    char text[16];
    std::snprintf(text, sizeof text, "%.4f", s.fragmentation());
    return std::string(text);
  });
  char text[64];
  std::snprintf(text, sizeof text, "%.4g", report.flopsPerToken);
  out += "parameters " + grouped(report.parameters) + " (trained: " + grouped(report.trainedParameters) + "), forward flops per token " + text + "\n";
  out += "scratch per worker " + readableSize(report.scratchBytes) + ", library workspace " + readableSize(report.workspaceBytes) + "\n";
  if (report.spaces.size() > 1)
    out += "copied in a micro-step: " + readableSize(report.copied[0]) + " to " + report.spaces[0].name + ", " +
           readableSize(report.copied[1]) + " from it\n";
  if (const FlowReport &flow = report.flow; flow.fetches) {
    out += "weights flow: " + std::to_string(flow.fetches) + " fetches, ";
    if (flow.awaited == flow.fetches)
      out += "no prefetch possible: each fetch waits\n";
    else
      out += std::to_string(flow.fetches - flow.awaited) + " ahead of use, " + std::to_string(flow.awaited) + " waited for (" +
             readableSize(flow.awaitedBytes) + ")\n";
  }
  if (report.flow.activationBytes)
    out += "activations offloaded between forward and backward: " + readableSize(report.flow.activationBytes) + "\n";
  if (!report.speculation.empty())
    out += report.speculation + "\n";
  out += std::to_string(report.commands) + " commands, " + std::to_string(report.waits) + " waits\n";
  return out + timeText(report);
}

std::string planning::jsonText(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string planning::toJson(const PlanReport &report) {
  auto perSpace = [&](auto cell) {
    std::string out = "{";
    for (const SpaceReport &space : report.spaces)
      out += (out.size() > 1 ? ", " : "") + jsonText(space.name) + ": " + cell(space);
    return out + "}";
  };
  char flops[32];
  std::snprintf(flops, sizeof flops, "%.17g", report.flopsPerToken);
  std::string out = "{\n  \"policy\": " + jsonText(report.policy) + ",\n  \"machine\": " + jsonText(report.machine) +
                    ",\n  \"fits\": " + (report.fits ? "true" : "false");
  out += ",\n  \"note\": " + (report.note.empty() ? "null" : jsonText(report.note));
  out += timeJson(report);
  out += ",\n  \"peak\": " + perSpace([](const SpaceReport &s) { return std::to_string(s.peak); });
  out += ",\n  \"capacity\": " + perSpace([](const SpaceReport &s) { return std::to_string(s.capacity); });
  out += ",\n  \"live\": " + perSpace([](const SpaceReport &s) { return std::to_string(s.live); });
  auto roleTable = [](const std::map<Role, uint64_t> &table) {
    std::string roles = "{";
    for (auto &[role, bytes] : table) {
      std::string key = name(role);
      std::replace(key.begin(), key.end(), ' ', '_');
      roles += (roles.size() > 1 ? ", " : "") + jsonText(key) + ": " + std::to_string(bytes);
    }
    return roles + "}";
  };
  out += ",\n  \"roles\": " + perSpace([&](const SpaceReport &s) { return roleTable(s.roles); });
  out += ",\n  \"roles_peak\": " + perSpace([&](const SpaceReport &s) { return roleTable(s.rolesPeak); });
  const FlowReport &flow = report.flow;
  out += ",\n  \"flow\": {\"fetches\": " + std::to_string(flow.fetches) + ", \"awaited\": " + std::to_string(flow.awaited) +
         ", \"bytes\": " + std::to_string(flow.bytes) + ", \"awaited_bytes\": " + std::to_string(flow.awaitedBytes) +
         ", \"activation_bytes\": " + std::to_string(flow.activationBytes) + "}";
  out += ",\n  \"parameters\": " + std::to_string(report.parameters);
  out += ",\n  \"trained_parameters\": " + std::to_string(report.trainedParameters);
  out += ",\n  \"flops_per_token\": " + std::string(flops);
  out += ",\n  \"scratch_per_worker\": " + std::to_string(report.scratchBytes);
  out += ",\n  \"workspace\": " + std::to_string(report.workspaceBytes);
  return out + "\n}\n";
}

std::string planning::smallestBudget(const PlanReport &report) {
  std::string out;
  for (const SpaceReport &space : report.spaces)
    out += (out.empty() ? "" : ",") + space.name + "=" + formatSize(roundUp(space.peak, 1024));
  return out;
}
