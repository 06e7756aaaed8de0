//===- ModelFile.cpp - Reading the .onnx file -----------------------------===//

#include "ModelImpl.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace llvm;

namespace forebay::import {

bool Model::Impl::readFile() {
  shown = options.model;
  if (shown.empty()) {
    diags->error("command line", "no model is given").note("name an .onnx file");
    return false;
  }
  SmallString<256> absolute(shown);
  sys::fs::make_absolute(absolute);
  sys::path::remove_dots(absolute);
  path = absolute.str();
  folder = sys::path::parent_path(path);
  file = sys::path::filename(path);

  // Look before opening: a pipe would block, a directory reads as an error without a reason.
  sys::fs::file_status status;
  if (std::error_code code = sys::fs::status(path, status)) {
    error("cannot be read: " + code.message()).note("give the path of an .onnx file");
    return false;
  }
  if (status.type() == sys::fs::file_type::directory_file) {
    error("is a directory").note("give the path of the .onnx file in it");
    return false;
  }
  if (status.type() != sys::fs::file_type::regular_file) {
    error("is not a regular file").note("give the path of an .onnx file");
    return false;
  }
  auto opened = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!opened) {
    error("cannot be read: " + opened.getError().message());
    return false;
  }
  buffer = std::move(*opened);
  StringRef bytes = buffer->getBuffer();
  std::string remedy = "write the model again, e.g. torch.onnx.export(..., dynamo=True, optimize=False).save(...)";
  if (bytes.empty()) {
    error("is empty").note(remedy);
    return false;
  }
  hash = XXH3_64bits(bytes.data(), bytes.size());

  std::string problem;
  std::optional<StrippedModel> stripped = stripWeights(bytes, problem);
  if (!stripped) {
    error("cannot be read: " + problem).note(remedy);
    return false;
  }
  if (stripped->proto.size() > INT_MAX) {
    error("holds more than 2 GiB beside its weights");
    return false;
  }
  // ONNX's own errors are exceptions; protobuf would write about them to stderr.
  google::protobuf::SetLogHandler(nullptr);
  if (!proto.ParseFromArray(stripped->proto.data(), int(stripped->proto.size())) || !proto.has_graph() ||
      size_t(proto.graph().initializer_size()) != stripped->initializers.size()) {
    error(proto.has_graph() ? "cannot be read: damaged, or not an ONNX model"
                            : "cannot be read: not an ONNX model (it has no graph)")
        .note(remedy);
    return false;
  }
  inlineData = std::move(stripped->initializers);
  return true;
}

bool Model::Impl::checkHeader() {
  bool found = false;
  for (auto &import : *proto.mutable_opset_import()) {
    import.set_domain(normalDomain(import.domain()).str());
    if (!import.domain().empty())
      continue;
    if (found && opset != import.version()) {
      error("imports the default operator set twice, in versions " + Twine(opset) + " and " + Twine(import.version()));
      return false;
    }
    found = true;
    opset = import.version();
  }
  std::string remedy = "export with opset_version=" + std::to_string(oldestOpset) + " to " + std::to_string(newestOpset);
  if (!found) {
    error("does not say which operator set it uses: truncated, or not an ONNX model").note(remedy);
    return false;
  }
  if (opset < oldestOpset || opset > newestOpset) {
    error("uses operator set " + Twine(opset) + ", which is not supported").note(remedy);
    return false;
  }
  const onnx::GraphProto &graph = proto.graph();
  if (graph.sparse_initializer_size() != 0) {
    error("has sparse initializers, which are not supported").note("store them as dense initializers");
    return false;
  }
  if (graph.output_size() == 0) {
    error("has no outputs").note("export the loss as an output of the graph");
    return false;
  }
  return true;
}

} // namespace forebay::import
