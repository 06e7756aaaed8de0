//===- Compile.h - The whole way from a model to a program ------*- C++ -*-===//
///
/// \file
/// What forebay-compile does, as a library call. Options are those of the command line (docs/forebay-compile.md).
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PIPELINES_COMPILE_H
#define FOREBAY_PIPELINES_COMPILE_H

#include "forebay/Dialect/Train/Transforms/Optimizers.h"
#include "forebay/Import/Import.h"

#include "mlir/IR/DialectRegistry.h"

#include <optional>
#include <string>
#include <vector>

namespace forebay {

/// Where to stop, and what `output` gets.
enum class EmitLevel { Train, Async, Cmd, Llvm, Plan, So };

struct CompileOptions {
  ImportOptions import;
  OptimizerOptions optimizer;
  std::optional<double> clipNorm;
  int64_t accumulate = 1;
  std::string precision = "fp32";
  std::string machine = "cpu";
  std::string policy = "auto";
  std::string plan;              ///< file with a plan whose decisions are taken; empty: the policy decides
  std::string memory;                 ///< SPACE=SIZE,...
  int64_t bucketBytes = 64 << 20;
  bool planOnly = false;
  std::string json;
  std::string output;                 ///< empty: stdout (not for a program)
  EmitLevel emit = EmitLevel::So;
  bool remarks = false;
  /// Shared libraries that were loaded: no output may replace them.
  std::vector<std::string> plugins;
  /// Pipelines to run at the end of a phase: ("train" | "async" | "cmd", textual pipeline).
  std::vector<std::pair<std::string, std::string>> addedPasses;
};

/// Compiles; true on success. Every user error is in `diags`; nothing is left half-written. `context` must have the
/// dialects of registerAllDialects.
bool compile(mlir::MLIRContext &context, const CompileOptions &options, Diagnostics &diags);

} // namespace forebay

#endif // FOREBAY_PIPELINES_COMPILE_H
