//===- Diagnostics.h - How tools tell users what is wrong -------*- C++ -*-===//
//
// User errors have one form everywhere:
//
//   error: WHERE: WHAT
//   note: what would work, or one line per item of a list
//
// Code that has an operation at hand emits MLIR diagnostics; MlirDiagnostics prints those in the same form. Code before
// there is IR (import, command lines, files) reports to a Diagnostics.
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_SUPPORT_DIAGNOSTICS_H
#define FOREBAY_SUPPORT_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace forebay {

/// Prints errors, warnings, remarks and notes, and counts the errors. Chain notes: `diags.error(where, what).note(hint)`.
class Diagnostics {
public:
  explicit Diagnostics(llvm::raw_ostream &os = llvm::errs()) : os(os) {}

  Diagnostics &error(const llvm::Twine &where, const llvm::Twine &what);
  Diagnostics &warning(const llvm::Twine &where, const llvm::Twine &what);
  Diagnostics &remark(const llvm::Twine &where, const llvm::Twine &what);
  Diagnostics &note(const llvm::Twine &what);

  unsigned errors() const { return numErrors; }
  bool hasErrors() const { return numErrors != 0; }

private:
  llvm::raw_ostream &os;
  unsigned numErrors = 0;
};

/// WHERE of a location: `node 'NAME' in SCOPE` for an imported operation, `FILE:LINE:COLUMN` for text, else what the
/// location prints as.
std::string describeLocation(mlir::Location loc);

/// While alive, MLIR's diagnostics of `context` are printed through `diags`.
class MlirDiagnostics : public mlir::ScopedDiagnosticHandler {
public:
  MlirDiagnostics(mlir::MLIRContext *context, Diagnostics &diags);
};

} // namespace forebay

#endif // FOREBAY_SUPPORT_DIAGNOSTICS_H
