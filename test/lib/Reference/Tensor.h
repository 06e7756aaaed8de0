//===- Tensor.h - Values of the reference interpreter -----------*- C++ -*-===//

#ifndef FOREBAY_TEST_LIB_REFERENCE_TENSOR_H
#define FOREBAY_TEST_LIB_REFERENCE_TENSOR_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace forebay::reference {

/// A dense row-major tensor. Elements of every floating-point type are doubles, elements of every integer type (and i1,
/// index) are int64_t; i1 is 0 or 1. A scalar is a tensor of rank 0.
struct Tensor {
  llvm::SmallVector<int64_t> shape;
  bool isFloat = true;
  std::vector<double> floats;
  std::vector<int64_t> ints;

  Tensor() = default;
  /// Zeros of a type (ranked tensor or scalar).
  explicit Tensor(mlir::Type type);
  Tensor(llvm::ArrayRef<int64_t> shape, bool isFloat);

  static Tensor scalar(double value);
  static Tensor scalar(int64_t value);
  static Tensor ofFloats(llvm::ArrayRef<int64_t> shape, std::vector<double> values);
  static Tensor ofInts(llvm::ArrayRef<int64_t> shape, std::vector<int64_t> values);

  int64_t size() const { return isFloat ? floats.size() : ints.size(); }
  int64_t rank() const { return shape.size(); }
  llvm::SmallVector<int64_t> strides() const;
};

/// Rounds `value` to a floating-point type: f32, bf16, f16 (round to nearest even), or not at all for f64.
double roundTo(mlir::Type floatType, double value);

/// Reads a .npy file (C order; bool, integers, f4, f8). Dimensions and type come from the file.
llvm::Expected<Tensor> readNpy(llvm::StringRef path);
/// Writes f8 or i8.
llvm::Error writeNpy(llvm::StringRef path, const Tensor &tensor);

/// `type`'s elements, row-major and little-endian, at the start of `bytes`.
Tensor fromBytes(mlir::Type type, llvm::StringRef bytes);

} // namespace forebay::reference

#endif // FOREBAY_TEST_LIB_REFERENCE_TENSOR_H
