//===- forebay-opt.cpp - Runs passes on IR --------------------------------===//
//
// mlir-opt with Forebay's dialects, passes and pipelines. `--load-pass-plugin` brings in passes of one's own.
//
//===----------------------------------------------------------------------===//

#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Support/Diagnostics.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "forebay-opt " FOREBAY_VERSION " (LLVM " LLVM_VERSION_STRING ")\n"; });
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllPasses();
  forebay::registerAllDialects(registry);
  forebay::registerAllPasses();
  auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "Forebay optimizer driver\n", registry);
  // Not opened here: reading a pipe, such as bash's <(...), takes what is in it.
  if (std::error_code error = input == "-" ? std::error_code() : llvm::sys::fs::access(input, llvm::sys::fs::AccessMode::Exist)) {
    forebay::Diagnostics().error(input, error.message()).note("name a file of IR, or - for standard input");
    return 1;
  }
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
