//===- NodeCheck.cpp - Has a node operands that its operator takes? -------===//
///
/// \file
/// ONNX's own verification of a node (Model::load) knows neither types nor gaps among variadic operands.
///
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "onnx/defs/data_type_utils.h"
#include "onnx/defs/schema.h"

using llvm::Twine;
using onnx::OpSchema;

namespace forebay::import {

static onnx::TypeProto typeOf(const Val &val) {
  onnx::TypeProto type;
  // SplitToSequence makes all sequences that are imported; it never makes an empty one.
  if (val.sequence)
    type.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(val.sequence->front().dtype);
  else
    type.mutable_tensor_type()->set_elem_type(val.dtype);
  return type;
}

void Emitter::checkOperands(const Node &node) {
  const char *note = "the file is damaged: see what onnx.checker.check_model says about it";
  const OpSchema *schema = onnx::OpSchemaRegistry::Schema(node.proto.op_type(), int(model.opset()), "");
  if (!schema)
    fail("is not in opset " + Twine(model.opset()), note);
  const auto &formals = schema->inputs();
  llvm::StringMap<int32_t> bound; // type parameters: "T"
  for (int i = 0, count = node.inputs.size(); i < count; ++i) {
    const OpSchema::FormalParameter &formal = formals[std::min<size_t>(i, formals.size() - 1)];
    if (!node.has(i)) {
      if (formal.GetOption() != OpSchema::Optional)
        fail("lacks operand " + Twine(i) + ", '" + formal.GetName() + "'", note);
      continue;
    }
    const Val &val = *node.inputs[i];
    if (val.sequence && val.sequence->empty())
      continue;
    if (!formal.GetTypes().count(onnx::Utils::DataTypeUtils::ToType(typeOf(val))))
      fail("takes no " + Twine(val.sequence ? "sequence" : onnx::TensorProto_DataType_Name(onnx::TensorProto::DataType(val.dtype)) + " tensor") +
               " as operand " + Twine(i) + ", '" + formal.GetName() + "'",
           note);
    if (!val.sequence && formal.GetIsHomogeneous() && bound.try_emplace(formal.GetTypeStr(), val.dtype).first->second != val.dtype)
      fail("has operands of different types", note);
  }
}

} // namespace forebay::import
