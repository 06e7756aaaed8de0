//===- Regex.h - Regular expressions of the command line --------*- C++ -*-===//
///
/// \file
/// ECMAScript expressions, searched (not anchored), as `--train`, `--freeze` and `--group` take them. A wrapper of
/// boost::regex that reports errors by value, since the rest of the compiler is built without exceptions. Not std::regex: it has no
/// bound on its time (`(a+)+$` never ends) and recurses for each character.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_SUPPORT_REGEX_H
#define FOREBAY_SUPPORT_REGEX_H

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>
#include <string>

namespace forebay {

class Regex {
public:
  /// Null if `pattern` is not an ECMAScript regular expression; `error` then says why.
  static std::optional<Regex> compile(llvm::StringRef pattern, std::string &error);

  /// True if some part of `text` matches. An expression that would backtrack without end on `text` does not match; `error`, if given,
  /// then says so.
  bool search(llvm::StringRef text, std::string *error = nullptr) const;

private:
  struct Impl;
  explicit Regex(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}
  std::shared_ptr<const Impl> impl;
};

} // namespace forebay

#endif // FOREBAY_SUPPORT_REGEX_H
