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
  I32EnumAttrCase<"H2D", 2, "h2d">, I32EnumAttrCase<"D2H", 3, "d2h">
]> {
  let cppNamespace = "::forebay::offload";
  let genSpecializedAttr = 0;
}
def Offload_EngineAttr : EnumAttr<Offload_Dialect, Offload_Engine, "engine"> {
  let assemblyFormat = "`<` $value `>`";
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
    `flops`: for reports.
  }];
  let parameters = (ins StringRefParameter<"name">:$name, DefaultValuedParameter<"bool", "false">:$compiled,
    OptionalArrayRefParameter<"int64_t">:$params, OptionalArrayRefParameter<"int64_t">:$tiles,
    DefaultValuedParameter<"int64_t", "0">:$scratch, DefaultValuedParameter<"int64_t", "0">:$workspace,
    OptionalArrayRefParameter<"int64_t">:$inplace, DefaultValuedParameter<"int64_t", "0">:$flops);
  // #offload.kernel<"gemm", tiles = [4, 2], scratch = 4096>: what has its default is left out.
  let hasCustomAssemblyFormat = 1;
}

#endif // FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADATTRS_TD
