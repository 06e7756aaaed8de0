//===- Feeds.cpp - Data for a program's inputs ----------------------------===//

#include "Feeds.h"

#include <algorithm>
#include <cstring>

using namespace forebay;
using namespace forebay::rt;

namespace {

template <typename T>
T load(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Calls `use` with a value of the C++ type that holds `type`; f16 and bf16 are their bits.
template <typename Use>
auto withType(DType type, Use use) {
  switch (type) {
  case DType::I64:
    return use(int64_t());
  case DType::I32:
    return use(int32_t());
  case DType::I16:
    return use(int16_t());
  case DType::I8:
    return use(int8_t());
  case DType::F32:
    return use(float());
  case DType::F64:
    return use(double());
  case DType::F16:
  case DType::BF16:
    return use(uint16_t());
  default:
    return use(uint8_t());
  }
}

int64_t readInteger(DType type, const char *at) {
  return withType(type, [&](auto zero) { return int64_t(load<decltype(zero)>(at)); });
}

/// Of half types only 0 and 1 are ever asked for.
void writeInteger(DType type, int64_t value, char *at) {
  if (type == DType::F16 || type == DType::BF16)
    value = value == 0 ? 0 : type == DType::F16 ? 0x3c00 : 0x3f80;
  withType(type, [&](auto zero) {
    auto narrow = static_cast<decltype(zero)>(value);
    std::memcpy(at, &narrow, sizeof narrow);
  });
}

/// Products of steps, micro-steps and rows, which a huge --steps must not wrap.
uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

std::string counted(uint64_t number, const char *what) { return std::to_string(number) + ' ' + what + (number == 1 ? "" : "s"); }

bool isInteger(DType type) {
  return type == DType::I64 || type == DType::I32 || type == DType::I16 || type == DType::I8 || type == DType::U8;
}

/// splitmix64: position of a random window from its number alone, so that a resumed run draws the same ones.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t elements(const Tensor &tensor) { return tensor.bytes / byteSize(tensor.type); }

std::string positionText(uint64_t index, const std::vector<int64_t> &shape) {
  std::vector<int64_t> position(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    position[i] = int64_t(index % uint64_t(shape[i]));
    index /= uint64_t(shape[i]);
  }
  return shapeText(position);
}

std::string rangeText(const Tensor &tensor) {
  std::string text = "legal are " + std::to_string(tensor.lo) + " to " + std::to_string(tensor.hi - 1);
  // The smallest number stands for none.
  return tensor.hasIgnore && tensor.ignore != INT64_MIN ? text + " and " + std::to_string(tensor.ignore) : text;
}

bool legal(const Tensor &tensor, int64_t value) {
  return (value >= tensor.lo && value < tensor.hi) || (tensor.hasIgnore && value == tensor.ignore);
}

} // namespace

int Feeds::findInput(const std::string &name) const {
  for (size_t i = 0; i < program->tensors.size(); ++i)
    if (program->tensors[i].role == Role::Input && program->tensors[i].name == name)
      return int(i);
  return -1;
}

void Feeds::bind(const Program &given, const FeedOptions &givenOptions, Problems &problems) {
  program = &given;
  options = givenOptions;
  sources.assign(program->tensors.size(), Source());
  for (const auto &[input, path] : options.arrays)
    bindArray(input, path, problems);
  if (!options.tokens.empty())
    bindTokens(problems);
  std::vector<std::string> missing;
  for (size_t i = 0; i < sources.size(); ++i)
    if (program->tensors[i].role == Role::Input && sources[i].kind == Kind::None)
      missing.push_back(program->tensors[i].name);
  if (!missing.empty() && !problems.any())
    problems.error(missing.size() == 1 ? "input " + missing[0] : "inputs " + joined(missing), "no data",
                   "give --feed=" + missing[0] + "=FILE.npy" + (program->sequence > 0 ? ", or --tokens=FILE for a language model" : ""));
}

void Feeds::bindArray(const std::string &input, const std::string &path, Problems &problems) {
  std::string where = "--feed=" + input + "=" + path;
  int index = findInput(input);
  if (index < 0) {
    std::vector<std::string> known;
    for (const Tensor &tensor : program->tensors)
      if (tensor.role == Role::Input)
        known.push_back(tensor.name);
    problems.error(where, "the program has no input '" + input + "'", "its inputs are " + joined(known));
    return;
  }
  const Tensor &tensor = program->tensors[index];
  Source &source = sources[index];
  if (source.kind != Kind::None) {
    problems.error(where, "input '" + input + "' is fed twice", "give one --feed for each input");
    return;
  }
  source.kind = Kind::Array;
  source.file = path;
  MappedFile file;
  std::string error;
  if (!file.open(path, error) || !parseNpy(file.view(), source.array, error)) {
    problems.error(where, error, "save the rows with numpy.save, in C order and little-endian, as " + std::string(name(tensor.type)));
    return;
  }
  if (source.array.type != tensor.type)
    problems.error(where, std::string("has elements of type ") + name(source.array.type) + ", the input has " + name(tensor.type),
                   std::string("save it as ") + name(tensor.type));
  std::vector<int64_t> row(source.array.shape.begin() + (source.array.shape.empty() ? 0 : 1), source.array.shape.end());
  if (source.array.shape.empty() || row != tensor.shape)
    problems.error(where, "has shape " + shapeText(source.array.shape) + ", a row must have shape " + shapeText(tensor.shape),
                   "the leading axis is the micro-step: [micro-steps" + (tensor.shape.empty() ? "" : ", " + shapeText(tensor.shape).substr(1)) +
              (tensor.shape.empty() ? "]" : ""));
  source.rows = source.array.shape.empty() ? 0 : uint64_t(source.array.shape[0]);
  files.push_back(std::move(file));
}

void Feeds::bindTokens(Problems &problems) {
  std::string where = "--tokens=" + options.tokens;
  if (options.tokensType == "u8" || options.tokensType == "u16" || options.tokensType == "i32" || options.tokensType == "i64") {
    tokenBytes = unsigned(std::stoul(options.tokensType.substr(1))) / 8;
    tokensSigned = options.tokensType[0] == 'i';
  } else {
    problems.error("--tokens-type", "unknown type '" + options.tokensType + "'", "known types: u8, u16, i32, i64");
    return;
  }
  std::string error;
  if (!tokenFile.open(options.tokens, error)) {
    problems.error(where, error, "name a file of raw little-endian tokens");
    return;
  }
  if (tokenFile.bytes() % tokenBytes != 0) {
    problems.error(where, "has " + std::to_string(tokenFile.bytes()) + " bytes, not a multiple of " + std::to_string(tokenBytes),
                   "say what the file holds with --tokens-type=u8|u16|i32|i64");
    return;
  }
  tokenCount = tokenFile.bytes() / tokenBytes;

  // Explicit names must exist; the usual names need not, except the tokens themselves.
  int ids = findInput(options.tokensInput.empty() ? "input_ids" : options.tokensInput);
  int labels = findInput(options.tokensLabels.empty() ? "labels" : options.tokensLabels);
  std::vector<std::string> known;
  for (const Tensor &tensor : program->tensors)
    if (tensor.role == Role::Input)
      known.push_back(tensor.name);
  if (ids < 0) {
    std::string wanted = options.tokensInput.empty() ? "input_ids" : options.tokensInput;
    problems.error(where, "the program has no input '" + wanted + "'", "name it with --tokens-input=NAME; its inputs are " + joined(known));
    return;
  }
  if (labels < 0 && !options.tokensLabels.empty()) {
    problems.error("--tokens-labels", "the program has no input '" + options.tokensLabels + "'", "its inputs are " + joined(known));
    return;
  }
  const Tensor &tensor = program->tensors[ids];
  if (!isInteger(tensor.type) || tensor.shape.empty() || tensor.shape.size() > 2) {
    problems.error(where, "input '" + tensor.name + "' has shape " + shapeText(tensor.shape) + " of " + name(tensor.type) +
                              ", tokens need [batch, sequence] of integers",
                   "name another input with --tokens-input=NAME, or give --feed=" + tensor.name + "=FILE.npy");
    return;
  }
  sequence = uint64_t(tensor.shape.back());
  batch = tensor.shape.size() == 2 ? uint64_t(tensor.shape[0]) : 1;
  bool taken = false;
  auto take = [&](int index, uint64_t shift) {
    Source &source = sources[index];
    const Tensor &target = program->tensors[index];
    if (source.kind != Kind::None)
      return;
    taken = true;
    if (!isInteger(target.type) || elements(target) != batch * sequence) {
      problems.error(where, "input '" + target.name + "' has shape " + shapeText(target.shape) + " of " + name(target.type) + ", not that of '" +
                                tensor.name + "'",
                     "give --feed=" + target.name + "=FILE.npy");
      return;
    }
    source.kind = Kind::Tokens;
    source.file = options.tokens;
    source.shift = shift;
  };
  // What is named on purpose must not be passed over.
  if (!options.tokensLabels.empty() && labels == ids)
    problems.error("--tokens-labels=" + tensor.name, "is the input that takes the tokens", "name another input, or leave it out");
  for (auto [option, index] : {std::pair("--tokens-input", options.tokensInput.empty() ? -1 : ids), std::pair("--tokens-labels", options.tokensLabels.empty() ? -1 : labels)})
    if (index >= 0 && sources[index].kind != Kind::None)
      problems.error(std::string(option) + "=" + program->tensors[index].name, "the input has a --feed already", "leave one of them out");
  if (options.tokensShift != 0 && (labels < 0 || labels == ids || sources[labels].kind != Kind::None))
    problems.error("--tokens-shift=" + std::to_string(options.tokensShift), "no labels come from the tokens",
                   "leave it out, or name the input for labels with --tokens-labels=NAME");
  if (problems.any())
    return;
  take(ids, 0);
  if (labels >= 0 && labels != ids)
    take(labels, options.tokensShift);
  if (!taken) {
    problems.error(where, "no input takes its tokens: " + tensor.name + (labels >= 0 && labels != ids ? " and " + program->tensors[labels].name + " have" : " has") + " a --feed",
                   "leave --tokens or --feed out");
    return;
  }
  for (auto [input, kind] : {std::pair("attention_mask", Kind::Ones), std::pair("position_ids", Kind::Positions)}) {
    int index = findInput(input);
    if (index < 0 || sources[index].kind != Kind::None)
      continue;
    if (kind == Kind::Positions && (!isInteger(program->tensors[index].type) || program->tensors[index].shape.empty() ||
                                    uint64_t(program->tensors[index].shape.back()) != sequence))
      continue; // reported as an input without data
    sources[index].kind = kind;
  }
  uint64_t needed = sequence + options.tokensShift;
  if (sequence == 0 || batch == 0 || needed < sequence || tokenCount < needed) {
    problems.error(where, "has " + counted(tokenCount, "token") + ", one window needs " + std::to_string(needed),
                   "give a longer file, or compile for a shorter sequence");
    return;
  }
  windows = (tokenCount - options.tokensShift) / sequence;
  for (Source &source : sources)
    if (source.kind == Kind::Tokens)
      source.rows = windows / std::max<uint64_t>(batch, 1);
}

uint64_t Feeds::stepsAvailable() const {
  uint64_t rows = UINT64_MAX;
  for (const Source &source : sources)
    if (source.kind == Kind::Array || source.kind == Kind::Tokens)
      rows = std::min(rows, source.rows);
  return rows == UINT64_MAX ? 0 : rows / program->accumulate;
}

int64_t Feeds::token(uint64_t index) const {
  const char *at = tokenFile.data() + index * tokenBytes;
  switch (tokenBytes) {
  case 1:
    return load<uint8_t>(at);
  case 2:
    return load<uint16_t>(at);
  case 4:
    return load<int32_t>(at);
  default:
    return load<int64_t>(at);
  }
}

uint64_t Feeds::windowStart(uint64_t micro, uint64_t row) const {
  uint64_t window = micro * batch + row;
  if (!options.randomBatches)
    return window % windows * sequence;
  uint64_t starts = tokenCount - options.tokensShift - sequence + 1;
  return uint64_t((unsigned __int128)mix(mix(options.seed) ^ mix(~window)) * starts >> 64);
}

void Feeds::fill(uint32_t index, uint64_t micro, void *destination) const {
  const Tensor &tensor = program->tensors[index];
  const Source &source = sources[index];
  char *out = static_cast<char *>(destination);
  unsigned size = byteSize(tensor.type);
  switch (source.kind) {
  case Kind::None:
    return;
  case Kind::Array:
    std::memcpy(out, source.array.data + micro % source.rows * tensor.bytes, tensor.bytes);
    return;
  case Kind::Tokens:
    for (uint64_t row = 0; row < batch; ++row) {
      uint64_t start = windowStart(micro, row) + source.shift;
      for (uint64_t i = 0; i < sequence; ++i, out += size)
        writeInteger(tensor.type, token(start + i), out);
    }
    return;
  case Kind::Ones:
  case Kind::Positions:
    for (uint64_t i = 0, count = elements(tensor); i < count; ++i, out += size)
      writeInteger(tensor.type, source.kind == Kind::Ones ? 1 : int64_t(i % sequence), out);
    return;
  }
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

std::string Feeds::describe() const {
  std::string text;
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i].kind == Kind::Array)
      text += (text.empty() ? "" : ", ") + counted(sources[i].rows, "row") + " of " + program->tensors[i].name;
  if (tokenFile.bytes() == 0)
    return text;
  text += (text.empty() ? "" : ", ") + counted(tokenCount, "token") + " of " + options.tokensType;
  if (options.tokensShift != 0)
    text += ", labels shifted by " + std::to_string(options.tokensShift);
  return text + (options.randomBatches ? ", random windows of seed " + std::to_string(options.seed) : ", consecutive windows");
}

/// "3 steps of 2 micro-steps".
std::string Feeds::stepsText(uint64_t steps) const {
  return counted(steps, "step") + (program->accumulate > 1 ? " of " + counted(program->accumulate, "micro-step") : "") + (steps == 1 ? " reads " : " read ");
}

void Feeds::reportNoSteps(Problems &problems) const {
  unsigned before = problems.errors();
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source &source = sources[i];
    if (source.rows >= program->accumulate)
      continue;
    std::string has = source.rows == 0 ? "has no rows" : "has " + counted(source.rows, "row") + ", " + stepsText(1) + std::to_string(program->accumulate);
    if (source.kind == Kind::Array)
      problems.error("--feed=" + program->tensors[i].name + "=" + source.file, has,
                     source.rows == 0 ? "save at least one row"
                     : options.repeat ? "give --steps=N"
                                      : "give --repeat to start over at its end, and --steps=N");
    else if (source.kind == Kind::Tokens && problems.errors() == before)
      problems.error("--tokens=" + source.file, has, "give --steps=N: the file starts over at its end");
  }
  if (problems.errors() == before)
    problems.error("--steps", "the data does not say how many steps to run", "give --steps=N");
}

void Feeds::check(uint64_t first, uint64_t steps, Problems &problems) {
  uint64_t firstMicro = times(first, program->accumulate), micros = times(steps, program->accumulate);
  uint64_t needed = times(first + steps, program->accumulate);
  for (size_t i = 0; i < sources.size(); ++i) {
    const Source &source = sources[i];
    const Tensor &tensor = program->tensors[i];
    if (source.kind == Kind::Array) {
      if (source.rows == 0 && micros != 0) {
        problems.error("--feed=" + tensor.name + "=" + source.file, "has no rows", "save at least one row");
        continue;
      }
      if (needed > source.rows && !options.repeat) {
        std::string note = "give --repeat to start over at its end";
        if (source.rows / program->accumulate > 0)
          note += ", or --steps=" + std::to_string(source.rows / program->accumulate);
        problems.error("--feed=" + tensor.name + "=" + source.file, "has " + counted(source.rows, "row") + ", " + stepsText(first + steps) + std::to_string(needed),
                       note);
        continue;
      }
      if (tensor.hasRange && isInteger(tensor.type) && micros != 0) {
        bool whole = needed > source.rows;
        checkArray(tensor, source, whole ? 0 : firstMicro, whole ? source.rows : micros, problems);
      }
    } else if (source.kind == Kind::Tokens && tensor.hasRange) {
      checkTokens(tensor, source, firstMicro, micros, problems);
    }
  }
}

void Feeds::checkArray(const Tensor &tensor, const Source &source, uint64_t firstRow, uint64_t rows, Problems &problems) const {
  uint64_t perRow = elements(tensor), bad = 0, at = 0;
  unsigned size = byteSize(tensor.type);
  int64_t value = 0;
  for (uint64_t i = firstRow * perRow, end = (firstRow + rows) * perRow; i < end; ++i) {
    int64_t current = readInteger(tensor.type, source.array.data + i * size);
    if (legal(tensor, current))
      continue;
    if (bad++ == 0) {
      at = i;
      value = current;
    }
  }
  if (bad == 0)
    return;
  std::string more = bad > 1 ? " (and " + std::to_string(bad - 1) + " more such values)" : "";
  problems
      .error("--feed=" + tensor.name + "=" + source.file, "row " + std::to_string(at / perRow) + ", position " +
                                                              positionText(at % perRow, tensor.shape) + ": " + std::to_string(value) +
                                                              " is out of range" + more,
             rangeText(tensor));
}

/// Only what the run reads is looked at; random batches may read anything.
void Feeds::checkTokens(const Tensor &tensor, const Source &source, uint64_t firstMicro, uint64_t micros, Problems &problems) const {
  uint64_t begin = source.shift, end = begin + windows * sequence;
  if (options.randomBatches) {
    end = tokenCount;
    begin = 0;
  } else if (times(firstMicro + micros, batch) <= windows) {
    begin = source.shift + firstMicro * batch * sequence;
    end = source.shift + (firstMicro + micros) * batch * sequence;
  }
  // Unsigned types may be unable to hold a bad value.
  if (!tokensSigned && tensor.lo <= 0 && tensor.hi >= int64_t(1) << (8 * tokenBytes))
    return;
  uint64_t bad = 0, at = 0;
  int64_t value = 0;
  for (uint64_t i = begin; i < end; ++i) {
    int64_t current = token(i);
    if (legal(tensor, current))
      continue;
    if (bad++ == 0) {
      at = i;
      value = current;
    }
  }
  if (bad == 0)
    return;
  std::string more = bad > 1 ? " (and " + std::to_string(bad - 1) + " more such tokens)" : "";
  problems
      .error("--tokens=" + source.file, "token " + std::to_string(at) + " is " + std::to_string(value) + ", out of range for input '" +
                                           tensor.name + "'" + more,
             rangeText(tensor) + "; the file was read as " + options.tokensType);
}

std::vector<std::string> Feeds::notices(uint64_t first, uint64_t steps) const {
  std::vector<std::string> result;
  if (windows == 0 || options.randomBatches)
    return result;
  uint64_t needed = times(times(first + steps, program->accumulate), batch);
  if (needed > windows)
    result.push_back("--tokens=" + options.tokens + ": " + std::to_string(windows) + " windows of " + std::to_string(sequence) +
                     " tokens, the run reads " + std::to_string(needed) + ": it starts over at the end");
  return result;
}
