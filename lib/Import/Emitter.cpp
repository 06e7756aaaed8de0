//===- Emitter.cpp - From a checked ONNX graph to @forward ----------------===//

#include "Emitter.h"
#include "EmitExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/DenseSet.h"

#include <cstring>

using namespace mlir;
using onnx::TensorProto;

namespace forebay::import {

using expr::Kind;
using expr::Ref;

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

const onnx::AttributeProto *Node::attribute(StringRef name) const {
  for (const onnx::AttributeProto &attribute : proto.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t Node::integer(StringRef name, int64_t otherwise) const {
  const onnx::AttributeProto *a = attribute(name);
  return a ? a->i() : otherwise;
}

double Node::real(StringRef name, double otherwise) const {
  const onnx::AttributeProto *a = attribute(name);
  return a ? double(a->f()) : otherwise;
}

std::string Node::text(StringRef name, StringRef otherwise) const {
  const onnx::AttributeProto *a = attribute(name);
  return a ? a->s() : otherwise.str();
}

std::optional<std::vector<int64_t>> Node::integers(StringRef name) const {
  const onnx::AttributeProto *a = attribute(name);
  if (!a)
    return std::nullopt;
  return std::vector<int64_t>(a->ints().begin(), a->ints().end());
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

const OpTable &allOps() {
  static const OpTable table = [] {
    OpTable ops;
    addElementwiseOps(ops);
    addConstantOps(ops);
    addViewOps(ops);
    addGatherOps(ops);
    addReduceOps(ops);
    addMatrixOps(ops);
    addNormOps(ops);
    addAttentionOps(ops);
    addLossOps(ops);
    return ops;
  }();
  return table;
}

OpFn findOp(StringRef domain, StringRef op) {
  if (!domain.empty() && domain != "ai.onnx")
    return nullptr;
  return allOps().lookup(op);
}

void Emitter::fail(const Twine &what, const Twine &note) { throw NodeError{what.str(), note.str()}; }

Val *Emitter::lookup(StringRef name) {
  auto found = values.find(name);
  return found == values.end() ? nullptr : &found->second;
}

bool Emitter::run() {
  bool failed = false;
  for (const onnx::NodeProto &proto : model.graph().node()) {
    Node node{proto, {}};
    bool skip = false;
    for (const std::string &name : proto.input()) {
      Val *val = name.empty() ? nullptr : lookup(name);
      assert((name.empty() || val) && "the model has been checked: every value is defined before it is used");
      skip |= val && val->failed;
      node.inputs.push_back(val);
    }
    t.loc = model.location(b.getContext(), proto);
    nodeAtHand = model.where(proto);
    try {
      if (!skip) {
        OpFn import = findOp(proto.domain(), proto.op_type());
        assert(import && "the model holds only operators that can be imported");
        checkOperands(node);
        import(*this, node);
        continue;
      }
    } catch (const NodeError &error) {
      diags.error(model.where(proto), error.what);
      if (!error.note.empty())
        diags.note(error.note);
      else if (StringRef(error.what).contains("not supported"))
        diags.note("change the model so that it exports without this form");
      else
        diags.note("no such model comes from an exporter with these dimensions: check --dim and the tool that made the file");
      failed = true;
    }
    Val poison;
    poison.failed = true;
    for (const std::string &name : proto.output())
      values[name] = poison;
  }
  return !failed;
}

void Emitter::set(const Node &node, unsigned output, Val val) {
  if (node.hasOutput(output))
    values[node.proto.output(output)] = std::move(val);
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

Type Emitter::elementType(int32_t dtype) {
  switch (dtype) {
  case TensorProto::FLOAT:
    return b.getF32Type();
  case TensorProto::DOUBLE:
    return b.getF64Type();
  case TensorProto::BOOL:
    return b.getI1Type();
  case TensorProto::INT64:
  case TensorProto::UINT64:
    return b.getI64Type();
  case TensorProto::INT32:
  case TensorProto::UINT32:
    return b.getI32Type();
  case TensorProto::INT16:
  case TensorProto::UINT16:
    return b.getIntegerType(16);
  case TensorProto::INT8:
  case TensorProto::UINT8:
    return b.getIntegerType(8);
  default:
    fail("works on " + onnx::TensorProto_DataType_Name(TensorProto::DataType(dtype)) + " tensors, which are not supported",
         "export the model in float32");
  }
}

Kind Emitter::kindOf(int32_t dtype) {
  switch (dtype) {
  case TensorProto::FLOAT:
    return Kind::F32;
  case TensorProto::DOUBLE:
    return Kind::F64;
  case TensorProto::BOOL:
    return Kind::Bool;
  default:
    elementType(dtype);
    return Kind::Int;
  }
}

int64_t Emitter::elements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size == 0)
      return 0;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      fail("has a result of more than 2^63 elements");
  return count;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool Emitter::isDense(const Val &val) {
  if (!val.expr)
    return false;
  if (expr::isConst(val.expr))
    return true;
  if (val.expr->op != expr::Op::Table || ArrayRef<int64_t>(val.expr->table->shape) != ArrayRef<int64_t>(val.shape))
    return false;
  for (auto [axis, index] : llvm::enumerate(val.expr->args))
    if (index != exprs.coord(axis, val.shape[axis]))
      return false;
  return true;
}

/// Calls `visit` with the coordinates of every element, in row-major order.
static void forEachElement(ArrayRef<int64_t> shape, int64_t count, function_ref<void(ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t, 4> at(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(at);
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++at[dim] < shape[dim])
        break;
      at[dim] = 0;
    }
  }
}

Val Emitter::make(int32_t dtype, ArrayRef<int64_t> shape, Ref value, ArrayRef<Val *> inputs, bool keep) {
  Val val;
  val.dtype = dtype;
  val.shape.assign(shape.begin(), shape.end());
  val.expr = value;
  int64_t count = elements(shape);
  if (count == 0 && !expr::isConst(value))
    return splat(dtype, shape, 0);
  if (keep || expr::isConst(value) || value->hasLoad || count > kDenseLimit ||
      !llvm::all_of(inputs, [&](Val *input) { return isDense(*input); })) {
    if (value->depth <= kNestingLimit && value->args.size() <= kNestingLimit)
      return val;
    val.ir = ir(val);
    val.expr = nullptr;
    if (kindOf(dtype) == Kind::Int) {
      exprs.setRootRange(roots.size(), value->lo, value->hi);
      val.expr = loadOf(val);
    }
    return val;
  }
  expr::Table table;
  table.shape.assign(shape.begin(), shape.end());
  forEachElement(shape, count, [&](ArrayRef<int64_t> at) {
    expr::Scalar scalar = expr::evaluate(value, at);
    if (expr::isFloat(value->kind))
      table.floats.push_back(scalar.f);
    else
      table.ints.push_back(scalar.i);
  });
  SmallVector<Ref, 4> indices;
  for (auto [axis, size] : llvm::enumerate(shape))
    indices.push_back(exprs.coord(axis, size));
  val.expr = exprs.constant(value->kind, std::move(table), indices);
  return val;
}

Val Emitter::make(int32_t dtype, Value value) {
  Val val;
  val.dtype = dtype;
  val.shape.assign(shapeOf(value).begin(), shapeOf(value).end());
  // No element, no value: such tensors are constants.
  if (elements(val.shape) == 0)
    return splat(dtype, val.shape, 0);
  val.ir = value;
  // Computed integers index other tensors as fed ones do.
  if (kindOf(dtype) == Kind::Int)
    val.expr = loadOf(val);
  return val;
}

/// What sums of `least` to `most` numbers can be.
static Emitter::Interval sumOf(int64_t lo, int64_t hi, int64_t least, int64_t most) {
  auto times = [](int64_t number, int64_t count) {
    int64_t limit = int64_t(1) << 62, product;
    if (__builtin_mul_overflow(number, count, &product))
      return number < 0 ? -limit : limit;
    return std::clamp(product, -limit, limit);
  };
  return {std::min(times(lo, least), times(lo, most)), std::max(times(hi, least), times(hi, most))};
}

Val Emitter::makeSum(const Val &of, Value value, int64_t least, int64_t most) {
  Val val = make(of.dtype, value);
  if (val.ir && kindOf(of.dtype) == Kind::Int)
    val.expr = loadOf(val, RootBound{of.expr, least, most});
  return val;
}

Ref Emitter::loadOf(const Val &val, std::optional<RootBound> bound) {
  SmallVector<Ref, 4> indices;
  for (auto [axis, size] : llvm::enumerate(val.shape))
    indices.push_back(exprs.coord(axis, size));
  unsigned root = roots.size();
  roots.push_back(val.ir);
  rootTypes.push_back(val.dtype);
  rootFeeds.push_back(dyn_cast<BlockArgument>(val.ir));
  if (bound) {
    Interval range = sumOf(bound->of->lo, bound->of->hi, bound->least, bound->most);
    exprs.setRootRange(root, range.lo, range.hi);
    rootBounds.try_emplace(root, *bound);
  }
  return exprs.load(kindOf(val.dtype), root, indices);
}

Val Emitter::splat(int32_t dtype, ArrayRef<int64_t> shape, double value) {
  Kind kind = kindOf(dtype);
  Val val;
  val.dtype = dtype;
  val.shape.assign(shape.begin(), shape.end());
  val.expr = kind == Kind::Bool  ? exprs.boolConst(value != 0)
             : kind == Kind::Int ? exprs.intConst(int64_t(value))
                                 : exprs.floatConst(kind, value);
  return val;
}

void Emitter::addIndex(Ref index, int64_t size) {
  if (index->lo < -size || index->hi >= size)
    indices.push_back({index, size, nodeAtHand});
}

/// Calls `onLoad` for the loads of an expression, and of the sums that what it loads holds.
static void walkLoads(Ref value, function_ref<Ref(unsigned root)> sumOf, function_ref<void(Ref load)> onLoad) {
  SmallVector<Ref, 8> stack{value};
  llvm::DenseSet<Ref> seen;
  while (!stack.empty()) {
    Ref node = stack.pop_back_val();
    if (!node->hasLoad || !seen.insert(node).second)
      continue;
    stack.append(node->args.begin(), node->args.end());
    if (node->op != expr::Op::Load)
      continue;
    onLoad(node);
    if (Ref of = sumOf(node->root))
      stack.push_back(of);
  }
}

/// The roots that an expression reads, by way of the sums that they hold as well, in the order in which they were made.
static SmallVector<unsigned> rootsOf(Ref value, function_ref<Ref(unsigned root)> sumOf) {
  SmallVector<unsigned> roots;
  walkLoads(value, sumOf, [&](Ref load) { roots.push_back(load->root); });
  llvm::sort(roots);
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  return roots;
}

SmallVector<BlockArgument, 2> Emitter::feedsOf(Ref index) {
  SmallVector<BlockArgument, 2> feeds;
  for (unsigned root : rootsOf(index, [&](unsigned root) { return rootBounds.lookup(root).of; }))
    if (rootFeeds[root])
      feeds.push_back(rootFeeds[root]);
  return feeds;
}

/// Whether a load reads all elements of a tensor of this shape: each axis from end to end, over as many coordinates as there are elements.
static bool readsAll(Ref load, ArrayRef<int64_t> shape) {
  int64_t elements = 1, reads = 1;
  llvm::DenseSet<Ref> coords;
  SmallVector<Ref, 8> stack;
  for (auto [index, size] : llvm::zip_equal(load->args, shape)) {
    // A position that is fed itself can be any.
    if (index->hasLoad || index->lo > 0 || index->hi < size - 1)
      return false;
    elements *= size;
    stack.push_back(index);
  }
  while (!stack.empty()) {
    Ref node = stack.pop_back_val();
    if (node->op == expr::Op::Coord && coords.insert(node).second)
      reads *= node->size;
    stack.append(node->args.begin(), node->args.end());
  }
  return reads >= elements;
}

bool Emitter::readsPart(Ref index, BlockArgument feed) {
  bool part = false;
  walkLoads(index, [&](unsigned root) { return rootBounds.lookup(root).of; }, [&](Ref load) {
    part |= rootFeeds[load->root] == feed && !readsAll(load, shapeOf(feed));
  });
  return part;
}

Emitter::Interval Emitter::boundsOf(Ref value, function_ref<std::optional<Interval>(BlockArgument)> feeds) {
  llvm::DenseMap<unsigned, unsigned> bounded; // root -> one with the interval
  auto narrowed = [&](Ref node) {
    return exprs.replaceLoads(node, [&](Ref load) {
      auto found = bounded.find(load->root);
      return found == bounded.end() ? load : exprs.load(load->kind, found->second, load->args);
    });
  };
  for (unsigned root : rootsOf(value, [&](unsigned root) { return rootBounds.lookup(root).of; })) {
    std::optional<Interval> range;
    if (auto bound = rootBounds.find(root); bound != rootBounds.end()) {
      Ref of = narrowed(bound->second.of);
      range = sumOf(of->lo, of->hi, bound->second.least, bound->second.most);
    } else if (rootFeeds[root] && kindOf(rootTypes[root]) == Kind::Int) {
      range = feeds(rootFeeds[root]);
    }
    if (!range)
      continue;
    bounded[root] = nextBoundedRoot;
    exprs.setRootRange(nextBoundedRoot++, range->lo, range->hi);
  }
  Ref result = narrowed(value);
  return {result->lo, result->hi};
}

void Emitter::remember(const Val &val) {
  if (!val.ir || !val.expr || !val.expr->hasLoad || (val.dtype != TensorProto::INT64 && val.dtype != TensorProto::BOOL))
    return;
  Shape sizes;
  for (auto [axis, size] : llvm::enumerate(val.shape)) {
    if (val.expr->axes >> axis & 1)
      sizes.push_back(size);
    else if (size != 1)
      return;
  }
  Value &slot = emitted[val.expr];
  if (!slot)
    slot = t.reshape(val.ir, sizes);
}

Val Emitter::argument(const Tensor &tensor, BlockArgument value) {
  Val val;
  val.dtype = tensor.dtype;
  val.shape.assign(tensor.shape.begin(), tensor.shape.end());
  val.ir = value;
  if (elements(val.shape) == 0)
    return splat(val.dtype, val.shape, 0);
  if (!expr::isFloat(kindOf(tensor.dtype)))
    val.expr = loadOf(val);
  return val;
}

/// Element i of `bytes`.
static expr::Scalar element(ArrayRef<char> bytes, int32_t dtype, int64_t i) {
  auto read = [&](auto zero) {
    std::memcpy(&zero, bytes.data() + i * sizeof(zero), sizeof(zero));
    return zero;
  };
  switch (dtype) {
  case TensorProto::FLOAT:
    return {0, read(float())};
  case TensorProto::DOUBLE:
    return {0, read(double())};
  case TensorProto::BOOL:
    return {read(char()) != 0, 0};
  case TensorProto::INT8:
    return {read(int8_t()), 0};
  case TensorProto::UINT8:
    return {read(uint8_t()), 0};
  case TensorProto::INT16:
    return {read(int16_t()), 0};
  case TensorProto::UINT16:
    return {read(uint16_t()), 0};
  case TensorProto::INT32:
    return {read(int32_t()), 0};
  case TensorProto::UINT32:
    return {read(uint32_t()), 0};
  default:
    return {read(int64_t()), 0};
  }
}

/// Positions (k + sum of steps * coordinates) and lower triangles, which models keep as buffers, whatever their size. Null if
/// the elements are neither.
static Ref progression(expr::Context &exprs, const Val &val, ArrayRef<Ref> coords, ArrayRef<char> bytes) {
  bool isBool = val.dtype == TensorProto::BOOL;
  if (val.dtype == TensorProto::FLOAT || val.dtype == TensorProto::DOUBLE || (isBool && val.rank() < 2))
    return nullptr;
  auto at = [&](int64_t i) { return element(bytes, val.dtype, i).i; };
  int64_t first = at(0), stride = 1, count = 1;
  SmallVector<int64_t, 4> steps(val.rank(), 0);
  SmallVector<std::pair<int64_t, Ref>, 4> terms;
  for (int64_t axis = val.rank(); axis-- > 0; stride *= val.shape[axis]) {
    count *= val.shape[axis];
    if (val.shape[axis] == 1 || isBool)
      continue;
    steps[axis] = int64_t(uint64_t(at(stride)) - uint64_t(first));
    terms.push_back({steps[axis], coords[axis]});
  }
  bool same = true;
  int64_t i = 0;
  forEachElement(val.shape, count, [&](ArrayRef<int64_t> point) {
    uint64_t want = first;
    if (isBool)
      want = point.back() <= point[point.size() - 2];
    else
      for (auto [step, coord] : llvm::zip_equal(steps, point))
        want += uint64_t(step) * uint64_t(coord);
    same &= int64_t(want) == at(i++);
  });
  if (!same)
    return nullptr;
  return isBool ? exprs.le(coords.back(), coords[coords.size() - 2]) : exprs.linear(terms, first);
}

std::optional<Val> Emitter::constant(const Tensor &tensor, ArrayRef<char> bytes, bool progressions) {
  Kind kind = kindOf(tensor.dtype);
  int64_t count = elements(tensor.shape);
  Val val;
  val.dtype = tensor.dtype;
  val.shape.assign(tensor.shape.begin(), tensor.shape.end());
  if (count == 0)
    return splat(val.dtype, val.shape, 0);
  SmallVector<Ref, 4> indices;
  for (auto [axis, size] : llvm::enumerate(val.shape))
    indices.push_back(exprs.coord(axis, size));
  if (progressions && count > 1)
    if ((val.expr = progression(exprs, val, indices, bytes)))
      return val;
  if (count > kConstantLimit)
    return std::nullopt;
  expr::Table table;
  table.shape = val.shape;
  for (int64_t i = 0; i < count; ++i) {
    expr::Scalar scalar = element(bytes, val.dtype, i);
    if (expr::isFloat(kind))
      table.floats.push_back(scalar.f);
    else
      table.ints.push_back(scalar.i);
  }
  val.expr = exprs.constant(kind, std::move(table), indices);
  return val;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

Value Emitter::ir(Val &val) {
  assert(!val.sequence && "operands have been checked");
  if (!val.ir)
    val.ir = ExprEmitter(*this, val.shape).emit(val.expr, val.dtype);
  return val.ir;
}

Value Emitter::ir(Val &val, ArrayRef<int64_t> shape) {
  if (ArrayRef<int64_t>(val.shape) == shape || val.ir)
    return t.broadcast(ir(val), shape);
  return ExprEmitter(*this, shape).emit(over(val, shape.size()), val.dtype);
}

Ref Emitter::over(const Val &val, int64_t rank) {
  int64_t shift = rank - val.rank();
  if (shift == 0)
    return val.expr;
  return exprs.substitute(val.expr, [&](unsigned axis, int64_t size) { return exprs.coord(axis + shift, size); });
}

std::optional<std::vector<int64_t>> Emitter::tryConstants(const Val &val) {
  if (!val.expr || val.expr->hasLoad || expr::isFloat(val.expr->kind))
    return std::nullopt;
  int64_t count = elements(val.shape);
  if (count > kConstantLimit)
    return std::nullopt;
  std::vector<int64_t> result;
  forEachElement(val.shape, count, [&](ArrayRef<int64_t> at) { result.push_back(expr::evaluate(val.expr, at).i); });
  return result;
}

std::vector<int64_t> Emitter::constants(const Val &val, StringRef what) {
  auto result = tryConstants(val);
  if (!result)
    fail("needs " + what + " as a constant once all dimensions are known; here it follows from what is fed or trained");
  return *result;
}

int64_t Emitter::constantScalar(const Val &val, StringRef what) {
  std::vector<int64_t> all = constants(val, what);
  if (all.size() != 1)
    fail("needs " + what + " as a single number, not " + Twine(all.size()) + " of them");
  return all.front();
}

std::optional<double> Emitter::splatValue(const Val &val) {
  if (!val.expr || !expr::isConst(val.expr))
    return std::nullopt;
  return expr::isFloat(val.expr->kind) ? val.expr->fimm : double(val.expr->imm);
}

int64_t Emitter::axis(int64_t value, int64_t rank) {
  if (value < -rank || value >= rank)
    fail("has axis " + Twine(value) + " for a tensor of rank " + Twine(rank));
  return value < 0 ? value + rank : value;
}

static std::string print(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(size);
  return text + "]";
}

Shape Emitter::broadcastShapes(ArrayRef<const Val *> vals) {
  Shape shape;
  for (const Val *val : vals) {
    if (val->rank() > int64_t(shape.size()))
      shape.insert(shape.begin(), val->rank() - shape.size(), 1);
    int64_t shift = shape.size() - val->rank();
    for (auto [dim, size] : llvm::enumerate(val->shape)) {
      int64_t &have = shape[dim + shift];
      if (have == 1)
        have = size;
      else if (size != 1 && size != have)
        fail("has operands of shapes " + print(vals.front()->shape) + " and " + print(val->shape) +
             ", which do not broadcast");
    }
  }
  return shape;
}

bool Emitter::needsGradient(Value value) {
  if (!isa<FloatType>(elementOf(value)))
    return false;
  auto found = gradients.find(value);
  if (found != gradients.end())
    return found->second;
  // Operations are few between a mask and what it is made of, but not bounded: no recursion.
  SmallVector<Value, 8> stack{value}, seen;
  bool result = false;
  llvm::DenseMap<Value, bool> visited;
  while (!stack.empty() && !result) {
    Value at = stack.pop_back_val();
    if (!isa<FloatType>(elementOf(at)) || !visited.try_emplace(at, true).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(at)) {
      auto function = mlir::cast<func::FuncOp>(argument.getOwner()->getParentOp());
      result = function.getArgAttr(argument.getArgNumber(), "train.trainable") != nullptr;
      continue;
    }
    if (at.getDefiningOp()->getName().getStringRef() == "train.detach")
      continue;
    for (Value operand : at.getDefiningOp()->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        stack.push_back(operand);
  }
  return gradients[value] = result;
}

Val Emitter::elementwise(ArrayRef<Val *> inputs, int32_t dtype, ExprFn onExprs, IrFn onValues) {
  SmallVector<const Val *, 4> readOnly(inputs.begin(), inputs.end());
  Shape shape = broadcastShapes(readOnly);
  if (elements(shape) == 0)
    return splat(dtype, shape, 0);
  if (onExprs && llvm::all_of(inputs, [](Val *input) { return input->expr; })) {
    SmallVector<Ref, 4> refs;
    for (Val *input : inputs)
      refs.push_back(over(*input, shape.size()));
    return make(dtype, shape, onExprs(refs), inputs);
  }

  // Where no operand varies along an axis, the work is done without it.
  SmallVector<Core, 4> cores;
  uint64_t varies = 0;
  for (Val *input : inputs) {
    if (splatValue(*input)) {
      cores.push_back({});
      continue;
    }
    int64_t shift = shape.size() - input->rank();
    Core core = coreOf(ir(*input));
    Shape kept;
    SmallVector<int64_t, 4> axes;
    for (auto [dim, axis] : llvm::enumerate(core.axes))
      if (shapeOf(core.value)[dim] != 1) {
        kept.push_back(shapeOf(core.value)[dim]);
        axes.push_back(axis + shift);
        varies |= uint64_t(1) << (axis + shift);
      }
    cores.push_back({core.value, axes});
  }
  SmallVector<int64_t, 4> axes;
  Shape reduced;
  bool smaller = false;
  for (auto [axis, size] : llvm::enumerate(shape)) {
    if (varies >> axis & 1) {
      axes.push_back(axis);
      reduced.push_back(size);
    } else {
      smaller |= size != 1;
    }
  }
  SmallVector<Value, 4> operands;
  if (!smaller) {
    for (Val *input : inputs)
      operands.push_back(ir(*input, shape));
    return make(dtype, onValues(operands));
  }
  for (auto [input, core] : llvm::zip_equal(inputs, cores)) {
    if (!core.value) {
      Val scalar = *input;
      scalar.ir = nullptr;
      scalar.shape.clear();
      operands.push_back(ir(scalar, reduced));
      continue;
    }
    SmallVector<int64_t, 4> positions;
    Shape kept;
    for (int64_t axis : core.axes) {
      positions.push_back(llvm::find(axes, axis) - axes.begin());
      kept.push_back(shape[axis]);
    }
    operands.push_back(t.broadcastAxes(t.reshape(core.value, kept), positions, reduced));
  }
  return make(dtype, t.broadcastAxes(onValues(operands), axes, shape));
}

} // namespace forebay::import
