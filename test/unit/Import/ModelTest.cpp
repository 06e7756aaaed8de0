//===- ModelTest.cpp - Loading models -------------------------------------===//

#include "forebay/Import/Model.h"
#include "forebay/Support/Diagnostics.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include <cstring>
#include <set>

using namespace forebay;
using namespace forebay::import;

namespace {

bool everything(llvm::StringRef, llvm::StringRef, int64_t) { return true; }

/// A model on disk, written from text or as it is, with a data file beside it.
class ModelTest : public ::testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("forebay-model", path));
    folder = path.str().str();
  }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  void write(const std::string &name, const std::string &bytes) {
    std::error_code code;
    llvm::raw_fd_ostream os(folder + "/" + name, code);
    ASSERT_FALSE(code);
    os << bytes;
  }
  std::unique_ptr<Model> load(const IsSupported &isSupported = everything) {
    llvm::raw_string_ostream os(messages);
    Diagnostics diags(os);
    options.model = folder + "/model.onnx";
    return Model::load(options, isSupported, diags);
  }
  std::unique_ptr<Model> loadText(const std::string &text, const IsSupported &isSupported = everything) {
    onnx::ModelProto proto;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto));
    write("model.onnx", proto.SerializeAsString());
    return load(isSupported);
  }
  std::string folder, messages;
  ImportOptions options;
};

std::string bytesAt(const std::string &path, const Source &source) {
  auto buffer = llvm::MemoryBuffer::getFile(path, false, false);
  EXPECT_TRUE(bool(buffer));
  return (*buffer)->getBuffer().substr(source.offset, source.bytes).str();
}

template <typename T>
std::vector<T> elements(const Model &model, llvm::StringRef name) {
  auto data = model.data(*model.initializer(name));
  if (!data)
    return {};
  std::vector<T> result(data->size() / sizeof(T));
  std::memcpy(result.data(), data->data(), data->size());
  return result;
}

/// `count` floats in the model file, as raw data or not.
onnx::TensorProto floats(const std::string &name, int count, bool raw) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(count);
  for (int i = 0; i < count; ++i) {
    float value = float(i) + (raw ? 0.5f : 0.25f);
    if (raw)
      tensor.mutable_raw_data()->append(reinterpret_cast<const char *>(&value), sizeof(value));
    else
      tensor.add_float_data(value);
  }
  return tensor;
}

const char *const skeleton = R"pb(
  opset_import { version: 23 }
  graph {
    input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_param: "n" } dim { dim_value: 3 } } } } }
    node { op_type: "Relu" input: "x" output: "y" }
    output { name: "y" }
  })pb";

// Small and large pieces, before and after each other, must be found at their own bytes.
TEST_F(ModelTest, InlineWeightsAreFoundInTheFile) {
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(skeleton, &proto));
  auto &graph = *proto.mutable_graph();
  const int sizes[] = {1, 3, 256, 257, 5000, 2, 100000};
  for (int size : sizes)
    for (bool raw : {true, false})
      *graph.add_initializer() = floats((raw ? "raw" : "packed") + std::to_string(size), size, raw);
  std::string file = proto.SerializeAsString();
  write("model.onnx", file);
  options.dims = {{"n", 2}};
  options.train = {"."};
  std::unique_ptr<Model> model = load();
  ASSERT_TRUE(model) << messages;
  EXPECT_EQ(model->bytes(), int64_t(file.size()));
  for (int size : sizes)
    for (bool raw : {true, false}) {
      std::string name = (raw ? "raw" : "packed") + std::to_string(size);
      const Initializer *init = model->initializer(name);
      ASSERT_TRUE(init && init->source) << name;
      EXPECT_EQ(init->source->file, "model.onnx");
      std::string expected(size * sizeof(float), 0);
      for (int i = 0; i < size; ++i) {
        float value = float(i) + (raw ? 0.5f : 0.25f);
        std::memcpy(expected.data() + i * sizeof(float), &value, sizeof(value));
      }
      EXPECT_EQ(bytesAt(folder + "/model.onnx", *init->source), expected) << name;
      EXPECT_EQ(std::string(model->data(*init)->data(), model->data(*init)->size()), expected) << name;
    }
  for (const auto &tensor : model->graph().initializer())
    EXPECT_TRUE(tensor.raw_data().empty() && tensor.float_data_size() == 0);
}

TEST_F(ModelTest, ValuesOfEveryEncoding) {
  std::unique_ptr<Model> model = loadText(R"pb(
    opset_import { version: 23 }
    graph {
      initializer { name: "i64" dims: 3 data_type: 7 int64_data: [-1, 0, 9223372036854775807] }
      initializer { name: "i32" dims: 2 data_type: 6 int32_data: [-7, 8] }
      initializer { name: "i8" dims: 2 data_type: 3 int32_data: [-7, 8] }
      initializer { name: "bool" dims: 3 data_type: 9 int32_data: [1, 0, 1] }
      initializer { name: "u32" dims: 1 data_type: 12 uint64_data: [4294967295] }
      initializer { name: "f64" dims: 2 data_type: 11 double_data: [0.1, -2] }
      initializer { name: "raw" dims: 1 data_type: 7 raw_data: "\x05\x00\x00\x00\x00\x00\x00\x00" }
      initializer { name: "nothing" dims: 0 data_type: 1 }
      initializer { name: "w" dims: 1 data_type: 1 float_data: 3 }
      node { op_type: "Relu" input: "w" output: "y" }
      output { name: "y" }
    })pb");
  EXPECT_FALSE(model); // No metadata and no --train.
  options.train = {"w"};
  messages.clear();
  model = load();
  ASSERT_TRUE(model) << messages;
  EXPECT_EQ(elements<int64_t>(*model, "i64"), (std::vector<int64_t>{-1, 0, INT64_MAX}));
  EXPECT_EQ(elements<int32_t>(*model, "i32"), (std::vector<int32_t>{-7, 8}));
  EXPECT_EQ(elements<int8_t>(*model, "i8"), (std::vector<int8_t>{-7, 8}));
  EXPECT_EQ(elements<uint8_t>(*model, "bool"), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(elements<uint32_t>(*model, "u32"), (std::vector<uint32_t>{UINT32_MAX}));
  EXPECT_EQ(elements<double>(*model, "f64"), (std::vector<double>{0.1, -2}));
  EXPECT_EQ(elements<int64_t>(*model, "raw"), (std::vector<int64_t>{5}));
  EXPECT_EQ(elements<float>(*model, "w"), (std::vector<float>{3}));
  ASSERT_TRUE(model->data(*model->initializer("nothing")));
  EXPECT_TRUE(model->data(*model->initializer("nothing"))->empty());
  EXPECT_EQ(model->initializer("i64")->role, InitializerRole::Constant);
  EXPECT_EQ(model->initializer("f64")->role, InitializerRole::Buffer);
  EXPECT_EQ(model->initializer("absent"), nullptr);
}

TEST_F(ModelTest, ExternalDataIsMapped) {
  write("weights.bin", "0123456789abcdef");
  options.train = {"w"};
  std::unique_ptr<Model> model = loadText(R"pb(
    opset_import { version: 23 }
    graph {
      initializer { name: "w" dims: 2 data_type: 1 data_location: EXTERNAL external_data { key: "location" value: "weights.bin" }
                    external_data { key: "offset" value: "4" } external_data { key: "length" value: "8" } }
      node { op_type: "Relu" input: "w" output: "y" }
      output { name: "y" }
    })pb");
  ASSERT_TRUE(model) << messages;
  auto data = model->data(*model->initializer("w"));
  ASSERT_TRUE(data);
  EXPECT_EQ(std::string(data->data(), data->size()), "456789ab");
  ASSERT_EQ(model->dataFiles().size(), 1u);
  EXPECT_EQ(model->dataFiles()[0].name, "weights.bin");
  EXPECT_EQ(model->dataFiles()[0].bytes, 16);
}

// Constants go into the IR; a large table is a buffer, whatever the exporter calls it.
TEST_F(ModelTest, LargeTablesAreBuffers) {
  onnx::ModelProto proto;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(skeleton, &proto));
  for (int64_t size : {65536, 65537}) {
    auto &table = *proto.mutable_graph()->add_initializer();
    table.set_name("t" + std::to_string(size));
    table.set_data_type(onnx::TensorProto::UINT8);
    table.add_dims(size);
    table.set_raw_data(std::string(size, 1));
  }
  write("model.onnx", proto.SerializeAsString());
  options.dims = {{"n", 2}};
  options.forward = true;
  std::unique_ptr<Model> model = load();
  ASSERT_TRUE(model) << messages;
  EXPECT_EQ(model->initializer("t65536")->role, InitializerRole::Constant);
  EXPECT_EQ(model->initializer("t65537")->role, InitializerRole::Buffer);
}

TEST_F(ModelTest, NodesAreSortedAndNamed) {
  options.train = {"w"};
  std::unique_ptr<Model> model = loadText(R"pb(
    opset_import { version: 23 }
    graph {
      initializer { name: "w" data_type: 1 float_data: 3 }
      node { op_type: "Relu" input: "b" output: "y" }
      node { name: "same" op_type: "Neg" input: "a" output: "b" }
      node { name: "same" op_type: "Abs" input: "w" output: "a" }
      node { op_type: "Relu" input: "w" output: "unused" }
      output { name: "y" }
    })pb");
  ASSERT_TRUE(model) << messages;
  std::vector<std::string> order;
  std::set<std::string> names;
  for (const auto &node : model->graph().node()) {
    order.push_back(node.op_type());
    names.insert(node.name());
  }
  // Always the first node that is ready.
  EXPECT_EQ(order, (std::vector<std::string>{"Abs", "Neg", "Relu", "Relu"}));
  EXPECT_EQ(model->graph().node(2).output(0), "y");
  EXPECT_EQ(names.size(), 4u);
  EXPECT_FALSE(names.count(""));
}

TEST_F(ModelTest, ScopesAndDetach) {
  options.train = {"w"};
  std::unique_ptr<Model> model = loadText(R"pb(
    opset_import { version: 23 }
    graph {
      initializer { name: "w" data_type: 1 float_data: 3 }
      node { name: "a" op_type: "Identity" input: "w" output: "a"
             metadata_props { key: "pkg.torch.onnx.name_scopes" value: "['', 'm', 'm.layers.0', 'detach']" }
             metadata_props { key: "pkg.torch.onnx.fx_node" value: "%detach : [num_users=1] = call_function[target=torch.ops.aten.detach.default](args = (%w,), kwargs = {})" } }
      node { name: "b" op_type: "Identity" input: "a" output: "b"
             metadata_props { key: "pkg.torch.onnx.name_scopes" value: "['', 'detach_3']" } }
      node { name: "c" op_type: "Identity" input: "b" output: "c"
             metadata_props { key: "namespace" value: ": Top/m: some.Module/alias: aten.alias.default" }
             metadata_props { key: "pkg.torch.onnx.fx_node" value: "%alias : call_function[target=torch.ops.aten.alias.default](args = (%detach,))" } }
      node { name: "d" op_type: "Identity" input: "c" output: "y"
             metadata_props { key: "pkg.torch.onnx.name_scopes" value: "['_empty_nn_module_stack_from_metadata_hook', 'sym']" } }
      output { name: "y" }
    })pb");
  ASSERT_TRUE(model) << messages;
  const auto &nodes = model->graph().node();
  EXPECT_EQ(model->scope(nodes[0]), "m.layers.0");
  EXPECT_EQ(model->scope(nodes[1]), "");
  EXPECT_EQ(model->scope(nodes[2]), "m");
  EXPECT_EQ(model->scope(nodes[3]), "");
  EXPECT_TRUE(model->isDetach(nodes[0]));
  EXPECT_TRUE(model->isDetach(nodes[1]));
  EXPECT_FALSE(model->isDetach(nodes[2]));
  EXPECT_FALSE(model->isDetach(nodes[3]));
  EXPECT_EQ(model->where(nodes[0]), "node 'a' (Identity) in m.layers.0");
  mlir::MLIRContext context;
  EXPECT_EQ(describeLocation(model->location(&context, nodes[0])), "node 'a' in m.layers.0");
  EXPECT_EQ(describeLocation(model->location(&context, nodes[1])), "node 'b'");
}

// An operator without import goes through its ONNX function, in turn through others, and keeps the call's scope.
TEST_F(ModelTest, OperatorsBecomeTheirFunctions) {
  options.train = {"w"};
  const std::set<std::string> plain = {"Constant", "Mul",  "Exp",     "Add",  "Sub",  "Div",      "Cast",     "CastLike",  "Softmax",
                                       "Log",      "Tanh", "Where",   "Less", "Shape", "Reshape", "MatMul",   "Transpose", "Identity",
                                       "Flatten",  "Sqrt", "Reciprocal", "Unsqueeze", "Expand", "Slice", "Concat", "Range", "ReduceMean", "Size", "Pow"};
  auto isPlain = [&](llvm::StringRef domain, llvm::StringRef op, int64_t) { return domain.empty() && plain.count(op.str()); };
  const std::string text = R"pb(
    opset_import { version: 23 }
    graph {
      input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_value: 2 } dim { dim_value: 3 } } } } }
      initializer { name: "w" dims: 3 data_type: 1 float_data: [1, 2, 3] }
      node { name: "norm" op_type: "RMSNormalization" input: "x" input: "w" output: "a"
             metadata_props { key: "pkg.torch.onnx.name_scopes" value: "['', 'm', 'norm']" } }
      node { name: "mish" op_type: "Mish" input: "a" output: "y" }
      output { name: "y" }
    })pb";
  std::unique_ptr<Model> model = loadText(text, isPlain);
  ASSERT_TRUE(model) << messages;
  std::set<std::string> defined{"x", "w"}, names;
  for (const auto &node : model->graph().node()) {
    EXPECT_TRUE(plain.count(node.op_type())) << node.op_type();
    EXPECT_TRUE(names.insert(node.name()).second) << node.name();
    for (const auto &input : node.input())
      EXPECT_TRUE(input.empty() || defined.count(input)) << input;
    for (const auto &output : node.output())
      EXPECT_TRUE(defined.insert(output).second) << output;
    if (llvm::StringRef(node.name()).starts_with("norm/"))
      EXPECT_EQ(model->scope(node), "m");
  }
  EXPECT_TRUE(defined.count("y"));
  EXPECT_GT(model->graph().node_size(), 6);

  // Without Tanh Mish cannot be built.
  messages.clear();
  auto noTanh = [&](llvm::StringRef domain, llvm::StringRef op, int64_t opset) {
    return op != "Tanh" && isPlain(domain, op, opset);
  };
  EXPECT_FALSE(loadText(text, noTanh));
  EXPECT_NE(messages.find("1 operator is not supported\nnote: ai.onnx.Tanh: 1 node: node 'mish/"), std::string::npos) << messages;
}

// The bodies of all functions that ONNX defines must at least paste into a valid graph.
TEST_F(ModelTest, AttentionBecomesItsFunction) {
  options.train = {"w"};
  auto noAttention = [](llvm::StringRef, llvm::StringRef op, int64_t) { return op != "Attention"; };
  std::unique_ptr<Model> model = loadText(R"pb(
    opset_import { version: 23 }
    graph {
      input { name: "q" type { tensor_type { elem_type: 1 shape { dim { dim_value: 1 } dim { dim_value: 2 } dim { dim_value: 5 } dim { dim_value: 4 } } } } }
      initializer { name: "w" dims: 1 data_type: 1 float_data: 1 }
      node { op_type: "Mul" input: "q" input: "w" output: "k" }
      node { name: "attend" op_type: "Attention" input: "q" input: "k" input: "k" input: "" output: "y"
             attribute { name: "is_causal" i: 1 type: INT } }
      output { name: "y" }
    })pb", noAttention);
  ASSERT_TRUE(model) << messages;
  std::set<std::string> defined{"q", "w"}, kinds;
  for (const auto &node : model->graph().node()) {
    kinds.insert(node.op_type());
    for (const auto &input : node.input())
      EXPECT_TRUE(input.empty() || defined.count(input)) << input;
    defined.insert(node.output().begin(), node.output().end());
  }
  EXPECT_TRUE(kinds.count("Softmax") && kinds.count("MatMul") && !kinds.count("Attention"));
}

// Two runs of the same file give the same hash, another file another; path and data are as documented.
TEST_F(ModelTest, Identity) {
  options.dims = {{"n", 2}};
  options.forward = true;
  std::unique_ptr<Model> first = loadText(skeleton), second = loadText(skeleton);
  ASSERT_TRUE(first && second) << messages;
  EXPECT_EQ(first->hash(), second->hash());
  EXPECT_EQ(first->path().str(), folder + "/model.onnx");
  EXPECT_EQ(first->opset(), 23);
  ASSERT_EQ(first->inputs().size(), 1u);
  EXPECT_EQ(first->inputs()[0].shape, (std::vector<int64_t>{2, 3}));
  std::unique_ptr<Model> other = loadText(std::string(skeleton) + " producer_name: \"x\"");
  ASSERT_TRUE(other) << messages;
  EXPECT_NE(first->hash(), other->hash());
}

} // namespace
