//===- Safetensors.cpp - Named tensors in one file ------------------------===//

#include "Safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

using namespace forebay;
using namespace forebay::rt;
using Json = nlohmann::json;

namespace {

struct TypeName {
  DType type;
  const char *name;
};
const TypeName typeNames[] = {{DType::F32, "F32"}, {DType::F64, "F64"}, {DType::F16, "F16"}, {DType::BF16, "BF16"}, {DType::I64, "I64"},
                              {DType::I32, "I32"}, {DType::I16, "I16"}, {DType::I8, "I8"},   {DType::U8, "U8"},     {DType::Bool, "BOOL"}};

bool typeFromName(const std::string &text, DType &type) {
  for (const TypeName &entry : typeNames)
    if (text == entry.name) {
      type = entry.type;
      return true;
    }
  return false;
}

bool readEntry(const Json &entry, std::string_view data, TensorView &view, std::string &error) {
  auto unsignedAt = [](const Json &list, size_t i) { return list[i].get<uint64_t>(); };
  auto allUnsigned = [](const Json &list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json &e) { return e.is_number_unsigned(); });
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets") ||
      !entry["dtype"].is_string() || !allUnsigned(entry["shape"]) || !allUnsigned(entry["data_offsets"]) ||
      entry["data_offsets"].size() != 2) {
    error = "has no proper dtype, shape and data_offsets";
    return false;
  }
  std::string dtype = entry["dtype"].get<std::string>();
  if (!typeFromName(dtype, view.type)) {
    error = "has elements of type " + dtype + ", which is not known";
    return false;
  }
  uint64_t bytes = byteSize(view.type);
  for (size_t i = 0; i < entry["shape"].size(); ++i) {
    uint64_t dim = unsignedAt(entry["shape"], i);
    if (dim > uint64_t(INT64_MAX) || __builtin_mul_overflow(bytes, dim, &bytes)) {
      error = "has a shape that is too large";
      return false;
    }
    view.shape.push_back(int64_t(dim));
  }
  uint64_t begin = unsignedAt(entry["data_offsets"], 0), end = unsignedAt(entry["data_offsets"], 1);
  if (begin > end || end > data.size()) {
    error = "lies outside the file";
    return false;
  }
  if (end - begin != bytes) {
    error = "has " + std::to_string(end - begin) + " bytes, its shape needs " + std::to_string(bytes);
    return false;
  }
  view.data = data.data() + begin;
  view.bytes = bytes;
  return true;
}

} // namespace

bool forebay::rt::parseSafetensors(std::string_view file, TensorFile &result, std::string &error) {
  result = TensorFile();
  uint64_t length = 0;
  if (file.size() < 8) {
    error = "is too short for a safetensors file";
    return false;
  }
  std::memcpy(&length, file.data(), 8);
  if (length > file.size() - 8 || length > 100000000) {
    error = length > 100000000 ? "is not a safetensors file" : "ends inside its header";
    return false;
  }
  std::string_view header = file.substr(8, length), data = file.substr(8 + length);
  // A name that occurs twice would silently lose one tensor.
  std::set<std::string> names;
  std::string twice;
  auto watch = [&](int depth, Json::parse_event_t event, Json &value) {
    if (event == Json::parse_event_t::key && depth == 1 && !names.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json json = Json::parse(header.begin(), header.end(), watch, false);
  if (json.is_discarded() || !json.is_object()) {
    error = "has a header that is not JSON";
    return false;
  }
  if (!twice.empty()) {
    error = "holds '" + twice + "' twice";
    return false;
  }
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &[name, entry] : json.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) {
        error = "has metadata that is not an object";
        return false;
      }
      for (const auto &[key, value] : entry.items())
        if (value.is_string())
          result.metadata[key] = value.get<std::string>();
      continue;
    }
    TensorView view;
    if (!readEntry(entry, data, view, error)) {
      error = "tensor '" + name + "' " + error;
      return false;
    }
    uint64_t begin = uint64_t(view.data - data.data());
    ranges.push_back({begin, begin + view.bytes});
    result.tensors[name] = view;
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = 0;
  for (auto [begin, end] : ranges) {
    if (begin != at) {
      error = begin < at ? "has tensors that overlap" : "has bytes that belong to no tensor";
      return false;
    }
    at = end;
  }
  if (at != data.size()) {
    error = "has " + std::to_string(data.size() - at) + " bytes after its tensors";
    return false;
  }
  return true;
}

bool forebay::rt::writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors,
                                   const std::map<std::string, std::string> &metadata, std::string &error) {
  // Names and metadata are quoted by the library; what is not UTF-8 is replaced rather than refused.
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty())
    json["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorToWrite &tensor : tensors) {
    const char *type = "";
    for (const TypeName &entry : typeNames)
      if (entry.type == tensor.type)
        type = entry.name;
    json[tensor.name] = {{"dtype", type}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string header = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  // Data starts at a multiple of 8.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  AtomicFile file;
  uint64_t length = header.size();
  if (!file.open(path, error) || !file.write(&length, 8, error) || !file.write(header.data(), length, error))
    return false;
  for (const TensorToWrite &tensor : tensors)
    if (!tensor.content([&](const void *data, uint64_t bytes) { return file.write(data, bytes, error); }))
      return false;
  return file.commit(error);
}
