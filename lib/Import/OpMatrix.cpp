//===- OpMatrix.cpp - Matrix products -------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace forebay::import {

static void requireFloats(Emitter &e, ArrayRef<Val *> vals) {
  for (Val *val : vals)
    if (!expr::isFloat(e.kindOf(val->dtype)))
      e.fail("multiplies matrices of integers, which is not supported");
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

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

namespace {
/// An operand and its dimensions: a letter each; those that an ellipsis stands for are digits and what follows them.
struct Labelled {
  Val val;
  std::string dims;
};
} // namespace

static bool occurs(char dim, StringRef dims) { return dims.contains(dim); }

/// The dimensions of `wanted` alone, in its order; the others are summed.
static Labelled arrange(Emitter &e, Labelled x, StringRef wanted) {
  SmallVector<int64_t, 4> summed, order;
  std::string kept;
  for (auto [axis, dim] : llvm::enumerate(x.dims)) {
    if (occurs(dim, wanted))
      kept += dim;
    else
      summed.push_back(axis);
  }
  if (!summed.empty())
    x.val = e.make(x.val.dtype, e.t.reduce(Reduction::Sum, e.ir(x.val), summed));
  std::string dims;
  for (char dim : wanted)
    if (size_t axis = kept.find(dim); axis != std::string::npos) {
      order.push_back(axis);
      dims += dim;
    }
  return {e.transpose(x.val, order), dims};
}

/// The sum of products over all dimensions but those of `wanted`.
static Labelled multiply(Emitter &e, Labelled x, Labelled y, StringRef wanted) {
  // What occurs on one side alone and is not wanted is summed first.
  auto alone = [&](Labelled &side, StringRef other) {
    std::string kept;
    for (char dim : side.dims)
      if (occurs(dim, wanted) || occurs(dim, other))
        kept += dim;
    if (kept != side.dims)
      side = arrange(e, side, kept);
  };
  alone(x, y.dims);
  alone(y, x.dims);
  std::string dims;
  for (char dim : wanted)
    if (occurs(dim, x.dims) || occurs(dim, y.dims))
      dims += dim;
  if (llvm::any_of(x.dims, [&](char dim) { return !occurs(dim, wanted); }))
    return {e.make(x.val.dtype, e.t.contract(e.ir(x.val), e.ir(y.val), x.dims, y.dims, dims)), dims};
  // No sum: elementwise, each side with dimensions of size 1 where only the other has one.
  auto spread = [&](Labelled side) {
    side = arrange(e, side, dims);
    Shape shape;
    for (char dim : dims) {
      size_t axis = side.dims.find(dim);
      shape.push_back(axis == std::string::npos ? 1 : side.val.shape[axis]);
    }
    return e.reshape(side.val, shape);
  };
  Val left = spread(x), right = spread(y);
  return {e.arithmetic(expr::FOp::Mul, left, right), dims};
}

/// Splits the equation into the dimensions of the operands and of the result (none: implicit).
static std::pair<SmallVector<std::string>, std::optional<std::string>> parseEquation(Emitter &e, Node &n) {
  std::string text = n.text("equation", "");
  llvm::erase(text, ' ');
  auto malformed = [&]() { e.fail("has the equation '" + text + "', which is not well formed"); };
  auto [left, right] = StringRef(text).split("->");
  bool explicitResult = StringRef(text).contains("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (terms.size() != n.inputs.size())
    malformed();
  // Dimensions of an ellipsis are counted from the right.
  size_t most = 0;
  for (auto [term, input] : llvm::zip_equal(terms, n.inputs)) {
    size_t named = llvm::count_if(term, llvm::isAlpha);
    bool ellipsis = term.contains("...");
    if (named + (ellipsis ? 3 : 0) != term.size() || (ellipsis ? int64_t(named) > input->rank() : int64_t(named) != input->rank()))
      malformed();
    if (ellipsis)
      most = std::max(most, size_t(input->rank()) - named);
  }
  if (most > 'A' - '0')
    e.fail("has an ellipsis of " + Twine(most) + " dimensions, which is not supported");
  std::string all;
  for (size_t i = 0; i < most; ++i)
    all += char('0' + i);
  auto expandTo = [&](StringRef term, size_t count) {
    auto [before, after] = term.split("...");
    return (before + StringRef(all).take_back(term.contains("...") ? count : 0) + after).str();
  };
  SmallVector<std::string> operands;
  for (auto [term, input] : llvm::zip_equal(terms, n.inputs))
    operands.push_back(expandTo(term, input->rank() - llvm::count_if(term, llvm::isAlpha)));
  if (!explicitResult)
    return {operands, std::nullopt};
  if (size_t(llvm::count_if(right, llvm::isAlpha)) + (right.contains("...") ? 3 : 0) != right.size())
    malformed();
  return {operands, expandTo(right, most)};
}

static void importEinsum(Emitter &e, Node &n) {
  requireFloats(e, n.inputs);
  auto [terms, given] = parseEquation(e, n);
  std::string joined = llvm::join(terms, "");
  std::string result = given.value_or("");
  if (!given) {
    // The ellipsis, then what occurs once, in alphabetical order (digits come before letters).
    for (char dim : joined)
      if (!occurs(dim, result) && (!llvm::isAlpha(dim) || llvm::count(joined, dim) == 1))
        result += dim;
    llvm::sort(result);
  }
  llvm::StringMap<int64_t> sizes;
  auto sizeOf = [&](char dim) -> int64_t & { return sizes.try_emplace(StringRef(&dim, 1), 1).first->second; };
  for (auto [term, input] : llvm::zip_equal(terms, n.inputs))
    for (auto [dim, size] : llvm::zip_equal(term, input->shape)) {
      if (llvm::count(term, dim) != 1)
        e.fail("takes a diagonal (a letter twice in one operand), which is not supported");
      int64_t &known = sizeOf(dim);
      if (known != 1 && size != 1 && known != size)
        e.fail("has operands of sizes " + Twine(known) + " and " + Twine(size) + " in one dimension");
      known = known == 1 ? size : known;
    }
  Shape shape;
  for (char dim : result) {
    if (llvm::count(result, dim) != 1 || !occurs(dim, joined))
      e.fail("has a result with a dimension that occurs twice, or in no operand");
    shape.push_back(sizeOf(dim));
  }
  if (llvm::any_of(n.inputs, [&](Val *input) { return e.elements(input->shape) == 0; }) || e.elements(shape) == 0)
    return e.set(n, 0, e.splat(n.inputs[0]->dtype, shape, 0));
  // Dimensions of size 1 that are repeated do not take part.
  SmallVector<Labelled> operands;
  for (auto [term, input] : llvm::zip_equal(terms, n.inputs)) {
    Labelled operand;
    Shape kept;
    for (auto [dim, size] : llvm::zip_equal(term, input->shape))
      if (size == sizeOf(dim)) {
        operand.dims += dim;
        kept.push_back(size);
      }
    operand.val = e.reshape(*input, kept);
    operands.push_back(operand);
  }
  Labelled product = operands.front();
  for (size_t i = 1; i < operands.size(); ++i) {
    // The result's order at the end; on the way, what is still needed.
    std::string wanted = result;
    for (size_t later = i + 1; later < operands.size(); ++later)
      for (char dim : operands[later].dims)
        if (!occurs(dim, wanted))
          wanted += dim;
    product = multiply(e, product, operands[i], wanted);
  }
  e.set(n, 0, arrange(e, product, result).val);
}

void addMatrixOps(OpTable &ops) {
  ops["Einsum"] = importEinsum;
  ops["MatMul"] = importMatMul;
  ops["Gemm"] = importGemm;
}

} // namespace forebay::import
