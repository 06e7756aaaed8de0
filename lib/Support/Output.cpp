//===- Output.cpp - What a tool writes ------------------------------------===//

#include "forebay/Support/Output.h"

#include "forebay/paths.h"
#include "llvm/Support/Error.h"

using namespace forebay;

bool forebay::flushStdout(Diagnostics &diags) {
  llvm::outs().flush();
  if (!llvm::outs().has_error())
    return true;
  std::string why = llvm::outs().error().message();
  llvm::outs().clear_error();
  diags.error("standard output", "cannot be written: " + why).note("make room, or name a file with -o");
  return false;
}

bool forebay::writeOutput(llvm::StringRef option, llvm::StringRef path, llvm::function_ref<void(llvm::raw_ostream &)> fill,
                          Diagnostics &diags) {
  if (path.empty()) {
    fill(llvm::outs());
    return flushStdout(diags);
  }
  llvm::Error error = llvm::writeToOutput(throughLinks(path.str()), [&](llvm::raw_ostream &os) -> llvm::Error {
    fill(os);
    return llvm::Error::success();
  });
  if (!error)
    return true;
  diags.error(option + path, "cannot be written: " + llvm::toString(std::move(error))).note("choose another file with " + option.rtrim(" ="));
  return false;
}
