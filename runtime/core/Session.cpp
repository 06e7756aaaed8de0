//===- Session.cpp - A program that trains --------------------------------===//

#include "Session.h"
#include "Files.h"

#include "forebay/hyper.h"
#include "forebay/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <regex>
#include <sched.h>

using namespace forebay;
using namespace forebay::rt;

static constexpr size_t kMaxHyper = 64;

unsigned forebay::rt::allowedCores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

std::optional<uint64_t> forebay::rt::controlGroupRoom(const std::string &folder) {
  auto number = [&](const char *name, uint64_t &value) {
    FILE *file = std::fopen((folder + "/" + name).c_str(), "r");
    unsigned long long read = 0;
    bool ok = file && std::fscanf(file, "%llu", &read) == 1;
    if (file)
      std::fclose(file);
    value = read;
    return ok;
  };
  uint64_t limit, used;
  if (!number("memory.max", limit) || !number("memory.current", used))
    return std::nullopt;
  // Files that were read count as used; the kernel drops those that are not in use before it refuses memory.
  uint64_t cached = 0;
  if (FILE *file = std::fopen((folder + "/memory.stat").c_str(), "r")) {
    char line[128];
    unsigned long long bytes;
    while (std::fgets(line, sizeof line, file))
      if (std::sscanf(line, "inactive_file %llu", &bytes) == 1)
        cached = bytes;
    std::fclose(file);
  }
  used -= std::min(used, cached);
  return limit - std::min(limit, used);
}

/// Bytes that can still be had, from the kernel and the control group.
static std::optional<uint64_t> availableMemory() {
  std::optional<uint64_t> available;
  if (FILE *file = std::fopen("/proc/meminfo", "r")) {
    char line[128];
    unsigned long long kib;
    while (std::fgets(line, sizeof line, file))
      if (std::sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
        available = kib * 1024;
    std::fclose(file);
  }
  std::optional<uint64_t> group = controlGroupRoom("/sys/fs/cgroup");
  return available && group ? std::min(*available, *group) : group ? group : available;
}

Session::Session(const LoadedProgram &loaded, const SessionOptions &options)
    : loaded(loaded), options(options), table(options.backend ? options.backend : &hostBackend()) {
  for (Slot &slot : slots)
    slot = Slot();
  const Program &program = loaded.program;
  shadowOf.assign(program.tensors.size(), -1);
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (const Tensor &tensor = program.tensors[i]; tensor.role == Role::Shadow && tensor.copyOf >= 0)
      shadowOf[tensor.copyOf] = int32_t(i);
  canSpeculate = std::any_of(program.step.begin(), program.step.end(), [](const Command &c) { return c.predicate == Predicate::Speculate; });
  speculating = speculateNext();
}

Session::~Session() {
  if (opened)
    table->close(opened);
}

std::unique_ptr<Session> Session::create(const LoadedProgram &loaded, const SessionOptions &options, Problems &problems) {
  std::unique_ptr<Session> session(new Session(loaded, options));
  const Program &program = loaded.program;
  std::string where = loaded.path.empty() ? "program" : loaded.path;
  bool ok = session->setHyper(problems);
  ok = session->setFault(problems) && ok;
  if (!ok)
    return nullptr;

  uint64_t needed = 0;
  for (const Space &space : program.spaces)
    needed += space.arenaBytes;
  std::optional<uint64_t> available = availableMemory();
  if (available && needed > *available) {
    std::string parts;
    for (const Space &space : program.spaces)
      parts += (parts.empty() ? "" : ", ") + space.name + " " + sizeText(space.arenaBytes);
    problems.error(where, "needs " + sizeText(needed) + " of memory (" + parts + "), " + sizeText(*available) + " are free",
                   "compile for a smaller batch or another policy");
    return nullptr;
  }

  BackendConfig &config = session->config;
  config.program = &program;
  config.kernels = loaded.kernels;
  config.threads = options.threads ? options.threads : allowedCores();
  config.speculateFirst = session->speculating;
  config.startWorker = [](void *user) {
    kernels::setBadIndexSink(&static_cast<Session *>(user)->reported);
    kernels::warmUpBlas();
  };
  config.traceEvents = options.traceEvents;
  config.delays = options.delays;
  config.delaySeed = options.delaySeed;
  BackendHooks &hooks = config.hooks;
  hooks.user = session.get();
  hooks.feed = [](void *user, uint64_t micro, uint32_t tensor, void *destination, size_t) {
    auto &self = *static_cast<Session *>(user);
    if (self.stepData)
      self.stepData->feed(tensor, self.firstAttempt * self.program().accumulate + micro, destination);
  };
  hooks.scalars = [](void *user, uint64_t step, uint32_t group, float *destination, size_t) {
    static_cast<Session *>(user)->evaluate(step, group, destination);
  };
  hooks.verdict = [](void *user, uint64_t step, const float *verdict) { return static_cast<Session *>(user)->decide(step, verdict); };
  hooks.report = [](void *user, uint64_t micro, int32_t tensor, const void *source, size_t bytes) {
    static_cast<Session *>(user)->report(micro, tensor, source, bytes);
  };
  config.takeBadIndex = [](void *user, int64_t &index, int64_t &size) {
    kernels::BadIndex found;
    bool there = static_cast<Session *>(user)->reported.take(found);
    index = found.index, size = found.size;
    return there;
  };
  hooks.badIndex = [](void *user, uint64_t step, uint32_t command, int64_t index, int64_t size) {
    static_cast<Session *>(user)->noteBadIndex(step, command, index, size);
  };
  std::string error;
  session->opened = session->table->open(config, error);
  if (!session->opened) {
    problems.error(where, error, "free memory, or give fewer --threads");
    return nullptr;
  }
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (!program.tensors[i].initial.empty())
      session->write(i, program.tensors[i].initial.data());
  return session;
}

bool Session::setHyper(Problems &problems) {
  const Program &program = loaded.program;
  const std::vector<HyperDefault> &known = program.hyper;
  unsigned before = problems.errors();
  std::map<std::string, double, std::less<>> given;
  for (const std::string &text : options.hyper) {
    std::string_view key;
    double value;
    HyperError error;
    if (readHyper(program.optimizer, known, /*group=*/false, text, key, value, error))
      given[std::string(key)] = value;
    else
      problems.error("--hyper=" + text, error.what, error.note);
  }
  const char *again = "compile it again with the forebay-compile of this version";
  if (known.size() > kMaxHyper)
    problems.error("program", "more than " + std::to_string(kMaxHyper) + " hyper-parameters", again);
  if (problems.errors() != before)
    return false;
  std::vector<size_t> order(known.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return known[a].name < known[b].name; });
  for (size_t i = 0; i < order.size(); ++i)
    if (known[order[i]].name == "lr") {
      lrIndex = int(i);
      auto it = given.find("lr");
      baseRate = it != given.end() ? it->second : known[order[i]].value;
    }
  for (const Group &group : program.groups) {
    if (group.values.size() != known.size() || group.fixed.size() != known.size()) {
      problems.error("program", "a parameter group does not have the optimizer's hyper-parameters", again);
      return false;
    }
    std::vector<double> values = group.values, ordered;
    for (size_t index = 0; index < known.size(); ++index) {
      auto it = given.find(known[index].name);
      if (it != given.end() && !group.fixed[index])
        values[index] = it->second;
    }
    HyperError error;
    if (!given.empty() && !checkHyper(known, values, error)) {
      problems.error("--hyper", error.what, error.note);
      return false;
    }
    for (size_t index : order)
      ordered.push_back(values[index]);
    groupHyper.push_back(std::move(ordered));
  }
  // The verdict names a gradient by its place among the parameters that have one.
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].role == Role::Parameter && program.tensors[i].trainable && !program.tensors[i].noGradient)
      tensorOfGradient.push_back(int(i));
  return true;
}

/// The parameter whose norm command reads the gradient that `parameter` is updated with, or -1. Parameters with the same gradient (w1 + w2)
/// share one such command, and it belongs to one of them.
static int32_t ownerOfGradient(const Program &program, uint32_t parameter) {
  auto isNorm = [&](const Command &c) { return c.kind == CommandKind::Dispatch && c.tensor >= 0 && program.kernels[c.kernel].name == "norm_partials"; };
  for (const Command &command : program.step)
    if (isNorm(command) && uint32_t(command.tensor) == parameter)
      return command.tensor;
  // An update takes the parameter, then the gradient.
  for (const std::vector<Command> *list : {&program.step, &program.flush})
    for (const Command &update : *list) {
      if (update.kind != CommandKind::Dispatch || uint32_t(update.tensor) != parameter || update.operands.size() < 2 || isNorm(update))
        continue;
      const Range &gradient = update.operands[1];
      for (const Command &norm : program.step)
        if (isNorm(norm) && norm.operands[0].space == gradient.space && norm.operands[0].offset == gradient.offset)
          return norm.tensor;
    }
  return -1;
}

bool Session::setFault(Problems &problems) {
  if (!options.fault)
    return true;
  if (options.faultStep == 0) {
    problems.error("FOREBAY_FAULT", "there is no step 0", "steps count from 1: nan@step=1,param=REGEX");
    return false;
  }
  std::vector<std::string> unreachable;
  try {
    std::regex pattern(options.faultPattern, std::regex::ECMAScript);
    for (int tensor : tensorOfGradient) {
      if (!std::regex_search(loaded.program.tensors[tensor].name, pattern))
        continue;
      if (int32_t owner = ownerOfGradient(loaded.program, uint32_t(tensor)); owner >= 0)
        config.fault.tensors.push_back(uint32_t(owner));
      else
        unreachable.push_back(loaded.program.tensors[tensor].name);
    }
  } catch (const std::regex_error &e) {
    problems.error("FOREBAY_FAULT", "'" + options.faultPattern + "' is not a regular expression: " + e.what(), "ECMAScript syntax, searched in the name");
    return false;
  }
  if (!unreachable.empty()) {
    problems.error("FOREBAY_FAULT", "no command of the program takes the norm of the gradient of " + joined(unreachable), "choose another parameter");
    return false;
  }
  if (config.fault.tensors.empty()) {
    std::vector<std::string> names;
    for (size_t i = 0; i < tensorOfGradient.size() && i < 6; ++i)
      names.push_back(loaded.program.tensors[tensorOfGradient[i]].name);
    problems.error("FOREBAY_FAULT", "'" + options.faultPattern + "' matches no trained parameter",
                   "parameters: " + joined(names) + (names.size() < tensorOfGradient.size() ? ", ..." : ""));
    return false;
  }
  // Steps count from 1; those before a checkpoint do not come again.
  config.fault.enabled = options.faultStep > options.attempts;
  config.fault.step = options.faultStep - options.attempts - 1;
  return true;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

int Session::find(const std::string &name) const {
  const std::vector<Tensor> &tensors = program().tensors;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name && tensors[i].role != Role::WeightCopy && tensors[i].role != Role::Shadow && tensors[i].initial.empty())
      return int(i);
  return -1;
}

/// Where the tensor is now: an odd number of applied steps has exchanged it with its shadow.
uint64_t Session::offsetOf(size_t index) const {
  return program().tensors[exchanged && shadowOf[index] >= 0 ? size_t(shadowOf[index]) : index].offset;
}

void Session::write(size_t index, const void *source) {
  const Tensor &tensor = program().tensors[index];
  table->write(opened, tensor.space, offsetOf(index), source, tensor.bytes);
}

void Session::read(size_t index, void *destination) const {
  const Tensor &tensor = program().tensors[index];
  table->read(opened, tensor.space, offsetOf(index), destination, tensor.bytes);
}

bool Session::stream(size_t index, const std::function<bool(const void *, uint64_t)> &sink) const {
  const Tensor &tensor = program().tensors[index];
  if (auto *base = static_cast<const char *>(table->map(opened, tensor.space)))
    return tensor.bytes == 0 || sink(base + offsetOf(index), tensor.bytes);
  std::vector<char> piece(std::min<uint64_t>(tensor.bytes, 16 << 20));
  for (uint64_t at = 0; at < tensor.bytes; at += piece.size()) {
    uint64_t bytes = std::min<uint64_t>(piece.size(), tensor.bytes - at);
    table->read(opened, tensor.space, offsetOf(index) + at, piece.data(), bytes);
    if (!sink(piece.data(), bytes))
      return false;
  }
  return true;
}

void Session::refreshCopies() {
  for (const Tensor &copy : program().tensors) {
    if (copy.copyOf < 0 || copy.role == Role::Shadow)
      continue;
    uint64_t at = 0;
    stream(size_t(copy.copyOf), [&](const void *data, uint64_t bytes) {
      table->write(opened, copy.space, copy.offset + at, data, bytes);
      at += bytes;
      return true;
    });
  }
}

//===----------------------------------------------------------------------===//
// Called by queues
//===----------------------------------------------------------------------===//

double Session::rate(uint64_t t) const { return lrIndex < 0 ? NAN : baseRate * options.schedule.factor(t); }

void Session::evaluate(uint64_t step, uint32_t group, float *destination) const {
  uint64_t t = appliedBefore[step % (kStepsInFlight + 1)] + 1;
  double values[kMaxHyper];
  const std::vector<double> &hyper = groupHyper[group];
  std::copy(hyper.begin(), hyper.end(), values);
  if (lrIndex >= 0)
    values[lrIndex] = hyper[lrIndex] * options.schedule.factor(t) * program().groups[group].lrScale;
  loaded.scalars(int64_t(t), values, destination);
}

void Session::noteBadIndex(uint64_t step, uint32_t command, int64_t index, int64_t size) {
  if (badIndex.there)
    return;
  badIndex.step = step, badIndex.command = command, badIndex.index = index, badIndex.size = size;
  badIndex.there = true;
}

bool Session::reportBadIndex(Problems &problems) const {
  if (!badIndex.there)
    return false;
  const Command &command = program().step[badIndex.command];
  bool label = program().kernels[command.kernel].name == "cross_entropy";
  problems.error("step " + std::to_string(firstAttempt + badIndex.step + 1) + (command.label.empty() ? "" : ": " + command.label),
                 (label ? "label " : "index ") + std::to_string(badIndex.index) + " is out of range, there are " + std::to_string(badIndex.size) +
                     (label ? " classes" : " rows"),
                 "the model computes it from its inputs: look at the data of that step; nothing was applied from it on");
  return true;
}

/// Steps over which the share of rejected ones is taken, with weights that fall to 1/e in that time.
static constexpr double kRecentSteps = 16;

Decision Session::decide(uint64_t step, const float *verdict) {
  Slot &slot = slots[step % kStepsInFlight];
  uint64_t before = appliedBefore[step % (kStepsInFlight + 1)];
  slot.hasVerdict = true;
  slot.norm = verdict[0];
  slot.coefficient = verdict[1];
  slot.applied = verdict[2] != 0 && !(badIndex.there && step >= badIndex.step);
  slot.bad = slot.applied || !(verdict[3] >= 0) ? -1 : int32_t(verdict[3]);
  slot.lr = rate(before + 1);
  appliedBefore[(step + 1) % (kStepsInFlight + 1)] = before + slot.applied;
  bool asSpeculated = slot.applied && slot.coefficient == 1;
  slot.speculated = speculating;
  slot.committed = speculating && asSpeculated;
  rejected += (!asSpeculated - rejected) / kRecentSteps;
  speculating = speculateNext();
  return {slot.applied, asSpeculated, speculating};
}

void Session::report(uint64_t micro, int32_t tensor, const void *source, size_t bytes) {
  bool isLoss = tensor < 0 || program().tensors[tensor].role == Role::Loss;
  if (!isLoss) {
    if (stepData)
      stepData->output(uint32_t(tensor), firstAttempt * program().accumulate + micro, source, bytes);
    return;
  }
  Slot &slot = slots[micro / program().accumulate % kStepsInFlight];
  double value = NAN;
  if (tensor >= 0 && program().tensors[tensor].type == DType::F64) {
    std::memcpy(&value, source, sizeof value);
  } else if (bytes >= sizeof(float)) {
    float narrow;
    std::memcpy(&narrow, source, sizeof narrow);
    value = narrow;
  }
  slot.lossSum += value;
  ++slot.losses;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

uint64_t Session::run(uint64_t steps, const std::function<void(const StepResult &)> &done, const std::atomic<int> *stop) {
  // Between runs nothing is in flight, so the counters may have been replaced by a checkpoint's.
  firstAttempt = state.attempts - ran;
  appliedBefore[ran % (kStepsInFlight + 1)] = state.applied;
  uint64_t first = ran, goal = ran + steps;
  bool stopped = false;
  table->start(opened, steps);
  while (ran < goal) {
    if (!stopped && ((stop && stop->load() != 0) || badIndex.there)) {
      goal = table->stop(opened);
      stopped = true;
      continue;
    }
    StepTimes times;
    if (!table->wait(opened, ran, 50000000, times))
      continue;
    Slot &slot = slots[ran % kStepsInFlight];
    ++state.attempts;
    StepResult result;
    result.step = state.attempts;
    result.loss = slot.losses ? slot.lossSum / double(slot.losses) : NAN;
    result.norm = slot.norm;
    result.lr = slot.lr;
    result.applied = slot.applied;
    result.speculated = slot.speculated;
    result.committed = slot.committed;
    result.clipped = slot.applied && slot.coefficient < 1;
    result.nonfinite = slot.bad >= 0 && size_t(slot.bad) < tensorOfGradient.size() ? tensorOfGradient[slot.bad] : -1;
    result.tokens = uint64_t(program().tokensPerMicroStep) * program().accumulate;
    result.times = times;
    state.applied += slot.applied;
    state.skipped += slot.hasVerdict && !slot.applied;
    state.clipped += result.clipped;
    exchanged ^= slot.applied;
    counts.speculated += slot.speculated;
    counts.committed += slot.committed;
    counts.redone += slot.speculated && slot.applied && !slot.committed;
    counts.skipped += slot.speculated && !slot.applied;
    result.speculation = counts;
    if (done)
      done(result);
    slot = Slot();
    ++ran;
    table->release(opened);
  }
  return ran - first;
}

void Session::flush() { table->flush(opened); }
