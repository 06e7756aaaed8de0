//===- ParseFile.h - Files of IR that a user names --------------*- C++ -*-===//
///
/// \file
/// Optimizers and machines are files that users write: what is wrong with one is one error of the option that names it.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_SUPPORT_PARSEFILE_H
#define FOREBAY_SUPPORT_PARSEFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace forebay {

/// The module in `path`. Null if the file cannot be read, parsed or verified: no diagnostic is emitted, `problem` is the first one, as
/// "LINE:COLUMN: what" where it has a place.
mlir::OwningOpRef<mlir::ModuleOp> parseFile(llvm::StringRef path, mlir::MLIRContext *context, std::string &problem);

} // namespace forebay

#endif // FOREBAY_SUPPORT_PARSEFILE_H
