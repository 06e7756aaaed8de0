//===- Registration.cpp - Dialects and passes of Forebay ------------------===//

#include "forebay/Conversion/Passes.h"
#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Offload/Transforms/Passes.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/GradientModels.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Target/EmitProgram.h"

#include "mlir/Dialect/DLTI/DLTI.h"

void forebay::registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<train::TrainDialect, offload::OffloadDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect,
                  mlir::linalg::LinalgDialect, mlir::math::MathDialect, mlir::tensor::TensorDialect,
                  mlir::DLTIDialect>();
  train::registerGradientModels(registry);
}

void forebay::registerAllPasses() {
  registerForebayTrainPasses();
  registerTrainRaisePipeline();
  registerForebayOffloadPasses();
  registerForebayConversionPasses();
  registerAllPipelines();
  registerTargetPipelines();
}
