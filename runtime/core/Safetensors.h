//===- Safetensors.h - Named tensors in one file ----------------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_SAFETENSORS_H
#define FOREBAY_RUNTIME_SAFETENSORS_H

#include "Files.h"
#include "forebay/program.h"

#include <functional>
#include <map>

namespace forebay::rt {

struct TensorView {
  DType type = DType::F32;
  std::vector<int64_t> shape;
  const char *data = nullptr;
  uint64_t bytes = 0;
};

/// Content of a file; views point into the bytes that were parsed.
struct TensorFile {
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> metadata;
};

/// Checks everything: header length, JSON, duplicate names, types, shapes against sizes, ranges that overlap, leave holes or the file.
bool parseSafetensors(std::string_view file, TensorFile &result, std::string &error);

struct TensorToWrite {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  uint64_t bytes;
  /// Hands the bytes in pieces to `sink`; stops and returns false as soon as that does.
  std::function<bool(const std::function<bool(const void *, uint64_t)> &sink)> content;
};

/// Writes `path` whole or not at all.
bool writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors,
                      const std::map<std::string, std::string> &metadata, std::string &error);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_SAFETENSORS_H
