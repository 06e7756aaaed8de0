//===- LowerKernels.cpp - Kernels to the LLVM dialect ---------------------===//

#include "forebay/Conversion/Passes.h"
#include "forebay/Target/EmitProgram.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void forebay::buildLowerKernelsPipeline(OpPassManager &pm) {
  pm.addPass(createForebayGenerateKernels());
  pm.addPass(createForebayExpandMath());
  pm.addPass(createCSEPass());
  pm.addPass(arith::createArithExpandOpsPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void forebay::registerTargetPipelines() {
  PassPipelineRegistration<>("forebay-lower-kernels", "Code of compiled kernels in the LLVM dialect", [](OpPassManager &pm) {
    buildLowerKernelsPipeline(pm);
  });
}
