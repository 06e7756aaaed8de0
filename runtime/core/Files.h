//===- Files.h - Mapped files and files that appear whole -------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_FILES_H
#define FOREBAY_RUNTIME_FILES_H

#include "forebay/paths.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace forebay::rt {

/// A file read through a mapping.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept : begin(other.begin), size(other.size) { other.begin = nullptr, other.size = 0; }
  MappedFile &operator=(MappedFile &&other) noexcept {
    std::swap(begin, other.begin);
    std::swap(size, other.size);
    return *this;
  }
  ~MappedFile();

  /// False with a reason ("No such file or directory", "is a folder", ...).
  bool open(const std::string &path, std::string &error);

  const char *data() const { return begin; }
  uint64_t bytes() const { return size; }
  std::string_view view() const { return {begin, size}; }

private:
  const char *begin = nullptr;
  uint64_t size = 0;
};

/// Written under another name in the same folder, then synced and renamed: readers see the old file or the new one, whole. A symbolic link stays
/// and its target is replaced; an older file's permissions stay. What cannot be renamed (a terminal, a pipe) is written directly. Without
/// `commit` nothing is left behind.
class AtomicFile {
public:
  AtomicFile() = default;
  AtomicFile(const AtomicFile &) = delete;
  ~AtomicFile();

  bool open(const std::string &path, std::string &error);
  bool write(const void *data, uint64_t bytes, std::string &error);
  bool writeAt(uint64_t offset, const void *data, uint64_t bytes, std::string &error);
  bool commit(std::string &error);
  bool isOpen() const { return fd >= 0; }

private:
  void forget();

  std::string target, temporary; ///< no temporary: written directly
  int fd = -1;
  int slot = -1;                 ///< of `temporary` in the list for signal handlers
};

/// Unlinks the temporary files of this process. For signal handlers that end it.
void removeTemporaries();

/// XXH3-64 of bytes.
uint64_t hashBytes(const void *data, uint64_t bytes, uint64_t seed = 0);

/// `path` under `folder`, unless it is absolute.
std::string under(const std::string &folder, const std::string &path);
bool isFolder(const std::string &path);
bool exists(const std::string &path);

/// "1.5 GiB".
std::string sizeText(uint64_t bytes);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_FILES_H
