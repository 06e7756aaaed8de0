//===- Passes.td - The passes of this plug-in --------------*- tablegen -*-===//

include "mlir/Pass/PassBase.td"

def CentralizeGradients : Pass<"example-centralize-gradients", "::mlir::ModuleOp"> {
  let summary = "Subtracts from chosen gradients their mean over the input axis";
  let description = [{
    Gradient centralisation (Yong et al., arXiv 2004.01461): the gradient g of a weight matrix becomes `g - mean(g, axis)`, so that each row
    of the weight keeps its mean under a plain gradient step. The gradient norm, clipping and the optimizer see the new gradient.

    Runs on `@step` at level "step" (`forebay-compile --add-pass=train:...`). With accumulation each micro-step's gradient is centralised before
    it is added, which is the same by linearity.

    ```mlir
    %n = train.norm_partials %g {train.phase = #train.phase<verdict>} : (tensor<4x64xf32>) -> tensor<1xf32>
    // becomes
    %sum = linalg.reduce { arith.addf } ins(%g) outs(%zero) dimensions = [1] {train.phase = #train.phase<backward>}
    %mean = arith.mulf %sum, %one_over_64
    %all = linalg.broadcast ins(%mean) outs(%empty) dimensions = [1]
    %c = arith.subf %g, %all
    %n = train.norm_partials %c {train.phase = #train.phase<verdict>} : (tensor<4x64xf32>) -> tensor<1xf32>
    ```

    Parameters that match but have no such axis, or are not trained, are left alone; a remark says so.
  }];
  let options = [
    Option<"parameters", "parameters", "std::string", "\".*\"", "ECMAScript expression, searched in the names of parameters">,
    Option<"axis", "axis", "int64_t", "1", "The input axis; 1 for torch.nn.Linear">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def KeepStateInHbm : Pass<"example-keep-state-in-hbm", "::mlir::ModuleOp"> {
  let summary = "Keeps weight and optimizer state of chosen parameters in HBM";
  let description = [{
    Undoes the offloading of single parameters in a plan of policy `zero-offload` (level "async": `forebay-compile --add-pass=async:...`). The
    parameter and its moments live in `hbm`, the update runs on `gpu` on the gradient where backward left it, and the copy of the weight goes
    away, because the parameter itself is where forward and backward read it. The norm stays where it is.

    Placement never changes numbers: losses and weights have the same bits. The arenas are laid out after this pass, so the memory report shows the
    move, and a budget that no longer fits is an error.

    Before: `%u = offload.async.dispatch <cpu> @update(%w, %g_host, %m, ...) to(%w, %m, ...)`, `offload.async.transfer <h2d>(%w) to(%w_copy)`.
    After: `%u = offload.async.dispatch <gpu> @update(%w, %g_hbm, %m, ...) to(%w, %m, ...)`, all in `hbm`.

    Left alone, with a remark: parameters that are updated in pieces or whose gradients are accumulated on the host.
  }];
  let options = [
    Option<"parameters", "parameters", "std::string", "\".*\"", "ECMAScript expression, searched in the names of parameters">,
  ];
  let dependentDialects = ["::forebay::offload::OffloadDialect"];
}
