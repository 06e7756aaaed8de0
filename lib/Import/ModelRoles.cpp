//===- ModelRoles.cpp - Parameters, buffers, constants --------------------===//
//
// Only the exporter knows which initializers are parameters; PyTorch writes it down. Without its word we ask. And we
// refuse graphs in which the exporter's optimizer has merged or folded parameters: they would train, but another model.
//
//===----------------------------------------------------------------------===//

#include "ModelImpl.h"
#include "forebay/Support/Regex.h"

#include "llvm/ADT/StringSet.h"

#include <map>

using namespace llvm;
using onnx::NodeProto;
using onnx::TensorProto;

namespace forebay::import {

/// Constants go into the IR, and are at most this large.
constexpr int64_t maxConstant = 1 << 16;

/// `p_a: PARAMETER target='m.a.weight'`: the names of all parameters the module had, in its order.
static std::vector<std::string> signatureParameters(StringRef text) {
  std::vector<std::string> names;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    auto [head, target] = line.split(": PARAMETER target='");
    if (head.size() != line.size())
      names.push_back(target.take_until([](char c) { return c == '\''; }).str());
  }
  return names;
}

std::vector<std::string> Model::Impl::foldedParameters() const {
  const onnx::GraphProto &graph = proto.graph();
  // With optimize=False every initializer has a kind, and no node was made by a rewrite rule.
  bool wasOptimized = any_of(graph.node(), [](const NodeProto &node) {
    return !metadata(node.metadata_props(), rewriteRuleKey).empty();
  });
  StringSet<> suspects; // Floats of unknown kind: parts of the model that lost their names.
  for (const Initializer &init : initializers) {
    if (!kindOf(init.name).empty())
      continue;
    wasOptimized = true;
    if (init.isFloat() && init.numElements() > 1)
      suspects.insert(init.name);
  }

  std::vector<std::string> signature = signatureParameters(metadata(graph.metadata_props(), signatureKey));
  std::map<std::string, size_t> position;
  for (auto [index, name] : enumerate(signature))
    position.emplace(name, index);

  // Who uses what, by module.
  std::map<std::string, std::vector<std::string>> usedIn; // Initializer to the modules of its uses.
  std::map<std::string, std::vector<std::string>> uses;   // Module to the initializers it uses.
  std::vector<std::string> nameless;                      // Suspects that take the place of a weight.
  for (const NodeProto &node : graph.node()) {
    std::string module = scope(node);
    for (auto [index, input] : enumerate(node.input())) {
      auto found = initializerIndex.find(input);
      if (found == initializerIndex.end())
        continue;
      usedIn[input].push_back(module);
      uses[module].push_back(input);
      bool isProduct = node.op_type() == "MatMul" || node.op_type() == "Gemm" || node.op_type() == "Conv";
      if (isProduct && suspects.contains(input) && initializers[found->second].shape.size() >= 2 &&
          !is_contained(nameless, input))
        nameless.push_back(input);
    }
  }

  std::vector<std::string> items;
  StringSet<> explained;
  for (const std::string &name : signature) {
    if (initializerIndex.count(name))
      continue;
    std::string module = StringRef(name).rsplit('.').first.str();
    auto found = uses.find(module);
    // A module that uses nothing: the parameter was not used, or is tied to one that is used elsewhere.
    if (found == uses.end())
      continue;
    for (const std::string &used : found->second) {
      const Initializer &init = initializers[initializerIndex.find(used)->second];
      if (suspects.contains(used)) {
        if (init.shape.size() >= 2 ? !StringRef(name).ends_with("bias") : true) {
          items.push_back(quoted(name) + " became the constant " + quoted(used) + ", " + typeText(init));
          explained.insert(used);
          break;
        }
        continue;
      }
      // Tied by the user: the one that is kept is the last. Merged by the exporter, because the bytes are equal: the first.
      auto kept = position.find(used);
      bool isOwn = StringRef(used).rsplit('.').first == module;
      if (!isOwn && kept != position.end() && kept->second < position[name] &&
          (init.shape.size() == 1 || wasOptimized)) {
        items.push_back(quoted(name) + " was merged into " + quoted(used));
        break;
      }
    }
  }
  for (const std::string &name : nameless)
    if (!explained.contains(name))
      items.push_back(quoted(name) + ", " + typeText(initializers[initializerIndex.find(name)->second]) +
                      ", is a weight without its name, used in " + quoted(usedIn[name].front()));
  if (!wasOptimized || !items.empty())
    return items;

  // Without a signature: a norm's weight that serves several modules.
  for (const Initializer &init : initializers) {
    if (kindOf(init.name) != "PARAMETER" || init.shape.size() != 1)
      continue;
    std::vector<std::string> modules = usedIn[init.name];
    sort(modules);
    modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
    if (modules.size() > 1)
      items.push_back(quoted(init.name) + " serves " + std::to_string(modules.size()) + " modules");
  }
  return items;
}

bool Model::Impl::applyPatterns(bool hasKinds) {
  bool ok = true;
  // Compiles a list of patterns; each must match one of `names`.
  auto compile = [&](StringRef option, ArrayRef<std::string> patterns, ArrayRef<std::string> names) {
    std::vector<Regex> result;
    for (const std::string &pattern : patterns) {
      std::string where = (option + "=" + pattern).str(), problem;
      std::optional<Regex> regex = Regex::compile(pattern, problem);
      if (!regex) {
        diags->error(where, "is not a regular expression: " + problem)
            .note("expressions are ECMAScript, searched in the names of initializers");
        ok = false;
        continue;
      }
      bool any = false;
      for (const std::string &name : names)
        any |= regex->search(name, &problem);
      if (!problem.empty()) {
        diags->error(where, problem).note("write each repetition once, for example (a)+ for (a+)+");
        ok = false;
      } else if (!any) {
        std::vector<std::string> items;
        for (const std::string &name : names)
          items.push_back(quoted(name));
        reportList(*diags, where, "matches no floating-point initializer", items);
        ok = false;
      }
      result.push_back(std::move(*regex));
    }
    return result;
  };
  std::vector<std::string> floats;
  for (const Initializer &init : initializers)
    if (init.isFloat())
      floats.push_back(init.name);
  std::vector<Regex> train = compile("--train", options.train, floats);
  std::vector<Regex> freeze = compile("--freeze", options.freeze, floats);
  if (!ok)
    return false;

  auto matches = [](ArrayRef<Regex> patterns, StringRef name) {
    return any_of(patterns, [&](const Regex &regex) { return regex.search(name); });
  };
  // A pattern that matches no parameter but a buffer means the buffer; one that matches both means the parameters, since
  // tables such as rotary frequencies are never meant.
  std::vector<Regex> forBuffers;
  for (const Regex &regex : train)
    if (none_of(initializers, [&](const Initializer &init) {
          return init.role == InitializerRole::Parameter && regex.search(init.name);
        }))
      forBuffers.push_back(regex);
  bool anyParameter = false, anyTrainable = false;
  for (Initializer &init : initializers) {
    if (!init.isFloat())
      continue;
    bool named = hasKinds ? matches(forBuffers, init.name) : matches(train, init.name) || matches(freeze, init.name);
    if (init.role != InitializerRole::Parameter && named)
      init.role = InitializerRole::Parameter;
    if (init.role != InitializerRole::Parameter)
      continue;
    anyParameter = true;
    init.trainable = !options.forward && (train.empty() || matches(train, init.name)) && !matches(freeze, init.name);
    anyTrainable |= init.trainable;
  }
  if (anyTrainable || options.forward)
    return true;
  if (anyParameter)
    error("nothing is left to train: all parameters are frozen")
        .note("--freeze wins over --train; leave one of them out, or run the graph with --forward");
  else
    error("has no parameters: there is nothing to train").note("to run the graph as it is: --forward");
  return false;
}

bool Model::Impl::assignRoles() {
  bool hasKinds = false;
  for (const Initializer &init : initializers)
    hasKinds |= !kindOf(init.name).empty();

  auto isPlain = [&](const Initializer &init) { return init.source || !decoded.count(init.name); };
  std::vector<std::string> scattered;
  for (Initializer &init : initializers) {
    StringRef kind = kindOf(init.name);
    if (kind == "PARAMETER" && init.isFloat())
      init.role = InitializerRole::Parameter;
    else if (kind == "PARAMETER" || kind == "BUFFER")
      init.role = InitializerRole::Buffer;
    else if (kind == "CONSTANT_TENSOR" || !init.isFloat() || init.numElements() <= 1)
      init.role = InitializerRole::Constant;
    else
      init.role = InitializerRole::Buffer;
    // Large tables do not belong in the IR, whatever they are.
    if (init.role == InitializerRole::Constant && init.numElements() > maxConstant)
      init.role = InitializerRole::Buffer;
    // What no file holds as plain bytes has to be in the IR.
    if (isPlain(init))
      continue;
    if (init.role == InitializerRole::Parameter && !options.forward)
      scattered.push_back(quoted(init.name) + ", " + typeText(init));
    init.role = InitializerRole::Constant;
  }

  auto report = [&] {
    if (!scattered.empty())
      reportList(*diags, shown, "parameters are not stored as plain bytes, so they could not be trained and saved", scattered,
                 {"store them as raw_data or packed float_data: export again, or rewrite them with onnx.numpy_helper.from_array"});
    return scattered.empty();
  };
  if (!report())
    return false;

  if (!hasKinds && !options.forward && options.train.empty()) {
    std::vector<std::string> floats;
    for (const Initializer &init : initializers)
      if (init.isFloat())
        floats.push_back(quoted(init.name) + ", " + typeText(init));
    if (!floats.empty()) {
      reportList(*diags, shown, "does not say which initializers are parameters (the exporter's metadata is missing)",
                 floats,
                 {"name what is trained with --train=REGEX (searched in the names; --train=. trains all of these), or "
                  "export with torch.onnx.export(..., dynamo=True, optimize=False)"});
      return false;
    }
  }

  if (hasKinds && !options.forward) {
    std::vector<std::string> folded = foldedParameters();
    if (!folded.empty()) {
      reportList(*diags, shown, "the exporter's optimizer has merged or folded parameters; training would change the model",
                 folded, {"export again with torch.onnx.export(..., dynamo=True, optimize=False)"});
      return false;
    }
  }
  if (!applyPatterns(hasKinds))
    return false;
  // --train may have named others.
  for (Initializer &init : initializers) {
    if (init.role != InitializerRole::Parameter || isPlain(init))
      continue;
    scattered.push_back(quoted(init.name) + ", " + typeText(init));
  }
  if (!report())
    return false;

  std::vector<std::string> types;
  for (const Initializer &init : initializers)
    if (init.role == InitializerRole::Parameter && init.dtype != TensorProto::FLOAT && !isHalf(init.dtype))
      types.push_back(quoted(init.name) + ", " + typeText(init));
  if (!types.empty())
    reportList(*diags, shown, "parameters are not float32", types, {"export the model in float32 (model.float())"});
  return types.empty();
}

} // namespace forebay::import
