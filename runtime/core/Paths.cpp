//===- Paths.cpp - Which file a path names --------------------------------===//

#include "forebay/paths.h"

#include <climits>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

using namespace forebay;

std::string forebay::folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string forebay::throughLinks(const std::string &path) {
  std::string at = path;
  for (int depth = 0; depth < 40; ++depth) {
    char text[PATH_MAX];
    ssize_t length = readlink(at.c_str(), text, sizeof text);
    if (length < 0) // no link, or nothing there
      return at;
    std::string to(text, size_t(length));
    if (to.empty() || to[0] != '/')
      to = folderOf(at) + "/" + to;
    // Links in /proc lead to pipes that have no path.
    struct stat info;
    if (lstat(to.c_str(), &info) != 0 && stat(at.c_str(), &info) == 0)
      return at;
    at = to;
  }
  return path;
}

std::string forebay::canonicalPath(const std::string &path) {
  std::string target = throughLinks(path);
  auto real = [](const std::string &file, std::string &result) {
    char *resolved = realpath(file.c_str(), nullptr);
    if (!resolved)
      return false;
    result = resolved;
    std::free(resolved);
    return true;
  };
  std::string result;
  if (real(target, result))
    return result;
  std::string name = target.substr(target.rfind('/') + 1);
  return real(folderOf(target), result) ? (result == "/" ? "" : result) + "/" + name : target;
}

const char *forebay::irregularMode(unsigned mode) {
  switch (mode & S_IFMT) {
  case S_IFREG:
    return "";
  case S_IFDIR:
    return "is a folder";
  case S_IFIFO:
    return "is a pipe";
  case S_IFSOCK:
    return "is a socket";
  default:
    return "is a device";
  }
}

std::string forebay::irregular(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? irregularMode(info.st_mode) : "";
}
