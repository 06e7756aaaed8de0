//===- Model.h - A checked ONNX model ---------------------------*- C++ -*-===//
//
// What the importer's emitter needs of an ONNX file: a graph in topological order in which every node can be imported,
// concrete input shapes, and a table of initializers whose bytes stay in their files.
//
// Private to lib/Import and its tests: the header needs ONNX's (Forebay::OnnxHeaders).
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_IMPORT_MODEL_H
#define FOREBAY_IMPORT_MODEL_H

#include "forebay/Import/Import.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include "onnx/onnx_pb.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace forebay::import {

/// A named tensor of static shape. `dtype` is an onnx::TensorProto::DataType.
struct Tensor {
  std::string name;
  int32_t dtype = 0;
  std::vector<int64_t> shape;

  int64_t numElements() const;
  bool isFloat() const; ///< Any floating-point type.
};

enum class InitializerRole {
  Parameter, ///< Trained, or frozen; saved with the weights.
  Buffer,    ///< Never trained, never saved: inv_freq, position tables, running statistics.
  Constant   ///< A helper of the exporter: integers, scalars, lifted constants. Its bytes are available and small.
};

/// Where bytes are: `#train.source`.
struct Source {
  std::string file; ///< Relative to the model's folder (absolute for a file outside, with --allow-external-links).
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct Initializer : Tensor {
  InitializerRole role = InitializerRole::Buffer;
  bool trainable = false; ///< Parameters only; --train and --freeze applied. All false with `options.forward`.
  /// Row-major little-endian elements of `dtype`. Absent: the form with parameters as graph inputs, or an encoding with
  /// no bytes to point to (packed int32_data of narrow types, ...), which only constants and buffers may have.
  std::optional<Source> source;
};

struct DataFile {
  std::string name; ///< As in Source::file.
  int64_t bytes = 0; ///< Size of the file; with --no-weights and no file: what the initializers need of it.
  bool present = true;
};

/// Says whether the emitter imports an operator itself. Others are replaced by their ONNX function body, or reported.
using IsSupported = std::function<bool(llvm::StringRef domain, llvm::StringRef opType, int64_t opset)>;

class Model {
public:
  /// Loads and checks `options.model`. Null after errors (all of one kind at once), which are in `diags`.
  static std::unique_ptr<Model> load(const ImportOptions &options, const IsSupported &isSupported, Diagnostics &diags);
  ~Model();

  /// The graph after inlining, nodes in topological order, no subgraphs. Every node has a unique non-empty name, and
  /// every value one definition. `initializer` entries have no bytes (`raw_data` etc. are cleared): use `data`.
  const onnx::GraphProto &graph() const;
  /// Of the default domain, 18 to 23.
  int64_t opset() const;

  /// Inputs that are fed, in graph order, with `--dim` bound. Parameters given as graph inputs are not among them.
  llvm::ArrayRef<Tensor> inputs() const;
  /// In initializer order; parameters given as graph inputs follow in input order.
  llvm::ArrayRef<Initializer> initializers() const;
  /// Null if there is none of this name.
  const Initializer *initializer(llvm::StringRef name) const;
  /// Type, shape (with symbols) and metadata the exporter wrote for a value; null if none. A hint: infer, don't trust.
  const onnx::ValueInfoProto *valueInfo(llvm::StringRef name) const;
  /// Symbolic dimensions and their values, in order of first use in the inputs.
  llvm::ArrayRef<std::pair<std::string, int64_t>> dims() const;

  /// The bytes of an initializer as little-endian row-major elements of its type, mapped on first use. None if the bytes
  /// are not there (--no-weights without the file, parameters as inputs).
  std::optional<llvm::ArrayRef<char>> data(const Initializer &initializer) const;

  /// Module scope of a node, dots between modules: "model.layers.0.mlp"; empty if unknown. Nodes of an inlined function
  /// have their call's.
  std::string scope(const onnx::NodeProto &node) const;
  /// `"node"("scope")`: a NameLoc in a NameLoc (just "node" without scope).
  mlir::Location location(mlir::MLIRContext *context, const onnx::NodeProto &node) const;
  /// WHERE of a message about a node: `node 'NAME' (OP) in SCOPE`.
  std::string where(const onnx::NodeProto &node) const;
  /// Whether an Identity stands for `detach`: no gradient passes.
  bool isDetach(const onnx::NodeProto &node) const;
  /// What a Gather that stands for torch's embedding says about the gradient of its table, which ONNX has no word for.
  struct Embedding {
    std::optional<int64_t> padding; ///< Its row gets no gradient.
    bool scaled = false;            ///< Gradients are divided by how often a row is read.
  };
  Embedding embedding(const onnx::NodeProto &node) const;

  /// Absolute path, size and XXH3-64 hash of the .onnx file.
  llvm::StringRef path() const;
  int64_t bytes() const;
  uint64_t hash() const;
  /// Files of external data, in order of first use; not the .onnx file itself.
  llvm::ArrayRef<DataFile> dataFiles() const;

private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace forebay::import

#endif // FOREBAY_IMPORT_MODEL_H
