//===- ModelGraph.cpp - Is it a graph that can be trained? ----------------===//

#include "ModelImpl.h"

#include "llvm/ADT/StringSet.h"

#include <cstring>
#include <queue>

using namespace llvm;
using onnx::NodeProto;
using onnx::TensorProto;

namespace forebay::import {

void Model::Impl::nameNodes() {
  onnx::GraphProto &graph = *proto.mutable_graph();
  StringSet<> names;
  // Names that are taken come first, so that made-up ones do not push them aside.
  std::vector<NodeProto *> unnamed;
  for (NodeProto &node : *graph.mutable_node())
    if (node.name().empty() || !names.insert(node.name()).second)
      unnamed.push_back(&node);
  StringMap<unsigned> lastNumber;
  for (NodeProto *node : unnamed) {
    std::string base = node->name().empty() ? "node_" + node->op_type() : node->name();
    std::string name = base;
    while (!names.insert(name).second)
      name = base + "_" + std::to_string(++lastNumber[base]);
    node->set_name(name);
  }
}

/// A cycle among the nodes that no order can hold, in the order of its values.
static std::vector<int> findCycle(const onnx::GraphProto &graph, const StringMap<int> &producers,
                                  const std::vector<bool> &done) {
  int node = int(std::find(done.begin(), done.end(), false) - done.begin());
  std::vector<int> trail;
  std::vector<int> position(done.size(), -1);
  while (position[node] < 0) {
    position[node] = int(trail.size());
    trail.push_back(node);
    for (const std::string &input : graph.node(node).input()) {
      auto found = producers.find(input);
      if (found != producers.end() && found->second >= 0 && !done[found->second]) {
        node = found->second;
        break;
      }
    }
  }
  trail.erase(trail.begin(), trail.begin() + position[node]);
  std::reverse(trail.begin(), trail.end());
  std::rotate(trail.begin(), std::min_element(trail.begin(), trail.end()), trail.end());
  return trail;
}

bool Model::Impl::sortNodes() {
  onnx::GraphProto &graph = *proto.mutable_graph();
  int count = graph.node_size();
  StringMap<int> producers;
  for (int i = 0; i < count; ++i)
    for (const std::string &output : graph.node(i).output())
      if (!output.empty())
        producers[output] = i;

  // Kahn's algorithm, always the first node of the file that is ready: a sorted file stays as it is.
  std::vector<int> waiting(count, 0);
  std::vector<std::vector<int>> users(count);
  for (int i = 0; i < count; ++i)
    for (const std::string &input : graph.node(i).input()) {
      auto found = producers.find(input);
      if (found == producers.end())
        continue;
      ++waiting[i];
      users[found->second].push_back(i);
    }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int i = 0; i < count; ++i)
    if (waiting[i] == 0)
      ready.push(i);
  std::vector<int> order;
  std::vector<bool> done(count, false);
  while (!ready.empty()) {
    int node = ready.top();
    ready.pop();
    order.push_back(node);
    done[node] = true;
    for (int user : users[node])
      if (--waiting[user] == 0)
        ready.push(user);
  }
  if (int(order.size()) != count) {
    std::vector<std::string> items;
    for (int node : findCycle(graph, producers, done))
      items.push_back(where(graph.node(node)));
    reportList(*diags, shown, "the graph has a cycle of " + Twine(items.size()) + (items.size() == 1 ? " node" : " nodes"),
               items, {"a graph must be acyclic; export the model again"});
    return false;
  }
  if (is_sorted(order))
    return true;
  google::protobuf::RepeatedPtrField<NodeProto> sorted;
  sorted.Reserve(count);
  for (int node : order)
    sorted.Add()->Swap(graph.mutable_node(node));
  graph.mutable_node()->Swap(&sorted);
  return true;
}

bool Model::Impl::checkStructure() {
  const onnx::GraphProto &graph = proto.graph();
  bool ok = true;
  auto report = [&](const Twine &what, ArrayRef<std::string> items, ArrayRef<std::string> hints) {
    if (items.empty())
      return;
    reportList(*diags, shown, what, items, hints);
    ok = false;
  };

  std::vector<std::string> subgraphs, references;
  for (const NodeProto &node : graph.node())
    for (const auto &attr : node.attribute()) {
      if (attr.has_g() || attr.graphs_size() != 0) {
        subgraphs.push_back(where(node));
        break;
      }
      if (!attr.ref_attr_name().empty())
        references.push_back(where(node) + ", attribute " + quoted(attr.name()));
      if (attr.has_t() && attr.t().data_location() == TensorProto::EXTERNAL)
        references.push_back(where(node) + ", attribute " + quoted(attr.name()) + " with external data");
    }
  report("control flow is not supported (If, Loop, Scan and other operators with subgraphs)", subgraphs,
         {"export without torch.cond, loops over tensors, or scripted parts"});
  report("attributes have no value", references, {"the file is damaged; export the model again"});

  StringSet<> defined;
  std::vector<std::string> duplicates, dangling;
  for (const auto &input : graph.input()) {
    if (input.name().empty())
      dangling.push_back("a graph input has no name");
    else if (!defined.insert(input.name()).second)
      duplicates.push_back("graph input " + quoted(input.name()));
  }
  // Older exporters list initializers as inputs too.
  for (const Initializer &init : initializers)
    defined.insert(init.name);
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      if (!output.empty() && !defined.insert(output).second)
        duplicates.push_back(quoted(output) + ", again by " + where(node));
  StringSet<> outputs;
  for (const auto &output : graph.output())
    if (!outputs.insert(output.name()).second)
      duplicates.push_back("graph output " + quoted(output.name()));
  for (const NodeProto &node : graph.node())
    for (const std::string &input : node.input())
      if (!input.empty() && !defined.contains(input))
        dangling.push_back(quoted(input) + ", read by " + where(node));
  for (const auto &output : graph.output())
    if (!defined.contains(output.name()))
      dangling.push_back("graph output " + quoted(output.name()));
  report("values are defined twice", duplicates, {"every value needs a name of its own; export the model again"});
  report("values are used that nothing defines", dangling, {"the graph is incomplete; export the model again"});
  return ok && sortNodes();
}

/// The producer of each value.
static StringMap<const NodeProto *> producersOf(const onnx::GraphProto &graph) {
  StringMap<const NodeProto *> producers;
  for (const NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      producers[output] = &node;
  return producers;
}

const NodeProto *Model::Impl::findMixtureOfExperts() const {
  const onnx::GraphProto &graph = proto.graph();
  auto isOp = [](const NodeProto &node, StringRef name) { return node.domain().empty() && node.op_type() == name; };
  if (none_of(graph.node(), [&](const NodeProto &node) { return isOp(node, "TopK"); }))
    return nullptr;
  auto producers = producersOf(graph);
  StringSet<> asInputs;
  for (const std::string &name : parametersAsInputs)
    asInputs.insert(name);
  for (const NodeProto &node : graph.node()) {
    if ((!isOp(node, "GatherND") && !isOp(node, "Gather")) || node.input_size() == 0)
      continue;
    // Expert weights are rank 3, [experts, out, in]; an embedding is rank 2.
    std::string value = node.input(0);
    for (unsigned depth = 0; depth < 8; ++depth) {
      const NodeProto *producer = producers.lookup(value);
      if (!producer || producer->input_size() == 0 ||
          !(isOp(*producer, "Transpose") || isOp(*producer, "Identity") || isOp(*producer, "Cast")))
        break;
      value = producer->input(0);
    }
    auto found = initializerIndex.find(value);
    if (found != initializerIndex.end() && initializers[found->second].isFloat() &&
        initializers[found->second].shape.size() >= 3)
      return &node;
  }
  return nullptr;
}

/// The value of a one-element tensor that is an initializer or a Constant.
static std::optional<double> scalarValue(const TensorProto &tensor) {
  auto read = [&](auto sample) -> std::optional<double> {
    if (tensor.raw_data().size() != sizeof(sample))
      return std::nullopt;
    std::memcpy(&sample, tensor.raw_data().data(), sizeof(sample));
    return double(sample);
  };
  switch (tensor.data_type()) {
  case TensorProto::FLOAT:
    return tensor.float_data_size() == 1 ? tensor.float_data(0) : read(float());
  case TensorProto::DOUBLE:
    return tensor.double_data_size() == 1 ? tensor.double_data(0) : read(double());
  case TensorProto::BOOL:
    return tensor.int32_data_size() == 1 ? tensor.int32_data(0) : read(uint8_t());
  default:
    return std::nullopt;
  }
}

bool Model::Impl::checkSpecialOperators() {
  const onnx::GraphProto &graph = proto.graph();
  auto producers = producersOf(graph);
  StringMap<const TensorProto *> tensors;
  for (const TensorProto &init : graph.initializer())
    tensors[init.name()] = &init;
  auto constant = [&](const NodeProto &node, int index) -> std::optional<double> {
    const std::string &name = node.input(index);
    if (const TensorProto *tensor = tensors.lookup(name))
      return scalarValue(*tensor);
    const NodeProto *producer = producers.lookup(name);
    if (!producer || producer->op_type() != "Constant")
      return std::nullopt;
    for (const auto &attr : producer->attribute()) {
      if (attr.name() == "value")
        return scalarValue(attr.t());
      if (attr.name() == "value_float")
        return attr.f();
      if (attr.name() == "value_int")
        return double(attr.i());
    }
    return std::nullopt;
  };
  auto has = [](const NodeProto &node, int index) { return index < node.input_size() && !node.input(index).empty(); };

  std::vector<std::string> dropouts, halves;
  for (const NodeProto &node : graph.node()) {
    if (!node.domain().empty())
      continue;
    if (node.op_type() == "Dropout" && has(node, 2) && constant(node, 2) != 0.0 &&
        (!has(node, 1) || constant(node, 1) != 0.0))
      dropouts.push_back(where(node));
    for (const auto &attr : node.attribute()) {
      bool isCast = (node.op_type() == "Cast" && attr.name() == "to") || attr.name() == "dtype";
      if ((isCast && isHalf(int32_t(attr.i()))) || (attr.has_t() && isHalf(attr.t().data_type())))
        halves.push_back(where(node));
    }
  }
  bool ok = true;
  if (!dropouts.empty()) {
    reportList(*diags, shown, "dropout is active in " + Twine(dropouts.size()) + " nodes, and is not supported yet",
               dropouts, {"export with a dropout probability of 0 in the model's configuration, or in eval mode"});
    ok = false;
  }
  std::vector<std::string> tensorsOfHalf;
  for (const Initializer &init : initializers)
    if (isHalf(init.dtype))
      tensorsOfHalf.push_back("initializer " + quoted(init.name) + ", " + typeText(init));
  for (const Tensor &input : inputs)
    if (isHalf(input.dtype))
      tensorsOfHalf.push_back("input " + quoted(input.name) + ", " + typeText(input));
  halves.insert(halves.begin(), tensorsOfHalf.begin(), tensorsOfHalf.end());
  if (!halves.empty()) {
    reportList(*diags, shown, "bfloat16 and float16 graphs are not supported yet", halves,
               {"export the model in float32 (model.float())"});
    ok = false;
  }
  return ok;
}

} // namespace forebay::import
