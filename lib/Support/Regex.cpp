//===- Regex.cpp - Regular expressions of the command line ----------------===//

#include "forebay/Support/Regex.h"

using namespace forebay;

std::optional<Regex> Regex::compile(llvm::StringRef pattern, std::string &error) {
  try {
    return Regex(std::make_shared<const std::regex>(pattern.str(), std::regex::ECMAScript));
  } catch (const std::regex_error &e) {
    error = e.what();
    return std::nullopt;
  }
}

bool Regex::search(llvm::StringRef text) const {
  try {
    return std::regex_search(text.begin(), text.end(), *regex);
  } catch (const std::regex_error &) {
    return false; // the expression is too complex for this text
  }
}
