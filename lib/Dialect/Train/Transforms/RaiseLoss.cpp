//===- RaiseLoss.cpp - Shifted labels -------------------------------------===//

#include "RaiseUtils.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINRAISELOSS
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::raise;

static constexpr llvm::StringLiteral kPass = "train-raise-loss";

namespace {

/// slice(pad(labels)) -> pad(slice(labels)): the labels, shifted by one, with the ignored value at the end. No
/// tensor of another length exists on the way.
void swapSliceAndPad(tensor::ExtractSliceOp slice) {
  auto pad = slice.getSource().getDefiningOp<tensor::PadOp>();
  Value padding = pad ? pad.getConstantPaddingValue() : Value();
  RankedTensorType sourceType = pad ? pad.getSourceType() : RankedTensorType();
  if (!padding || !sourceType.getElementType().isInteger() || !sourceType.hasStaticShape() || !slice.hasUnitStride() ||
      slice.getType().getRank() != sourceType.getRank() || ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
      ShapedType::isDynamicShape(pad.getStaticLow()) || !pad.getLow().empty() || !pad.getHigh().empty())
    return;
  SmallVector<OpFoldResult> offsets, sizes, low, high;
  OpBuilder builder(slice);
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < sourceType.getRank(); ++dim) {
    // In the padded tensor's coordinates the slice is [begin, begin + length), the source [first, last).
    int64_t begin = slice.getStaticOffsets()[dim], length = slice.getType().getDimSize(dim);
    int64_t first = pad.getStaticLow()[dim], last = first + sourceType.getDimSize(dim);
    int64_t before = std::clamp<int64_t>(first - begin, 0, length);
    int64_t after = std::clamp<int64_t>(begin + length - last, 0, length);
    if (before + after > length || (before + after == length && length > 0))
      return; // nothing but padding
    shape.push_back(length - before - after);
    offsets.push_back(builder.getIndexAttr(begin + before - first));
    sizes.push_back(builder.getIndexAttr(shape.back()));
    low.push_back(builder.getIndexAttr(before));
    high.push_back(builder.getIndexAttr(after));
  }
  SmallVector<OpFoldResult> strides(sourceType.getRank(), builder.getIndexAttr(1));
  Location loc = slice.getLoc();
  Value part = pad.getSource();
  if (ArrayRef<int64_t>(shape) != sourceType.getShape())
    part = tensor::ExtractSliceOp::create(builder, loc, part, offsets, sizes, strides);
  Value result = part;
  if (shape != slice.getType().getShape())
    result = tensor::PadOp::create(builder, loc, slice.getType(), part, low, high, padding);
  remarkRaised(loc, kPass, "shifted labels");
  slice.getResult().replaceAllUsesWith(result);
}

struct TrainRaiseLoss : forebay::impl::TrainRaiseLossBase<TrainRaiseLoss> {
  void runOnOperation() override {
    for (Operation *op : collect<tensor::ExtractSliceOp>(getOperation()))
      swapSliceAndPad(cast<tensor::ExtractSliceOp>(op));
    eraseDeadOps(getOperation());
  }
};

} // namespace
