//===- ModelWire.cpp - Weights inside an .onnx file -----------------------===//

#include "ModelWire.h"

using llvm::StringRef;

namespace forebay::import {
namespace {

enum WireType : unsigned { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

// Field numbers of onnx.proto.
constexpr unsigned modelGraph = 7;
constexpr unsigned graphInitializer = 5;
enum TensorField : unsigned { FloatData = 4, Int32Data = 5, StringData = 6, Int64Data = 7, RawData = 9, DoubleData = 10, Uint64Data = 11 };

/// One field of a message: the whole of it in [begin, end), its value in [value, end). Offsets are into the file.
struct Field {
  unsigned number = 0, type = 0;
  uint64_t begin = 0, value = 0, end = 0;
};

class Scanner {
public:
  explicit Scanner(StringRef file) : file(file) {}

  bool model(std::string &out, std::vector<InlineData> &data);
  std::string problem;

private:
  bool varint(uint64_t &pos, uint64_t end, uint64_t &value);
  bool next(uint64_t &pos, uint64_t end, Field &field);
  bool graph(Field message, std::string &out, std::vector<InlineData> &data);
  bool tensor(Field message, std::string &out, InlineData &data);

  void copy(const Field &field, std::string &out) { out.append(file.data() + field.begin, field.end - field.begin); }
  static void message(unsigned number, StringRef body, std::string &out);

  StringRef file;
};

bool Scanner::varint(uint64_t &pos, uint64_t end, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (pos >= end) {
      problem = "it ends in the middle of a field: truncated, or not an ONNX model";
      return false;
    }
    uint8_t byte = file[pos++];
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return true;
  }
  problem = "not an ONNX model";
  return false;
}

bool Scanner::next(uint64_t &pos, uint64_t end, Field &field) {
  uint64_t tag, length = 0;
  field.begin = pos;
  if (!varint(pos, end, tag))
    return false;
  field.number = unsigned(tag >> 3);
  field.type = tag & 7;
  if (tag >> 32 || field.number == 0) {
    problem = "not an ONNX model";
    return false;
  }
  switch (field.type) {
  case Varint:
    field.value = pos;
    if (!varint(pos, end, length))
      return false;
    field.end = pos;
    return true;
  case Fixed64:
    length = 8;
    break;
  case Fixed32:
    length = 4;
    break;
  case Bytes:
    if (!varint(pos, end, length))
      return false;
    break;
  default: // Groups, which ONNX does not use, and invalid types.
    problem = "not an ONNX model";
    return false;
  }
  if (length > end - pos) {
    problem = "it ends in the middle of a field: truncated, or not an ONNX model";
    return false;
  }
  field.value = pos;
  field.end = pos += length;
  return true;
}

void Scanner::message(unsigned number, StringRef body, std::string &out) {
  auto put = [&](uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      out.push_back(char(value | 0x80));
    out.push_back(char(value));
  };
  put(uint64_t(number) << 3 | Bytes);
  put(body.size());
  out.append(body.data(), body.size());
}

bool Scanner::tensor(Field whole, std::string &out, InlineData &data) {
  // First find what there is: only a single piece can be pointed to. Of several `raw_data` the last counts.
  unsigned pieces = 0;
  bool hasRaw = false;
  Field piece, field;
  for (uint64_t pos = whole.value; pos < whole.end;) {
    if (!next(pos, whole.end, field))
      return false;
    switch (field.number) {
    case RawData:
      if (field.type == Bytes) {
        hasRaw = true;
        data = {InlineData::Kind::Raw, field.value, field.end - field.value};
      }
      break;
    case FloatData:
    case Int32Data:
    case StringData:
    case Int64Data:
    case DoubleData:
    case Uint64Data:
      ++pieces;
      piece = field;
      break;
    default:
      break;
    }
  }
  if (!hasRaw && pieces != 0) {
    data = {InlineData::Kind::Other, piece.value, piece.end - piece.value};
    if (pieces == 1 && piece.type == Bytes && piece.number == FloatData)
      data.kind = InlineData::Kind::Float;
    if (pieces == 1 && piece.type == Bytes && piece.number == DoubleData)
      data.kind = InlineData::Kind::Double;
  }

  bool drop = data.kind != InlineData::Kind::None && data.kind != InlineData::Kind::Other && data.bytes > keepBytes;
  std::string body;
  for (uint64_t pos = whole.value; pos < whole.end;) {
    if (!next(pos, whole.end, field))
      return false;
    bool isData = hasRaw ? field.number == RawData : field.value == data.offset;
    if (!drop || !isData)
      copy(field, body);
  }
  message(graphInitializer, body, out);
  return true;
}

bool Scanner::graph(Field whole, std::string &out, std::vector<InlineData> &data) {
  std::string body;
  Field field;
  for (uint64_t pos = whole.value; pos < whole.end;) {
    if (!next(pos, whole.end, field))
      return false;
    if (field.number != graphInitializer || field.type != Bytes) {
      copy(field, body);
      continue;
    }
    data.emplace_back();
    if (!tensor(field, body, data.back()))
      return false;
  }
  message(modelGraph, body, out);
  return true;
}

bool Scanner::model(std::string &out, std::vector<InlineData> &data) {
  Field field;
  for (uint64_t pos = 0; pos < file.size();) {
    if (!next(pos, file.size(), field))
      return false;
    if (field.number != modelGraph || field.type != Bytes)
      copy(field, out);
    else if (!graph(field, out, data))
      return false;
  }
  return true;
}

} // namespace

std::optional<StrippedModel> stripWeights(StringRef file, std::string &problem) {
  Scanner scanner(file);
  StrippedModel result;
  if (scanner.model(result.proto, result.initializers))
    return result;
  problem = scanner.problem;
  return std::nullopt;
}

} // namespace forebay::import
