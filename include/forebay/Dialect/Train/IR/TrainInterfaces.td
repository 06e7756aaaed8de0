//===- TrainInterfaces.td - train interfaces ---------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_TRAIN_IR_TRAININTERFACES_TD
#define FOREBAY_DIALECT_TRAIN_IR_TRAININTERFACES_TD

include "mlir/IR/OpBase.td"

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::forebay::train";
  let description = [{
    How the gradient of an operation is built. Reverse mode: given the gradients of the results,
    emit operations that compute the gradients of the operands. Upstream operations get it by
    external models (lib/Dialect/Train/Transforms/GradientModels*.cpp).

    An operation without this interface, reached on a path from a trainable argument to the loss,
    is an error that names the operation.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the gradient at `builder`'s insertion point.

        `resultGrads` has one entry a result; an entry is null where no gradient reaches that result
        (never all of them). `needsGrad` has one entry an operand. The implementation sets
        `operandGrads[i]` (same size as the operands, all null on entry) to a tensor of the type of
        operand i, or leaves it null where the gradient is zero by definition (integer operands,
        `needsGrad[i]` false, a detached value). Returns failure, after emitting an error at the
        operation, where the gradient does not exist.
      }],
      "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads,
           "::llvm::ArrayRef<bool>":$needsGrad,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::forebay::train";
  let description = [{
    What an operation costs. Used for reports and by the planner. `linalg.contract`, `linalg.matmul`
    and `linalg.batch_matmul` get it by external models; an elementwise operation without it counts
    one flop an element and the bytes of its operands and results.
  }];
  let methods = [
    InterfaceMethod<[{
        Floating-point operations of one execution. A multiply-add counts 2; a matrix product counts
        2*m*n*k; attention counts the full square also where a mask hides part of it.
      }], "int64_t", "getFlops", (ins)>
  ];
}

#endif // FOREBAY_DIALECT_TRAIN_IR_TRAININTERFACES_TD
