//===- Model.cpp - A checked ONNX model -----------------------------------===//

#include "ModelImpl.h"

#include "mlir/IR/Builders.h"

#include <numeric>

using namespace llvm;
using onnx::TensorProto;

namespace forebay::import {

//===----------------------------------------------------------------------===//
// Helpers of the stages
//===----------------------------------------------------------------------===//

StringRef metadata(const MetadataProps &props, StringRef key) {
  for (const auto &entry : props)
    if (entry.key() == key)
      return entry.value();
  return "";
}

std::string quoted(StringRef name) {
  std::string text = "'";
  for (char c : name)
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  return text + "'";
}

unsigned dtypeBytes(int32_t dtype) {
  switch (dtype) {
  case TensorProto::BOOL:
  case TensorProto::INT8:
  case TensorProto::UINT8:
    return 1;
  case TensorProto::INT16:
  case TensorProto::UINT16:
  case TensorProto::FLOAT16:
  case TensorProto::BFLOAT16:
    return 2;
  case TensorProto::INT32:
  case TensorProto::UINT32:
  case TensorProto::FLOAT:
    return 4;
  case TensorProto::INT64:
  case TensorProto::UINT64:
  case TensorProto::DOUBLE:
    return 8;
  default:
    return 0;
  }
}

bool isHalf(int32_t dtype) { return dtype == TensorProto::FLOAT16 || dtype == TensorProto::BFLOAT16; }

std::string dtypeName(int32_t dtype) {
  if (dtype == TensorProto::FLOAT)
    return "float32";
  if (dtype == TensorProto::DOUBLE)
    return "float64";
  if (!TensorProto::DataType_IsValid(dtype))
    return "type " + std::to_string(dtype);
  return StringRef(TensorProto::DataType_Name(TensorProto::DataType(dtype))).lower();
}

std::string typeText(const Tensor &tensor) {
  std::string text = dtypeName(tensor.dtype) + " [";
  for (auto [axis, dim] : enumerate(tensor.shape))
    text += (axis ? ", " : "") + std::to_string(dim);
  return text + "]";
}

std::optional<int64_t> product(ArrayRef<int64_t> factors) {
  if (is_contained(factors, 0))
    return 0;
  int64_t result = 1;
  for (int64_t factor : factors)
    if (MulOverflow(result, factor, result))
      return std::nullopt;
  return result;
}

void reportList(Diagnostics &diags, const Twine &where, const Twine &what, ArrayRef<std::string> items,
                ArrayRef<std::string> hints) {
  constexpr size_t shownItems = 20;
  diags.error(where, what);
  for (const std::string &item : items.take_front(shownItems))
    diags.note(item);
  if (items.size() > shownItems)
    diags.note("and " + Twine(items.size() - shownItems) + " more");
  for (const std::string &hint : hints)
    diags.note(hint);
}

int64_t Tensor::numElements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<int64_t>());
}

bool Tensor::isFloat() const { return dtype == TensorProto::FLOAT || dtype == TensorProto::DOUBLE || isHalf(dtype); }

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

void Model::Impl::indexValueInfos() {
  valueInfos.clear();
  const onnx::GraphProto &graph = proto.graph();
  // The entry that has metadata counts, if a value has several.
  for (const auto *infos : {&graph.value_info(), &graph.input(), &graph.output()})
    for (const auto &info : *infos) {
      auto [entry, isNew] = valueInfos.try_emplace(info.name(), &info);
      if (!isNew && entry->second->metadata_props_size() == 0)
        entry->second = &info;
    }
}

StringRef Model::Impl::kindOf(StringRef value) const {
  auto found = valueInfos.find(value);
  return found == valueInfos.end() ? "" : metadata(found->second->metadata_props(), kindKey);
}

void Model::Impl::finish() {
  for (TensorProto &tensor : *proto.mutable_graph()->mutable_initializer()) {
    tensor.clear_raw_data();
    tensor.clear_float_data();
    tensor.clear_double_data();
    tensor.clear_int32_data();
    tensor.clear_int64_data();
    tensor.clear_uint64_data();
  }
  diags = nullptr;
}

std::unique_ptr<Model> Model::load(const ImportOptions &options, const IsSupported &isSupported, Diagnostics &diags) {
  auto impl = std::make_unique<Impl>(options, diags);
  try {
    if (!impl->readFile() || !impl->checkHeader())
      return nullptr;
    impl->indexValueInfos();
    impl->nameNodes();
    if (!impl->readInitializers() || !impl->inlineLocalFunctions() || !impl->checkStructure())
      return nullptr;
    // These know nothing of each other: report what all of them find.
    bool ok = impl->bindDims();
    ok &= impl->resolveOperators(isSupported);
    ok &= impl->checkSpecialOperators();
    if (ok)
      ok = impl->assignRoles();
    if (!ok)
      return nullptr;
    impl->finish();
  } catch (const std::exception &e) {
    // Not expected: ONNX's exceptions are caught where they arise.
    diags.error(options.model, "cannot be imported: " + StringRef(e.what()).trim())
        .note("check the model with onnx.checker.check_model");
    return nullptr;
  }
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

Model::Model(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Model::~Model() = default;

//===----------------------------------------------------------------------===//
// Accessors
//===----------------------------------------------------------------------===//

const onnx::GraphProto &Model::graph() const { return impl->proto.graph(); }
int64_t Model::opset() const { return impl->opset; }
ArrayRef<Tensor> Model::inputs() const { return impl->inputs; }
ArrayRef<Initializer> Model::initializers() const { return impl->initializers; }
ArrayRef<std::pair<std::string, int64_t>> Model::dims() const { return impl->dims; }
StringRef Model::path() const { return impl->path; }
int64_t Model::bytes() const { return int64_t(impl->buffer->getBufferSize()); }
uint64_t Model::hash() const { return impl->hash; }
ArrayRef<DataFile> Model::dataFiles() const { return impl->dataFiles; }

const Initializer *Model::initializer(StringRef name) const {
  auto found = impl->initializerIndex.find(name);
  return found == impl->initializerIndex.end() ? nullptr : &impl->initializers[found->second];
}

const onnx::ValueInfoProto *Model::valueInfo(StringRef name) const { return impl->valueInfos.lookup(name); }

std::string Model::scope(const onnx::NodeProto &node) const { return impl->scope(node); }
std::string Model::where(const onnx::NodeProto &node) const { return impl->where(node); }

std::string Model::Impl::scope(const onnx::NodeProto &node) const {
  // ['', 'm', 'm.model', 'linear']: modules from the outside in, then the operation.
  StringRef scopes = metadata(node.metadata_props(), scopesKey);
  std::string module, last;
  bool any = false;
  while (true) {
    size_t start = scopes.find_first_of("'\"");
    if (start == StringRef::npos)
      break;
    char quote = scopes[start];
    scopes = scopes.drop_front(start + 1);
    size_t end = scopes.find(quote);
    if (end == StringRef::npos)
      break;
    if (any)
      module = last;
    any = true;
    last = scopes.take_front(end).str();
    scopes = scopes.drop_front(end + 1);
  }
  if (!any) {
    // ": Class/m: Class/linear: aten.linear.default"
    SmallVector<StringRef> parts;
    metadata(node.metadata_props(), namespaceKey).split(parts, '/');
    if (parts.size() > 1)
      module = parts[parts.size() - 2].split(": ").first.str();
  }
  // Sizes of symbols belong to no module.
  if (StringRef(module).starts_with("_empty_nn_module_stack"))
    return "";
  return module;
}

std::string Model::Impl::where(const onnx::NodeProto &node) const {
  std::string text = "node " + quoted(node.name()) + " (" + node.op_type() + ")";
  std::string module = scope(node);
  return module.empty() ? text : text + " in " + module;
}

mlir::Location Model::location(mlir::MLIRContext *context, const onnx::NodeProto &node) const {
  auto name = mlir::StringAttr::get(context, node.name());
  std::string module = scope(node);
  if (module.empty())
    return mlir::NameLoc::get(name);
  return mlir::NameLoc::get(name, mlir::NameLoc::get(mlir::StringAttr::get(context, module)));
}

bool Model::isDetach(const onnx::NodeProto &node) const {
  for (StringRef key : {StringRef(fxNodeKey), StringRef(classesKey), StringRef(namespaceKey)})
    if (metadata(node.metadata_props(), key).contains("aten.detach"))
      return true;
  // Some tools keep only the names of the operations.
  auto [rest, last] = metadata(node.metadata_props(), scopesKey).rtrim("]'\"").rsplit('\'');
  return metadata(node.metadata_props(), fxNodeKey).empty() && (last == "detach" || last.starts_with("detach_"));
}

Model::Embedding Model::embedding(const onnx::NodeProto &node) const {
  // ...aten.embedding.default](args = (%weight, %ids, padding_idx, scale_grad_by_freq, sparse), kwargs = {}); -1: none.
  Embedding result;
  auto [before, call] = metadata(node.metadata_props(), fxNodeKey).split("aten.embedding.default](args = (");
  SmallVector<StringRef> arguments;
  call.split(')').first.split(arguments, ',');
  int64_t padding;
  if (arguments.size() > 2 && !arguments[2].trim().getAsInteger(10, padding) && padding >= 0)
    result.padding = padding;
  result.scaled = arguments.size() > 3 && arguments[3].trim() == "True";
  return result;
}

} // namespace forebay::import
