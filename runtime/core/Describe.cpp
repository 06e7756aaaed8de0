//===- Describe.cpp - What a program is, in words -------------------------===//

#include "Describe.h"
#include "Files.h"
#include "Problems.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

using namespace forebay;
using namespace forebay::rt;
using Json = nlohmann::ordered_json;

std::vector<std::pair<Role, uint64_t>> forebay::rt::rolesAtPeak(const Program &program, uint32_t space, uint64_t &peak) {
  size_t count = program.step.size();
  std::vector<int64_t> change(count + 1, 0);
  auto rounded = [](uint64_t bytes) { return int64_t((bytes + 63) / 64 * 64); };
  std::vector<Value> values = livesForSums(program);
  for (const Value &value : values)
    if (value.space == space && value.first < count) {
      change[value.first] += rounded(value.bytes);
      change[std::min<size_t>(size_t(value.last) + 1, count)] -= rounded(value.bytes);
    }
  int64_t live = 0, most = 0;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    live += change[i];
    if (live > most) {
      most = live;
      at = i;
    }
  }
  peak = uint64_t(most);
  std::map<Role, uint64_t> bytes;
  for (const Value &value : values)
    if (value.space == space && value.first <= at && at <= value.last)
      bytes[value.role] += uint64_t(rounded(value.bytes));
  std::vector<std::pair<Role, uint64_t>> result(bytes.begin(), bytes.end());
  std::sort(result.begin(), result.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
  return result;
}

static const char *kindName(CommandKind kind) {
  static const char *const names[] = {"dispatch", "copy", "feed", "scalars", "verdict", "report"};
  return names[static_cast<unsigned>(kind)];
}

static const char *predicateName(Predicate predicate) {
  static const char *const names[] = {"always", "first micro-step", "later micro-steps", "last micro-step", "apply",
                                      "speculate", "redo", "restore"};
  return names[static_cast<unsigned>(predicate)];
}

namespace {

struct Counts {
  std::map<std::string, std::pair<uint64_t, double>> kernels; ///< dispatches, flops
  std::map<std::string, uint64_t> kinds, queues, phases;
  std::map<std::pair<std::string, std::string>, uint64_t> copied; ///< bytes between spaces
  uint64_t waits = 0;
};

Counts count(const Program &program) {
  Counts result;
  for (const Command &command : program.step) {
    ++result.kinds[kindName(command.kind)];
    ++result.queues[program.queues[command.queue].name];
    ++result.phases[command.phase.empty() ? "other" : command.phase];
    result.waits += command.waits.size();
    if (command.kind == CommandKind::Dispatch) {
      auto &entry = result.kernels[program.kernels[command.kernel].name];
      ++entry.first;
      entry.second += command.cost.flops;
    } else if (command.kind == CommandKind::Copy && command.predicate != Predicate::Redo && command.predicate != Predicate::Restore) {
      for (size_t i = 0; i + 1 < command.operands.size(); i += 2)
        result.copied[{program.spaces[command.operands[i].space].name, program.spaces[command.operands[i + 1].space].name}] +=
            command.operands[i].bytes;
    }
  }
  return result;
}

class Text {
public:
  explicit Text(const Program &program) : program(program) {}

  std::string run() {
    head();
    tensorsOf("inputs", Role::Input);
    tensorsOf("outputs", Role::Loss, Role::Output);
    state();
    memory();
    commands();
    return text;
  }

private:
  template <typename... Values>
  void line(const char *format, Values... values) {
    char buffer[1024];
    std::snprintf(buffer, sizeof buffer, format, values...);
    text += buffer;
    text += '\n';
  }

  void head() {
    line("program    %s, by %s", program.entry.c_str(), program.producer.c_str());
    line("model      %s (%s)", program.modelPath.c_str(), sizeText(program.modelBytes).c_str());
    line("machine    %s, code for %s, policy %s, %s", program.machine.c_str(), program.isa.empty() ? "any CPU" : program.isa.c_str(),
         program.policy.c_str(), program.precision.c_str());
    std::string dims;
    for (const auto &[name, value] : program.dims)
      dims += (dims.empty() ? "" : ", ") + name + " = " + std::to_string(value);
    if (!dims.empty())
      line("dimensions %s", dims.c_str());
    if (program.optimizer.empty())
      return;
    std::string hyper;
    for (const HyperDefault &entry : program.hyper) {
      char value[64];
      std::snprintf(value, sizeof value, "%g", entry.value);
      hyper += (hyper.empty() ? "" : ", ") + entry.name + " = " + (entry.isBool ? (entry.value != 0 ? "true" : "false") : value);
    }
    line("optimizer  %s (%s)", program.optimizer.c_str(), hyper.c_str());
    line("step       %u micro-step%s, clip %s, %zu parameter group%s", program.accumulate, program.accumulate == 1 ? "" : "s",
         program.hasClip ? std::to_string(program.clipNorm).c_str() : "none", program.groups.size(), program.groups.size() == 1 ? "" : "s");
  }

  void tensorsOf(const char *title, Role role, Role other = Role::Workspace) {
    bool first = true;
    for (const Tensor &tensor : program.tensors) {
      if (tensor.role != role && tensor.role != other)
        continue;
      if (first)
        line("%s", title);
      first = false;
      std::string range;
      if (tensor.hasRange)
        range = ", " + std::to_string(tensor.lo) + " to " + std::to_string(tensor.hi - 1) +
                (tensor.hasIgnore && tensor.ignore != INT64_MIN ? " or " + std::to_string(tensor.ignore) : "");
      line("  %-28s %s %s%s", tensor.name.c_str(), name(tensor.type), shapeText(tensor.shape).c_str(), range.c_str());
    }
  }

  void state() {
    struct Sum {
      uint64_t tensors = 0, elements = 0, bytes = 0;
    };
    std::map<std::pair<std::string, std::string>, Sum> sums;
    std::vector<std::string> without;
    for (const Tensor &tensor : program.tensors) {
      std::string kind;
      if (tensor.role == Role::Parameter)
        kind = !tensor.trainable ? "frozen parameters" : tensor.noGradient ? "parameters without gradient" : "trained parameters";
      else if (tensor.role == Role::Buffer || tensor.role == Role::Moment || tensor.role == Role::WeightCopy ||
               tensor.role == Role::Accumulator || tensor.role == Role::Shadow)
        kind = std::string(name(tensor.role)) + (tensor.role == Role::WeightCopy ? "" : "s");
      else
        continue;
      if (tensor.role == Role::WeightCopy)
        kind = "weight copies";
      if (tensor.noGradient)
        without.push_back(tensor.name);
      Sum &sum = sums[{kind, program.spaces[tensor.space].name}];
      ++sum.tensors;
      sum.bytes += tensor.bytes;
      sum.elements += tensor.bytes / byteSize(tensor.type);
    }
    if (!sums.empty())
      text += "state\n";
    for (const auto &[key, sum] : sums)
      line("  %-28s %6llu tensors, %12llu elements, %10s in %s", key.first.c_str(), (unsigned long long)sum.tensors,
           (unsigned long long)sum.elements, sizeText(sum.bytes).c_str(), key.second.c_str());
    for (const std::string &name : without)
      line("  no path from the loss to %s: it stays as it is", name.c_str());
  }

  void memory() {
    text += "memory\n";
    for (uint32_t space = 0; space < program.spaces.size(); ++space) {
      const Space &entry = program.spaces[space];
      uint64_t peak = 0;
      auto roles = rolesAtPeak(program, space, peak);
      line("  %-6s arena %llu bytes (%s) of %s", entry.name.c_str(), (unsigned long long)entry.arenaBytes,
           sizeText(entry.arenaBytes).c_str(), sizeText(entry.capacity).c_str());
      for (const auto &[role, bytes] : roles)
        line("    %-26s %10s", name(role), sizeText(bytes).c_str());
    }
    line("  scratch %llu bytes for each worker, library workspace %llu bytes", (unsigned long long)program.scratchBytes,
         (unsigned long long)program.workspaceBytes);
  }

  void commands() {
    Counts counts = count(program);
    line("commands   %zu in a micro-step, %zu in a flush, %u events, %llu waits", program.step.size(), program.flush.size(), program.events,
         (unsigned long long)counts.waits);
    for (const auto &[queue, number] : counts.queues)
      line("  on %-25s %6llu", queue.c_str(), (unsigned long long)number);
    for (const auto &[phase, number] : counts.phases)
      line("  in %-25s %6llu", phase.c_str(), (unsigned long long)number);
    if (std::string speculation = describeSpeculation(program); !speculation.empty())
      line("  %s", speculation.c_str());
    for (const auto &[spaces, bytes] : counts.copied)
      line("  copied %s to %s: %s", spaces.first.c_str(), spaces.second.c_str(), sizeText(bytes).c_str());
    text += "kernels\n";
    for (const auto &[kernel, entry] : counts.kernels) {
      std::string flops;
      if (entry.second > 0) {
        char value[48];
        std::snprintf(value, sizeof value, ", %.3g Gflop", entry.second * 1e-9);
        flops = value;
      }
      line("  %-28s %6llu dispatches%s", kernel.c_str(), (unsigned long long)entry.first, flops.c_str());
    }
  }

  const Program &program;
  std::string text;
};

Json rangeJson(const Program &program, const Range &range) {
  static const char *const access[] = {"", "read", "write", "read-write"};
  return {{"space", program.spaces[range.space].name},
          {"offset", range.offset},
          {"bytes", range.bytes},
          {"access", access[static_cast<unsigned>(range.access) & 3]}};
}

Json commandJson(const Program &program, const Command &command) {
  Json json = {{"kind", kindName(command.kind)}, {"queue", program.queues[command.queue].name}, {"when", predicateName(command.predicate)}};
  if (command.kernel >= 0)
    json["kernel"] = program.kernels[command.kernel].name;
  if (command.index >= 0)
    json["index"] = command.index;
  json["operands"] = Json::array();
  for (const Range &range : command.operands)
    json["operands"].push_back(rangeJson(program, range));
  json["params"] = command.params;
  json["tiles"] = command.tiles;
  json["waits"] = Json::array();
  for (const Wait &wait : command.waits)
    json["waits"].push_back({{"event", wait.event}, {"distance", wait.distance}});
  json["signal"] = command.signal;
  json["label"] = command.label;
  json["phase"] = command.phase;
  json["flops"] = command.cost.flops;
  return json;
}

} // namespace

std::string forebay::rt::describeText(const Program &program) { return Text(program).run(); }

std::string forebay::rt::describeJson(const Program &program, bool commands) {
  Json json;
  json["entry"] = program.entry;
  json["producer"] = program.producer;
  json["abi"] = program.abi;
  json["kernel_abi"] = program.kernelAbi;
  json["machine"] = program.machine;
  json["policy"] = program.policy;
  json["precision"] = program.precision;
  json["instruction_set"] = program.isa;
  json["model"] = {{"path", program.modelPath}, {"relative", program.modelRelative}, {"bytes", program.modelBytes}};
  json["data_files"] = Json::array();
  for (const Program::DataFile &file : program.dataFiles)
    json["data_files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  json["dims"] = Json::object();
  for (const auto &[name, value] : program.dims)
    json["dims"][name] = value;
  json["optimizer"] = program.optimizer;
  json["hyper"] = Json::object();
  for (const HyperDefault &hyper : program.hyper)
    json["hyper"][hyper.name] = hyper.value;
  json["accumulate"] = program.accumulate;
  json["clip_norm"] = program.hasClip ? Json(program.clipNorm) : Json(nullptr);
  json["bucket_bytes"] = program.bucketBytes;
  json["reject_limit"] = program.rejectLimit < 0 ? Json("never") : Json(program.rejectLimit);
  json["flops_per_token"] = program.flopsPerToken;
  json["tokens_per_micro_step"] = program.tokensPerMicroStep;
  json["spaces"] = Json::array();
  for (uint32_t space = 0; space < program.spaces.size(); ++space) {
    uint64_t peak = 0;
    auto roles = rolesAtPeak(program, space, peak);
    Json entry = {{"name", program.spaces[space].name},
                  {"arena_bytes", program.spaces[space].arenaBytes},
                  {"live_bytes", peak},
                  {"capacity", program.spaces[space].capacity}};
    entry["roles"] = Json::object();
    for (const auto &[role, bytes] : roles)
      entry["roles"][name(role)] = bytes;
    json["spaces"].push_back(entry);
  }
  json["scratch_bytes"] = program.scratchBytes;
  json["workspace_bytes"] = program.workspaceBytes;
  json["tensors"] = Json::array();
  for (const Tensor &tensor : program.tensors)
    json["tensors"].push_back({{"name", tensor.name},
                               {"role", name(tensor.role)},
                               {"type", name(tensor.type)},
                               {"shape", tensor.shape},
                               {"space", program.spaces[tensor.space].name},
                               {"offset", tensor.offset},
                               {"bytes", tensor.bytes},
                               {"trainable", tensor.trainable},
                               {"gradient", !tensor.noGradient}});
  Counts counts = count(program);
  json["queues"] = Json::array();
  for (const Queue &queue : program.queues)
    json["queues"].push_back({{"name", queue.name}, {"compute", queue.compute}, {"commands", counts.queues[queue.name]}});
  json["kernels"] = Json::array();
  for (const auto &[kernel, entry] : counts.kernels)
    json["kernels"].push_back({{"name", kernel}, {"dispatches", entry.first}, {"flops", entry.second}});
  json["commands"] = {{"step", program.step.size()}, {"flush", program.flush.size()}, {"events", program.events}, {"waits", counts.waits}};
  if (commands) {
    json["step"] = Json::array();
    for (const Command &command : program.step)
      json["step"].push_back(commandJson(program, command));
    json["flush"] = Json::array();
    for (const Command &command : program.flush)
      json["flush"].push_back(commandJson(program, command));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}
