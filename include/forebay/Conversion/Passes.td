//===- Passes.td - conversion passes -------------------------*- tablegen -*-===//

#ifndef FOREBAY_CONVERSION_PASSES_TD
#define FOREBAY_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ForebayFormDispatches : Pass<"forebay-form-dispatches", "::mlir::ModuleOp"> {
  let summary = "Turn @step into a list of dispatches of private functions";
  let description = [{
    Level `step` to level `dispatch` (docs/architecture.md). Each operation that does work becomes the root of a private function, called
    by `offload.dispatch`; elementwise operations that feed each other share one. Views of operands are cloned into the
    function where the kernel follows strides, else a "copy" dispatch makes them contiguous. A transpose or
    reshape that is the only use of a result moves into the function, as the layout of the result.

    ```mlir
    %t = linalg.transpose ins(%w : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
    %y = linalg.contract ... ins(%x, %t : ...) outs(%z : ...)
    // becomes
    %y = offload.dispatch @gemm_2x4x8(%x, %w) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
    ```

    Assumes static shapes and a `@step` of one block. Guarantees: only `offload.dispatch`, `train.scalars` and the return are left in
    `@step`; operands and results are whole contiguous tensors; functions with equal bodies are one; dispatches keep `train.phase` and
    the location of their root.
  }];
  let dependentDialects = ["::forebay::offload::OffloadDialect", "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
  let options = [Option<"function", "function", "std::string", "\"step\"", "Function to turn into dispatches">];
}

def ForebaySelectKernels : Pass<"forebay-select-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose the kernel of each dispatch function";
  let description = [{
    Sets `offload.kernel` on each dispatch function: a built-in kernel with its parameter block
    (runtime/include/forebay/builtin_kernels.h), or a compiled one. Tiles, workspace, scratch and floating-point operations follow
    from shapes alone, never from the machine.

    Assumes `-forebay-form-dispatches`. A function that no kernel can run is an error at the location of its root.
  }];
  let dependentDialects = ["::forebay::offload::OffloadDialect"];
}

def ForebayGenerateKernels : Pass<"forebay-generate-kernels", "::mlir::ModuleOp"> {
  let summary = "Loops for compiled kernels and optimizers";
  let description = [{
    Replaces the module by one LLVM function of the kernel interface (runtime/include/forebay/kernel_abi.h) for each compiled kernel, and
    `<optimizer>_scalars` for each `train.optimizer`. Bodies are scf loops over arith and math operations; nothing is
    allocated or copied. `-forebay-expand-math` and upstream conversions to LLVM follow.

    Assumes `-forebay-select-kernels`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def ForebayExpandMath : Pass<"forebay-expand-math"> {
  let summary = "Elementary functions as exact arithmetic";
  let description = [{
    Rewrites scalar `math` operations on f32 and f64 that are no instructions (exp, log, tanh, erf, sin, cos, pow, ...) as
    additions, multiplications, fma, comparisons and integer operations, so that their bits are the same on every instruction set and
    loops over them vectorise. What has no such form is an error.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
}

#endif // FOREBAY_CONVERSION_PASSES_TD
