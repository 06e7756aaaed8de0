//===- ModelWire.h - Weights inside an .onnx file ---------------*- C++ -*-===//
//
// Weights stay in their file, so we need to know where in the file they are, which protobuf's parser does not tell, and
// must not copy them, which it would. This scan of the wire format finds the bytes of the initializers of the main graph
// and writes a copy of the model without the large ones.
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_IMPORT_MODELWIRE_H
#define FOREBAY_LIB_IMPORT_MODELWIRE_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forebay::import {

/// The data of one initializer inside the .onnx file.
struct InlineData {
  enum class Kind {
    None,   ///< No data fields.
    Raw,    ///< One piece: `raw_data`.
    Float,  ///< One packed piece of `float_data`: little-endian fp32.
    Double, ///< One packed piece of `double_data`.
    Other   ///< Varints or several pieces: left in the model.
  };
  Kind kind = Kind::None;
  uint64_t offset = 0, bytes = 0; ///< Of the piece.
};

struct StrippedModel {
  std::string proto; ///< The model without initializer data larger than `keepBytes`.
  std::vector<InlineData> initializers;
};

/// Pieces up to this size stay in the copy: ONNX's shape inference looks at small integer tensors.
constexpr uint64_t keepBytes = 1024;

/// Nothing if the bytes are no protobuf message; `problem` then says what is wrong.
std::optional<StrippedModel> stripWeights(llvm::StringRef file, std::string &problem);

} // namespace forebay::import

#endif // FOREBAY_LIB_IMPORT_MODELWIRE_H
