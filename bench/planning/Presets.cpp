//===- Presets.cpp - Machine files for benchmarks of the planner ----------===//

#include "Presets.h"

#include "Dialect/Offload/Transforms/Machine.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

std::optional<forebay::planning::Machine>
forebay::bench::loadPreset(const std::string &nameOrFile) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.getDiagEngine().registerHandler([](mlir::Diagnostic &diagnostic) {
    llvm::errs() << "error: " << diagnostic << "\n";
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      llvm::errs() << "note: " << note << "\n";
  });
  mlir::FailureOr<planning::Machine> machine =
      offload::loadMachine(nameOrFile, mlir::UnknownLoc::get(&context));
  if (mlir::failed(machine))
    return std::nullopt;
  return *machine;
}
