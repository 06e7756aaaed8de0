//===- ModelFunctions.cpp - Function bodies and unsupported operators -----===//
//
// Calls of the model's own functions, and operators that the emitter does not import but ONNX defines by a function, are
// replaced by their bodies. ONNX's inliner would do, but infers the whole graph again for every call, drops the call's
// metadata, and fails on omitted inputs.
//
//===----------------------------------------------------------------------===//

#include "ModelImpl.h"

#include "llvm/ADT/StringSet.h"

#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"

#include <map>

using namespace llvm;
using onnx::FunctionProto;
using onnx::NodeProto;
using onnx::OpSchema;
using onnx::OpSchemaRegistry;

namespace forebay::import {
namespace {

constexpr int maxNodes = 1 << 18; ///< Nested functions can grow exponentially.

std::string operatorName(const NodeProto &node) {
  StringRef domain = normalDomain(node.domain());
  return ((domain.empty() ? "ai.onnx" : domain) + "." + node.op_type()).str();
}

/// Pastes function bodies into a list of nodes.
class Expander {
public:
  explicit Expander(const onnx::GraphProto &graph) {
    for (const auto &input : graph.input())
      names.insert(input.name());
    for (const auto &init : graph.initializer())
      names.insert(init.name());
    for (const NodeProto &node : graph.node())
      for (const std::string &output : node.output())
        names.insert(output);
  }

  /// Appends the body of `function` with the operands and attributes of `call` to `out`.
  void expand(const NodeProto &call, const FunctionProto &function, const OpSchema *schema,
              std::vector<NodeProto> &out);

private:
  std::string unique(const std::string &wanted) {
    std::string name = wanted;
    // Counting on from the last number keeps this linear.
    while (!names.insert(name).second)
      name = wanted + "_" + std::to_string(++lastNumber[wanted]);
    return name;
  }

  StringSet<> names;
  StringMap<unsigned> lastNumber;
};

/// The value that a body's `ref_attr_name` stands for; null if the attribute is to be dropped.
const onnx::AttributeProto *boundAttribute(const std::string &name, const NodeProto &call,
                                           const FunctionProto &function, const OpSchema *schema) {
  for (const auto &attr : call.attribute())
    if (attr.name() == name)
      return &attr;
  for (const auto &attr : function.attribute_proto())
    if (attr.name() == name)
      return &attr;
  if (!schema)
    return nullptr;
  auto found = schema->attributes().find(name);
  if (found == schema->attributes().end() || found->second.default_value.name().empty())
    return nullptr;
  return &found->second.default_value;
}

void Expander::expand(const NodeProto &call, const FunctionProto &function, const OpSchema *schema,
                      std::vector<NodeProto> &out) {
  std::map<std::string, std::string> renamed{{"", ""}};
  for (int i = 0; i < function.input_size(); ++i)
    renamed[function.input(i)] = i < call.input_size() ? call.input(i) : "";
  // An output can be an input of the function, or appear twice: an Identity then makes the value.
  std::vector<std::pair<std::string, std::string>> copies;
  for (int i = 0; i < function.output_size() && i < call.output_size(); ++i) {
    if (call.output(i).empty())
      continue;
    if (renamed.count(function.output(i)))
      copies.emplace_back(function.output(i), call.output(i));
    else
      renamed[function.output(i)] = call.output(i);
  }

  auto addMetadata = [&](NodeProto &node) {
    if (metadata(node.metadata_props(), scopesKey).empty() && metadata(node.metadata_props(), namespaceKey).empty())
      *node.mutable_metadata_props() = call.metadata_props();
  };
  for (const NodeProto &body : function.node()) {
    NodeProto node = body;
    node.set_name(call.name() + "/" + (body.name().empty() ? body.op_type() : body.name()));
    node.set_domain(normalDomain(body.domain()).str());
    addMetadata(node);
    for (std::string &input : *node.mutable_input()) {
      auto found = renamed.find(input);
      // What nothing in the function defines stays undefined: the structure check reports it.
      input = found != renamed.end() ? found->second : call.name() + "/" + input;
    }
    for (std::string &output : *node.mutable_output()) {
      auto found = renamed.find(output);
      if (found == renamed.end())
        found = renamed.emplace(output, unique(call.name() + "/" + output)).first;
      output = found->second;
    }
    node.clear_attribute();
    for (const auto &attr : body.attribute()) {
      const onnx::AttributeProto *value = &attr;
      if (!attr.ref_attr_name().empty())
        value = boundAttribute(attr.ref_attr_name(), call, function, schema);
      if (!value)
        continue;
      onnx::AttributeProto *copy = node.add_attribute();
      *copy = *value;
      copy->set_name(attr.name());
    }
    out.push_back(std::move(node));
  }
  for (const auto &[from, to] : copies) {
    NodeProto node;
    node.set_op_type("Identity");
    node.set_name(call.name() + "/Identity");
    node.add_input(renamed[from]);
    node.add_output(to);
    addMetadata(node);
    out.push_back(std::move(node));
  }
}

void replaceNodes(onnx::GraphProto &graph, std::vector<NodeProto> nodes) {
  graph.clear_node();
  graph.mutable_node()->Reserve(int(nodes.size()));
  for (NodeProto &node : nodes)
    graph.add_node()->Swap(&node);
}

/// Types of all values as far as ONNX infers them.
class Types {
public:
  explicit Types(const onnx::ModelProto &source) : model(source) {
    // Inference runs on a copy: what it writes about values is not what the exporter wrote.
    onnx::ShapeInferenceOptions options(/*check_type=*/false, /*error_mode=*/0, /*data_prop=*/true);
    onnx::shape_inference::InferShapes(model, OpSchemaRegistry::Instance(), options);
    const onnx::GraphProto &graph = model.graph();
    for (const auto &init : graph.initializer()) {
      auto &type = *types[init.name()].mutable_tensor_type();
      type.set_elem_type(init.data_type());
      for (int64_t dim : init.dims())
        type.mutable_shape()->add_dim()->set_dim_value(dim);
    }
    for (const auto *infos : {&graph.value_info(), &graph.input(), &graph.output()})
      for (const auto &info : *infos)
        if (info.has_type())
          types.try_emplace(info.name(), info.type());
  }
  std::vector<onnx::TypeProto> ofInputs(const NodeProto &node) const {
    std::vector<onnx::TypeProto> result;
    for (const std::string &input : node.input())
      result.push_back(types.lookup(input));
    return result;
  }

private:
  onnx::ModelProto model;
  StringMap<onnx::TypeProto> types;
};

using FunctionKey = std::array<std::string, 3>; // Domain, name, overload.
FunctionKey keyOf(const NodeProto &node) {
  return {normalDomain(node.domain()).str(), node.op_type(), node.overload()};
}

/// The first operator of the default domain that means something else in the function's operator set than in the model's.
const NodeProto *changedOperator(const FunctionProto &function, int64_t opset) {
  int64_t version = opset;
  for (const auto &import : function.opset_import())
    if (normalDomain(import.domain()).empty())
      version = import.version();
  if (version == opset)
    return nullptr;
  for (const NodeProto &node : function.node()) {
    if (!normalDomain(node.domain()).empty())
      continue;
    if (version < 1 || version > INT_MAX)
      return &node;
    if (OpSchemaRegistry::Schema(node.op_type(), int(version), "") ==
        OpSchemaRegistry::Schema(node.op_type(), int(opset), ""))
      continue;
    // From 18 to 23 new versions of an operator have more types and optional attributes, with this one exception.
    if (version < oldestOpset || version > newestOpset || node.op_type() == "GroupNormalization")
      return &node;
  }
  return nullptr;
}

} // namespace

bool Model::Impl::inlineLocalFunctions() {
  if (proto.functions_size() == 0)
    return true;
  std::map<FunctionKey, const FunctionProto *> functions;
  for (const FunctionProto &function : proto.functions()) {
    FunctionKey key{normalDomain(function.domain()).str(), function.name(), function.overload()};
    if (!functions.emplace(key, &function).second) {
      error("defines the function " + quoted(function.name()) + " twice");
      return false;
    }
    if (const NodeProto *node = changedOperator(function, opset)) {
      error("function " + quoted(function.name()) + " uses " + node->op_type() +
            " of another operator set than the model")
          .note("export all of the model with one opset_version");
      return false;
    }
  }

  onnx::GraphProto &graph = *proto.mutable_graph();
  Expander expander(graph);
  std::vector<NodeProto> out;
  std::vector<FunctionKey> stack;
  // Depth first, so that nodes stay in order.
  std::function<bool(const NodeProto &)> visit = [&](const NodeProto &node) {
    FunctionKey key = keyOf(node);
    auto found = functions.find(key);
    if (found == functions.end()) {
      out.push_back(node);
      return true;
    }
    if (is_contained(stack, key)) {
      error("function " + quoted(node.op_type()) + " calls itself").note("export the model without recursive functions");
      return false;
    }
    std::vector<NodeProto> body;
    expander.expand(node, *found->second, nullptr, body);
    if (out.size() + body.size() > maxNodes) {
      error("has more than " + Twine(maxNodes) + " nodes once its functions are inlined");
      return false;
    }
    stack.push_back(key);
    bool ok = all_of(body, visit);
    stack.pop_back();
    return ok;
  };
  for (const NodeProto &node : graph.node())
    if (!visit(node))
      return false;
  replaceNodes(graph, std::move(out));
  proto.clear_functions();
  nameNodes();
  return true;
}

bool Model::Impl::resolveOperators(const IsSupported &isSupported) {
  onnx::GraphProto &graph = *proto.mutable_graph();
  auto schemaOf = [&](const NodeProto &node) -> const OpSchema * {
    return node.domain().empty() ? OpSchemaRegistry::Schema(node.op_type(), int(opset), "") : nullptr;
  };
  auto hasBody = [](const OpSchema *schema) {
    return schema && (schema->HasFunction() || schema->HasContextDependentFunction());
  };

  // Bodies may hold operators that need their bodies in turn.
  std::map<std::string, std::string> failures; // By operator: why its body cannot be used.
  for (unsigned round = 0; round < 16; ++round) {
    auto wanted = [&](const NodeProto &node) {
      return !isSupported(node.domain(), node.op_type(), opset) && hasBody(schemaOf(node)) &&
             !failures.count(operatorName(node));
    };
    if (none_of(graph.node(), wanted))
      break;
    std::optional<Types> types;
    Expander expander(graph);
    std::vector<NodeProto> out;
    for (NodeProto &node : *graph.mutable_node()) {
      if (!wanted(node)) {
        out.push_back(std::move(node));
        continue;
      }
      const OpSchema *schema = schemaOf(node);
      const FunctionProto *function = schema->HasFunction() ? schema->GetFunction(int(opset), false) : nullptr;
      FunctionProto built;
      std::string problem;
      if (!function && schema->HasContextDependentFunction()) {
        try {
          if (!types)
            types.emplace(proto);
          onnx::FunctionBodyBuildContextImpl context(node, types->ofInputs(node));
          if (schema->BuildContextDependentFunction(context, built, int(opset)))
            function = &built;
        } catch (const std::exception &e) {
          problem = e.what();
        }
      }
      if (!function) {
        failures.emplace(operatorName(node), problem);
        out.push_back(std::move(node));
        continue;
      }
      expander.expand(node, *function, schema, out);
      if (out.size() > maxNodes) {
        error("has more than " + Twine(maxNodes) + " nodes once its functions are inlined");
        return false;
      }
    }
    replaceNodes(graph, std::move(out));
    nameNodes();
  }

  bool ok = true;
  const NodeProto *experts = findMixtureOfExperts();
  if (experts) {
    diags->error(where(*experts), "mixture-of-experts models cannot be trained yet: weights are chosen per token by TopK")
        .note("export a dense model; experts will be computed as grouped matrix products in a later version");
    ok = false;
  }

  struct Use {
    unsigned count = 0;
    const NodeProto *first = nullptr;
    bool isKnown = false;
  };
  std::vector<std::pair<std::string, Use>> unsupported; // In order of first use.
  std::vector<std::string> invalid;
  for (const NodeProto &node : graph.node()) {
    const OpSchema *schema = schemaOf(node);
    if (isSupported(node.domain(), node.op_type(), opset) && (schema || !node.domain().empty())) {
      if (!schema)
        continue;
      try {
        schema->Verify(node);
      } catch (const std::exception &e) {
        StringRef text = StringRef(e.what()).trim();
        text.consume_front("Node (" + node.name() + ") ");
        invalid.push_back(where(node) + ": " + text.str());
      }
      continue;
    }
    // Named above.
    if (experts && (node.op_type() == "TopK" || node.op_type() == "GatherND"))
      continue;
    std::string name = operatorName(node);
    auto entry = find_if(unsupported, [&](const auto &known) { return known.first == name; });
    if (entry == unsupported.end())
      entry = unsupported.emplace(entry, name, Use());
    Use &use = entry->second;
    if (use.count++ == 0)
      use.first = &node;
    use.isKnown = schema != nullptr;
  }

  if (!unsupported.empty()) {
    std::vector<std::string> items;
    for (const auto &[name, use] : unsupported) {
      std::string item = name + ": " + std::to_string(use.count) + (use.count == 1 ? " node" : " nodes, the first") + ": " +
                         where(*use.first);
      if (!use.isKnown && use.first->domain().empty())
        item += " (operator set " + std::to_string(opset) + " has no such operator)";
      items.push_back(std::move(item));
    }
    reportList(*diags, shown,
               Twine(unsupported.size()) + (unsupported.size() == 1 ? " operator is" : " operators are") +
                   " not supported",
               items,
               {"express them with other operators (torch.onnx.export's custom_translation_table), or give them a "
                "function body in the model"});
    ok = false;
  }
  if (!invalid.empty()) {
    reportList(*diags, shown, Twine(invalid.size()) + (invalid.size() == 1 ? " node is" : " nodes are") + " not valid",
               invalid, {"the graph breaks ONNX's rules; export it again"});
    ok = false;
  }
  return ok;
}

} // namespace forebay::import
