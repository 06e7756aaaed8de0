//===- ModelDescribe.cpp - What the importer sees in a model --------------===//

#include "ModelImpl.h"

#include <set>

using namespace llvm;

namespace forebay {

bool describeModel(raw_ostream &os, const ImportOptions &options, Diagnostics &diags) {
  using namespace import;
  // Operators of ONNX itself only: which of them have an import does not matter here.
  auto isStandard = [](StringRef domain, StringRef, int64_t) { return domain.empty(); };
  std::unique_ptr<Model> model = Model::load(options, isStandard, diags);
  if (!model)
    return false;

  os << "opset " << model->opset() << ", " << model->graph().node_size() << " nodes, " << model->bytes() << " bytes\n";
  for (const auto &[name, value] : model->dims())
    os << "dim " << name << " = " << value << '\n';
  for (const Tensor &input : model->inputs())
    os << "input " << quoted(input.name) << " " << typeText(input) << '\n';
  for (const Initializer &init : model->initializers()) {
    StringRef role = init.role == InitializerRole::Buffer     ? "buffer"
                     : init.role == InitializerRole::Constant ? "constant"
                     : init.trainable                         ? "parameter"
                                                              : "frozen parameter";
    os << role << " " << quoted(init.name) << " " << typeText(init);
    if (init.source)
      os << " at " << init.source->file << ":" << init.source->offset << "+" << init.source->bytes;
    os << '\n';
  }
  for (const auto &output : model->graph().output())
    os << "output " << quoted(output.name()) << '\n';
  for (const DataFile &file : model->dataFiles())
    os << "data file " << quoted(file.name) << " " << file.bytes << " bytes" << (file.present ? "" : " (absent)") << '\n';
  std::set<std::string> kinds;
  for (const auto &node : model->graph().node())
    kinds.insert(node.op_type());
  os << kinds.size() << " operators:";
  for (const std::string &kind : kinds)
    os << " " << kind;
  os << '\n';
  return true;
}

} // namespace forebay
