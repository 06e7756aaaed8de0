//===- Output.h - What a tool writes ----------------------------*- C++ -*-===//
///
/// \file
/// Files are written beside their place and renamed, through symbolic links: an error never leaves half a file, nor destroys an older one. A
/// full disk behind standard output is an error like any other.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_SUPPORT_OUTPUT_H
#define FOREBAY_SUPPORT_OUTPUT_H

#include "forebay/Support/Diagnostics.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace forebay {

/// Flushes standard output; false, with an error, if it cannot be written.
bool flushStdout(Diagnostics &diags);

/// Writes what `fill` prints to `path`, or to standard output if that is empty. `option` ("-o ", "--json=") stands before the path in the error.
bool writeOutput(llvm::StringRef option, llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> fill, Diagnostics &diags);

} // namespace forebay

#endif // FOREBAY_SUPPORT_OUTPUT_H
