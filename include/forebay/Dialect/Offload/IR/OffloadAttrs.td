//===- OffloadAttrs.td - offload attributes ----------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADATTRS_TD
#define FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADATTRS_TD

include "forebay/Dialect/Offload/IR/OffloadBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Offload_Space : I32EnumAttr<"Space", "memory space", [
  I32EnumAttrCase<"HBM", 0, "hbm">, I32EnumAttrCase<"Host", 1, "host">
]> {
  let cppNamespace = "::forebay::offload";
  let genSpecializedAttr = 0;
}
def Offload_SpaceAttr : EnumAttr<Offload_Dialect, Offload_Space, "space"> {
  let assemblyFormat = "`<` $value `>`";
}

def Offload_Engine : I32EnumAttr<"Engine", "what executes", [
  I32EnumAttrCase<"GPU", 0, "gpu">, I32EnumAttrCase<"CPU", 1, "cpu">,
  I32EnumAttrCase<"H2D", 2, "h2d">, I32EnumAttrCase<"D2H", 3, "d2h">,
  I32EnumAttrCase<"Side", 4, "side">, I32EnumAttrCase<"H2DSide", 5, "h2d_side">,
  I32EnumAttrCase<"D2HSide", 6, "d2h_side">
]> {
  let cppNamespace = "::forebay::offload";
  let genSpecializedAttr = 0;
}
def Offload_EngineAttr : EnumAttr<Offload_Dialect, Offload_Engine, "engine"> {
  let assemblyFormat = "`<` $value `>`";
}

def Offload_Role : I32EnumAttr<"Role", "what a buffer is for; same numbers as forebay::Role of the program", [
  I32EnumAttrCase<"Input", 0, "input">, I32EnumAttrCase<"Parameter", 1, "parameter">,
  I32EnumAttrCase<"WeightCopy", 2, "weight_copy">, I32EnumAttrCase<"Buffer", 3, "buffer">,
  I32EnumAttrCase<"Moment", 4, "moment">, I32EnumAttrCase<"Accumulator", 5, "accumulator">,
  I32EnumAttrCase<"Output", 6, "output">, I32EnumAttrCase<"Loss", 7, "loss">,
  I32EnumAttrCase<"Gradient", 8, "gradient">, I32EnumAttrCase<"Activation", 9, "activation">,
  I32EnumAttrCase<"Control", 10, "control">, I32EnumAttrCase<"Staging", 11, "staging">,
  I32EnumAttrCase<"Workspace", 12, "workspace">, I32EnumAttrCase<"Shadow", 13, "shadow">
]> {
  let cppNamespace = "::forebay::offload";
  let genSpecializedAttr = 0;
}
def Offload_RoleAttr : EnumAttr<Offload_Dialect, Offload_Role, "role"> {
  let assemblyFormat = "`<` $value `>`";
}

def Offload_Predicate : I32EnumAttr<"Predicate", "when a command runs (see program.h)", [
  I32EnumAttrCase<"Always", 0, "always">, I32EnumAttrCase<"FirstMicro", 1, "first_micro">,
  I32EnumAttrCase<"LaterMicro", 2, "later_micro">, I32EnumAttrCase<"LastMicro", 3, "last_micro">,
  I32EnumAttrCase<"Apply", 4, "apply">, I32EnumAttrCase<"Speculate", 5, "speculate">,
  I32EnumAttrCase<"Redo", 6, "redo">, I32EnumAttrCase<"Restore", 7, "restore">
]> {
  let cppNamespace = "::forebay::offload";
  let genSpecializedAttr = 0;
}
def Offload_PredicateAttr : EnumAttr<Offload_Dialect, Offload_Predicate, "predicate"> {
  let assemblyFormat = "`<` $value `>`";
}

def Offload_Access : I32EnumAttr<"Access", "what a command does to a range", [
  I32EnumAttrCase<"Read", 1, "read">, I32EnumAttrCase<"Write", 2, "write">, I32EnumAttrCase<"ReadWrite", 3, "readwrite">
]> {
  let cppNamespace = "::forebay::offload";
  let genSpecializedAttr = 0;
}

def Offload_OpClass : I32EnumAttr<"OpClass", "what a kernel does most; same numbers as forebay::OpClass of the program", [
  I32EnumAttrCase<"Elementwise", 0, "elementwise">, I32EnumAttrCase<"Matmul", 1, "matmul">, I32EnumAttrCase<"Attention", 2, "attention">,
  I32EnumAttrCase<"Reduction", 3, "reduction">, I32EnumAttrCase<"Gather", 4, "gather">, I32EnumAttrCase<"Optimizer", 5, "optimizer">,
  I32EnumAttrCase<"Cast", 6, "cast">
]> {
  let cppNamespace = "::forebay::offload";
  let genSpecializedAttr = 0;
}

def Offload_RangeAttr : AttrDef<Offload_Dialect, "Range"> {
  let mnemonic = "range";
  let summary = "Bytes of an arena";
  let description = [{ `#offload.range<hbm, 4096, 256, read>`: bytes [4096, 4096 + 256) of the arena of `hbm`, which a command reads. }];
  let parameters = (ins EnumParameter<Offload_Space>:$space, "uint64_t":$offset, "uint64_t":$bytes, EnumParameter<Offload_Access>:$access);
  let assemblyFormat = "`<` $space `,` $offset `,` $bytes `,` $access `>`";
}

def Offload_WaitAttr : AttrDef<Offload_Dialect, "Wait"> {
  let mnemonic = "wait";
  let summary = "An event that must have been signalled";
  let description = [{ `#offload.wait<3, 0>`: event 3 of this iteration; `#offload.wait<3, 1>`: of the previous one. }];
  let parameters = (ins "uint32_t":$event, "uint32_t":$distance);
  let assemblyFormat = "`<` $event `,` $distance `>`";
}

def Offload_KernelAttr : AttrDef<Offload_Dialect, "Kernel"> {
  let mnemonic = "kernel";
  let summary = "How a dispatch function runs";
  let description = [{
    On each dispatch function, as `offload.kernel`. `name`: a built-in kernel (runtime/include/forebay/builtin_kernels.h)
    with its block of `params`, or, with `compiled` true, a symbol that is generated from the function's body. `tiles`: tiles of each
    phase, from the shapes alone. `scratch`: bytes that each worker needs. `workspace`: bytes of an extra buffer that lives
    as long as the dispatch, passed after the results. `inplace`: for each result, the function argument whose buffer it may take over
    (element i of the result must then depend on no element of that argument but i, unless the kernel reads before it writes), or -1.

    What it costs, for the planner and the simulator (`forebay::Cost`): `flops` counts 2mnk for a product and the full square for attention;
    `executed` is what the kernel does of it (a causal mask hides about half), absent: all. `class`: machines have rates by class, absent:
    elementwise. `type` of the operands of products, absent: f32. `width`: the smallest of m, n, k of a product. `traffic`: bytes read and
    written, absent: all bytes of operands and results.
  }];
  let parameters = (ins StringRefParameter<"name">:$name, DefaultValuedParameter<"bool", "false">:$compiled,
    OptionalArrayRefParameter<"int64_t">:$params, OptionalArrayRefParameter<"int64_t">:$tiles,
    DefaultValuedParameter<"int64_t", "0">:$scratch, DefaultValuedParameter<"int64_t", "0">:$workspace,
    OptionalArrayRefParameter<"int64_t">:$inplace, DefaultValuedParameter<"int64_t", "0">:$flops,
    DefaultValuedParameter<"int64_t", "0">:$executed,
    DefaultValuedParameter<"::forebay::offload::OpClass", "::forebay::offload::OpClass::Elementwise">:$opClass,
    OptionalParameter<"::mlir::Type">:$type, DefaultValuedParameter<"int64_t", "0">:$width, DefaultValuedParameter<"int64_t", "0">:$traffic);
  // #offload.kernel<"gemm", tiles = [4, 2], scratch = 4096>: what has its default is left out.
  let hasCustomAssemblyFormat = 1;
}

#endif // FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADATTRS_TD
