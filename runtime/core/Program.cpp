//===- Program.cpp - The program as bytes and in step.so ------------------===//

#include "ProgramArchive.h"

#include "forebay/paths.h"

// Header only: the runtime has no library to find beside it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <memory>
#include <tuple>

using namespace forebay;
using namespace forebay::archive;

unsigned forebay::byteSize(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F16:
  case DType::BF16:
  case DType::I16:
    return 2;
  case DType::I8:
  case DType::U8:
  case DType::Bool:
    return 1;
  }
  return 0;
}

const char *forebay::name(DType type) {
  static const char *const names[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"};
  return names[static_cast<unsigned>(type)];
}

const char *forebay::name(Role role) {
  static const char *const names[] = {"input",  "parameter", "weight copy", "buffer",     "moment",  "accumulator", "output",
                                      "loss",   "gradient",  "activation",  "control", "staging", "workspace", "shadow"};
  return names[static_cast<unsigned>(role)];
}

const char *forebay::name(OpClass value) {
  static const char *const names[] = {"elementwise", "matmul", "attention", "reduction", "gather", "optimizer", "cast"};
  return names[static_cast<unsigned>(value)];
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

// magic, ABI, length of the content, content, XXH3-64 of everything before it.
static constexpr std::string_view kMagic("FOREBAY\0", 8);
static constexpr size_t kHeader = 8 + 4 + 8, kTrailer = 8;

std::string forebay::serialize(const Program &program) {
  Writer content;
  visit(content, const_cast<Program &>(program)); // a Writer changes nothing
  std::string out(kMagic);
  putNumber(out, program.abi);
  putNumber(out, static_cast<uint64_t>(content.bytes.size()));
  out += content.bytes;
  putNumber(out, static_cast<uint64_t>(XXH3_64bits(out.data(), out.size())));
  return out;
}

bool forebay::deserialize(std::string_view bytes, Program &program, std::string &error) {
  auto fail = [&](std::string why) {
    error = std::move(why);
    return false;
  };
  if (bytes.size() < kHeader + kTrailer)
    return fail("the program is cut: " + std::to_string(bytes.size()) + " bytes");
  if (bytes.substr(0, kMagic.size()) != kMagic)
    return fail("not a Forebay program");
  auto abi = getNumber<uint32_t>(bytes.data() + 8);
  if (abi != kProgramAbi)
    return fail("the program has version " + std::to_string(abi) + ", this runtime reads version " +
                std::to_string(kProgramAbi));
  auto length = getNumber<uint64_t>(bytes.data() + 12);
  if (length != bytes.size() - kHeader - kTrailer)
    return fail("the program is cut: its header says " + std::to_string(length) + " bytes of content, there are " +
                std::to_string(bytes.size() - kHeader - kTrailer));
  size_t hashed = bytes.size() - kTrailer;
  if (getNumber<uint64_t>(bytes.data() + hashed) != XXH3_64bits(bytes.data(), hashed))
    return fail("the program is damaged: its checksum does not match");
  Program result;
  Reader reader(bytes.substr(kHeader, length));
  visit(reader, result);
  if (!reader.error.empty())
    return fail("the program is damaged: " + reader.error);
  if (!reader.rest.empty())
    return fail("the program is damaged: " + std::to_string(reader.rest.size()) + " bytes too many");
  if (result.abi != abi)
    return fail("the program is damaged: its two version numbers differ");
  program = std::move(result);
  return true;
}

//===----------------------------------------------------------------------===//
// The ELF section
//===----------------------------------------------------------------------===//

namespace {

/// What we need of an ELF64 little-endian file. Every access is checked against the file's size.
class ElfFile {
public:
  explicit ElfFile(std::string_view bytes) : bytes(bytes) {}

  /// Finds section `name`. On error says why: not ELF, cut, or no such section.
  bool section(std::string_view name, std::string_view &content, std::string &error) const {
    if (bytes.size() < 64 || bytes.substr(0, 4) != "\x7f"
                                                   "ELF")
      return error = "not an ELF shared object", false;
    if (bytes[4] != 2 || bytes[5] != 1)
      return error = "not a 64-bit little-endian ELF file", false;
    uint64_t table = at<uint64_t>(40), count = at<uint16_t>(60), names = at<uint16_t>(62);
    if (at<uint16_t>(58) != kEntry || count == 0 || !inside(table, count * kEntry))
      return error = "the file is cut: its section table lies outside", false;
    if (names >= count || type(table, names) == kNoBits || !segmentsInside())
      return error = "the file is cut or damaged", false;
    for (uint64_t i = 0; i < count; ++i)
      if (type(table, i) != kNoBits && !inside(offset(table, i), size(table, i)))
        return error = "the file is cut: a section lies outside", false;
    std::string_view strings = bytes.substr(offset(table, names), size(table, names));
    for (uint64_t i = 0; i < count; ++i) {
      uint32_t nameOffset = at<uint32_t>(table + i * kEntry);
      if (type(table, i) == kNoBits || nameOffset >= strings.size())
        continue;
      std::string_view rest = strings.substr(nameOffset);
      if (rest.substr(0, rest.find('\0')) != name)
        continue;
      content = bytes.substr(offset(table, i), size(table, i));
      return true;
    }
    return error = "no Forebay program in it (section " + std::string(name) + ")", false;
  }

private:
  static constexpr uint64_t kEntry = 64;
  static constexpr uint32_t kNoBits = 8;

  template <typename T> T at(uint64_t offset) const { return getNumber<T>(bytes.data() + offset); }
  bool inside(uint64_t offset, uint64_t size) const { return offset <= bytes.size() && size <= bytes.size() - offset; }
  uint32_t type(uint64_t table, uint64_t i) const { return at<uint32_t>(table + i * kEntry + 4); }
  uint64_t offset(uint64_t table, uint64_t i) const { return at<uint64_t>(table + i * kEntry + 24); }
  uint64_t size(uint64_t table, uint64_t i) const { return at<uint64_t>(table + i * kEntry + 32); }

  bool segmentsInside() const {
    uint64_t table = at<uint64_t>(32), size = at<uint16_t>(54), count = at<uint16_t>(56);
    if (count == 0)
      return true;
    if (size != 56 || !inside(table, count * size))
      return false;
    for (uint64_t i = 0; i < count; ++i)
      if (!inside(at<uint64_t>(table + i * size + 8), at<uint64_t>(table + i * size + 32)))
        return false;
    return true;
  }

  std::string_view bytes;
};

} // namespace

/// Whole file, or false with the reason.
static bool readFile(const std::string &path, std::string &bytes, std::string &error) {
  // Opening a pipe would wait for its writer.
  if (std::string what = irregular(path); !what.empty())
    return error = what, false;
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file)
    return error = std::strerror(errno), false;
  char buffer[1 << 16];
  size_t got;
  while ((got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0)
    bytes.append(buffer, got);
  if (std::ferror(file.get()))
    return error = std::strerror(errno), false;
  return true;
}

Pairs::Pairs(const Program &program) {
  for (const Tensor &shadow : program.tensors) {
    if (shadow.role != Role::Shadow || shadow.copyOf < 0 || size_t(shadow.copyOf) >= program.tensors.size() || shadow.bytes == 0)
      continue;
    const Tensor &home = program.tensors[shadow.copyOf];
    parts.push_back({shadow.space, shadow.offset, shadow.bytes, home.offset});
    parts.push_back({home.space, home.offset, home.bytes, shadow.offset});
  }
  std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) { return std::tie(a.space, a.offset) < std::tie(b.space, b.offset); });
}

std::string forebay::checkPairs(const Program &program) {
  std::vector<int32_t> shadowOf(program.tensors.size(), -1);
  auto quoted = [&](size_t tensor) { return "'" + program.tensors[tensor].name + "'"; };
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor &shadow = program.tensors[i];
    if (shadow.role != Role::Shadow)
      continue;
    const std::string where = "tensor " + quoted(i);
    if (shadow.copyOf < 0 || size_t(shadow.copyOf) >= program.tensors.size())
      return where + " is the shadow of nothing";
    const Tensor &home = program.tensors[shadow.copyOf];
    if ((home.role != Role::Parameter && home.role != Role::Moment) || home.space != shadow.space || home.bytes != shadow.bytes)
      return where + " is the shadow of no parameter or moment of its size beside it";
    if (shadow.offset % 64 || home.offset % 64)
      return where + " and what it is the shadow of do not both begin on 64 bytes";
    if (int32_t &other = shadowOf[shadow.copyOf]; other < 0)
      other = int32_t(i);
    else
      return where + " is a second shadow of " + quoted(shadow.copyOf) + ", beside " + quoted(other);
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (const Tensor &tensor = program.tensors[i]; tensor.bytes && tensor.role != Role::Output && tensor.role != Role::Loss)
      order.push_back(i);
  auto begin = [&](size_t i) { return std::make_tuple(program.tensors[i].space, program.tensors[i].offset, i); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return begin(a) < begin(b); });
  auto isPaired = [&](size_t i) { return program.tensors[i].role == Role::Shadow || shadowOf[i] >= 0; };
  // If any that begins earlier overlaps, then the one that reaches furthest: of all, or of paired ones.
  int64_t furthest = -1, furthestPaired = -1;
  auto end = [&](size_t i) { return program.tensors[i].offset + program.tensors[i].bytes; };
  for (size_t i : order) {
    if (int64_t before = isPaired(i) ? furthest : furthestPaired;
        before >= 0 && program.tensors[before].space == program.tensors[i].space && end(before) > program.tensors[i].offset)
      return "tensors " + quoted(before) + " and " + quoted(i) + " overlap, and applied steps exchange one of them with its shadow";
    auto reach = [&](int64_t &most) {
      if (most < 0 || program.tensors[most].space != program.tensors[i].space || end(i) > end(most))
        most = int64_t(i);
    };
    reach(furthest);
    if (isPaired(i))
      reach(furthestPaired);
  }
  return "";
}

/// The last part that begins before the end of `range`, in its space.
const Pairs::Part *Pairs::lastBefore(const Range &range) const {
  auto it = std::partition_point(parts.begin(), parts.end(), [&](const Part &p) { return std::tie(p.space, p.offset) < std::make_tuple(range.space, range.offset + range.bytes); });
  return it == parts.begin() || std::prev(it)->space != range.space ? nullptr : &*std::prev(it);
}

bool Pairs::touches(const Range &range) const {
  const Part *part = lastBefore(range);
  return range.bytes != 0 && part && part->offset + part->bytes > range.offset;
}

std::optional<Range> Pairs::exchanged(const Range &range) const {
  const Part *part = lastBefore(range);
  if (!touches(range) || range.offset < part->offset || range.offset + range.bytes > part->offset + part->bytes)
    return std::nullopt;
  return Range{range.space, part->other + (range.offset - part->offset), range.bytes, range.access};
}

std::string forebay::describeSpeculation(const Program &program) {
  auto isUpdate = [](const Command &c) { return c.predicate == Predicate::Speculate && c.kind == CommandKind::Dispatch && c.tensor >= 0; };
  auto updates = std::count_if(program.step.begin(), program.step.end(), isUpdate);
  if (updates == 0)
    return "";
  std::string text = std::to_string(updates) + (updates == 1 ? " update" : " updates");
  if (program.rejectLimit < 0)
    return text + " could run before the verdict, but that gains nothing, so none does";
  text += updates == 1 ? " runs before the verdict" : " run before the verdict";
  if (program.rejectLimit >= 1)
    return text + ", however many of the recent steps were clipped or skipped";
  if (program.rejectLimit >= 0.995)
    return text + ", unless nearly all of the recent steps were clipped or skipped";
  char limit[16];
  std::snprintf(limit, sizeof limit, "%.3g%%", 100 * program.rejectLimit);
  return text + ", unless more than " + limit + " of the recent steps were clipped or skipped";
}

std::vector<Value> forebay::livesForSums(const Program &program) {
  std::map<std::tuple<uint32_t, uint64_t, uint32_t>, uint64_t> starts; // space, offset, first command: bytes
  for (const Value &v : program.values)
    if (!v.persistent)
      starts[{v.space, v.offset, v.first}] = v.bytes;
  std::vector<Value> values = program.values;
  for (Value &v : values) {
    auto next = starts.find({v.space, v.offset, v.last});
    if (!v.persistent && v.first < v.last && next != starts.end() && next->second == v.bytes)
      --v.last;
  }
  return values;
}

bool forebay::readProgramFile(const std::string &path, Program &program, std::string &error) {
  std::string bytes;
  if (!readFile(path, bytes, error))
    return false;
  std::string_view content;
  return ElfFile(bytes).section(kProgramSection, content, error) && deserialize(content, program, error);
}
