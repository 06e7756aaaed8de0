//===- CountParameters.cpp - The smallest pass plug-in --------------------===//
//
// A pass over `train` IR from outside: emits a remark with the number of trainable parameters.
//
//===----------------------------------------------------------------------===//

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;
using namespace forebay;

namespace {
struct CountParameters : PassWrapper<CountParameters, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CountParameters)

  CountParameters() = default;
  CountParameters(const CountParameters &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "count-parameters"; }
  StringRef getDescription() const final { return "Counts trainable parameters (test of plug-ins)"; }

  void runOnOperation() override {
    int64_t count = 0;
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (function.getArgAttr(i, train::kTrainableAttr))
          count += cast<ShapedType>(function.getArgument(i).getType()).getNumElements();
    getOperation().emitRemark() << label << ": " << count << " trainable parameters";
  }

  Option<std::string> label{*this, "label", llvm::cl::desc("Text before the count"), llvm::cl::init("count")};
};
} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "CountParameters", "v1", [] { PassRegistration<CountParameters>(); }};
}
