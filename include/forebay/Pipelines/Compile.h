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
#include "forebay/Planning/PlanReport.h"

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

/// Plans alone: the report, whether it fits or not; nothing is printed or written. Nothing after an error.
std::optional<planning::PlanReport> reportPlan(mlir::MLIRContext &context, const CompileOptions &options, Diagnostics &diags);

/// Whether the files that `options` name can be written.
bool checkOutputs(mlir::MLIRContext &context, const CompileOptions &options, Diagnostics &diags);

/// A symbolic dimension of the inputs and the values it shall take.
struct DimValues {
  std::string name;
  std::vector<int64_t> values;
};

/// Reads "batch=1,2,4 seq=4096,16384", the value of --what-if; false after an error that names the part.
bool parseWhatIf(llvm::StringRef text, const ImportOptions &import, std::vector<DimValues> &dims, Diagnostics &diags);

/// Plans each combination of `dims`, the last of which changes fastest, and prints a table; `options.json` gets an array with the report of each. What cannot be
/// planned says why in its row. True if one of them fits.
bool compileWhatIf(const mlir::DialectRegistry &registry, const CompileOptions &options, const std::vector<DimValues> &dims, Diagnostics &diags);

} // namespace forebay

#endif // FOREBAY_PIPELINES_COMPILE_H
