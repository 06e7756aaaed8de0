//===- Regex.cpp - Regular expressions of the command line ----------------===//

#include "forebay/Support/Regex.h"

#include <boost/regex.hpp>

using namespace forebay;

struct Regex::Impl {
  boost::regex regex;
};

std::optional<Regex> Regex::compile(llvm::StringRef pattern, std::string &error) {
  try {
    return Regex(std::make_shared<const Impl>(Impl{boost::regex(pattern.str(), boost::regex::ECMAScript)}));
  } catch (const std::runtime_error &e) {
    error = e.what();
    // "... The error occurred while parsing the regular expression: ...": the caller quotes the expression.
    error.resize(error.find("  The error occurred") == std::string::npos ? error.size() : error.find("  The error occurred"));
    return std::nullopt;
  }
}

bool Regex::search(llvm::StringRef text, std::string *error) const {
  try {
    return boost::regex_search(text.begin(), text.end(), impl->regex);
  } catch (const std::runtime_error &) {
    if (error)
      *error = "takes too long on '" + text.str() + "': nested repetitions such as (a+)+ try every way to divide the name";
    return false;
  }
}
