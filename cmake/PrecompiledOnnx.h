//===- PrecompiledOnnx.h - Header of the importer's files -------*- C++ -*-===//
//
// The importer is compiled with exceptions and ONNX's definitions, so it cannot share the other precompiled header.
//
//===----------------------------------------------------------------------===//

#include "Precompiled.h"

#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "onnx/shape_inference/implementation.h"
