//===- Outputs.h - Outputs of a forward program, as files -------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_OUTPUTS_H
#define FOREBAY_RUNTIME_OUTPUTS_H

#include "Files.h"
#include "Problems.h"
#include "forebay/program.h"

#include <memory>

namespace forebay::rt {

/// NAME.npy for each output in a folder, one row a step, written as the steps run.
class Outputs {
public:
  /// The file of an output; slashes in its name become underscores.
  static std::string pathOf(const std::string &folder, std::string name);
  bool open(const Program &program, const std::string &folder, Problems &problems);
  /// Called while steps run: no allocation.
  void write(uint32_t tensor, uint64_t row, const void *source, uint64_t bytes);
  /// Completes the files for `rows` rows.
  bool commit(uint64_t rows, std::string &error);

private:
  struct File {
    std::string path;
    const Tensor *tensor = nullptr;
    std::unique_ptr<AtomicFile> file;
  };
  std::vector<File> files; ///< by tensor
  std::string failure;     ///< first write that failed
};

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_OUTPUTS_H
