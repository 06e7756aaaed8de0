//===- Checkpoint.cpp - Stopping and going on with the same bits ----------===//

#include "Checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;

static const char *const kFormat = "forebay-checkpoint-1";

static bool isState(const Tensor &tensor) { return tensor.role == Role::Parameter || tensor.role == Role::Moment; }

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

/// One number over all tensors, in order: a file that is whole but wrong is not taken for a checkpoint.
template <typename Streams>
static std::string hashAll(const Streams &streams) {
  uint64_t hash = 0;
  for (const auto &stream : streams)
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

bool Checkpoints::prepare(Problems &problems) {
  std::string at;
  for (size_t slash = 0; slash != std::string::npos;) {
    slash = folder.find('/', slash + 1);
    at = folder.substr(0, slash);
    if (mkdir(at.c_str(), 0777) != 0 && errno != EEXIST) {
      problems.error("--checkpoint-dir=" + folder, std::strerror(errno));
      return false;
    }
  }
  if (!isFolder(folder) || access(folder.c_str(), W_OK) != 0) {
    problems.error("--checkpoint-dir=" + folder, isFolder(folder) ? std::strerror(errno) : "is not a folder");
    return false;
  }
  return true;
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

bool Checkpoints::openNewest(Problems &problems, bool &found, std::vector<std::string> &notices) {
  found = false;
  notices.clear();
  for (const auto &[step, candidate] : list()) {
    MappedFile mapped;
    TensorFile parsed;
    std::string error;
    auto value = [&](const char *key, uint64_t &to) { return parseCount(parsed.metadata[key], to); };
    if (mapped.open(candidate, error) && parseSafetensors(mapped.view(), parsed, error)) {
      uint64_t accumulate;
      if (parsed.metadata["format"] != kFormat || !value("attempts", opened.attempts) || !value("applied", opened.applied) ||
          !value("skipped", opened.skipped) || !value("clipped", opened.clipped) || !value("accumulate", accumulate)) {
        error = "is not a checkpoint";
      } else {
        std::vector<std::function<void(const std::function<bool(const void *, uint64_t)> &)>> streams;
        std::vector<const TensorView *> inOrder;
        for (const auto &[name, view] : parsed.tensors)
          inOrder.push_back(&view);
        std::sort(inOrder.begin(), inOrder.end(), [](const TensorView *a, const TensorView *b) { return a->data < b->data; });
        for (const TensorView *view : inOrder)
          streams.push_back([view](const std::function<bool(const void *, uint64_t)> &sink) { view->bytes == 0 || sink(view->data, view->bytes); });
        if (parsed.metadata["hash"] == hashAll(streams)) {
          path = candidate;
          file = std::move(mapped);
          content = std::move(parsed);
          found = true;
          return true;
        }
        error = "is damaged: its checksum does not match";
      }
    }
    notices.push_back(candidate + " " + error + "; trying the one before");
  }
  if (!notices.empty()) {
    problems.error("--resume", "no checkpoint in " + folder + " is complete").note(joined(notices));
    return false;
  }
  return true;
}

bool Checkpoints::restore(Session &session, Problems &problems) {
  const Program &program = session.program();
  unsigned before = problems.errors();
  if (content.metadata["optimizer"] != program.optimizer)
    problems.error(path, "was written by optimizer " + content.metadata["optimizer"] + ", the program has " + program.optimizer);
  if (content.metadata["accumulate"] != std::to_string(program.accumulate))
    problems.error(path, "was written with " + content.metadata["accumulate"] + " micro-steps in a step, the program has " +
                             std::to_string(program.accumulate));
  std::vector<std::string> missing;
  for (const Tensor &tensor : program.tensors) {
    if (!isState(tensor))
      continue;
    auto it = content.tensors.find(tensor.name);
    if (it == content.tensors.end())
      missing.push_back(tensor.name);
    else if (it->second.shape != tensor.shape || it->second.type != tensor.type)
      problems.error(path, "'" + tensor.name + "' has shape " + shapeText(it->second.shape) + " of " + name(it->second.type) +
                               ", the program's is " + shapeText(tensor.shape) + " of " + name(tensor.type));
  }
  if (!missing.empty())
    problems.error(path, "lacks " + joined(missing)).note("it was written by another model or with other frozen parameters");
  if (problems.errors() != before)
    return false;
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (isState(program.tensors[i]) && program.tensors[i].bytes != 0)
      session.write(i, content.tensors[program.tensors[i].name].data);
  session.refreshCopies();
  session.progress() = opened;
  file = MappedFile();
  content = TensorFile();
  return true;
}

bool Checkpoints::save(Session &session, std::string &error) {
  const Progress &state = session.progress();
  std::vector<TensorToWrite> tensors = tensorsToWrite(session, isState);
  std::vector<std::function<void(const std::function<bool(const void *, uint64_t)> &)>> streams;
  for (const TensorToWrite &tensor : tensors)
    streams.push_back(tensor.content);
  std::map<std::string, std::string> metadata = {{"format", kFormat},
                                                 {"attempts", std::to_string(state.attempts)},
                                                 {"applied", std::to_string(state.applied)},
                                                 {"skipped", std::to_string(state.skipped)},
                                                 {"clipped", std::to_string(state.clipped)},
                                                 {"accumulate", std::to_string(session.program().accumulate)},
                                                 {"optimizer", session.program().optimizer},
                                                 {"hash", hashAll(streams)}};
  char name[48];
  std::snprintf(name, sizeof name, "/step-%08" PRIu64 ".safetensors", state.attempts);
  if (!writeSafetensors(folder + name, tensors, metadata, error)) {
    error = folder + name + ": " + error;
    return false;
  }
  // The new one is durable. One older stays, in case the disk damages the new one.
  std::vector<std::pair<uint64_t, std::string>> all = list();
  for (size_t i = 2; i < all.size(); ++i)
    unlink(all[i].second.c_str());
  return true;
}

bool forebay::rt::saveWeights(const Session &session, const std::string &path, std::string &error) {
  return writeSafetensors(path, tensorsToWrite(session, [](const Tensor &tensor) { return tensor.role == Role::Parameter; }), {}, error);
}
