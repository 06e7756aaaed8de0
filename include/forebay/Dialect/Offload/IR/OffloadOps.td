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

//===----------------------------------------------------------------------===//
// offload.async: buffers, engines, tokens
//===----------------------------------------------------------------------===//

def Offload_BufferType : TypeDef<Offload_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "Memory in a space";
  let description = [{
    `!offload.buffer<hbm, tensor<2x3xf32>>`: bytes in `hbm` that hold a contiguous row-major tensor (i1: one byte an element). Unlike a
    tensor it is written: operations name the buffers that they read and write.
  }];
  let parameters = (ins EnumParameter<Offload_Space>:$space, "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $space `,` $tensor `>`";
  let extraClassDeclaration = [{
    uint64_t getBytes() const;
  }];
}

class Offload_AsyncOp<string mnemonic, list<Trait> traits = []> : Offload_Op<"async." # mnemonic, traits>;

def Offload_AsyncBufferOp : Offload_AsyncOp<"buffer"> {
  let summary = "A buffer for the time of an iteration";
  let description = [{
    Lives from its first to its last access; has its bytes for itself only then. What lives for ever (inputs, state) is an argument of the function.
  }];
  let arguments = (ins Offload_RoleAttr:$role, StrAttr:$label);
  let results = (outs Offload_BufferType:$buffer);
  let assemblyFormat = "$label $role attr-dict `:` type($buffer)";
}

def Offload_AsyncDispatchOp : Offload_AsyncOp<"dispatch", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A kernel on an engine";
  let description = [{
    Runs `kernel` on `engine` once the operations behind `after` have ended: those whose results it reads (true dependences, within
    one iteration; everything else follows from where the buffers are put). `outputs`: results, then the workspace if the kernel has one.
    `predicate` says at which micro-steps it runs.

    A piece of a flat kernel works on parts of its buffers: `slices` has offset and size in bytes for each input and output (absent:
    whole buffers); `params`, `tiles`, `flops` (executed), `traffic` replace those of the kernel.
    An update (class `optimizer`) may have one more output, the weight in the compute type. Where it speculates, its verdict is a constant: an argument of the function
    with `offload.initial`.
    `parameter`: number of the argument whose update or norm this is.
  }];
  let arguments = (ins Offload_EngineAttr:$engine, FlatSymbolRefAttr:$kernel,
    DefaultValuedAttr<Offload_PredicateAttr, "::forebay::offload::Predicate::Always">:$predicate,
    Variadic<Offload_BufferType>:$inputs, Variadic<Offload_BufferType>:$outputs, Variadic<Offload_TokenType>:$after,
    OptionalAttr<DenseI64ArrayAttr>:$slices, OptionalAttr<DenseI64ArrayAttr>:$params, OptionalAttr<DenseI64ArrayAttr>:$tiles,
    OptionalAttr<F64Attr>:$flops, OptionalAttr<I64Attr>:$traffic, OptionalAttr<I64Attr>:$parameter, OptionalAttr<StrAttr>:$label);
  let results = (outs Offload_TokenType:$token);
  let assemblyFormat = [{ $engine $kernel `(` $inputs `)` `to` `(` $outputs `)` (`after` `(` $after^ `)`)? attr-dict
    `:` custom<BufferTypes>(type($inputs)) `to` custom<BufferTypes>(type($outputs)) }];
  let hasVerifier = 1;
}

def Offload_AsyncTransferOp : Offload_AsyncOp<"transfer", [AttrSizedOperandSegments]> {
  let summary = "Copies between buffers";
  let description = [{
    Copies each source to the target of the same number; `slices` has offset and size in bytes for each source, then for each target.
  }];
  let arguments = (ins Offload_EngineAttr:$engine,
    DefaultValuedAttr<Offload_PredicateAttr, "::forebay::offload::Predicate::Always">:$predicate,
    Variadic<Offload_BufferType>:$sources, Variadic<Offload_BufferType>:$targets, Variadic<Offload_TokenType>:$after,
    OptionalAttr<DenseI64ArrayAttr>:$slices, OptionalAttr<StrAttr>:$label);
  let results = (outs Offload_TokenType:$token);
  let assemblyFormat = [{ $engine `(` $sources `)` `to` `(` $targets `)` (`after` `(` $after^ `)`)? attr-dict
    `:` custom<BufferTypes>(type($sources)) `to` custom<BufferTypes>(type($targets)) }];
  let hasVerifier = 1;
}

def Offload_AsyncFeedOp : Offload_AsyncOp<"feed"> {
  let summary = "The next row of an input";
  let arguments = (ins Offload_EngineAttr:$engine, Offload_BufferType:$buffer, OptionalAttr<StrAttr>:$label);
  let results = (outs Offload_TokenType:$token);
  let assemblyFormat = "$engine $buffer attr-dict `:` type($buffer)";
}

def Offload_AsyncReportOp : Offload_AsyncOp<"report"> {
  let summary = "The runtime reads an output";
  let description = [{ `output`: its number in the function's attribute `offload.outputs`. }];
  let arguments = (ins Offload_EngineAttr:$engine, Offload_BufferType:$buffer, I64Attr:$output, Variadic<Offload_TokenType>:$after,
    OptionalAttr<StrAttr>:$label);
  let results = (outs Offload_TokenType:$token);
  let assemblyFormat = "$engine $buffer `output` $output (`after` `(` $after^ `)`)? attr-dict `:` type($buffer)";
}

def Offload_AsyncScalarsOp : Offload_AsyncOp<"scalars"> {
  let summary = "Per-step scalars of a parameter group; see train.scalars";
  let arguments = (ins Offload_EngineAttr:$engine,
    DefaultValuedAttr<Offload_PredicateAttr, "::forebay::offload::Predicate::Always">:$predicate,
    I64Attr:$group, Offload_BufferType:$buffer, OptionalAttr<StrAttr>:$label);
  let results = (outs Offload_TokenType:$token);
  let assemblyFormat = "$engine `group` $group `to` $buffer attr-dict `:` type($buffer)";
}

def Offload_AsyncVerdictOp : Offload_AsyncOp<"verdict"> {
  let summary = "The runtime reads the verdict: apply or not";
  let arguments = (ins Offload_EngineAttr:$engine,
    DefaultValuedAttr<Offload_PredicateAttr, "::forebay::offload::Predicate::Always">:$predicate,
    Offload_BufferType:$buffer, Variadic<Offload_TokenType>:$after, OptionalAttr<StrAttr>:$label);
  let results = (outs Offload_TokenType:$token);
  let assemblyFormat = "$engine $buffer (`after` `(` $after^ `)`)? attr-dict `:` type($buffer)";
}

//===----------------------------------------------------------------------===//
// offload.cmd: the command table
//===----------------------------------------------------------------------===//

def Offload_RangeArrayAttr : TypedArrayAttrBase<Offload_RangeAttr, "ranges of arenas">;
def Offload_WaitArrayAttr : TypedArrayAttrBase<Offload_WaitAttr, "waits">;

def Offload_CmdValueOp : Offload_Op<"cmd.value"> {
  let summary = "Where a buffer lives, and when";
  let description = [{ For reports and the simulator; commands do not refer to it. Lives in commands [first, last]. }];
  let arguments = (ins StrAttr:$label, Offload_RoleAttr:$role, Offload_RangeAttr:$range, I64Attr:$first, I64Attr:$last);
  let assemblyFormat = "$label $role $range `live` $first $last attr-dict";
}

/// One entry of the command table. `more`: what this kind of command has beside.
class Offload_CmdOp<string mnemonic, dag more, string format, list<Trait> traits = []>
    : Offload_Op<"cmd." # mnemonic, traits> {
  let arguments = !con((ins Offload_EngineAttr:$queue), more, (ins Offload_RangeArrayAttr:$operands,
    DefaultValuedAttr<Offload_PredicateAttr, "::forebay::offload::Predicate::Always">:$predicate,
    OptionalAttr<Offload_WaitArrayAttr>:$waits, OptionalAttr<I64Attr>:$signal, OptionalAttr<StrAttr>:$label));
  let assemblyFormat = "$queue " # format # " $operands (`waits` $waits^)? (`signals` $signal^)? attr-dict";
}

def Offload_CmdDispatchOp : Offload_CmdOp<"dispatch", (ins FlatSymbolRefAttr:$kernel,
    OptionalAttr<DenseI64ArrayAttr>:$params, OptionalAttr<DenseI64ArrayAttr>:$tiles, OptionalAttr<F64Attr>:$flops,
    OptionalAttr<I64Attr>:$traffic, OptionalAttr<I64Attr>:$parameter), "$kernel"> {
  let summary = "Command: runs a kernel";
  let description = [{ Ranges in the kernel's order: inputs, results, workspace. `params`, `tiles`, `flops` (executed), `traffic` replace those of the kernel. }];
}
def Offload_CmdCopyOp : Offload_CmdOp<"copy", (ins), ""> {
  let summary = "Command: copies; ranges in pairs, source and target";
}
def Offload_CmdFeedOp : Offload_CmdOp<"feed", (ins I64Attr:$argument), "`argument` $argument"> {
  let summary = "Command: the next row of an input";
}
def Offload_CmdReportOp : Offload_CmdOp<"report", (ins I64Attr:$output), "`output` $output"> {
  let summary = "Command: the runtime reads an output";
}
def Offload_CmdScalarsOp : Offload_CmdOp<"scalars", (ins I64Attr:$group), "`group` $group"> {
  let summary = "Command: scalars of a parameter group";
}
def Offload_CmdVerdictOp : Offload_CmdOp<"verdict", (ins), ""> {
  let summary = "Command: the runtime reads the verdict";
}

#endif // FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADOPS_TD
