//===- TrainOps.cpp - train operations: verifiers, folders, costs ---------===//

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace forebay::train;

#define GET_OP_CLASSES
#include "forebay/Dialect/Train/IR/TrainOps.cpp.inc"

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

/// Checks that `part`, if there, is a vector with the size of the last axis of `whole`.
static LogicalResult verifyLastAxis(Operation *op, Value part, Value whole, StringRef what) {
  if (!part || (shapeOf(part).size() == 1 && shapeOf(part).back() == shapeOf(whole).back()))
    return success();
  return op->emitOpError() << what << " must be a vector of the size of the input's last axis";
}

static LogicalResult verifyRowStatistic(Operation *op, Value statistic, Value input, StringRef what) {
  if (shapeOf(statistic) == shapeOf(input).drop_back())
    return success();
  return op->emitOpError() << what << " must have the shape of the input without its last axis";
}

LogicalResult LayerNormOp::verify() {
  if (shapeOf(getInput()).empty())
    return emitOpError() << "needs an input of rank 1 or more";
  if (failed(verifyLastAxis(*this, getWeight(), getInput(), "weight")) ||
      failed(verifyLastAxis(*this, getBias(), getInput(), "bias")) ||
      failed(verifyRowStatistic(*this, getMean(), getInput(), "mean")))
    return failure();
  return verifyRowStatistic(*this, getRstd(), getInput(), "rstd");
}

LogicalResult RMSNormOp::verify() {
  if (shapeOf(getInput()).empty())
    return emitOpError() << "needs an input of rank 1 or more";
  if (failed(verifyLastAxis(*this, getWeight(), getInput(), "weight")))
    return failure();
  return verifyRowStatistic(*this, getRstd(), getInput(), "rstd");
}

/// Of a norm's gradient: `grad` and `dinput` are like the input, sums over rows have the size of its last axis.
static LogicalResult verifyNormGrad(Operation *op, Value grad, Value input, Value weight, Value dinput, ArrayRef<Value> sums) {
  if (shapeOf(input).empty())
    return op->emitOpError() << "needs an input of rank 1 or more";
  if (grad.getType() != input.getType() || dinput.getType() != input.getType())
    return op->emitOpError() << "gradients must have the type of the input";
  for (Value sum : sums)
    if (failed(verifyLastAxis(op, sum, input, "a gradient of weight or bias")))
      return failure();
  return verifyLastAxis(op, weight, input, "weight");
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(verifyNormGrad(*this, getGrad(), getInput(), getWeight(), getDinput(), {getDweight(), getDbias()})) ||
      failed(verifyRowStatistic(*this, getMean(), getInput(), "mean")))
    return failure();
  return verifyRowStatistic(*this, getRstd(), getInput(), "rstd");
}

LogicalResult RMSNormGradOp::verify() {
  if (failed(verifyNormGrad(*this, getGrad(), getInput(), getWeight(), getDinput(), {getDweight()})))
    return failure();
  return verifyRowStatistic(*this, getRstd(), getInput(), "rstd");
}

/// What attention and its gradient have in common; `result` is the forward result.
template <typename OpTy> static LogicalResult verifyAttention(OpTy op, Value result) {
  auto emitOpError = [&] { return op.emitOpError(); };
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey()), v = shapeOf(op.getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return emitOpError() << "query, key and value must have rank 4: [batch, heads, sequence, dimension]";
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3])
    return emitOpError() << "query, key and value do not fit together";
  if (k[1] != 0 && q[1] % k[1] != 0)
    return emitOpError() << "has " << q[1] << " query heads, not a multiple of its " << k[1] << " key heads";
  if (shapeOf(result) != ArrayRef<int64_t>{q[0], q[1], q[2], v[3]} || shapeOf(op.getLse()) != q.drop_back())
    return emitOpError() << "result must be [batch, heads, queries, value dimension] and lse [batch, heads, queries]";
  if ((op.getCausal() || op.getWindow()) && q[2] != k[2])
    return emitOpError() << "a causal or window mask needs as many keys as queries";
  if (Value mask = op.getMask()) {
    ArrayRef<int64_t> m = shapeOf(mask);
    if (m.size() != 4 || (m[0] != 1 && m[0] != q[0]) || (m[1] != 1 && m[1] != q[1]) ||
        (m[2] != 1 && m[2] != q[2]) || m[3] != k[2])
      return emitOpError() << "mask must be [batch|1, heads|1, queries|1, keys]";
  }
  if (Value padding = op.getKeyPadding())
    if (shapeOf(padding) != ArrayRef<int64_t>{k[0], k[2]})
      return emitOpError() << "key_padding must be [batch, keys]";
  return success();
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this, getResult()); }

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyAttention(*this, getOutput())))
    return failure();
  if (getGrad().getType() != getOutput().getType() || getDquery().getType() != getQuery().getType() ||
      getDkey().getType() != getKey().getType() || getDvalue().getType() != getValue().getType())
    return emitOpError() << "gradients must have the types of result, query, key and value";
  return success();
}

/// Scores and their product with the values: 2 multiply-adds for each of batch x heads x queries x keys pairs and element.
int64_t AttentionOp::getFlops() {
  ArrayRef<int64_t> q = shapeOf(getQuery()), v = shapeOf(getValue());
  return 2 * q[0] * q[1] * q[2] * v[2] * (q[3] + v[3]);
}

/// Scores again, dP, and the three products for dq, dk, dv.
int64_t AttentionGradOp::getFlops() {
  ArrayRef<int64_t> q = shapeOf(getQuery()), v = shapeOf(getValue());
  return 2 * q[0] * q[1] * q[2] * v[2] * (3 * q[3] + 2 * v[3]);
}

LogicalResult RotaryOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getInput()), c = shapeOf(getCos());
  if (x.size() != 4 || getInput().getType() != getResult().getType())
    return emitOpError() << "input must be [batch, heads, sequence, dimension] and the result like it";
  if (c != shapeOf(getSin()) || (c.size() != 2 && c.size() != 3) || c[c.size() - 2] != x[2] ||
      (c.size() == 3 && c[0] != x[0]) || 2 * c.back() > x[3])
    return emitOpError() << "cos and sin must both be [sequence, half] or [batch, sequence, half], half <= dimension / 2";
  return success();
}

LogicalResult EmbeddingOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getTable());
  if (table.empty())
    return emitOpError() << "needs a table of rank 1 or more";
  SmallVector<int64_t> want(shapeOf(getIds()));
  llvm::append_range(want, table.drop_front());
  if (shapeOf(getResult()) != ArrayRef<int64_t>(want))
    return emitOpError() << "result must have the shape of ids followed by the shape of a row";
  return success();
}

LogicalResult EmbeddingGradOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getDtable());
  if (table.empty())
    return emitOpError() << "needs a table of rank 1 or more";
  SmallVector<int64_t> want(shapeOf(getIds()));
  llvm::append_range(want, table.drop_front());
  if (shapeOf(getGrad()) != ArrayRef<int64_t>(want))
    return emitOpError() << "gradient must have the shape of ids followed by the shape of a row";
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  ArrayRef<int64_t> logits = shapeOf(getLogits());
  if (logits.size() != 2 || shapeOf(getLabels()) != logits.take_front() || !shapeOf(getLoss()).empty() ||
      shapeOf(getLse()) != logits.take_front())
    return emitOpError() << "takes logits [rows, classes] and labels [rows], gives a rank-0 loss and lse [rows]";
  return success();
}

LogicalResult CrossEntropyGradOp::verify() {
  ArrayRef<int64_t> logits = shapeOf(getLogits());
  if (logits.size() != 2 || shapeOf(getLabels()) != logits.take_front() || !shapeOf(getGrad()).empty() ||
      shapeOf(getLse()) != logits.take_front() || getDlogits().getType() != getLogits().getType())
    return emitOpError() << "takes a rank-0 gradient, logits [rows, classes], labels and lse [rows], gives the type of the logits";
  return success();
}

LogicalResult NormPartialsOp::verify() {
  int64_t want = llvm::divideCeil(cast<RankedTensorType>(getGrad().getType()).getNumElements(), 1024);
  if (shapeOf(getResult()) != ArrayRef<int64_t>{want})
    return emitOpError() << "must give one sum for each block of 1024 elements: " << want;
  return success();
}

LogicalResult VerdictOp::verify() {
  if (shapeOf(getVerdict()) != ArrayRef<int64_t>{4})
    return emitOpError() << "must give 4 numbers";
  return success();
}

LogicalResult UpdateOp::verify() {
  if (shapeOf(getVerdict()) != ArrayRef<int64_t>{4} || shapeOf(getScalars()).size() != 1)
    return emitOpError() << "takes a vector of scalars and a verdict of 4 numbers";
  if (getState().size() != getNewState().size())
    return emitOpError() << "must give as many states as it takes";
  Type type = getParameter().getType();
  if (getGrad().getType() != type || !llvm::all_of(getState().getTypes(), [&](Type t) { return t == type; }) ||
      !llvm::all_of(getResultTypes(), [&](Type t) { return t == type; }))
    return emitOpError() << "gradient, states and results must have the type of the parameter";
  return success();
}

LogicalResult OptimizerOp::verifyRegions() {
  unsigned states = getState().size(), hypers = getHyper().size();
  mlir::SymbolTable symbols(*this);
  auto scalars = symbols.lookup<func::FuncOp>("scalars"), update = symbols.lookup<func::FuncOp>("update");
  if (!scalars || !update)
    return emitOpError() << "needs two functions, @scalars and @update";
  if (scalars.getNumArguments() != 1 + hypers || !scalars.getArgumentTypes().front().isInteger(64))
    return emitOpError() << "@scalars takes t (i64) and one f64 for each of the " << hypers << " hyper-parameters";
  for (Type type : scalars.getArgumentTypes().drop_front())
    if (!type.isF64())
      return emitOpError() << "@scalars takes hyper-parameters as f64, not " << type;
  if (update.getNumArguments() != 2 + states + scalars.getNumResults())
    return emitOpError() << "@update takes parameter, gradient, " << states << " states and " << scalars.getNumResults()
                         << " scalars, not " << update.getNumArguments() << " arguments";
  if (update.getNumResults() != 1 + states)
    return emitOpError() << "@update returns the parameter and " << states << " states";
  for (Type type : llvm::concat<const Type>(update.getArgumentTypes(), update.getResultTypes(), scalars.getResultTypes()))
    if (!type.isF32())
      return emitOpError() << "@update works on f32, not " << type;
  return success();
}
