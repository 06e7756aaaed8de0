//===- OpReduce.cpp - Reductions ------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;

namespace forebay::import {

enum class ReduceOp { Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp };

/// The value of a reduction of nothing.
static double ofNothing(ReduceOp op) {
  switch (op) {
  case ReduceOp::Mean:
    return NAN;
  case ReduceOp::Max:
  case ReduceOp::LogSum:
  case ReduceOp::LogSumExp:
    return -INFINITY;
  case ReduceOp::Min:
    return INFINITY;
  case ReduceOp::Prod:
    return 1;
  default:
    return 0;
  }
}

static Value reduceValue(Emitter &e, ReduceOp op, Value x, ArrayRef<int64_t> axes, int64_t count) {
  OpBuilder &b = e.b;
  Location loc = e.t.loc;
  TensorBuilder &t = e.t;
  bool isFloat = isa<FloatType>(elementOf(x));
  if (!isFloat && op != ReduceOp::Sum && op != ReduceOp::Max && op != ReduceOp::Min && op != ReduceOp::Prod)
    e.fail("reduces integers, which is not supported");
  switch (op) {
  case ReduceOp::Sum:
    return t.reduce(Reduction::Sum, x, axes);
  case ReduceOp::Mean: {
    Value sum = t.reduce(Reduction::Sum, x, axes);
    return arith::DivFOp::create(b, loc, sum, t.splatLike(sum, double(count)));
  }
  case ReduceOp::Max:
    return t.reduce(Reduction::Max, x, axes);
  case ReduceOp::Min:
    return t.reduce(Reduction::Min, x, axes);
  case ReduceOp::Prod:
    return t.reduce(Reduction::Prod, x, axes);
  case ReduceOp::L1:
    return t.reduce(Reduction::Sum, math::AbsFOp::create(b, loc, x), axes);
  case ReduceOp::L2:
    return math::SqrtOp::create(b, loc, t.reduce(Reduction::Sum, arith::MulFOp::create(b, loc, x, x), axes));
  case ReduceOp::SumSquare:
    return t.reduce(Reduction::Sum, arith::MulFOp::create(b, loc, x, x), axes);
  case ReduceOp::LogSum:
    return math::LogOp::create(b, loc, t.reduce(Reduction::Sum, x, axes));
  case ReduceOp::LogSumExp: {
    // max + log(sum(exp(x - max))); the maximum is a constant to the gradient. An infinite one would make x - max a NaN.
    Value max = t.reduce(Reduction::Max, x, axes);
    Shape kept(shapeOf(x));
    for (int64_t axis : axes)
      kept[axis] = 1;
    Value finite = e.detach(max), size = math::AbsFOp::create(b, loc, finite);
    Value isFinite = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, size, t.splatLike(size, INFINITY));
    finite = arith::SelectOp::create(b, loc, isFinite, finite, t.splatLike(finite, 0));
    Value shifted = arith::SubFOp::create(b, loc, x, t.broadcast(t.reshape(finite, kept), shapeOf(x)));
    Value sum = t.reduce(Reduction::Sum, math::ExpOp::create(b, loc, shifted), axes);
    return arith::AddFOp::create(b, loc, math::LogOp::create(b, loc, sum), finite);
  }
  }
  llvm_unreachable("all reductions are listed");
}

template <ReduceOp op> static void importReduce(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  SmallVector<int64_t, 4> axes;
  if (n.has(1)) {
    for (int64_t axis : e.constants(*n.inputs[1], "its axes"))
      axes.push_back(e.axis(axis, x.rank()));
  } else if (auto given = n.integers("axes")) {
    for (int64_t axis : *given)
      axes.push_back(e.axis(axis, x.rank()));
  }
  bool keepDims = n.integer("keepdims", 1);
  if (axes.empty()) {
    if (n.integer("noop_with_empty_axes", 0) && (op == ReduceOp::Sum || op == ReduceOp::Mean || op == ReduceOp::Max ||
                                                 op == ReduceOp::Min || op == ReduceOp::Prod))
      return e.set(n, 0, x);
    axes = llvm::to_vector<4>(llvm::seq<int64_t>(0, x.rank()));
  }
  llvm::sort(axes);
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  Shape dropped, kept(x.shape);
  int64_t count = 1;
  for (auto [axis, size] : llvm::enumerate(x.shape)) {
    if (llvm::is_contained(axes, int64_t(axis))) {
      kept[axis] = 1;
      count *= size;
    } else {
      dropped.push_back(size);
    }
  }
  ArrayRef<int64_t> shape = keepDims ? kept : dropped;
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, e.splat(x.dtype, shape, ofNothing(op)));
  // Shape programs reduce small integers.
  if (auto values = e.isDense(x) ? e.tryConstants(x) : std::nullopt) {
    if (count == int64_t(values->size()) &&
        (op == ReduceOp::Sum || op == ReduceOp::Prod || op == ReduceOp::Max || op == ReduceOp::Min)) {
      int64_t result = values->front();
      for (int64_t value : ArrayRef(*values).drop_front())
        result = op == ReduceOp::Sum    ? int64_t(uint64_t(result) + uint64_t(value))
                 : op == ReduceOp::Prod ? int64_t(uint64_t(result) * uint64_t(value))
                 : op == ReduceOp::Max  ? std::max(result, value)
                                        : std::min(result, value);
      return e.set(n, 0, e.make(x.dtype, shape, e.exprs.intConst(result), {}));
    }
  }
  Value value = reduceValue(e, op, e.ir(x), axes, count);
  Val result = op == ReduceOp::Sum                          ? e.makeSum(x, value, count, count)
               : op == ReduceOp::Max || op == ReduceOp::Min ? e.makeSum(x, value, 1, 1)
                                                            : e.make(x.dtype, value);
  e.set(n, 0, e.reshape(result, shape));
}

void addReduceOps(OpTable &ops) {
  ops["ReduceSum"] = importReduce<ReduceOp::Sum>;
  ops["ReduceMean"] = importReduce<ReduceOp::Mean>;
  ops["ReduceMax"] = importReduce<ReduceOp::Max>;
  ops["ReduceMin"] = importReduce<ReduceOp::Min>;
  ops["ReduceProd"] = importReduce<ReduceOp::Prod>;
  ops["ReduceL1"] = importReduce<ReduceOp::L1>;
  ops["ReduceL2"] = importReduce<ReduceOp::L2>;
  ops["ReduceSumSquare"] = importReduce<ReduceOp::SumSquare>;
  ops["ReduceLogSum"] = importReduce<ReduceOp::LogSum>;
  ops["ReduceLogSumExp"] = importReduce<ReduceOp::LogSumExp>;
}

} // namespace forebay::import
