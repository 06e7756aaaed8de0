//===- Problems.h - What is wrong, for users --------------------*- C++ -*-===//
///
/// \file
/// A list of user errors, each `error: WHERE: WHAT` with notes that say what would work. Collected, so that everything
/// of one kind is reported at once.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_RUNTIME_PROBLEMS_H
#define FOREBAY_RUNTIME_PROBLEMS_H

#include <cstdint>
#include <string>
#include <vector>

namespace forebay::rt {

/// Names in files are arbitrary bytes: control characters must neither break the line nor reach a terminal.
inline std::string printable(const std::string &text) {
  std::string result;
  for (unsigned char c : text) {
    if (c >= 0x20 && c != 0x7f) {
      result += char(c);
      continue;
    }
    const char digits[] = "0123456789ABCDEF";
    result += {'\\', 'x', digits[c >> 4], digits[c & 15]};
  }
  return result;
}

class Problems {
public:
  /// `hint` says what would work.
  Problems &error(const std::string &where, const std::string &what, const std::string &hint) {
    lines += "error: " + printable(where + ": " + what) + "\n";
    ++count;
    return note(hint);
  }
  /// One more line: an item of a list.
  Problems &note(const std::string &text) {
    lines += "note: " + printable(text) + "\n";
    return *this;
  }

  unsigned errors() const { return count; }
  bool any() const { return count != 0; }
  const std::string &text() const { return lines; }

private:
  std::string lines;
  unsigned count = 0;
};

/// "a, b, c"; "(none)" if empty.
inline std::string joined(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "(none)" : text;
}

inline std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t dim : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_PROBLEMS_H
