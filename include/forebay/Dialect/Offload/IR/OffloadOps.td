//===- OffloadOps.td - offload operations ------------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADOPS_TD
#define FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADOPS_TD

include "forebay/Dialect/Offload/IR/OffloadAttrs.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"

class Offload_Op<string mnemonic, list<Trait> traits = []> : Op<Offload_Dialect, mnemonic, traits>;

def Offload_TokenType : TypeDef<Offload_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "Completion of an asynchronous operation";
}

def Offload_DispatchOp : Offload_Op<"dispatch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "One execution of a kernel";
  let description = [{
    Calls `@kernel`, a private function on plain tensors that carries `offload.kernel = #offload.kernel<...>` and whose body says what it
    computes. Operands and results are whole contiguous row-major buffers (views are inside the function). The
    discardable attribute `train.phase` says which part of the step it belongs to.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyRankedTensor>:$operands);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$kernel `(` $operands `)` attr-dict `:` functional-type($operands, $results)";
}

#endif // FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADOPS_TD
