//===- Optimizers.h - Choosing and configuring the optimizer ----*- C++ -*-===//
///
/// \file
/// An optimizer is a definition in IR (`train.optimizer`); `adamw`, `adam`, `sgd` and `lion` are built in
/// (lib/Optimizers), a user's own comes from a file. See docs/optimizers.md.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_DIALECT_TRAIN_TRANSFORMS_OPTIMIZERS_H
#define FOREBAY_DIALECT_TRAIN_TRANSFORMS_OPTIMIZERS_H

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace forebay {

class Diagnostics;

/// What the command line says about the optimizer; texts as given after the option's `=`.
struct OptimizerOptions {
  std::string optimizer = "adamw";   ///< built-in name, or a file that ends in `.mlir`
  std::vector<std::string> hyper;    ///< KEY=VALUE: defaults; of two for a key the last wins
  std::vector<std::string> groups;   ///< REGEX:KEY=VALUE,...; the first whose REGEX is found in a parameter's name wins
};

/// Names of the built-in optimizers.
llvm::ArrayRef<llvm::StringRef> builtinOptimizers();

/// Puts the optimizer into `module` (replacing none; there must be none yet), with its defaults changed as `hyper` says, and
/// attaches `train.hyper` to the trainable arguments of the entry function as `groups` say. Reports every problem to `diags`: unknown
/// optimizer, key (with the known ones), malformed values, values out of range, regular expressions that are invalid or match no
/// parameter.
mlir::LogicalResult configureOptimizer(mlir::ModuleOp module, const OptimizerOptions &options, Diagnostics &diags);

} // namespace forebay

#endif // FOREBAY_DIALECT_TRAIN_TRANSFORMS_OPTIMIZERS_H
