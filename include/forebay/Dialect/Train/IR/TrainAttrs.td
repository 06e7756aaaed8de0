//===- TrainAttrs.td - train attributes --------------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_TRAIN_IR_TRAINATTRS_TD
#define FOREBAY_DIALECT_TRAIN_IR_TRAINATTRS_TD

include "forebay/Dialect/Train/IR/TrainBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Train_Phase : I32EnumAttr<"Phase", "part of a training step", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"Accumulate", 2, "accumulate">,
  I32EnumAttrCase<"Verdict", 3, "verdict">,
  I32EnumAttrCase<"Update", 4, "update">
]> {
  let cppNamespace = "::forebay::train";
  let genSpecializedAttr = 0;
}
def Train_PhaseAttr : EnumAttr<Train_Dialect, Train_Phase, "phase"> {
  let assemblyFormat = "`<` $value `>`";
}

def Train_Role : I32EnumAttr<"Role", "what a tensor is for", [
  I32EnumAttrCase<"Input", 0, "input">,
  I32EnumAttrCase<"Parameter", 1, "parameter">,
  I32EnumAttrCase<"Buffer", 2, "buffer">,
  I32EnumAttrCase<"Moment", 3, "moment">,
  I32EnumAttrCase<"Accumulator", 4, "accumulator">,
  I32EnumAttrCase<"Output", 5, "output">,
  I32EnumAttrCase<"Loss", 6, "loss">,
  I32EnumAttrCase<"Gradient", 7, "gradient">,
  I32EnumAttrCase<"Activation", 8, "activation">,
  I32EnumAttrCase<"Control", 9, "control">
]> {
  let cppNamespace = "::forebay::train";
  let genSpecializedAttr = 0;
}
def Train_RoleAttr : EnumAttr<Train_Dialect, Train_Role, "role"> {
  let assemblyFormat = "`<` $value `>`";
}

def Train_SourceAttr : AttrDef<Train_Dialect, "Source"> {
  let mnemonic = "source";
  let summary = "Where the initial bytes of a parameter or buffer are";
  let description = [{
    `#train.source<"model.onnx", 1024, 36864>`: file (relative to the folder of the model; the model
    file itself for inline initializers), offset and length in bytes. The bytes are the elements
    in row-major order, little-endian. Weights never enter the IR.
  }];
  let parameters = (ins StringRefParameter<"file">:$file, "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $file `,` $offset `,` $bytes `>`";
}

#endif // FOREBAY_DIALECT_TRAIN_IR_TRAINATTRS_TD
