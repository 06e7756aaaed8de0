//===- Npy.cpp - Arrays in NumPy's format ---------------------------------===//

#include "Npy.h"

#include <cctype>
#include <cstring>

using namespace forebay;
using namespace forebay::rt;

namespace {

/// The header is a Python dict of three known keys; nothing else is accepted.
class HeaderParser {
public:
  HeaderParser(std::string_view text) : text(text) {}

  bool parse(std::string &descr, bool &fortran, std::vector<int64_t> &shape) {
    bool haveDescr = false, haveOrder = false, haveShape = false;
    if (!eat('{'))
      return false;
    while (!eat('}')) {
      std::string key;
      if (!string(key) || !eat(':'))
        return false;
      if (key == "descr" && !haveDescr)
        haveDescr = string(descr);
      else if (key == "fortran_order" && !haveOrder)
        haveOrder = boolean(fortran);
      else if (key == "shape" && !haveShape)
        haveShape = tuple(shape);
      else
        return false;
      if (!eat(',')) {
        if (!eat('}'))
          return false;
        break;
      }
    }
    skip();
    return haveDescr && haveOrder && haveShape && at == text.size();
  }

private:
  void skip() {
    while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
  }
  bool eat(char c) {
    skip();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  bool string(std::string &result) {
    skip();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"'))
      return false;
    size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos)
      return false;
    result = std::string(text.substr(at + 1, end - at - 1));
    at = end + 1;
    return true;
  }
  bool boolean(bool &result) {
    skip();
    for (bool value : {false, true}) {
      std::string_view word = value ? "True" : "False";
      if (text.substr(at, word.size()) == word) {
        at += word.size();
        result = value;
        return true;
      }
    }
    return false;
  }
  bool tuple(std::vector<int64_t> &result) {
    if (!eat('('))
      return false;
    while (!eat(')')) {
      skip();
      int64_t value = 0;
      size_t begin = at;
      for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text[at] - '0', &value))
          return false;
      if (at == begin)
        return false;
      result.push_back(value);
      if (at < text.size() && text[at] == 'L') // Python 2
        ++at;
      if (!eat(',')) {
        if (!eat(')'))
          return false;
        break;
      }
    }
    return true;
  }

  std::string_view text;
  size_t at = 0;
};

struct TypeName {
  DType type;
  const char *descr;
};
// bf16 has no name in NumPy; files use 2 raw bytes.
const TypeName typeNames[] = {{DType::F32, "<f4"}, {DType::F64, "<f8"}, {DType::F16, "<f2"}, {DType::BF16, "<V2"}, {DType::BF16, "|V2"},
                              {DType::I64, "<i8"}, {DType::I32, "<i4"}, {DType::I16, "<i2"}, {DType::I8, "|i1"},   {DType::U8, "|u1"},
                              {DType::Bool, "|b1"}};

} // namespace

bool forebay::rt::parseNpy(std::string_view file, NpyArray &array, std::string &error) {
  array = NpyArray();
  if (file.size() < 10 || file.substr(0, 6) != std::string_view("\x93NUMPY", 6)) {
    error = "is not a .npy file";
    return false;
  }
  auto byte = [&](size_t i) { return uint64_t(static_cast<unsigned char>(file[i])); };
  uint64_t version = byte(6), length = byte(8) | byte(9) << 8, start = 10;
  if (version < 1 || version > 3) {
    error = "has version " + std::to_string(version) + " of the .npy format; known are 1 to 3";
    return false;
  }
  if (version >= 2) {
    if (file.size() < 12) {
      error = "ends inside its header";
      return false;
    }
    length |= byte(10) << 16 | byte(11) << 24;
    start = 12;
  }
  if (length > file.size() - start) {
    error = "ends inside its header";
    return false;
  }
  std::string descr;
  bool fortran = false;
  if (!HeaderParser(file.substr(start, length)).parse(descr, fortran, array.shape)) {
    error = "has a header that is not a .npy header";
    return false;
  }
  bool known = false;
  for (const TypeName &entry : typeNames)
    if (descr == entry.descr) {
      array.type = entry.type;
      known = true;
    }
  if (!known) {
    error = "has elements of type '" + descr + "'; known are <f2 <f4 <f8 |i1 <i2 <i4 <i8 |u1 |b1";
    return false;
  }
  if (fortran && array.shape.size() > 1) {
    error = "is stored in Fortran order; save it in C order (numpy.ascontiguousarray)";
    return false;
  }
  uint64_t bytes = byteSize(array.type);
  for (int64_t dim : array.shape)
    if (__builtin_mul_overflow(bytes, uint64_t(dim), &bytes)) {
      error = "has a shape that is too large";
      return false;
    }
  array.data = file.data() + start + length;
  array.bytes = bytes;
  uint64_t there = file.size() - start - length;
  if (there < bytes) {
    error = "is cut off: its shape needs " + std::to_string(bytes) + " bytes, " + std::to_string(there) + " are there";
    return false;
  }
  if (there > bytes) {
    error = "has " + std::to_string(there - bytes) + (there - bytes == 1 ? " byte after its data" : " bytes after its data");
    return false;
  }
  return true;
}

std::string forebay::rt::npyHeader(DType type, const std::vector<int64_t> &shape) {
  std::string dict = "{'descr': '";
  for (const TypeName &entry : typeNames)
    if (entry.type == type) {
      dict += entry.descr;
      break;
    }
  dict += "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : shape)
    dict += std::to_string(dim) + ", ";
  dict += "), }";
  constexpr size_t total = 192;
  size_t padded = dict.size() + 11 <= total ? total - 10 : (dict.size() + 11 + 63) / 64 * 64 - 10;
  dict.resize(padded - 1, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += char(padded & 0xff);
  header += char(padded >> 8);
  return header + dict;
}
