//===- Checkpoint.cpp - Stopping and going on with the same bits ----------===//

#include "Checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <iterator>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;

static const char *const kFormat = "forebay-checkpoint-2";

static bool isState(const Tensor &tensor) { return tensor.role == Role::Parameter || tensor.role == Role::Moment; }

/// The first names of a list that may be long.
static std::string shortList(const std::vector<std::string> &names) {
  std::vector<std::string> first(names.begin(), names.begin() + std::min<size_t>(names.size(), 6));
  return joined(first) + (names.size() > first.size() ? " and " + std::to_string(names.size() - first.size()) + " more" : "");
}

static std::vector<TensorToWrite> tensorsToWrite(const Session &session, bool (*select)(const Tensor &)) {
  std::vector<TensorToWrite> result;
  for (size_t i = 0; i < session.program().tensors.size(); ++i) {
    const Tensor &tensor = session.program().tensors[i];
    if (select(tensor))
      result.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes,
                        [&session, i](const std::function<bool(const void *, uint64_t)> &sink) { return session.stream(i, sink); }});
  }
  return result;
}

using Sink = std::function<bool(const void *, uint64_t)>;
using Stream = std::function<void(const Sink &)>;

/// One number over everything: a file that is whole but wrong is not taken for a checkpoint.
static std::string hashAll(const std::map<std::string, std::string> &metadata, std::vector<std::string> tensors, const std::vector<Stream> &streams) {
  // Empty tensors have no place in the file that would order them.
  std::sort(tensors.begin(), tensors.end());
  std::string head;
  for (const std::string &tensor : tensors)
    head += tensor;
  for (const auto &[key, value] : metadata)
    if (key != "hash")
      head += key + '=' + value + '\n';
  uint64_t hash = hashBytes(head.data(), head.size());
  for (const Stream &stream : streams)
    stream([&](const void *data, uint64_t bytes) {
      // Pieces of fixed size, so that the number does not depend on how the bytes come.
      auto *at = static_cast<const char *>(data);
      for (; bytes > (16 << 20); bytes -= 16 << 20, at += 16 << 20)
        hash = hashBytes(at, 16 << 20, hash);
      hash = hashBytes(at, bytes, hash);
      return true;
    });
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

static std::string describeTensor(const std::string &tensor, DType type, const std::vector<int64_t> &shape) {
  return tensor + ' ' + name(type) + ' ' + shapeText(shape) + '\n';
}

/// Parameters that the program changes.
static std::set<std::string> trainedBy(const Program &program) {
  std::set<std::string> result;
  for (const Tensor &tensor : program.tensors)
    if (tensor.role == Role::Parameter && tensor.trainable && !tensor.noGradient)
      result.insert(tensor.name);
  return result;
}

static std::string clipText(const Program &program) {
  char text[32] = "none";
  if (program.hasClip)
    std::snprintf(text, sizeof text, "%.17g", program.clipNorm);
  return text;
}

static std::string modelText(const Program &program) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, program.modelHash);
  return text;
}

static std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  // The shortest that reads back to the same.
  for (int digits = 1; digits < 17; ++digits) {
    char shorter[32];
    std::snprintf(shorter, sizeof shorter, "%.*g", digits, value);
    if (std::strtod(shorter, nullptr) == value)
      return shorter;
  }
  return text;
}

/// What a parameter's group changes: "lr_scale=2, momentum=0.25", or "(none)".
static std::string groupText(const Program &program, const Tensor &tensor) {
  std::vector<std::string> parts;
  if (tensor.group >= 0 && size_t(tensor.group) < program.groups.size()) {
    const Group &group = program.groups[tensor.group];
    if (group.lrScale != 1)
      parts.push_back("lr_scale=" + numberText(group.lrScale));
    for (size_t i = 0; i < program.hyper.size() && i < group.values.size() && i < group.fixed.size(); ++i)
      if (group.fixed[i])
        parts.push_back(program.hyper[i].name + "=" + numberText(group.values[i]));
  }
  return joined(parts);
}

static const std::string kInputKey = "input/", kSettingKey = "run/", kHyperKey = "hyper/", kGroupKey = "group/";

/// What the program is, as far as going on with it depends on that.
static std::map<std::string, std::string> identityOf(const Program &program) {
  std::map<std::string, std::string> result = {{"accumulate", std::to_string(program.accumulate)},
                                               {"optimizer", program.optimizer},
                                               {"clip_norm", clipText(program)},
                                               {"model", modelText(program)}};
  for (const std::string &parameter : trainedBy(program))
    result["trained"] += parameter + '\n';
  for (const Tensor &tensor : program.tensors)
    if (tensor.role == Role::Input)
      result[kInputKey + tensor.name] = shapeText(tensor.shape);
    else if (tensor.role == Role::Parameter && tensor.trainable && !tensor.noGradient)
      result[kGroupKey + tensor.name] = groupText(program, tensor);
  for (const HyperDefault &hyper : program.hyper)
    result[kHyperKey + hyper.name] = numberText(hyper.value);
  return result;
}

Checkpoints::~Checkpoints() {
  if (lock >= 0)
    close(lock);
}

bool Checkpoints::prepare(bool resume, Problems &problems) {
  std::string where = "--checkpoint-dir=" + folder, at;
  for (size_t slash = 0; slash != std::string::npos;) {
    slash = folder.find('/', slash + 1);
    at = folder.substr(0, slash);
    if (mkdir(at.c_str(), 0777) != 0 && errno != EEXIST) {
      problems.error(where, std::strerror(errno), "name a folder that is there, or that can be made");
      return false;
    }
  }
  if (!isFolder(folder) || access(folder.c_str(), W_OK | X_OK) != 0) {
    problems.error(where, isFolder(folder) ? std::strerror(errno) : "is not a folder", "name a folder that can be written");
    return false;
  }
  // Two runs would remove each other's checkpoints.
  lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    problems.error(where, "another run is writing to it", "wait for its end, or choose another folder");
    return false;
  }
  if (auto there = list(); !resume && !there.empty()) {
    problems.error(where, "holds checkpoints of an earlier run, the newest of step " + std::to_string(there.front().first),
                   "give --resume to go on with that run, or choose another folder");
    return false;
  }
  removeLeftovers();
  return true;
}

/// Temporary files of runs that were killed.
void Checkpoints::removeLeftovers() const {
  DIR *dir = opendir(folder.c_str());
  if (!dir)
    return;
  std::vector<std::string> names;
  while (dirent *entry = readdir(dir)) {
    std::string name = entry->d_name;
    if (name.rfind("step-", 0) == 0 && name.find(".safetensors.tmp") != std::string::npos)
      names.push_back(folder + "/" + name);
  }
  closedir(dir);
  for (const std::string &name : names)
    unlink(name.c_str());
}

/// Names that are checkpoints, newest first.
std::vector<std::pair<uint64_t, std::string>> Checkpoints::list() const {
  std::vector<std::pair<uint64_t, std::string>> result;
  DIR *dir = opendir(folder.c_str());
  if (!dir)
    return result;
  while (dirent *entry = readdir(dir)) {
    std::string name = entry->d_name;
    const std::string prefix = "step-", suffix = ".safetensors";
    if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0)
      continue;
    uint64_t step;
    if (parseCount(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()), step))
      result.push_back({step, folder + "/" + name});
  }
  closedir(dir);
  std::sort(result.rbegin(), result.rend());
  return result;
}

/// Reads `candidate` into `content`; false with a reason if it is no checkpoint or damaged.
bool Checkpoints::open(const std::string &candidate, std::string &error) {
  content = TensorFile();
  if (!file.open(candidate, error) || !parseSafetensors(file.view(), content, error))
    return false;
  auto value = [&](const char *key, uint64_t &to) { return parseCount(content.metadata[key], to); };
  if (content.metadata["format"] != kFormat || !value("attempts", opened.attempts) || !value("applied", opened.applied) ||
      !value("skipped", opened.skipped) || !value("clipped", opened.clipped)) {
    error = "is not a checkpoint of this version";
    return false;
  }
  std::vector<std::pair<const std::string *, const TensorView *>> inOrder;
  for (const auto &[name, view] : content.tensors)
    inOrder.push_back({&name, &view});
  std::sort(inOrder.begin(), inOrder.end(), [](const auto &a, const auto &b) { return a.second->data < b.second->data; });
  std::vector<std::string> tensors;
  std::vector<Stream> streams;
  for (const auto &[name, view] : inOrder) {
    tensors.push_back(describeTensor(*name, view->type, view->shape));
    streams.push_back([view = view](const Sink &sink) { view->bytes == 0 || sink(view->data, view->bytes); });
  }
  if (content.metadata["hash"] == hashAll(content.metadata, tensors, streams))
    return true;
  error = "is damaged: its checksum does not match";
  return false;
}

bool Checkpoints::openNewest(Problems &problems, bool &found, std::vector<std::string> &notices) {
  found = false;
  notices.clear();
  std::vector<std::string> damaged;
  for (const auto &[step, candidate] : list()) {
    std::string error;
    if (open(candidate, error)) {
      path = previous = candidate;
      found = true;
      for (const std::string &text : damaged)
        notices.push_back(text + "; going on from " + path);
      return true;
    }
    damaged.push_back(candidate + ": " + error);
  }
  content = TensorFile();
  file = MappedFile();
  if (damaged.empty())
    return true;
  problems.error("--resume", "no checkpoint in " + folder + " is whole", "start again without --resume in another folder");
  for (const std::string &text : damaged)
    problems.note(text);
  return false;
}

bool Checkpoints::matches(const Program &program, Problems &problems, std::vector<std::string> &notices) {
  unsigned before = problems.errors();
  std::map<std::string, std::string> mine = identityOf(program);
  auto &theirs = content.metadata;
  const std::string other = "resume with the program that wrote it; --weights=" + path + " starts a new run from its parameters";
  if (theirs["optimizer"] != mine["optimizer"])
    problems.error(path, "was written by optimizer " + theirs["optimizer"] + ", the program has " + mine["optimizer"], other);
  // The place in the data is a number of steps.
  const std::string place = "; its place in the data would be another";
  if (theirs["accumulate"] != mine["accumulate"])
    problems.error(path, "was written with " + theirs["accumulate"] + " micro-steps in a step, the program has " + mine["accumulate"] + place, other);
  for (const auto &[key, shape] : mine) {
    if (key.rfind(kInputKey, 0) != 0)
      continue;
    std::string old = theirs[key], input = "'" + key.substr(kInputKey.size()) + "'";
    if (old.empty())
      problems.error(path, "was written by a program without the input " + input, other);
    else if (old != shape)
      problems.error(path, "was written with rows " + old + " of input " + input + ", the program has " + shape + place, other);
  }
  bool sameTrained = checkTrained(program, other, problems);

  std::vector<std::string> missing, extra;
  std::set<std::string> known;
  for (const Tensor &tensor : program.tensors) {
    if (!isState(tensor))
      continue;
    known.insert(tensor.name);
    auto it = content.tensors.find(tensor.name);
    if (it == content.tensors.end()) {
      if (tensor.role == Role::Parameter || sameTrained)
        missing.push_back(tensor.name);
    } else if (it->second.shape != tensor.shape || it->second.type != tensor.type) {
      problems.error(path, "'" + tensor.name + "' has shape " + shapeText(it->second.shape) + " of " + name(it->second.type) +
                               ", the program's is " + shapeText(tensor.shape) + " of " + name(tensor.type), other);
    }
  }
  for (const auto &[tensor, view] : content.tensors)
    if (!known.count(tensor) && sameTrained)
      extra.push_back(tensor);
  if (!missing.empty())
    problems.error(path, "lacks " + shortList(missing), other);
  if (!extra.empty())
    problems.error(path, "has " + shortList(extra) + ", which the program does not know", other);
  if (theirs["clip_norm"] != mine["clip_norm"])
    notices.push_back(path + " was written with gradient clipping at " + theirs["clip_norm"] + ", the program has " + mine["clip_norm"]);
  if (theirs["model"] != mine["model"])
    notices.push_back(path + " was written by a program of another model file; the parameters are the same");
  noteHyper(mine, notices);
  for (const auto &[key, value] : settings) {
    auto it = theirs.find(kSettingKey + key);
    if (it != theirs.end() && it->second != value)
      notices.push_back(path + " was written with " + key + " '" + it->second + "', this run has '" + value + "'");
  }
  return problems.errors() == before;
}

/// Compiled hyper-parameters are no state: the program's are used. Parameters whose groups differ in the same way share a line.
void Checkpoints::noteHyper(const std::map<std::string, std::string> &mine, std::vector<std::string> &notices) const {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const auto &[key, value] : mine) {
    bool hyper = key.rfind(kHyperKey, 0) == 0;
    auto it = content.metadata.find(key);
    if ((!hyper && key.rfind(kGroupKey, 0) != 0) || it == content.metadata.end() || it->second == value)
      continue;
    if (hyper)
      notices.push_back(path + " was written with " + key.substr(kHyperKey.size()) + " = " + it->second + " as compiled, the program has " + value);
    else
      groups[{it->second, value}].push_back(key.substr(kGroupKey.size()));
  }
  for (const auto &[change, names] : groups)
    notices.push_back(path + " was written with group values " + change.first + " for " + shortList(names) + ", the program has " + change.second);
}

/// Whether the same parameters are trained; says which are not.
bool Checkpoints::checkTrained(const Program &program, const std::string &hint, Problems &problems) {
  std::set<std::string> mine = trainedBy(program), theirs;
  const std::string &text = content.metadata["trained"];
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    theirs.insert(text.substr(at, end - at));
  std::vector<std::string> more, fewer;
  std::set_difference(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::back_inserter(more));
  std::set_difference(theirs.begin(), theirs.end(), mine.begin(), mine.end(), std::back_inserter(fewer));
  if (!more.empty())
    problems.error(path, "was written with " + shortList(more) + " frozen, the program trains " + (more.size() == 1 ? "it" : "them"), hint);
  if (!fewer.empty())
    problems.error(path, "was written with " + shortList(fewer) + " trained, the program does not train " + (fewer.size() == 1 ? "it" : "them"), hint);
  return more.empty() && fewer.empty();
}

void Checkpoints::restore(Session &session) {
  const Program &program = session.program();
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (isState(program.tensors[i]) && program.tensors[i].bytes != 0)
      session.write(i, content.tensors[program.tensors[i].name].data);
  session.refreshCopies();
  session.progress() = opened;
  file = MappedFile();
  content = TensorFile();
}

bool Checkpoints::save(Session &session, std::string &error) {
  const Progress &state = session.progress();
  std::vector<TensorToWrite> tensors = tensorsToWrite(session, isState);
  std::vector<Stream> streams;
  std::vector<std::string> names;
  for (const TensorToWrite &tensor : tensors) {
    streams.push_back(tensor.content);
    names.push_back(describeTensor(tensor.name, tensor.type, tensor.shape));
  }
  std::map<std::string, std::string> metadata = identityOf(session.program());
  for (const auto &[key, value] : settings)
    metadata[kSettingKey + key] = value;
  metadata["format"] = kFormat;
  metadata["attempts"] = std::to_string(state.attempts);
  metadata["applied"] = std::to_string(state.applied);
  metadata["skipped"] = std::to_string(state.skipped);
  metadata["clipped"] = std::to_string(state.clipped);
  metadata["hash"] = hashAll(metadata, names, streams);
  char name[48];
  std::snprintf(name, sizeof name, "/step-%08" PRIu64 ".safetensors", state.attempts);
  std::string written = folder + name;
  if (!writeSafetensors(written, tensors, metadata, error)) {
    error = written + ": " + error;
    return false;
  }
  // The new one is durable. The whole one before it stays, in case the disk damages the new one. What has a higher number was passed
  // over as damaged; it is not ours to remove.
  for (const auto &[step, there] : list())
    if (step < state.attempts && there != previous)
      unlink(there.c_str());
  previous = written;
  return true;
}

bool forebay::rt::saveWeights(const Session &session, const std::string &path, std::string &error) {
  return writeSafetensors(path, tensorsToWrite(session, [](const Tensor &tensor) { return tensor.role == Role::Parameter; }), {}, error);
}
