//===- FileUses.h - Which files a run reads and writes ----------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_RUN_FILEUSES_H
#define FOREBAY_TOOLS_FOREBAY_RUN_FILEUSES_H

#include "Problems.h"

#include <sys/types.h>

namespace forebay::rt {

/// Looks before hours of training, not after, whether each output can be written, and whether it would destroy an input or another output.
/// Files are the same if their canonical paths are, or device and inode.
class FileUses {
public:
  explicit FileUses(Problems &problems) : problems(problems) {}

  /// `what` continues "is ...": "the model", "read by --feed".
  void input(const std::string &what, const std::string &path);
  enum Kind { Replaced, Streamed }; ///< streamed: may also be a pipe or a terminal
  /// `option` with its dashes.
  void output(const std::string &option, const std::string &path, Kind kind);
  /// A file in the folder that `option` names.
  void outputInFolder(const std::string &option, const std::string &path);
  /// Files in `folder` named step-N.safetensors belong to it.
  void checkpoints(const std::string &folder) { checkpointFolder = folder; }
  /// What the shell has redirected our output to.
  void standardStreams();

private:
  struct Use {
    std::string what, canonical;
    bool there;
    dev_t device;
    ino_t inode;
  };
  Use look(const std::string &what, const std::string &path) const;
  bool clashes(const std::string &where, const Use &use);
  bool isCheckpoint(const std::string &canonical) const;

  Problems &problems;
  std::vector<Use> uses;
  std::string checkpointFolder;
};

} // namespace forebay::rt

#endif // FOREBAY_TOOLS_FOREBAY_RUN_FILEUSES_H
