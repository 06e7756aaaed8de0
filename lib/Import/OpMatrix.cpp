//===- OpMatrix.cpp - Matrix products -------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace forebay::import {

static void requireFloats(Emitter &e, ArrayRef<Val *> vals) {
  for (Val *val : vals) {
    if (!expr::isFloat(e.kindOf(val->dtype)))
      e.fail("multiplies matrices of integers, which is not supported");
    if (val->dtype != vals.front()->dtype)
      e.fail("has operands of different types");
  }
}

static void importMatMul(Emitter &e, Node &n) {
  Val a = *n.inputs[0], c = *n.inputs[1];
  requireFloats(e, {&a, &c});
  if (a.rank() == 0 || c.rank() == 0)
    e.fail("multiplies a scalar as a matrix");
  bool row = a.rank() == 1, column = c.rank() == 1;
  if (row)
    a = e.reshape(a, {1, a.shape[0]});
  if (column)
    c = e.reshape(c, {c.shape[0], 1});
  int64_t m = a.shape[a.rank() - 2], k = a.shape.back(), width = c.shape.back();
  if (k != c.shape[c.rank() - 2])
    e.fail("multiplies matrices of inner sizes " + Twine(k) + " and " + Twine(c.shape[c.rank() - 2]));
  Val aBatch, cBatch;
  aBatch.shape.assign(a.shape.begin(), a.shape.end() - 2);
  cBatch.shape.assign(c.shape.begin(), c.shape.end() - 2);
  Shape shape = e.broadcastShapes({&aBatch, &cBatch}), result = shape;
  shape.append({m, width});
  if (!row)
    result.push_back(m);
  if (!column)
    result.push_back(width);
  if (e.elements(shape) == 0 || k == 0)
    return e.set(n, 0, e.splat(a.dtype, result, 0));
  Val product = e.make(a.dtype, e.t.matmul(e.ir(a), e.ir(c)));
  e.set(n, 0, e.reshape(product, result));
}

static void importGemm(Emitter &e, Node &n) {
  Val a = *n.inputs[0], c = *n.inputs[1];
  requireFloats(e, {&a, &c});
  if (a.rank() != 2 || c.rank() != 2)
    e.fail("multiplies tensors that are not matrices");
  if (n.integer("transA", 0))
    a = e.transpose(a, {1, 0});
  if (n.integer("transB", 0))
    c = e.transpose(c, {1, 0});
  if (a.shape[1] != c.shape[0])
    e.fail("multiplies matrices of inner sizes " + Twine(a.shape[1]) + " and " + Twine(c.shape[0]));
  Shape shape{a.shape[0], c.shape[1]};
  Val result;
  if (e.elements(shape) == 0 || a.shape[1] == 0)
    result = e.splat(a.dtype, shape, 0);
  else
    result = e.make(a.dtype, e.t.contract(e.ir(a), e.ir(c), "mk", "kn", "mn"));
  auto scaled = [&](Val &val, double factor) {
    Val by = e.splat(val.dtype, {}, factor);
    return e.arithmetic(expr::FOp::Mul, val, by);
  };
  result = scaled(result, n.real("alpha", 1));
  double beta = n.real("beta", 1);
  if (n.has(2) && beta != 0) {
    requireFloats(e, {&a, n.inputs[2]});
    Val bias = scaled(*n.inputs[2], beta);
    if (e.broadcastShapes({&result, &bias}) != shape)
      e.fail("adds a bias that is larger than its result");
    result = e.arithmetic(expr::FOp::Add, result, bias);
  }
  e.set(n, 0, result);
}

void addMatrixOps(OpTable &ops) {
  ops["MatMul"] = importMatMul;
  ops["Gemm"] = importGemm;
}

} // namespace forebay::import
