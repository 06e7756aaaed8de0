//===- ModelDims.cpp - Shapes of the inputs -------------------------------===//

#include "ModelImpl.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace forebay {

bool parseDim(StringRef text, ImportOptions &options, Diagnostics &diags) {
  std::string where = ("--dim=" + text).str();
  auto [name, number] = text.rsplit('=');
  StringRef hint = "write --dim=NAME=N, for example --dim=batch=4";
  if (name.size() == text.size() || name.empty()) {
    diags.error(where, "is not of the form NAME=N").note(hint);
    return false;
  }
  int64_t value;
  if (number.getAsInteger(10, value)) {
    bool isNumber = !number.empty() && all_of(number.drop_while([](char c) { return c == '-'; }), isDigit);
    diags.error(where, isNumber ? "the number is too large" : "'" + number + "' is not a number").note(hint);
    return false;
  }
  if (value <= 0) {
    diags.error(where, value == 0 ? "a dimension cannot be 0" : "a dimension cannot be negative")
        .note("a dimension is 1 or more");
    return false;
  }
  for (auto &[known, previous] : options.dims)
    if (known == name) {
      previous = value;
      return true;
    }
  options.dims.emplace_back(name.str(), value);
  return true;
}

namespace import {
namespace {

/// More elements than any machine holds: sizes computed from it later would overflow.
constexpr int64_t maxElements = int64_t(1) << 40;

/// Dimensions are names or, where the exporter derived one from another, expressions: `2*seq`, `seq + 1`, `batch//2`,
/// `Min(64, seq)`.
class Expression {
public:
  using Lookup = function_ref<std::optional<int64_t>(StringRef)>;

  /// The value, or nothing if `text` is no expression, overflows, or needs a name that `lookup` does not know.
  static std::optional<int64_t> evaluate(StringRef text, Lookup lookup) {
    Expression parser(text, lookup);
    std::optional<int64_t> value = parser.sum();
    parser.skip();
    return parser.rest.empty() ? value : std::nullopt;
  }

private:
  Expression(StringRef text, Lookup lookup) : rest(text), lookup(lookup) {}

  void skip() { rest = rest.ltrim(); }
  bool eat(StringRef token) {
    skip();
    return rest.consume_front(token);
  }
  std::optional<int64_t> sum() {
    std::optional<int64_t> left = term();
    while (left) {
      bool plus = eat("+");
      if (!plus && !eat("-"))
        return left;
      std::optional<int64_t> right = term();
      int64_t result;
      if (!right || (plus ? AddOverflow(*left, *right, result) : SubOverflow(*left, *right, result)))
        return std::nullopt;
      left = result;
    }
    return left;
  }
  std::optional<int64_t> term() {
    std::optional<int64_t> left = factor();
    while (left) {
      bool isDivision = eat("//");
      if (!isDivision && !eat("*"))
        return left;
      std::optional<int64_t> right = factor();
      if (!right)
        return std::nullopt;
      if (isDivision) {
        if (*right <= 0 || *left < 0)
          return std::nullopt;
        left = *left / *right;
        continue;
      }
      int64_t result;
      if (MulOverflow(*left, *right, result))
        return std::nullopt;
      left = result;
    }
    return left;
  }
  std::optional<int64_t> factor() {
    if (++depth > 64)
      return std::nullopt;
    skip();
    std::optional<int64_t> value;
    bool isMin = eat("Min("), isMax = !isMin && eat("Max(");
    if (isMin || isMax) {
      value = sum();
      while (value && eat(",")) {
        std::optional<int64_t> other = sum();
        if (!other)
          return std::nullopt;
        value = isMin ? std::min(*value, *other) : std::max(*value, *other);
      }
      if (!eat(")"))
        return std::nullopt;
    } else if (eat("(")) {
      value = sum();
      if (!eat(")"))
        return std::nullopt;
    } else if (!rest.empty() && isDigit(rest.front())) {
      int64_t number;
      if (rest.consumeInteger(10, number))
        return std::nullopt;
      value = number;
    } else {
      StringRef name = rest.take_while([](char c) { return isAlnum(c) || c == '_' || c == '.'; });
      if (name.empty())
        return std::nullopt;
      rest = rest.drop_front(name.size());
      value = lookup(name);
    }
    --depth;
    return value;
  }

  StringRef rest;
  Lookup lookup;
  unsigned depth = 0;
};

/// The names in a dimension; a text that is no expression is one name.
std::vector<std::string> namesIn(const std::string &text) {
  std::vector<std::string> names;
  auto collect = [&](StringRef name) -> std::optional<int64_t> {
    if (!is_contained(names, name.str()))
      names.push_back(name.str());
    return 1;
  };
  // Subtracting 1 from 1 is fine here, dividing by 0 is not: then the names found so far do.
  if (!Expression::evaluate(text, collect) || names.empty())
    return {text};
  return names;
}

std::optional<int64_t> valueOf(const std::string &text, Expression::Lookup lookup) {
  if (std::optional<int64_t> value = lookup(text))
    return value;
  return Expression::evaluate(text, lookup);
}

/// `{s72: VR[2, 256], s38: VR[1, int_oo]}`: ranges under the exporter's own names, in the order in which it met them.
std::vector<DimRange> parseRanges(StringRef text) {
  std::vector<DimRange> ranges;
  while (true) {
    size_t start = text.find("VR[");
    if (start == StringRef::npos)
      return ranges;
    text = text.drop_front(start + 3);
    auto [low, high] = text.take_until([](char c) { return c == ']'; }).split(',');
    DimRange range;
    if (low.trim().getAsInteger(10, range.low))
      range.low = 1;
    if (high.trim().getAsInteger(10, range.high))
      range.high = INT64_MAX;
    ranges.push_back(range);
  }
}

} // namespace

bool Model::Impl::bindDims() {
  onnx::GraphProto &graph = *proto.mutable_graph();
  std::vector<onnx::ValueInfoProto *> fed;
  std::vector<std::string> untyped, unnamed;
  bool ok = true;

  // What is fed, and which names its dimensions have.
  MapVector<StringRef, DimRange> symbols;
  std::vector<std::vector<std::string>> keep; // Owns the names.
  for (auto &input : *graph.mutable_input()) {
    if (initializerIndex.count(input.name()))
      continue;
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) {
      untyped.push_back(quoted(input.name()));
      continue;
    }
    const auto &type = input.type().tensor_type();
    StringRef kind = kindOf(input.name());
    bool isWeight = kind == "PARAMETER" || kind == "BUFFER" || kind == "CONSTANT_TENSOR";
    for (auto [axis, dim] : enumerate(type.shape().dim())) {
      if (dim.has_dim_value())
        continue;
      if (dim.dim_param().empty() || isWeight) {
        unnamed.push_back(quoted(input.name()) + ", dimension " + std::to_string(axis));
        continue;
      }
      keep.push_back(namesIn(dim.dim_param()));
    }
    if (isWeight) {
      Initializer init;
      init.name = input.name();
      init.dtype = type.elem_type();
      for (const auto &dim : type.shape().dim())
        init.shape.push_back(dim.dim_value());
      initializerIndex[init.name] = initializers.size();
      parametersAsInputs.push_back(init.name);
      initializers.push_back(std::move(init));
    } else {
      fed.push_back(&input);
    }
  }
  for (const auto &names : keep)
    for (const std::string &name : names)
      symbols.insert({name, DimRange()});
  if (!untyped.empty()) {
    reportList(*diags, shown, "inputs are no tensors of known rank", untyped,
               {"sequences, maps and inputs without a shape cannot be fed; export with tensors as inputs"});
    ok = false;
  }
  if (!unnamed.empty()) {
    reportList(*diags, shown, "dimensions of inputs are unknown and have no name", unnamed,
               {"name them when exporting: dynamic_shapes={\"x\": {0: \"batch\"}}"});
    ok = false;
  }

  std::vector<DimRange> ranges = parseRanges(metadata(graph.metadata_props(), rangesKey));
  bool hasRanges = !symbols.empty() && ranges.size() == symbols.size();
  if (hasRanges)
    for (auto [symbol, range] : zip(symbols, ranges))
      symbol.second = range;
  auto rangeText = [&](const DimRange &range) -> std::string {
    if (!hasRanges)
      return "";
    std::string low = std::to_string(range.low);
    return range.high == INT64_MAX ? low + " or more" : low + " to " + std::to_string(range.high);
  };
  auto describe = [&](StringRef name, const DimRange &range) {
    std::string text = rangeText(range);
    return name.str() + (text.empty() ? "" : " (" + text + ")");
  };

  // Each name needs a value, and each value a name.
  StringMap<int64_t> bound;
  std::vector<std::string> unknown;
  for (const auto &[name, value] : options.dims) {
    if (!symbols.count(name))
      unknown.push_back(name);
    bound[name] = value;
  }
  std::string known;
  for (const auto &[name, range] : symbols)
    known += (known.empty() ? "" : ", ") + describe(name, range);
  for (const std::string &name : unknown) {
    diags->error("--dim=" + name + "=" + std::to_string(bound[name]), "the inputs have no dimension " + quoted(name))
        .note(symbols.empty() ? "all dimensions of the inputs are fixed in this model" : "its dimensions are: " + known);
    ok = false;
  }
  std::vector<std::string> missing;
  for (const auto &[name, range] : symbols) {
    auto found = bound.find(name);
    if (found == bound.end()) {
      missing.push_back(describe(name, range) + ": --dim=" + name.str() + "=N");
      continue;
    }
    dims.emplace_back(name.str(), found->second);
    if (hasRanges && (found->second < range.low || found->second > range.high))
      diags->warning("--dim=" + name + "=" + std::to_string(found->second),
                     "outside the range for which the model was exported, " + rangeText(range));
  }
  if (!missing.empty()) {
    reportList(*diags, shown, missing.size() == 1 ? "a dimension has no value" : "dimensions have no value", missing,
               {"give each as --dim=NAME=N"});
    ok = false;
  }
  if (!ok)
    return false;

  auto lookup = [&](StringRef name) -> std::optional<int64_t> {
    auto found = bound.find(name);
    return found == bound.end() ? std::nullopt : std::optional<int64_t>(found->second);
  };
  std::vector<std::string> bad, types;
  for (onnx::ValueInfoProto *input : fed) {
    auto &type = *input->mutable_type()->mutable_tensor_type();
    Tensor tensor;
    tensor.name = input->name();
    tensor.dtype = type.elem_type();
    std::string problem;
    for (auto &dim : *type.mutable_shape()->mutable_dim()) {
      if (!dim.has_dim_value()) {
        std::optional<int64_t> value = valueOf(dim.dim_param(), lookup);
        if (!value || *value < 1)
          problem = "dimension " + quoted(dim.dim_param()) + " would be " + (value ? std::to_string(*value) : "too large");
        dim.set_dim_value(value.value_or(0));
      }
      if (dim.dim_value() < 0)
        problem = "dimension " + std::to_string(dim.dim_value()) + " is negative";
      tensor.shape.push_back(dim.dim_value());
    }
    std::optional<int64_t> elements = product(tensor.shape);
    if (problem.empty() && (!elements || *elements > maxElements))
      problem = typeText(tensor) + " has too many elements";
    if (!problem.empty())
      bad.push_back(quoted(tensor.name) + ": " + problem);
    if (dtypeBytes(tensor.dtype) == 0)
      types.push_back(quoted(tensor.name) + ", " + typeText(tensor));
    inputs.push_back(std::move(tensor));
  }
  // Parameters as inputs went around the checks of initializers.
  for (const std::string &name : parametersAsInputs) {
    const Initializer &init = initializers[initializerIndex[name]];
    std::vector<int64_t> factors(init.shape);
    factors.push_back(8);
    if (any_of(init.shape, [](int64_t dim) { return dim < 0; }) || !product(factors))
      bad.push_back(quoted(name) + ": " + typeText(init) + " is not a valid shape");
    else if (dtypeBytes(init.dtype) == 0)
      types.push_back(quoted(name) + ", " + typeText(init));
  }
  if (!bad.empty()) {
    reportList(*diags, shown, "inputs have no usable shape", bad, {"choose other values for --dim"});
    ok = false;
  }
  if (!types.empty()) {
    reportList(*diags, shown, "inputs have a type that is not supported", types,
               {"known are float32, float64, bool and integers of 8 to 64 bits"});
    ok = false;
  }
  return ok;
}

} // namespace import
} // namespace forebay
