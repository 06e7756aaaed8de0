//===- Plugin.cpp - What the tools ask a plug-in for ----------------------===//
//
// forebay-opt and forebay-compile know Forebay's dialects and need the passes only. mlir-opt knows neither: it asks for the dialects, too
// (--load-dialect-plugin).
//
//===----------------------------------------------------------------------===//

#include "Passes.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "ExamplePasses", "1.0", [] { example::registerExamplePasses(); }};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::DialectPluginLibraryInfo mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "ExamplePasses", "1.0", [](mlir::DialectRegistry *registry) {
            registry->insert<forebay::train::TrainDialect, forebay::offload::OffloadDialect>();
          }};
}
