//===- Emitter.h - From a checked ONNX graph to @forward --------*- C++ -*-===//
///
/// \file
/// One walk over the nodes in topological order. Each ONNX value is a Val: an expression (IndexExpr.h) where its elements follow
/// from coordinates, constants and fed integers; a run-time tensor; or both, for views of fed integers. A value turns into
/// operations when an operation that needs it is emitted, so shape programs and masks leave nothing behind.
///
/// Operators are functions in Op*.cpp, found by name in one table. They report what they cannot do with `Emitter::fail`.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_IMPORT_EMITTER_H
#define FOREBAY_LIB_IMPORT_EMITTER_H

#include "IndexExpr.h"
#include "TensorBuilder.h"

#include "forebay/Import/Model.h"
#include "forebay/Support/Diagnostics.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace forebay::import {

/// Constants up to this size are computed; larger ones stay expressions.
inline constexpr int64_t kDenseLimit = 4096;
/// What is asked for as a constant (shapes, axes, pads) or emitted as one.
inline constexpr int64_t kConstantLimit = 64 * 1024;

/// Expressions that are nested deeper, or have more operands, become tensors.
inline constexpr unsigned kNestingLimit = 256;

struct Val {
  int32_t dtype = 0; ///< onnx::TensorProto::DataType
  Shape shape;
  expr::Ref expr = nullptr; ///< Element at (d0, d1, ...); no coordinate for axes of size 1.
  mlir::Value ir;           ///< Null until emitted, if there is an expression.
  std::shared_ptr<std::vector<Val>> sequence; ///< Of tensors; nothing else is set then.
  bool failed = false; ///< Its node was reported; whatever uses it is skipped.

  int64_t rank() const { return shape.size(); }
};

/// What an operator cannot do; reported at its node.
struct NodeError {
  std::string what, note;
};

/// A node with its operands and attributes.
struct Node {
  const onnx::NodeProto &proto;
  llvm::SmallVector<Val *, 4> inputs; ///< Null where an optional operand is absent.

  llvm::StringRef op() const { return proto.op_type(); }
  bool has(unsigned i) const { return i < inputs.size() && inputs[i]; }
  /// Whether output i has a name.
  bool hasOutput(int i) const { return i < proto.output_size() && !proto.output(i).empty(); }
  const onnx::AttributeProto *attribute(llvm::StringRef name) const;
  int64_t integer(llvm::StringRef name, int64_t otherwise) const;
  double real(llvm::StringRef name, double otherwise) const;
  std::string text(llvm::StringRef name, llvm::StringRef otherwise) const;
  std::optional<std::vector<int64_t>> integers(llvm::StringRef name) const;
};

class Emitter {
public:
  Emitter(const Model &model, Diagnostics &diags, mlir::OpBuilder &builder)
      : model(model), diags(diags), t(builder), b(builder) {}

  /// Emits all nodes. The values of inputs and initializers have been bound.
  bool run();
  void bind(llvm::StringRef name, Val val) { values[name] = std::move(val); }
  Val *lookup(llvm::StringRef name);
  /// A fed tensor: integers and booleans also as expressions.
  Val argument(const Tensor &tensor, mlir::BlockArgument value);
  /// A constant; with `progressions` positions and triangles of any size are expressions. None where it is too large for a
  /// constant.
  std::optional<Val> constant(const Tensor &tensor, llvm::ArrayRef<char> bytes, bool progressions);

  /// Fails unless the node has the operands that its operator takes, of types that it takes.
  void checkOperands(const Node &node);
  // Errors of the node at hand.
  [[noreturn]] void fail(const llvm::Twine &what, const llvm::Twine &note = "");

  // Types.
  mlir::Type elementType(int32_t dtype);
  expr::Kind kindOf(int32_t dtype);

  // Results.
  void set(const Node &node, unsigned output, Val val);
  /// A value given by an expression. Where all `inputs` are constants and it is small, it is computed now, unless `keep`.
  Val make(int32_t dtype, llvm::ArrayRef<int64_t> shape, expr::Ref value, llvm::ArrayRef<Val *> inputs, bool keep = false);
  Val make(int32_t dtype, mlir::Value value);
  /// `value` holds sums of `least` to `most` elements of `of` (1 and 1: elements of it), which bounds integers.
  Val makeSum(const Val &of, mlir::Value value, int64_t least, int64_t most);
  Val splat(int32_t dtype, llvm::ArrayRef<int64_t> shape, double value);

  /// The value's tensor serves wherever its expression occurs.
  void remember(const Val &val);

  /// An index, into an axis of `size` elements, that only feeds can make leave it.
  void addIndex(expr::Ref index, int64_t size);
  struct FedIndex {
    expr::Ref index;
    int64_t size;
    std::string where;
  };
  llvm::ArrayRef<FedIndex> fedIndices() const { return indices; }
  /// The fed tensors that an index follows from, also by way of sums.
  llvm::SmallVector<mlir::BlockArgument, 2> feedsOf(expr::Ref index);
  /// Whether elements of a fed tensor are not among those that an index follows from.
  bool readsPart(expr::Ref index, mlir::BlockArgument feed);
  struct Interval {
    int64_t lo, hi; ///< inclusive
  };
  /// The interval of an integer expression, given those of fed tensors (null: unknown).
  Interval boundsOf(expr::Ref value, llvm::function_ref<std::optional<Interval>(mlir::BlockArgument feed)> feeds);

  // Operands.
  bool isDense(const Val &val);
  /// Operations that compute the value, in its own shape.
  mlir::Value ir(Val &val);
  /// The same, broadcast to `shape`.
  mlir::Value ir(Val &val, llvm::ArrayRef<int64_t> shape);
  /// The expression with the coordinates of the (broadcast) shape of rank `rank`.
  expr::Ref over(const Val &val, int64_t rank);
  /// The elements of an integer operand that must be constant, as `what` says ("its shape").
  std::vector<int64_t> constants(const Val &val, llvm::StringRef what);
  std::optional<std::vector<int64_t>> tryConstants(const Val &val);
  int64_t constantScalar(const Val &val, llvm::StringRef what);
  std::optional<double> splatValue(const Val &val);
  /// Axis in [0, rank).
  int64_t axis(int64_t value, int64_t rank);
  Shape broadcastShapes(llvm::ArrayRef<const Val *> vals);
  int64_t elements(llvm::ArrayRef<int64_t> shape);
  /// A float value whose bits follow from a trained parameter (so that a gradient passes).
  bool needsGradient(mlir::Value value);

  using ExprFn = llvm::function_ref<expr::Ref(llvm::ArrayRef<expr::Ref>)>;
  using IrFn = llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value>)>;
  /// Elementwise with broadcast, as an expression where all operands are expressions (integers always are).
  Val elementwise(llvm::ArrayRef<Val *> inputs, int32_t dtype, ExprFn onExprs, IrFn onValues);

  // Views, on either form.
  Val reshape(Val &val, llvm::ArrayRef<int64_t> shape);
  Val transpose(Val &val, llvm::ArrayRef<int64_t> permutation);
  Val expand(Val &val, llvm::ArrayRef<int64_t> shape);
  /// Negative strides only on expressions.
  Val slice(Val &val, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides);
  Val concat(llvm::ArrayRef<Val *> vals, int64_t axis);
  Val cast(Val &val, int32_t dtype);
  Val arithmetic(expr::FOp op, Val &x, Val &y);
  /// No gradient goes to row `padding`.
  Val gather(Val &data, Val &indices, int64_t axis, std::optional<int64_t> padding = std::nullopt);
  mlir::Value detach(mlir::Value value);
  Val where(Val &condition, Val &yes, Val &no);

  const Model &model;
  Diagnostics &diags;
  TensorBuilder t;
  mlir::OpBuilder &b;
  expr::Context exprs;

private:
  friend class ExprEmitter;
  /// How a root that is computed is bounded: sums of `least` to `most` values of an expression.
  struct RootBound {
    expr::Ref of;
    int64_t least, most;
  };
  /// The value's tensor as a new root of expressions.
  expr::Ref loadOf(const Val &val, std::optional<RootBound> bound = std::nullopt);

  llvm::StringMap<Val> values;
  std::vector<mlir::Value> roots; ///< Of Load expressions.
  std::vector<int32_t> rootTypes;
  std::vector<mlir::BlockArgument> rootFeeds; ///< Null where the root is computed.
  llvm::DenseMap<unsigned, RootBound> rootBounds;
  unsigned nextBoundedRoot = 1u << 31; ///< Roots that exist for their interval alone.
  std::vector<FedIndex> indices;
  std::string nodeAtHand; ///< For messages.
  /// Tensors over the coordinates of an expression, in ascending order of axes.
  llvm::DenseMap<expr::Ref, mlir::Value> emitted;
  llvm::DenseMap<mlir::Value, bool> gradients;
};

/// Imports one operator.
using OpFn = void (*)(Emitter &, Node &);
/// Null if the operator has no import of its own.
OpFn findOp(llvm::StringRef domain, llvm::StringRef op);

using OpTable = llvm::StringMap<OpFn>;
/// Every operator with an import of its own.
const OpTable &allOps();

// Each Op*.cpp adds its operators.
void addElementwiseOps(OpTable &ops);
void addConstantOps(OpTable &ops);
void addViewOps(OpTable &ops);
void addGatherOps(OpTable &ops);
void addReduceOps(OpTable &ops);
void addMatrixOps(OpTable &ops);
void addNormOps(OpTable &ops);
void addAttentionOps(OpTable &ops);
void addLossOps(OpTable &ops);

} // namespace forebay::import

#endif // FOREBAY_LIB_IMPORT_EMITTER_H
