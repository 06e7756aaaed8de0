//===- OpGather.cpp - Operators that read elements at computed places -----===//

#include "Emitter.h"

#include "forebay/Dialect/Train/IR/Train.h"

using namespace mlir;
using onnx::TensorProto;

namespace forebay::import {

using expr::Kind;
using expr::Op;
using expr::Ref;

/// `offset + step * coordinate`; no coordinate for a constant.
struct Affine {
  Ref coord = nullptr;
  int64_t step = 1, offset = 0;
};

static std::optional<Affine> affineOf(Ref index) {
  if (expr::isConst(index))
    return Affine{nullptr, 1, index->imm};
  if (index->op == Op::Coord)
    return Affine{index, 1, 0};
  if (index->op == Op::Linear && index->args.size() == 1 && index->args[0]->op == Op::Coord && index->coefs[0] > 0)
    return Affine{index->args[0], index->coefs[0], index->imm};
  return std::nullopt;
}

/// A position counted from the start; those that no feed can repair are errors.
static Ref position(Emitter &e, Ref index, int64_t size, int64_t axis) {
  if (affineOf(index) && (index->lo < -size || index->hi >= size))
    e.fail("reads position " + Twine(index->lo < -size ? index->lo : index->hi) + " of axis " + Twine(axis) +
               ", which has only " + Twine(size),
           "a position table may be shorter than the sequence: compile for at most its length");
  e.addIndex(index, size);
  if (index->lo >= 0)
    return index;
  Ref wrapped = e.exprs.addConst(index, size);
  return index->hi < 0 ? wrapped : e.exprs.select(e.exprs.lt(index, e.exprs.intConst(0)), wrapped, index);
}

/// Reads `data` at one index an axis (for its first axes) where each is a constant or runs along a coordinate of its own. Coordinates are
/// those of the result, whose shape is `shape`; the other axes of data are its last ones.
static Value viewAt(Emitter &e, Value data, ArrayRef<Ref> indices, ArrayRef<int64_t> shape) {
  int64_t n = indices.size(), rank = shapeOf(data).size(), tail = int64_t(shape.size()) - (rank - n);
  SmallVector<int64_t, 4> offsets, sizes, strides, axes;
  Shape kept;
  for (auto [axis, index] : llvm::enumerate(indices)) {
    auto affine = affineOf(index);
    if (!affine || index->lo < 0 || index->hi >= shapeOf(data)[axis])
      return nullptr;
    offsets.push_back(affine->offset);
    strides.push_back(affine->step);
    sizes.push_back(affine->coord ? affine->coord->size : 1);
    if (!affine->coord)
      continue;
    if (llvm::is_contained(axes, affine->coord->imm))
      return nullptr;
    axes.push_back(affine->coord->imm);
    kept.push_back(affine->coord->size);
  }
  for (int64_t axis = n; axis < rank; ++axis) {
    offsets.push_back(0);
    strides.push_back(1);
    sizes.push_back(shapeOf(data)[axis]);
    axes.push_back(tail + axis - n);
    kept.push_back(shapeOf(data)[axis]);
  }
  Value value = e.t.reshape(e.t.slice(data, offsets, sizes, strides), kept);
  SmallVector<int64_t, 4> sorted(axes), order;
  llvm::sort(sorted);
  for (int64_t axis : sorted)
    order.push_back(llvm::find(axes, axis) - axes.begin());
  return e.t.broadcastAxes(e.t.transpose(value, order), sorted, shape);
}

/// Rows of a table, by `train.embedding` on the ids without their broadcast.
static Val rows(Emitter &e, int32_t dtype, Value table, Val &ids, std::optional<int64_t> padding = std::nullopt) {
  Core core = coreOf(e.ir(ids));
  ArrayRef<int64_t> row = shapeOf(table).drop_front();
  Shape small(shapeOf(core.value)), shape(ids.shape);
  SmallVector<int64_t, 4> axes(core.axes);
  for (int64_t i = 0; i < int64_t(row.size()); ++i)
    axes.push_back(ids.rank() + i);
  small.append(row.begin(), row.end());
  shape.append(row.begin(), row.end());
  auto attribute = padding ? e.b.getI64IntegerAttr(*padding) : IntegerAttr();
  Value value = train::EmbeddingOp::create(e.b, e.t.loc, e.t.type(small, elementOf(table)), table, core.value, attribute);
  return e.make(dtype, e.t.broadcastAxes(value, axes, shape));
}

Val Emitter::gather(Val &data, Val &indices, int64_t axis, std::optional<int64_t> padding) {
  Shape shape(ArrayRef<int64_t>(data.shape).take_front(axis));
  shape.append(indices.shape.begin(), indices.shape.end());
  shape.append(data.shape.begin() + axis + 1, data.shape.end());
  if (elements(shape) == 0)
    return splat(data.dtype, shape, 0);
  int64_t size = data.shape[axis], more = indices.rank() - 1;
  if (size == 0)
    fail("reads from an axis of size 0");
  Ref index = exprs.substitute(indices.expr, [&](unsigned at, int64_t n) { return exprs.coord(at + axis, n); });
  index = position(*this, index, size, axis);
  if (data.expr) {
    Ref value = exprs.substitute(data.expr, [&](unsigned at, int64_t n) {
      return at == axis ? index : exprs.coord(at < axis ? at : at + more, n);
    });
    return make(data.dtype, shape, value, {&data, &indices});
  }
  SmallVector<Ref, 4> all;
  for (int64_t at = 0; at < axis; ++at)
    all.push_back(exprs.coord(at, data.shape[at]));
  all.push_back(index);
  if (padding && (*padding < index->lo || *padding > index->hi))
    padding = std::nullopt;
  Value view = padding ? Value() : viewAt(*this, ir(data), all, shape);
  if (view)
    return make(data.dtype, view);
  Value table = ir(data);
  SmallVector<int64_t, 4> front{axis};
  for (int64_t at = 0; at < data.rank(); ++at)
    if (at != axis)
      front.push_back(at);
  Val result = rows(*this, data.dtype, t.transpose(table, front), indices, padding);
  // [ids, before, after] -> [before, ids, after]
  SmallVector<int64_t, 4> back;
  for (int64_t at = 0; at < axis; ++at)
    back.push_back(indices.rank() + at);
  for (int64_t at = 0; at < indices.rank(); ++at)
    back.push_back(at);
  for (int64_t at = indices.rank() + axis; at < result.rank(); ++at)
    back.push_back(at);
  return transpose(result, back);
}

static void importGather(Emitter &e, Node &n) {
  Val &data = *n.inputs[0];
  if (data.rank() == 0)
    e.fail("gathers from a scalar");
  Model::Embedding embedding = e.model.embedding(n.proto);
  if (embedding.scaled && !data.expr)
    e.fail("scales the gradient of its table by how often a row is read (scale_grad_by_freq), which is not supported",
           "export the embedding without it");
  e.set(n, 0, e.gather(data, *n.inputs[1], e.axis(n.integer("axis", 0), data.rank()), embedding.padding));
}

/// `data` at one index for each of its first axes, over the coordinates of `outer`'s first axes (as many as the result has before the
/// axes that are not indexed). `given` is the first index before it was counted from the start.
static Val readAt(Emitter &e, Val &data, ArrayRef<Ref> all, Ref given, ArrayRef<int64_t> outer, Val &indices) {
  int64_t count = all.size(), rank = outer.size();
  Shape shape(outer);
  shape.append(data.shape.begin() + count, data.shape.end());
  if (data.expr) {
    Ref value = e.exprs.substitute(data.expr, [&](unsigned at, int64_t size) {
      return int64_t(at) < count ? all[at] : e.exprs.coord(at - count + rank, size);
    });
    return e.make(data.dtype, shape, value, {&data, &indices});
  }
  if (Value view = viewAt(e, e.ir(data), all, shape))
    return e.make(data.dtype, view);
  // One axis of all that are indexed.
  Shape flat{1};
  SmallVector<std::pair<int64_t, Ref>, 4> terms;
  for (int64_t i = count; i-- > 0;) {
    terms.push_back({flat[0], all[i]});
    flat[0] *= data.shape[i];
  }
  // A position outside its own axis must not be one inside the joined axis. Of a single axis, train.embedding counts from the end itself:
  // a position that was counted from there already would pass twice the size below 0.
  Ref id = count == 1 ? given : e.exprs.linear(terms, 0), nowhere = e.exprs.intConst(flat[0]);
  for (int64_t i = 0; count > 1 && i < count; ++i) {
    Ref last = e.exprs.intConst(data.shape[i] - 1);
    Ref inside = e.exprs.andOf({e.exprs.le(e.exprs.intConst(0), all[i]), e.exprs.le(all[i], last)});
    id = e.exprs.select(inside, id, nowhere);
  }
  flat.append(data.shape.begin() + count, data.shape.end());
  Val table = e.reshape(data, flat);
  Val ids = e.make(TensorProto::INT64, outer, id, {&indices});
  return rows(e, data.dtype, e.ir(table), ids);
}

static void importGatherND(Emitter &e, Node &n) {
  Val &data = *n.inputs[0], &indices = *n.inputs[1];
  if (n.integer("batch_dims", 0) != 0)
    e.fail("has batch_dims other than 0, which is not supported");
  if (indices.rank() == 0 || indices.shape.back() > data.rank())
    e.fail("has indices of more axes than its data");
  int64_t count = indices.shape.back(), outer = indices.rank() - 1;
  Shape shape(ArrayRef<int64_t>(indices.shape).drop_back());
  shape.append(data.shape.begin() + count, data.shape.end());
  if (e.elements(shape) == 0)
    return e.set(n, 0, e.splat(data.dtype, shape, 0));
  if (count == 0) {
    Val wide = e.expand(data, shape);
    return e.set(n, 0, wide);
  }
  SmallVector<Ref, 4> all;
  Ref first = nullptr;
  for (int64_t i = 0; i < count; ++i) {
    Ref index = e.exprs.substitute(indices.expr, [&](unsigned at, int64_t size) {
      return at == outer ? e.exprs.intConst(i) : e.exprs.coord(at, size);
    });
    if (data.shape[i] == 0)
      e.fail("reads from an axis of size 0");
    first = first ? first : index;
    all.push_back(position(e, index, data.shape[i], i));
  }
  e.set(n, 0, readAt(e, data, all, first, ArrayRef<int64_t>(indices.shape).drop_back(), indices));
}

/// torch.gather: element by element along one axis.
static void importGatherElements(Emitter &e, Node &n) {
  Val &data = *n.inputs[0], &indices = *n.inputs[1];
  int64_t axis = e.axis(n.integer("axis", 0), data.rank());
  if (indices.rank() != data.rank())
    e.fail("has data and indices of different ranks");
  for (int64_t at = 0; at < data.rank(); ++at)
    if (at != axis && indices.shape[at] > data.shape[at])
      e.fail("has indices that are larger than its data in axis " + Twine(at));
  if (e.elements(indices.shape) == 0)
    return e.set(n, 0, e.splat(data.dtype, indices.shape, 0));
  if (data.shape[axis] == 0)
    e.fail("reads from an axis of size 0");
  SmallVector<Ref, 4> all;
  for (int64_t at = 0; at < data.rank(); ++at)
    all.push_back(at == axis ? position(e, indices.expr, data.shape[axis], axis) : e.exprs.coord(at, indices.shape[at]));
  e.set(n, 0, readAt(e, data, all, indices.expr, indices.shape, indices));
}

void addGatherOps(OpTable &ops) {
  ops["GatherElements"] = importGatherElements;
  ops["Gather"] = importGather;
  ops["GatherND"] = importGatherND;
}

} // namespace forebay::import
