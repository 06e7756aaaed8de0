//===- ModelData.cpp - Where the bytes of initializers are ----------------===//

#include "ModelImpl.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cstring>

using namespace llvm;
using onnx::TensorProto;

namespace forebay::import {

/// Larger tables that no file holds as plain bytes would have to live in the compiler.
constexpr int64_t maxDecoded = 1 << 16;

static std::string describe(const Initializer &init) { return quoted(init.name) + ", " + typeText(init); }

/// Appends little-endian elements of type T.
template <typename T, typename Range>
static void append(const Range &values, std::vector<char> &out) {
  for (auto value : values) {
    T element = static_cast<T>(value);
    const char *bytes = reinterpret_cast<const char *>(&element);
    out.insert(out.end(), bytes, bytes + sizeof(T));
  }
}

/// The elements of a tensor that are not stored as one run of bytes.
static std::vector<char> decode(const TensorProto &proto) {
  std::vector<char> out;
  switch (proto.data_type()) {
  case TensorProto::FLOAT:
    append<float>(proto.float_data(), out);
    break;
  case TensorProto::DOUBLE:
    append<double>(proto.double_data(), out);
    break;
  case TensorProto::INT64:
    append<int64_t>(proto.int64_data(), out);
    break;
  case TensorProto::UINT64:
    append<uint64_t>(proto.uint64_data(), out);
    break;
  case TensorProto::UINT32:
    append<uint32_t>(proto.uint64_data(), out);
    break;
  case TensorProto::INT32:
    append<int32_t>(proto.int32_data(), out);
    break;
  case TensorProto::INT16:
  case TensorProto::UINT16:
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    append<uint16_t>(proto.int32_data(), out);
    break;
  case TensorProto::BOOL:
  case TensorProto::INT8:
  case TensorProto::UINT8:
    append<uint8_t>(proto.int32_data(), out);
    break;
  default:
    break;
  }
  return out;
}

bool Model::Impl::locateInline(const TensorProto &tensor, const InlineData &data, Initializer &init,
                               std::vector<std::string> &problems) {
  int64_t need = init.numElements() * dtypeBytes(init.dtype);
  using Kind = InlineData::Kind;
  bool plain = data.kind == Kind::Raw || (data.kind == Kind::Float && init.dtype == TensorProto::FLOAT) ||
               (data.kind == Kind::Double && init.dtype == TensorProto::DOUBLE);
  if (plain || need == 0) {
    if (int64_t(data.bytes) != need) {
      problems.push_back(describe(init) + " needs " + std::to_string(need) + " bytes, has " +
                         std::to_string(data.bytes));
      return false;
    }
    init.source = Source{file, int64_t(data.offset), need};
    return true;
  }
  if (data.kind == Kind::None) {
    problems.push_back(describe(init) + " has no data");
    return false;
  }
  std::vector<char> bytes = decode(tensor);
  if (int64_t(bytes.size()) != need) {
    problems.push_back(describe(init) + " needs " + std::to_string(init.numElements()) + " elements, has " +
                       std::to_string(bytes.size() / dtypeBytes(init.dtype)));
    return false;
  }
  if (init.numElements() > maxDecoded) {
    problems.push_back(describe(init) + " is stored element by element; only raw_data and packed float_data can be mapped");
    return false;
  }
  decoded[init.name] = std::move(bytes);
  return true;
}

/// Whether `path`, links followed, lies in `folder`, links followed. Files that do not exist are judged by their name.
static bool isInside(StringRef path, StringRef folder) {
  SmallString<256> realPath, realFolder;
  if (sys::fs::real_path(folder, realFolder))
    realFolder = folder;
  if (sys::fs::real_path(path, realPath)) {
    // The file does not exist. Its folder may, and may be a link.
    if (sys::fs::real_path(sys::path::parent_path(path), realPath)) {
      realPath = path;
      realFolder = folder;
      sys::path::remove_dots(realPath, /*remove_dot_dot=*/true);
      sys::path::remove_dots(realFolder, /*remove_dot_dot=*/true);
    } else {
      sys::path::append(realPath, sys::path::filename(path));
    }
  }
  StringRef rest = realPath;
  if (!rest.consume_front(realFolder))
    return false;
  return realFolder == "/" || rest.starts_with("/");
}

bool Model::Impl::locateExternal(TensorProto &tensor, Initializer &init, std::vector<std::string> &problems,
                                 std::vector<std::string> &links) {
  int64_t need = init.numElements() * dtypeBytes(init.dtype);
  std::string location;
  int64_t offset = 0, length = need;
  for (const auto &entry : tensor.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length")
      continue;
    int64_t &target = entry.key() == "offset" ? offset : length;
    if (StringRef(entry.value()).getAsInteger(10, target)) {
      problems.push_back(describe(init) + ": " + entry.key() + " " + quoted(entry.value()) +
                         " is not a number of at most 63 bits");
      return false;
    }
    if (target < 0) {
      problems.push_back(describe(init) + ": " + entry.key() + " " + entry.value() + " is negative");
      return false;
    }
  }
  if (location.empty() || location.find('\0') != std::string::npos) {
    problems.push_back(describe(init) + ": its external data has no location");
    return false;
  }
  if (length != need) {
    problems.push_back(describe(init) + ": length " + std::to_string(length) + ", but it needs " +
                       std::to_string(need) + " bytes");
    return false;
  }
  if (offset > INT64_MAX - length) {
    problems.push_back(describe(init) + ": offset " + std::to_string(offset) + " + length " + std::to_string(length) +
                       " overflows");
    return false;
  }

  SmallString<256> absolute(location);
  if (sys::path::is_relative(absolute)) {
    absolute = folder;
    sys::path::append(absolute, location);
  }
  sys::path::remove_dots(absolute);
  std::string name = absolute.str().str();
  StringRef relative = name;
  if (relative.consume_front(folder == "/" ? folder : folder + "/"))
    name = relative.str();

  // Every file is looked at once.
  DataFile *known = nullptr;
  for (DataFile &candidate : dataFiles)
    if (candidate.name == name)
      known = &candidate;
  if (!known) {
    DataFile entry{name, 0, true};
    if (!isInside(absolute, folder) && !options.allowExternalLinks) {
      if (!is_contained(links, quoted(location)))
        links.push_back(quoted(location));
      return false;
    }
    sys::fs::file_status status;
    if (std::error_code code = sys::fs::status(absolute, status)) {
      entry.present = false;
      if (!options.noWeights) {
        std::string text = quoted(location) + " cannot be read: " + code.message();
        if (!is_contained(problems, text))
          problems.push_back(text);
        return false;
      }
    } else if (status.type() != sys::fs::file_type::regular_file) {
      std::string text = quoted(location) + " is not a regular file";
      if (!is_contained(problems, text))
        problems.push_back(text);
      return false;
    } else {
      entry.bytes = int64_t(status.getSize());
    }
    dataFiles.push_back(std::move(entry));
    known = &dataFiles.back();
  }
  if (!known->present) {
    known->bytes = std::max(known->bytes, offset + length);
  } else if (offset + length > known->bytes && !options.noWeights) {
    problems.push_back(describe(init) + " ends at byte " + std::to_string(offset + length) + " of " + quoted(location) +
                       ", which has " + std::to_string(known->bytes));
    return false;
  }
  init.source = Source{known->name, offset, length};
  return true;
}

bool Model::Impl::readInitializers() {
  onnx::GraphProto &graph = *proto.mutable_graph();
  std::vector<std::string> shapes, types, halves, data, external, links, duplicates;
  StringSet<> names;
  for (auto [index, tensor] : enumerate(*graph.mutable_initializer())) {
    Initializer init;
    init.name = tensor.name();
    init.dtype = tensor.data_type();
    init.shape.assign(tensor.dims().begin(), tensor.dims().end());
    if (init.name.empty()) {
      shapes.push_back("initializer " + std::to_string(index) + " has no name");
      continue;
    }
    if (!names.insert(init.name).second) {
      duplicates.push_back(quoted(init.name));
      continue;
    }
    std::vector<int64_t> factors(init.shape);
    factors.push_back(8);
    if (any_of(init.shape, [](int64_t dim) { return dim < 0; }) || !product(factors)) {
      shapes.push_back(describe(init) + (product(factors) ? ": a dimension is negative" : ": the size overflows"));
      continue;
    }
    if (dtypeBytes(init.dtype) == 0 || tensor.has_segment()) {
      types.push_back(describe(init));
      continue;
    }
    bool isExternal = tensor.data_location() == TensorProto::EXTERNAL;
    bool ok = isExternal ? locateExternal(tensor, init, external, links)
                         : locateInline(tensor, inlineData[index], init, data);
    if (!ok)
      continue;
    initializerIndex[init.name] = initializers.size();
    initializers.push_back(std::move(init));
  }

  bool ok = true;
  auto report = [&](const Twine &what, ArrayRef<std::string> items, ArrayRef<std::string> hints) {
    if (items.empty())
      return;
    reportList(*diags, shown, what, items, hints);
    ok = false;
  };
  report("initializers are defined twice", duplicates, {"every value needs a name of its own; export the model again"});
  report("initializers have no valid shape", shapes, {"the file is damaged; export the model again"});
  report("initializers have a type that is not supported", types,
         {"known are float32, float64, bool and integers of 8 to 64 bits"});
  report("initializers have the wrong amount of data", data,
         {"save the model again with onnx.save, or export it again"});
  report("external data leaves the model's folder", links,
         {"move the data beside " + file + ", or allow it with --allow-external-links"});
  report("external data cannot be used", external,
         {"put the data files of the export beside " + file + "; to look at a plan without weights: --no-weights"});
  return ok;
}

std::optional<ArrayRef<char>> Model::data(const Initializer &init) const {
  auto decoded = impl->decoded.find(init.name);
  if (decoded != impl->decoded.end())
    return ArrayRef<char>(decoded->second);
  if (!init.source)
    return std::nullopt;
  const Source &source = *init.source;
  StringRef bytes;
  if (source.file == impl->file) {
    bytes = impl->buffer->getBuffer();
  } else {
    auto [entry, isNew] = impl->mapped.try_emplace(source.file);
    if (isNew) {
      SmallString<256> path(source.file);
      if (sys::path::is_relative(path)) {
        path = impl->folder;
        sys::path::append(path, source.file);
      }
      sys::fs::file_status status;
      if (!sys::fs::status(path, status) && status.type() == sys::fs::file_type::regular_file)
        if (auto opened = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false))
          entry->second = std::move(*opened);
    }
    if (!entry->second)
      return std::nullopt;
    bytes = entry->second->getBuffer();
  }
  // With --no-weights the file may be shorter than the model says.
  if (uint64_t(source.offset) > bytes.size() || uint64_t(source.bytes) > bytes.size() - source.offset)
    return std::nullopt;
  return ArrayRef<char>(bytes.data() + source.offset, source.bytes);
}

} // namespace forebay::import
