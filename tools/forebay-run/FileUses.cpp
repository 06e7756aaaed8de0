//===- FileUses.cpp - Which files a run reads and writes ------------------===//

#include "FileUses.h"
#include "Files.h"

#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;

FileUses::Use FileUses::look(const std::string &what, const std::string &path) const {
  struct stat info {};
  bool there = stat(path.c_str(), &info) == 0;
  return {what, canonicalPath(path), there, info.st_dev, info.st_ino};
}

void FileUses::input(const std::string &what, const std::string &path) {
  if (!path.empty())
    uses.push_back(look(what, path));
}

void FileUses::standardStreams() {
  for (auto [fd, what] : {std::pair(1, "the standard output"), std::pair(2, "the standard error output")}) {
    struct stat info {};
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
      uses.push_back({what, "", true, info.st_dev, info.st_ino});
  }
}

bool FileUses::isCheckpoint(const std::string &canonical) const {
  if (checkpointFolder.empty() || folderOf(canonical) != canonicalPath(checkpointFolder))
    return false;
  std::string name = canonical.substr(canonical.rfind('/') + 1);
  const std::string end = ".safetensors";
  return name.rfind("step-", 0) == 0 && name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

bool FileUses::clashes(const std::string &where, const Use &use) {
  for (const Use &other : uses)
    if ((!other.canonical.empty() && other.canonical == use.canonical) ||
        (other.there && use.there && other.device == use.device && other.inode == use.inode)) {
      problems.error(where, "is " + other.what, "choose another file");
      return true;
    }
  if (!isCheckpoint(use.canonical))
    return false;
  problems.error(where, "has the name of a checkpoint", "choose another file");
  return true;
}

void FileUses::output(const std::string &option, const std::string &path, Kind kind) {
  if (path.empty())
    return;
  std::string where = option + "=" + path, target = throughLinks(path), folder = folderOf(target), what = irregular(path);
  bool stream = what == "is a device" || what == "is a pipe";
  if (stream && kind == Streamed)
    return;
  Use use = look("also written by " + option, path);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 && errno != ENOENT && errno != ENOTDIR) // a circle of links, a name that is too long
    problems.error(where, std::strerror(errno), "name another file");
  else if (!what.empty())
    problems.error(where, what, stream ? "name a file that is new or may be replaced" : "name a file in a folder that is there");
  else if (!isFolder(folder))
    problems.error(where, "there is no folder '" + folder + "'", "make it first");
  else if (access(folder.c_str(), W_OK | X_OK) != 0 || (use.there && access(path.c_str(), W_OK) != 0))
    problems.error(where, std::strerror(errno), "choose a file that may be written in a folder that may be written");
  else if (!clashes(where, use))
    uses.push_back(use);
}

void FileUses::outputInFolder(const std::string &option, const std::string &path) {
  if (!clashes(path, look("", path)))
    uses.push_back(look("also written by " + option, path));
}
