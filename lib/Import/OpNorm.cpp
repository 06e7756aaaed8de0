//===- OpNorm.cpp - Softmax and normalisation -----------------------------===//

#include "Emitter.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace forebay::import {

static void requireFloat(Emitter &e, const Val &val) {
  if (!expr::isFloat(e.kindOf(val.dtype)))
    e.fail("works on integers, which is not supported");
}

/// Applies `onRows` with `axis` moved last.
static Val alongAxis(Emitter &e, Val &x, int64_t axis, function_ref<Value(Value)> onRows) {
  SmallVector<int64_t, 4> permutation = llvm::to_vector<4>(llvm::seq<int64_t>(0, x.rank()));
  std::swap(permutation[axis], permutation.back());
  Val moved = e.transpose(x, permutation);
  Val result = e.make(x.dtype, onRows(e.ir(moved)));
  return e.transpose(result, permutation);
}

static void importSoftmax(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  requireFloat(e, x);
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, x);
  int64_t axis = e.axis(n.integer("axis", -1), x.rank());
  e.set(n, 0, alongAxis(e, x, axis, [&](Value rows) -> Value {
    return train::SoftmaxOp::create(e.b, e.t.loc, rows.getType(), rows);
  }));
}

static void importLogSoftmax(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  requireFloat(e, x);
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, x);
  int64_t axis = e.axis(n.integer("axis", -1), x.rank());
  e.set(n, 0, alongAxis(e, x, axis, [&](Value rows) -> Value {
    // x - max - log(sum(exp(x - max))); the maximum is a constant to the gradient.
    ArrayRef<int64_t> shape = shapeOf(rows);
    int64_t last = int64_t(shape.size()) - 1;
    SmallVector<int64_t, 4> outer = llvm::to_vector<4>(llvm::seq<int64_t>(0, last));
    Value max = e.detach(e.t.reduce(Reduction::Max, rows, {last}));
    Value shifted = arith::SubFOp::create(e.b, e.t.loc, rows, e.t.broadcastAxes(max, outer, shape));
    Value sum = e.t.reduce(Reduction::Sum, math::ExpOp::create(e.b, e.t.loc, shifted), {last});
    Value log = math::LogOp::create(e.b, e.t.loc, sum);
    return arith::SubFOp::create(e.b, e.t.loc, shifted, e.t.broadcastAxes(log, outer, shape));
  }));
}

namespace {
/// A normalisation over all axes from `axis` on, as one over the last axis.
struct Rows {
  Shape statistics; ///< ONNX's shape of mean and deviation.
  Shape outer;      ///< Of train's.
  Value input;
  int64_t width = 1;
};
} // namespace

static Rows rowsOf(Emitter &e, Node &n, Val &x) {
  requireFloat(e, x);
  int64_t axis = e.axis(n.integer("axis", -1), x.rank());
  Rows rows;
  for (auto [i, size] : llvm::enumerate(x.shape)) {
    rows.statistics.push_back(int64_t(i) < axis ? size : 1);
    if (int64_t(i) < axis)
      rows.outer.push_back(size);
    else
      rows.width *= size;
  }
  Shape shape = rows.outer;
  shape.push_back(rows.width);
  Val flat = e.reshape(x, shape);
  rows.input = e.ir(flat);
  return rows;
}

/// Weight or bias as a vector; null where it is absent or `neutral` everywhere.
static Value vectorOf(Emitter &e, Node &n, unsigned operand, Val &x, double neutral, int64_t width) {
  if (!n.has(operand) || e.splatValue(*n.inputs[operand]) == neutral)
    return nullptr;
  int64_t axis = e.axis(n.integer("axis", -1), x.rank());
  Val normalized;
  normalized.shape.assign(x.shape.begin() + axis, x.shape.end());
  if (e.broadcastShapes({&normalized, n.inputs[operand]}) != normalized.shape)
    e.fail("has a weight or bias that is larger than what it normalises");
  Val wide = e.expand(*n.inputs[operand], normalized.shape);
  Val flat = e.reshape(wide, {width});
  return e.ir(flat);
}

static void importLayerNorm(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, x);
  Rows rows = rowsOf(e, n, x);
  Value weight = vectorOf(e, n, 1, x, 1, rows.width), bias = vectorOf(e, n, 2, x, 0, rows.width);
  RankedTensorType type = cast<RankedTensorType>(rows.input.getType()), small = e.t.type(rows.outer, type.getElementType());
  auto op = train::LayerNormOp::create(e.b, e.t.loc, TypeRange{type, small, small}, rows.input, weight, bias,
                                       e.b.getF64FloatAttr(n.real("epsilon", 1e-5f)));
  auto set = [&](unsigned output, Value value, ArrayRef<int64_t> shape) {
    Val val = e.make(x.dtype, value);
    if (n.hasOutput(output))
      e.set(n, output, e.reshape(val, shape));
  };
  set(0, op.getResult(), x.shape);
  set(1, op.getMean(), rows.statistics);
  set(2, op.getRstd(), rows.statistics);
}

static void importRMSNorm(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, x);
  Rows rows = rowsOf(e, n, x);
  Value weight = vectorOf(e, n, 1, x, 1, rows.width);
  RankedTensorType type = cast<RankedTensorType>(rows.input.getType()), small = e.t.type(rows.outer, type.getElementType());
  auto op = train::RMSNormOp::create(e.b, e.t.loc, TypeRange{type, small}, rows.input, weight,
                                     e.b.getF64FloatAttr(n.real("epsilon", 1e-5f)), UnitAttr());
  Val result = e.make(x.dtype, op.getResult());
  e.set(n, 0, e.reshape(result, x.shape));
}

/// Normalises the parts of `x` seen as [N, groups, rest], then scales and shifts by vectors over channels (or groups).
static void normalizeGroups(Emitter &e, Node &n, int64_t groups) {
  Val &x = *n.inputs[0];
  requireFloat(e, x);
  if (x.rank() < 2 || groups <= 0 || x.shape[1] % groups != 0)
    e.fail("cannot split its channels into " + Twine(groups) + " groups");
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, x);
  int64_t batch = x.shape[0], rest = e.elements(x.shape) / (batch * groups);
  Val parts = e.reshape(x, {batch, groups, rest});
  Value input = e.ir(parts);
  RankedTensorType small = e.t.type({batch, groups}, elementOf(input));
  auto op = train::LayerNormOp::create(e.b, e.t.loc, TypeRange{input.getType(), small, small}, input, Value(), Value(),
                                       e.b.getF64FloatAttr(n.real("epsilon", 1e-5f)));
  Val result = e.make(x.dtype, op.getResult());
  auto apply = [&](unsigned operand, expr::FOp how) {
    int64_t size = n.inputs[operand]->shape.empty() ? 0 : n.inputs[operand]->shape[0];
    if (size != x.shape[1] && size != groups)
      e.fail("has a scale or bias of " + Twine(size) + " elements for " + Twine(x.shape[1]) + " channels");
    result = e.reshape(result, {batch, size, e.elements(x.shape) / (batch * size)});
    Val column = e.reshape(*n.inputs[operand], {size, 1});
    result = e.arithmetic(how, result, column);
  };
  apply(1, expr::FOp::Mul);
  apply(2, expr::FOp::Add);
  e.set(n, 0, e.reshape(result, x.shape));
}

static void importInstanceNorm(Emitter &e, Node &n) {
  normalizeGroups(e, n, n.inputs[0]->rank() >= 2 ? n.inputs[0]->shape[1] : 0);
}
static void importGroupNorm(Emitter &e, Node &n) { normalizeGroups(e, n, n.integer("num_groups", 0)); }

void addNormOps(OpTable &ops) {
  ops["Softmax"] = importSoftmax;
  ops["LogSoftmax"] = importLogSoftmax;
  ops["LayerNormalization"] = importLayerNorm;
  ops["RMSNormalization"] = importRMSNorm;
  ops["InstanceNormalization"] = importInstanceNorm;
  ops["GroupNormalization"] = importGroupNorm;
}

} // namespace forebay::import
