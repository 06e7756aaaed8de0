//===- CommandLine.h - Options of the compiler's tools ----------*- C++ -*-===//
//
// `--name`, `--name=value`, `--name value`, `-o file`, and positional arguments. Unlike llvm::cl it knows nothing but
// what the tool declares (libLLVM brings hundreds of options of its own) and reports in the common form.
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_SUPPORT_COMMANDLINE_H
#define FOREBAY_SUPPORT_COMMANDLINE_H

#include "forebay/Support/Diagnostics.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace forebay {

class CommandLine {
public:
  /// `usage` follows the tool's name in the help: "[options] MODEL.onnx -o STEP.so".
  CommandLine(std::string tool, std::string usage, std::string overview)
      : tool(std::move(tool)), usage(std::move(usage)), overview(std::move(overview)) {}

  /// A switch without a value.
  void flag(std::string name, bool &target, std::string help);
  /// An option with a value; repeated, the last wins. One-letter names take one dash.
  void value(std::string name, std::string meta, std::string &target, std::string help);
  /// A repeatable option.
  void list(std::string name, std::string meta, std::vector<std::string> &target, std::string help);
  /// A repeatable option, parsed by `apply`, which reports and returns false when the value is no good.
  void custom(std::string name, std::string meta, std::function<bool(llvm::StringRef)> apply, std::string help);
  /// Positional arguments; without this call they are errors.
  void positional(std::vector<std::string> &target) { positionals = &target; }

  /// Parses everything and reports every error. An exit status if the tool is done: 0 after --help and --version, 1
  /// after errors. Nothing: carry on.
  std::optional<int> parse(int argc, const char *const *argv, Diagnostics &diags);

  /// Whether option `name` was on the command line.
  bool given(llvm::StringRef name) const { return seen.count(name) != 0; }

  void printHelp(llvm::raw_ostream &os) const;

private:
  struct Option {
    std::string name, meta, help;
    bool *flag = nullptr;
    std::function<bool(llvm::StringRef)> apply; ///< Null for flags.
  };
  const Option *find(llvm::StringRef name) const;

  std::string tool, usage, overview;
  std::vector<Option> options;
  llvm::StringSet<> seen;
  std::vector<std::string> *positionals = nullptr;
};

} // namespace forebay

#endif // FOREBAY_SUPPORT_COMMANDLINE_H
