//===- Checkpoint.h - Stopping and going on with the same bits --*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_CHECKPOINT_H
#define FOREBAY_RUNTIME_CHECKPOINT_H

#include "Files.h"
#include "Safetensors.h"
#include "Session.h"

namespace forebay::rt {

/// A checkpoint is one safetensors file, `step-00000040.safetensors`: masters and moments under the names of the program, and plain values as
/// text in its metadata. It says nothing about placement, so a program with another policy, bucket size or number of threads
/// goes on from it.
class Checkpoints {
public:
  explicit Checkpoints(std::string folder) : folder(std::move(folder)) {}

  /// Creates the folder and sees that it can be written.
  bool prepare(Problems &problems);

  /// Opens the newest complete checkpoint. True with `found` false if there is none; what is damaged is passed over with a notice.
  bool openNewest(Problems &problems, bool &found, std::vector<std::string> &notices);
  /// Of the opened one.
  const Progress &progress() const { return opened; }
  /// Puts the opened checkpoint's tensors and counters into `session`.
  bool restore(Session &session, Problems &problems);

  /// Writes the state of `session`, which must be flushed, then removes all but the newest two.
  bool save(Session &session, std::string &error);

private:
  std::vector<std::pair<uint64_t, std::string>> list() const;

  std::string folder;
  std::string path;
  MappedFile file;
  TensorFile content;
  Progress opened;
};

/// Saves masters of all parameters (`--save-weights`).
bool saveWeights(const Session &session, const std::string &path, std::string &error);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_CHECKPOINT_H
