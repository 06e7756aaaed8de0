//===- Regex.h - Regular expressions of the command line --------*- C++ -*-===//
///
/// \file
/// ECMAScript expressions, searched (not anchored), as `--train`, `--freeze` and `--group` take them. A wrapper of
/// std::regex that reports errors by value, since the rest of the compiler is built without exceptions.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_SUPPORT_REGEX_H
#define FOREBAY_SUPPORT_REGEX_H

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>
#include <regex>
#include <string>

namespace forebay {

class Regex {
public:
  /// Null if `pattern` is not an ECMAScript regular expression; `error` then says why.
  static std::optional<Regex> compile(llvm::StringRef pattern, std::string &error);

  /// True if some part of `text` matches.
  bool search(llvm::StringRef text) const;

private:
  explicit Regex(std::shared_ptr<const std::regex> regex) : regex(std::move(regex)) {}
  std::shared_ptr<const std::regex> regex;
};

} // namespace forebay

#endif // FOREBAY_SUPPORT_REGEX_H
