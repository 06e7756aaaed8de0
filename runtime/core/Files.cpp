//===- Files.cpp - Mapped files and files that appear whole ---------------===//

#include "Files.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;

MappedFile::~MappedFile() {
  if (begin)
    munmap(const_cast<char *>(begin), size);
}

bool MappedFile::open(const std::string &path, std::string &error) {
  // Opening a pipe must not wait for its writer.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    int why = errno;
    error = why == ENXIO || why == ENODEV ? irregular(path) : std::strerror(why);
    return false;
  }
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    error = irregularMode(info.st_mode);
    close(fd);
    return false;
  }
  MappedFile fresh;
  fresh.size = uint64_t(info.st_size);
  if (fresh.size != 0) {
    void *block = mmap(nullptr, fresh.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (block == MAP_FAILED) {
      error = std::strerror(errno);
      close(fd);
      return false;
    }
    fresh.begin = static_cast<const char *>(block);
  }
  close(fd);
  *this = std::move(fresh);
  return true;
}

namespace {

/// Names of temporary files where a signal handler can read them.
struct TemporaryName {
  std::atomic<int> state; ///< 0 free, 1 being written, 2 valid
  char path[PATH_MAX];
};
TemporaryName temporaries[256];

int rememberTemporary(const std::string &path) {
  for (int i = 0; i < int(std::size(temporaries)) && path.size() < PATH_MAX; ++i) {
    int free = 0;
    if (!temporaries[i].state.compare_exchange_strong(free, 1))
      continue;
    std::memcpy(temporaries[i].path, path.c_str(), path.size() + 1);
    temporaries[i].state = 2;
    return i;
  }
  return -1;
}

} // namespace

void forebay::rt::removeTemporaries() {
  for (TemporaryName &name : temporaries)
    if (name.state == 2)
      unlink(name.path);
}

/// The temporary file is gone, or has its final name.
void AtomicFile::forget() {
  if (slot >= 0)
    temporaries[slot].state = 0;
  slot = -1;
  temporary.clear();
}

AtomicFile::~AtomicFile() {
  if (fd >= 0)
    close(fd);
  if (!temporary.empty())
    unlink(temporary.c_str());
  forget();
}

bool AtomicFile::open(const std::string &path, std::string &error) {
  target = throughLinks(path);
  struct stat info;
  bool there = stat(target.c_str(), &info) == 0;
  if (there && (S_ISDIR(info.st_mode) || S_ISBLK(info.st_mode) || S_ISSOCK(info.st_mode))) {
    error = irregularMode(info.st_mode);
    return false;
  }
  if (there && !S_ISREG(info.st_mode)) {
    // A pipe that nobody reads would be waited for.
    fd = ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    else if (errno == ENXIO && S_ISFIFO(info.st_mode))
      return error = "is a pipe that nobody reads", false;
  } else {
    // A name can have 255 bytes.
    size_t name = target.rfind('/') + 1;
    temporary = target.substr(0, std::min(target.size(), name + 230)) + ".tmp" + std::to_string(getpid());
    slot = rememberTemporary(temporary);
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int why = errno;
    if (fd < 0)
      forget();
    else if (there)
      (void)!fchmod(fd, info.st_mode & 07777);
    errno = why;
  }
  if (fd < 0)
    error = std::strerror(errno);
  return fd >= 0;
}

bool AtomicFile::write(const void *data, uint64_t bytes, std::string &error) {
  auto *at = static_cast<const char *>(data);
  while (bytes != 0) {
    ssize_t done = ::write(fd, at, bytes < (1u << 30) ? bytes : (1u << 30));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0) {
      error = done < 0 ? std::strerror(errno) : "nothing was written";
      return false;
    }
    at += done;
    bytes -= uint64_t(done);
  }
  return true;
}

bool AtomicFile::writeAt(uint64_t offset, const void *data, uint64_t bytes, std::string &error) {
  auto *at = static_cast<const char *>(data);
  while (bytes != 0) {
    ssize_t done = pwrite(fd, at, bytes < (1u << 30) ? bytes : (1u << 30), off_t(offset));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0) {
      error = done < 0 ? std::strerror(errno) : "nothing was written";
      return false;
    }
    at += done;
    offset += uint64_t(done);
    bytes -= uint64_t(done);
  }
  return true;
}

bool AtomicFile::commit(std::string &error) {
  // Devices and pipes cannot be synced; that is no error.
  if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) {
    error = std::strerror(errno);
    return false;
  }
  if (close(fd) != 0) {
    error = std::strerror(errno);
    fd = -1;
    return false;
  }
  fd = -1;
  if (temporary.empty())
    return true;
  if (rename(temporary.c_str(), target.c_str()) != 0) {
    error = std::strerror(errno);
    return false;
  }
  forget();
  int folder = ::open(folderOf(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return true;
}

uint64_t forebay::rt::hashBytes(const void *data, uint64_t bytes, uint64_t seed) {
  static const char nothing = 0;
  return XXH3_64bits_withSeed(bytes == 0 ? &nothing : data, bytes, seed);
}

std::string forebay::rt::under(const std::string &folder, const std::string &path) {
  return path.empty() || path[0] == '/' ? path : folder + "/" + path;
}

bool forebay::rt::isFolder(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool forebay::rt::exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

std::string forebay::rt::sizeText(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  unsigned unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : value < 10 ? "%.2f %s" : "%.1f %s", value, units[unit]);
  return text;
}
