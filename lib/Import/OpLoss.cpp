//===- OpLoss.cpp - Cross entropy -----------------------------------------===//

#include "Emitter.h"

#include "forebay/Dialect/Train/IR/Train.h"

using namespace mlir;
using onnx::TensorProto;

namespace forebay::import {

/// No row can have this label: what ONNX means by no ignore_index.
static constexpr int64_t kNothingIgnored = std::numeric_limits<int64_t>::min();

static void importCrossEntropy(Emitter &e, Node &n) {
  Val &scores = *n.inputs[0], &labels = *n.inputs[1];
  if (n.has(2))
    e.fail("weighs classes, which is not supported", "train without class weights");
  if (n.hasOutput(1))
    e.fail("gives out logarithms of probabilities, which is not supported");
  std::string reduction = n.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum")
    e.fail("has reduction '" + reduction + "', which is not supported", "supported are 'mean' and 'sum'");
  // [N, C, d...] -> [N * d, C]
  Shape wanted(scores.shape);
  if (scores.rank() < 2 || labels.rank() != scores.rank() - 1)
    e.fail("takes scores of rank " + Twine(scores.rank()) + " and labels of rank " + Twine(labels.rank()));
  wanted.erase(wanted.begin() + 1);
  if (wanted != labels.shape)
    e.fail("takes scores and labels whose shapes do not fit together");
  int64_t rows = e.elements(labels.shape), classes = scores.shape[1];
  if (rows == 0 || classes == 0)
    return e.set(n, 0, e.splat(scores.dtype, {}, reduction == "mean" ? std::numeric_limits<double>::quiet_NaN() : 0));
  SmallVector<int64_t, 4> permutation{0};
  for (int64_t axis = 2; axis < scores.rank(); ++axis)
    permutation.push_back(axis);
  permutation.push_back(1);
  Val moved = e.transpose(scores, permutation);
  Val matrix = e.reshape(moved, {rows, classes}), vector = e.reshape(labels, {rows});
  Type element = e.elementType(scores.dtype);
  auto op = train::CrossEntropyOp::create(e.b, e.t.loc, TypeRange{e.t.type({}, element), e.t.type({rows}, element)},
                                          e.ir(matrix), e.ir(vector),
                                          e.b.getI64IntegerAttr(n.integer("ignore_index", kNothingIgnored)),
                                          reduction == "sum" ? e.b.getUnitAttr() : UnitAttr());
  e.set(n, 0, e.make(scores.dtype, op.getLoss()));
}

void addLossOps(OpTable &ops) { ops["SoftmaxCrossEntropyLoss"] = importCrossEntropy; }

} // namespace forebay::import
