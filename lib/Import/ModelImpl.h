//===- ModelImpl.h - What the parts of Model share --------------*- C++ -*-===//
//
// Loading runs in stages, one file each. A stage reports all it finds and returns false when later stages make no sense.
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_IMPORT_MODELIMPL_H
#define FOREBAY_LIB_IMPORT_MODELIMPL_H

#include "ModelWire.h"
#include "forebay/Import/Model.h"
#include "forebay/Support/Diagnostics.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

namespace forebay::import {

/// Versions of the default operator set that can be imported.
constexpr int64_t oldestOpset = 18, newestOpset = 23;

using MetadataProps = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;

// Keys that PyTorch's exporter writes.
constexpr llvm::StringLiteral kindKey = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr llvm::StringLiteral signatureKey = "pkg.torch.export.ExportedProgram.graph_signature";
constexpr llvm::StringLiteral rangesKey = "pkg.torch.export.ExportedProgram.range_constraints";
constexpr llvm::StringLiteral scopesKey = "pkg.torch.onnx.name_scopes";
constexpr llvm::StringLiteral namespaceKey = "namespace";
constexpr llvm::StringLiteral classesKey = "pkg.torch.onnx.class_hierarchy";
constexpr llvm::StringLiteral fxNodeKey = "pkg.torch.onnx.fx_node";
constexpr llvm::StringLiteral rewriteRuleKey = "pkg.onnxscript.rewriter.rule_name";

/// Empty if there is no such key.
llvm::StringRef metadata(const MetadataProps &props, llvm::StringRef key);

/// A name in quotes, on one line.
std::string quoted(llvm::StringRef name);

/// "float32", "int64", ...
std::string dtypeName(int32_t dtype);
/// "float32 [128, 48]".
std::string typeText(const Tensor &tensor);
/// Bytes of an element; 0 for types that Forebay does not know.
unsigned dtypeBytes(int32_t dtype);
bool isHalf(int32_t dtype);

/// `a * b`, or nothing if that exceeds int64.
std::optional<int64_t> product(llvm::ArrayRef<int64_t> factors);

/// The domain's one spelling: "" for the default domain.
inline llvm::StringRef normalDomain(llvm::StringRef domain) { return domain == "ai.onnx" ? "" : domain; }

/// One error with a note per item (20 at most, then a count) and then the hints.
void reportList(Diagnostics &diags, const llvm::Twine &where, const llvm::Twine &what,
                llvm::ArrayRef<std::string> items, llvm::ArrayRef<std::string> hints = {});

struct DimRange {
  int64_t low = 1, high = INT64_MAX;
};

struct Model::Impl {
  Impl(const ImportOptions &options, Diagnostics &diags) : options(options), diags(&diags) {}

  // The stages, in order.
  bool readFile();                                    // ModelFile.cpp
  bool checkHeader();                                 // ModelFile.cpp
  bool readInitializers();                            // ModelData.cpp
  bool inlineLocalFunctions();                        // ModelFunctions.cpp
  bool checkStructure();                              // ModelGraph.cpp
  bool bindDims();                                    // ModelDims.cpp
  bool resolveOperators(const IsSupported &);         // ModelFunctions.cpp
  bool checkSpecialOperators();                       // ModelGraph.cpp
  bool assignRoles();                                 // ModelRoles.cpp
  void finish();                                      // Model.cpp

  // Parts of stages.
  bool locateExternal(onnx::TensorProto &proto, Initializer &init, std::vector<std::string> &problems,
                      std::vector<std::string> &links);
  bool locateInline(const onnx::TensorProto &proto, const InlineData &data, Initializer &init,
                    std::vector<std::string> &problems);
  bool sortNodes();
  /// Gives every node a name of its own.
  void nameNodes();
  /// The first GatherND (or Gather) of expert weights picked by a TopK; null if there is none.
  const onnx::NodeProto *findMixtureOfExperts() const;
  std::vector<std::string> foldedParameters() const;
  bool applyPatterns(bool hasKinds);
  llvm::StringRef kindOf(llvm::StringRef value) const;
  std::string where(const onnx::NodeProto &node) const;
  std::string scope(const onnx::NodeProto &node) const;
  void indexValueInfos();
  Diagnostics &error(const llvm::Twine &what) { return diags->error(shown, what); }

  ImportOptions options;
  Diagnostics *diags; ///< While loading.

  std::string shown;  ///< The model's path as given, for messages.
  std::string path;   ///< Absolute.
  std::string folder; ///< Of `path`.
  std::string file;   ///< Last component of `path`.
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  uint64_t hash = 0;

  onnx::ModelProto proto;
  int64_t opset = 0;
  std::vector<InlineData> inlineData;

  std::vector<Tensor> inputs;
  std::vector<Initializer> initializers;
  llvm::StringMap<size_t> initializerIndex;
  std::vector<std::string> parametersAsInputs; ///< Graph inputs marked PARAMETER or BUFFER.
  llvm::StringMap<const onnx::ValueInfoProto *> valueInfos;
  std::vector<std::pair<std::string, int64_t>> dims;
  std::vector<DataFile> dataFiles;

  mutable llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> mapped; ///< By Source::file; null if absent.
  llvm::StringMap<std::vector<char>> decoded; ///< Bytes of initializers that no file holds in this form.
};

} // namespace forebay::import

#endif // FOREBAY_LIB_IMPORT_MODELIMPL_H
