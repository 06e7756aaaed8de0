//===- Checkpoint.h - Stopping and going on with the same bits --*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_CHECKPOINT_H
#define FOREBAY_RUNTIME_CHECKPOINT_H

#include "Files.h"
#include "Safetensors.h"
#include "Session.h"

namespace forebay::rt {

/// A checkpoint is one safetensors file, `step-00000040.safetensors`: masters and moments under the names of the program, and plain values as
/// text in its metadata, among them what the program is: optimizer, trained parameters, rows and micro-steps. It says nothing about
/// placement, so a program with another policy, bucket size or number of threads goes on from it.
class Checkpoints {
public:
  explicit Checkpoints(std::string folder) : folder(std::move(folder)) {}
  Checkpoints(const Checkpoints &) = delete;
  ~Checkpoints();

  /// How the run was asked to train ("schedule", "data", ...): recorded, and compared when another run goes on.
  void setSettings(std::map<std::string, std::string> given) { settings = std::move(given); }
  /// Creates the folder, sees that it can be written, and keeps other runs away from it. Without `resume` there must be no checkpoints in it.
  bool prepare(bool resume, Problems &problems);

  /// Opens the newest whole checkpoint. True with `found` false if there is none; what is damaged is passed over with a notice.
  bool openNewest(Problems &problems, bool &found, std::vector<std::string> &notices);
  /// Of the opened one.
  const Progress &progress() const { return opened; }
  /// Whether `program` can go on from the opened one; else says all that differs. Notices are about what changes the results but not the state.
  bool matches(const Program &program, Problems &problems, std::vector<std::string> &notices);
  /// Puts the opened checkpoint's tensors and counters into `session`, whose program matches.
  void restore(Session &session);

  /// Writes the state of `session`, which must be flushed, then removes older ones but the last.
  bool save(Session &session, std::string &error);

private:
  std::vector<std::pair<uint64_t, std::string>> list() const;
  bool open(const std::string &candidate, std::string &error);
  void noteHyper(const std::map<std::string, std::string> &mine, std::vector<std::string> &notices) const;
  bool checkTrained(const Program &program, const std::string &hint, Problems &problems);
  void removeLeftovers() const;

  std::string folder;
  std::string path;
  std::map<std::string, std::string> settings;
  std::string previous; ///< the last one that is known to be whole
  int lock = -1;
  MappedFile file;
  TensorFile content;
  Progress opened;
};

/// Saves masters of all parameters (`--save-weights`).
bool saveWeights(const Session &session, const std::string &path, std::string &error);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_CHECKPOINT_H
