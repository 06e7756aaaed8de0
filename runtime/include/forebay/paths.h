//===- paths.h - Which file a path names ------------------------*- C++ -*-===//
///
/// \file
/// Outputs are written beside their place and renamed. Renaming over a symbolic link would replace the link, so both tools ask where it
/// leads first.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PATHS_H
#define FOREBAY_PATHS_H

#include <string>

namespace forebay {

/// The file behind the symbolic links of `path`, which need not exist; `path` itself if it is no link. A circle of links gives its start.
std::string throughLinks(const std::string &path);

/// The folder part of a path ("." if it has none).
std::string folderOf(const std::string &path);

/// An absolute path without links, dots and doubled slashes, also of a file that does not exist yet (its folder must).
std::string canonicalPath(const std::string &path);

/// "is a folder", "is a pipe", ... for what is there and not a regular file, else empty (also if nothing is there).
std::string irregular(const std::string &path);
/// The same for a file's mode.
const char *irregularMode(unsigned mode);

} // namespace forebay

#endif // FOREBAY_PATHS_H
