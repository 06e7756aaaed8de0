//===- forebay-opt.cpp - Runs passes on IR --------------------------------===//
//
// mlir-opt with Forebay's dialects, passes and pipelines. `--load-pass-plugin` brings in passes of one's own.
//
//===----------------------------------------------------------------------===//

#include "forebay/Pipelines/Pipelines.h"

#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllPasses();
  forebay::registerAllDialects(registry);
  forebay::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Forebay optimizer driver\n", registry));
}
