//===- Import.h - From an ONNX file to IR -----------------------*- C++ -*-===//
//
// The imported level (docs/architecture.md): `func.func @forward` in arith, math, tensor, linalg and train.
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_IMPORT_IMPORT_H
#define FOREBAY_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace forebay {
class Diagnostics;

/// What the command line says about a model. The fields are the options of design.md 9 of the same names.
struct ImportOptions {
  std::string model;                                 ///< Path of the .onnx file, as given.
  std::vector<std::pair<std::string, int64_t>> dims; ///< `--dim=NAME=N`, in order; of two for a name the last wins.
  std::vector<std::string> train;                    ///< `--train=REGEX`: with any, only what matches trains.
  std::vector<std::string> freeze;                   ///< `--freeze=REGEX`: matches do not train.
  std::string loss;                                  ///< `--loss=NAME`; empty: the only scalar floating output.
  bool noWeights = false;                            ///< Data files may be absent.
  bool allowExternalLinks = false;                   ///< Data files may lie outside the model's folder.
  bool forward = false;                              ///< No loss, no training: the graph's outputs.
};

/// Reads `options.model` and emits `@forward`. Null after errors, which are in `diags`. No exception escapes.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context, const ImportOptions &options, Diagnostics &diags);

/// Parses one `NAME=N` of `--dim` into `options.dims`. False after an error (not a number, zero, negative, too large).
bool parseDim(llvm::StringRef text, ImportOptions &options, Diagnostics &diags);

/// Prints what the importer sees in a model before any operator is imported: dimensions, inputs, initializers with their
/// roles and places, data files. False after errors.
bool describeModel(llvm::raw_ostream &os, const ImportOptions &options, Diagnostics &diags);

/// One line for each ONNX operator of the supported opsets that can be imported: name, first and last opset, "own" (an import of its own)
/// or "function" (through its ONNX function), types of its first operand (of its result if it has none). For docs/operators.md.
void listOperators(llvm::raw_ostream &os);

} // namespace forebay

#endif // FOREBAY_IMPORT_IMPORT_H
