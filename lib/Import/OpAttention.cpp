//===- OpAttention.cpp - Attention and rotary positions -------------------===//

#include "EmitExpr.h"
#include "Emitter.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using onnx::TensorProto;

namespace forebay::import {

using expr::Kind;
using expr::Op;
using expr::Ref;

namespace {
/// What hides keys from queries.
struct Masks {
  bool causal = false;
  std::optional<int64_t> window;
  Value padding; ///< [B, Sk]
  Value mask;    ///< [B|1, H|1, Sq|1, Sk]
};
} // namespace

/// A float mask that adds 0 where a key may be seen and (as good as) minus infinity elsewhere, as the boolean mask.
static Ref booleanOf(Ref mask) {
  if (mask->op != Op::Select || !expr::isFloat(mask->kind) || !expr::isConst(mask->args[1]) || !expr::isConst(mask->args[2]))
    return nullptr;
  // exp underflows to 0 beside any score that is not itself this far down.
  if (mask->args[1]->fimm == 0 && mask->args[2]->fimm <= -1e30)
    return mask->args[0];
  return nullptr;
}

/// Splits the mask operand into what train.attention has attributes and operands for.
static void readMask(Emitter &e, Val &mask, ArrayRef<int64_t> full, Masks &masks) {
  Val wide = mask;
  if (wide.rank() > 4)
    e.fail("has a mask of rank " + Twine(wide.rank()));
  Shape shape(wide.shape);
  shape.insert(shape.begin(), 4 - wide.rank(), 1);
  wide = e.reshape(wide, shape);
  for (auto [have, want] : llvm::zip_equal(shape, full))
    if (have != 1 && have != want)
      e.fail("has a mask that does not broadcast to its scores");
  int64_t batch = full[0], keys = full[3];
  if (shape[3] != keys) {
    shape[3] = keys;
    wide = e.expand(wide, shape);
  }
  if (!wide.expr) {
    masks.mask = e.ir(wide);
    return;
  }
  Ref condition = wide.expr->kind == Kind::Bool ? wide.expr : nullptr;
  bool square = full[2] == full[3];
  if (!condition) {
    // Rows that a float mask hides wholly are not zero: only masks without such rows are boolean ones.
    if (expr::isConst(wide.expr) && wide.expr->fimm == 0)
      return;
    Ref hidden = booleanOf(wide.expr);
    MaskFactors factors = hidden ? splitMask(e.exprs, hidden, 2, 3) : MaskFactors();
    if (hidden && square && factors.rest.empty() && factors.causal && factors.window.value_or(1) >= 1)
      condition = hidden;
  }
  if (!condition) {
    masks.mask = e.ir(wide);
    return;
  }
  MaskFactors factors;
  if (square)
    factors = splitMask(e.exprs, condition, 2, 3);
  else
    factors.rest.push_back(condition);
  masks.causal |= factors.causal;
  if (factors.window)
    masks.window = std::min(masks.window.value_or(*factors.window), *factors.window);
  SmallVector<Ref, 4> general, padding;
  for (Ref factor : factors.rest) {
    if (expr::isInt(factor, 1))
      continue;
    bool keysOnly = !(factor->axes & ~uint64_t(0b1001));
    (keysOnly && batch > 0 ? padding : general).push_back(factor);
  }
  if (!padding.empty()) {
    // [B, 1, 1, Sk] as [B, Sk].
    Ref moved = e.exprs.substitute(e.exprs.andOf(padding), [&](unsigned axis, int64_t size) {
      return e.exprs.coord(axis == 3 ? 1 : 0, size);
    });
    Val val = e.make(TensorProto::BOOL, {batch, keys}, moved, {});
    masks.padding = e.ir(val);
  }
  if (!general.empty()) {
    Ref rest = e.exprs.andOf(general);
    Shape kept{1, 1, 1, keys};
    for (unsigned axis = 0; axis < 3; ++axis)
      if (rest->axes >> axis & 1)
        kept[axis] = full[axis];
    Val val = e.make(TensorProto::BOOL, kept, rest, {});
    masks.mask = e.ir(val);
  }
}

/// Scores, mask, softmax and product written out: for a float mask that is trained.
static Value decomposed(Emitter &e, Value q, Value k, Value v, Value mask, double scale, double softcap) {
  ArrayRef<int64_t> shape = shapeOf(q);
  int64_t repeats = shape[1] / shapeOf(k)[1];
  auto repeat = [&](Value value) {
    if (repeats == 1)
      return value;
    Shape s(shapeOf(value)), wide{s[0], s[1], repeats, s[2], s[3]};
    return e.t.reshape(e.t.broadcastAxes(value, {0, 1, 3, 4}, wide), {s[0], s[1] * repeats, s[2], s[3]});
  };
  Value scores = e.t.contract(q, repeat(k), "bhqd", "bhkd", "bhqk");
  scores = arith::MulFOp::create(e.b, e.t.loc, scores, e.t.splatLike(scores, scale));
  if (softcap != 0) {
    scores = arith::DivFOp::create(e.b, e.t.loc, scores, e.t.splatLike(scores, softcap));
    scores = math::TanhOp::create(e.b, e.t.loc, scores);
    scores = arith::MulFOp::create(e.b, e.t.loc, scores, e.t.splatLike(scores, softcap));
  }
  scores = arith::AddFOp::create(e.b, e.t.loc, scores, e.t.broadcast(mask, shapeOf(scores)));
  Value p = train::SoftmaxOp::create(e.b, e.t.loc, scores.getType(), scores);
  return e.t.contract(p, repeat(v), "bhqk", "bhkd", "bhqd");
}

static void importAttention(Emitter &e, Node &n) {
  Val q = *n.inputs[0], k = *n.inputs[1], v = *n.inputs[2];
  for (const Val *val : {&q, &k, &v})
    if (!expr::isFloat(e.kindOf(val->dtype)) || val->dtype != q.dtype)
      e.fail("takes query, key and value of different or integer types");
  if (n.has(4) || n.has(5) || n.hasOutput(1) || n.hasOutput(2))
    e.fail("keeps past keys and values, which training does not have", "export the model with use_cache=False");
  if (n.hasOutput(3))
    e.fail("gives out its scores, which is not supported", "export without output_attentions");
  if (n.has(6))
    e.fail("takes nonpad_kv_seqlen, which is not supported");
  bool flat = q.rank() == 3;
  if (flat) {
    // [B, S, H * D] -> [B, H, S, D]
    auto split = [&](Val &val, int64_t heads) {
      if (val.rank() != 3 || heads <= 0 || val.shape[2] % heads != 0)
        e.fail("cannot split its operands into " + Twine(heads) + " heads");
      Val apart = e.reshape(val, {val.shape[0], val.shape[1], heads, val.shape[2] / heads});
      return e.transpose(apart, {0, 2, 1, 3});
    };
    int64_t heads = n.integer("q_num_heads", 0), keyHeads = n.integer("kv_num_heads", 0);
    q = split(q, heads);
    k = split(k, keyHeads);
    v = split(v, keyHeads);
  }
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    e.fail("takes operands that are not of rank 3 or 4");
  if (q.shape[0] != k.shape[0] || k.shape[0] != v.shape[0] || k.shape[1] != v.shape[1] || k.shape[2] != v.shape[2] ||
      q.shape[3] != k.shape[3] || (k.shape[1] != 0 && q.shape[1] % k.shape[1] != 0))
    e.fail("takes query, key and value whose shapes do not fit together");
  Shape shape{q.shape[0], q.shape[1], q.shape[2], v.shape[3]}, scores{q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  Val result;
  if (e.elements(shape) == 0 || k.shape[2] == 0) {
    result = e.splat(q.dtype, shape, 0);
  } else {
    double scale = n.real("scale", 1.0 / std::sqrt(double(q.shape[3])));
    double softcap = n.real("softcap", 0);
    Masks masks;
    bool square = scores[2] == scores[3];
    bool causal = n.integer("is_causal", 0);
    if (n.has(3))
      readMask(e, *n.inputs[3], scores, masks);
    masks.causal |= causal && square;
    if (causal && !square) {
      if (masks.mask)
        e.fail("is causal with another number of keys than queries and has a mask, which is not supported");
      Val lower;
      Ref seen = e.exprs.le(e.exprs.coord(3, scores[3]), e.exprs.coord(2, scores[2]));
      lower = e.make(TensorProto::BOOL, {1, 1, scores[2], scores[3]}, seen, {}, /*keep=*/true);
      masks.mask = e.ir(lower);
    }
    if (masks.mask && e.needsGradient(masks.mask)) {
      if (masks.causal || masks.window || masks.padding)
        e.fail("is causal and has a mask that is trained, which is not supported");
      result = e.make(q.dtype, decomposed(e, e.ir(q), e.ir(k), e.ir(v), masks.mask, scale, softcap));
    } else {
      Type element = e.elementType(q.dtype);
      auto op = train::AttentionOp::create(
          e.b, e.t.loc, TypeRange{e.t.type(shape, element), e.t.type(ArrayRef<int64_t>(shape).drop_back(), element)},
          e.ir(q), e.ir(k), e.ir(v), masks.mask, masks.padding, e.b.getF64FloatAttr(scale),
          masks.causal ? e.b.getUnitAttr() : UnitAttr(), masks.window ? e.b.getI64IntegerAttr(*masks.window) : IntegerAttr(),
          softcap != 0 ? e.b.getF64FloatAttr(softcap) : FloatAttr());
      result = e.make(q.dtype, op.getResult());
    }
  }
  if (flat) {
    Val apart = e.transpose(result, {0, 2, 1, 3});
    result = e.reshape(apart, {shape[0], shape[2], shape[1] * shape[3]});
  }
  e.set(n, 0, result);
}

static void importRotaryEmbedding(Emitter &e, Node &n) {
  Val x = *n.inputs[0], cos = *n.inputs[1], sin = *n.inputs[2];
  bool flat = x.rank() == 3;
  if (flat) {
    int64_t heads = n.integer("num_heads", 0);
    if (heads <= 0 || x.shape[2] % heads != 0)
      e.fail("cannot split its operand into " + Twine(heads) + " heads");
    Val apart = e.reshape(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads});
    x = e.transpose(apart, {0, 2, 1, 3});
  }
  if (x.rank() != 4)
    e.fail("takes an operand of rank " + Twine(x.rank()));
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, *n.inputs[0]);
  if (n.has(3)) {
    // Rows of the caches for each position [B, S].
    cos = e.gather(cos, *n.inputs[3], 0);
    sin = e.gather(sin, *n.inputs[3], 0);
  }
  if (cos.rank() != 3 || cos.shape != sin.shape || cos.shape[1] != x.shape[2])
    e.fail("takes caches of cosines and sines whose shapes do not fit its operand");
  // The same for every row of the batch: [S, R / 2].
  auto rowsOf = [&](Val &val) {
    Core core = coreOf(e.ir(val));
    if (val.shape[0] == 1 || (core.axes.size() == 2 && core.axes[0] == 1))
      return e.t.reshape(val.shape[0] == 1 ? e.ir(val) : core.value, {val.shape[1], val.shape[2]});
    return e.ir(val);
  };
  Value c = rowsOf(cos), s = rowsOf(sin);
  if (c.getType() != s.getType()) {
    c = e.ir(cos);
    s = e.ir(sin);
  }
  if (shapeOf(c).size() == 3 && shapeOf(c)[0] != x.shape[0])
    e.fail("takes caches of cosines and sines whose shapes do not fit its operand");
  int64_t rotated = n.integer("rotary_embedding_dim", 0);
  if ((rotated ? rotated : x.shape[3]) != 2 * shapeOf(c).back())
    e.fail("rotates " + Twine(rotated ? rotated : x.shape[3]) + " elements of each head with " + Twine(shapeOf(c).back()) +
           " angles");
  Value value = e.ir(x);
  auto interleaved = n.integer("interleaved", 0) ? e.b.getUnitAttr() : UnitAttr();
  Val result = e.make(x.dtype, train::RotaryOp::create(e.b, e.t.loc, value.getType(), value, c, s, interleaved, UnitAttr()));
  if (flat) {
    Val apart = e.transpose(result, {0, 2, 1, 3});
    result = e.reshape(apart, n.inputs[0]->shape);
  }
  e.set(n, 0, result);
}

void addAttentionOps(OpTable &ops) {
  ops["Attention"] = importAttention;
  ops["RotaryEmbedding"] = importRotaryEmbedding;
}

} // namespace forebay::import
