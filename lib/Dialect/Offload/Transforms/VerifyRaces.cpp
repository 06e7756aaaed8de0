//===- VerifyRaces.cpp - offload-verify-races -----------------------------===//

#include "ProblemBuilder.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Offload/Transforms/Passes.h"
#include "forebay/Dialect/Offload/Transforms/ToProgram.h"
#include "forebay/Planning/RaceVerifier.h"

namespace forebay {
#define GEN_PASS_DEF_OFFLOADVERIFYRACES
#include "forebay/Dialect/Offload/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
namespace offload = forebay::offload;
using forebay::Program;

namespace {

class OffloadVerifyRacesPass : public forebay::impl::OffloadVerifyRacesBase<OffloadVerifyRacesPass> {
public:
  void runOnOperation() override {
    ModuleOp module = getOperation();
    markAllAnalysesPreserved();
    if (failed(offload::expectPhase(module, "offload-verify-races", "cmd")))
      return signalPassFailure();
    FailureOr<Program> program = offload::toProgram(module);
    if (failed(program))
      return signalPassFailure();
    std::string error;
    if (forebay::verifyProgram(*program, error))
      return;
    module.emitError() << "the command table is not safe: " << error;
    signalPassFailure();
  }
};

} // namespace
