//===- IndexExpr.h - Element values as expressions --------------*- C++ -*-===//
///
/// \file
/// An exported graph computes shapes, positions and masks as tensors. Here such a tensor is an
/// expression that gives the value of the element at coordinates (d0, d1, ...): a causal mask of a
/// million tokens is `d3 - d2 <= 0`, whatever its size. Nothing in this file touches memory in proportion
/// to a tensor's elements, except tables of small constants.
///
/// Expressions are immutable, interned (equal expressions are the same pointer) and simplified when they
/// are built:
///   - integers are kept as linear forms `c1*x1 + c2*x2 + k`, comparisons as `linear <= 0` and `linear == 0`
///   - every integer carries the interval of its values, which decides comparisons, div, mod, min, max
///   - `c ? a : b` disappears where c is decided, where both sides agree, and where the one point that it
///     singles out agrees with the other side
///
/// A coordinate carries the size of its axis. Integers are 64 bits wide and wrap as ONNX's do. Fed integers are
/// taken to be below 2^62 in magnitude. Division by 0 gives 0.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_IMPORT_INDEXEXPR_H
#define FOREBAY_LIB_IMPORT_INDEXEXPR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace forebay::expr {

enum class Kind : uint8_t { Int, Bool, F32, F64 };
inline bool isFloat(Kind kind) { return kind == Kind::F32 || kind == Kind::F64; }

enum class Op : uint8_t {
  Const,    ///< `imm` (Int, Bool) or `fimm`
  Coord,    ///< coordinate `imm` of an axis of `size` elements
  Table,    ///< element of `table`; one index an axis
  Load,     ///< element of the run-time tensor `root`; one index an axis
  Linear,   ///< Int: sum of coefs[i] * args[i], plus `imm`
  Mul,      ///< Int: product of two that are not constant
  FloorDiv, ///< Int, rounds down
  FloorMod, ///< Int, sign of the divisor
  TruncDiv, ///< Int, rounds to zero
  TruncMod, ///< Int, sign of the dividend
  Min,      ///< Int
  Max,      ///< Int
  Le0,      ///< Bool: args[0] <= 0
  Eq0,      ///< Bool: args[0] == 0
  And,      ///< Bool, two or more
  Or,       ///< Bool, two or more
  Not,      ///< Bool
  Select,   ///< args[0] ? args[1] : args[2]
  ToFloat,  ///< Int to float
  ToInt,    ///< float to Int, rounds to zero
  FCast,    ///< float to float
  FBinary,  ///< `fop` on two floats
  FUnary,   ///< `fop` on one float
  FCmp      ///< Bool: `fop` (Lt, Le, Eq) on two floats, false with a NaN
};

enum class FOp : uint8_t {
  None, Add, Sub, Mul, Div, Pow, Min, Max,                   // FBinary
  Neg, Abs, Sqrt, Exp, Log, Tanh, Erf, Sin, Cos, Ceil, Floor, // FUnary
  Lt, Le, Eq                                                 // FCmp
};

/// A small constant tensor.
struct Table {
  llvm::SmallVector<int64_t, 4> shape;
  std::vector<int64_t> ints;  ///< Int, Bool
  std::vector<double> floats; ///< F32, F64
  int64_t lo = 0, hi = 0;     ///< of `ints`
};

struct Node {
  Op op;
  Kind kind;
  FOp fop = FOp::None;
  bool hasLoad = false;
  unsigned id = 0;
  unsigned root = 0; ///< Load: which tensor
  unsigned depth = 1; ///< of the longest chain of operands
  int64_t imm = 0;
  int64_t size = 0; ///< Coord
  double fimm = 0;
  int64_t lo, hi;      ///< interval of an Int
  uint64_t axes = 0;   ///< bit set of the coordinates that occur
  const Table *table = nullptr;
  llvm::SmallVector<const Node *, 3> args;
  llvm::SmallVector<int64_t, 3> coefs;
};
using Ref = const Node *;

struct Scalar {
  int64_t i = 0;
  double f = 0;
};

/// Builds and owns expressions.
class Context {
public:
  Context();
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  Ref intConst(int64_t value);
  Ref boolConst(bool value);
  Ref floatConst(Kind kind, double value);
  /// 0 where the axis has a single element.
  Ref coord(unsigned axis, int64_t size);
  Ref load(Kind kind, unsigned root, llvm::ArrayRef<Ref> indices);
  /// What the elements of an integer tensor can be. Before its first load.
  void setRootRange(unsigned root, int64_t lo, int64_t hi);
  Ref table(Kind kind, const Table *table, llvm::ArrayRef<Ref> indices);
  /// Keeps a table alive as long as the context; a constant where all its elements are equal.
  Ref constant(Kind kind, Table table, llvm::ArrayRef<Ref> indices);

  // Int.
  Ref linear(llvm::ArrayRef<std::pair<int64_t, Ref>> terms, int64_t constant);
  Ref add(Ref a, Ref b) { return linear({{1, a}, {1, b}}, 0); }
  Ref sub(Ref a, Ref b) { return linear({{1, a}, {-1, b}}, 0); }
  Ref addConst(Ref a, int64_t k) { return linear({{1, a}}, k); }
  Ref scale(Ref a, int64_t k) { return linear({{k, a}}, 0); }
  Ref mul(Ref a, Ref b);
  Ref floorDiv(Ref a, Ref b);
  Ref floorMod(Ref a, Ref b);
  Ref truncDiv(Ref a, Ref b);
  Ref truncMod(Ref a, Ref b);
  Ref min(Ref a, Ref b);
  Ref max(Ref a, Ref b);

  // Bool.
  Ref le(Ref a, Ref b);
  Ref lt(Ref a, Ref b);
  Ref eq(Ref a, Ref b);
  Ref andOf(llvm::ArrayRef<Ref> args);
  Ref orOf(llvm::ArrayRef<Ref> args);
  Ref notOf(Ref a);
  Ref fcmp(FOp predicate, Ref a, Ref b);

  Ref select(Ref condition, Ref a, Ref b);
  Ref cast(Ref a, Kind kind);
  Ref fbinary(FOp op, Ref a, Ref b);
  Ref funary(FOp op, Ref a);

  /// Replaces every coordinate; `map` is asked once for each axis that occurs.
  Ref substitute(Ref node, llvm::function_ref<Ref(unsigned axis, int64_t size)> map);
  /// Reads other tensors, or constants, in the place of run-time tensors; `map` is asked for each load, whose indices are replaced already.
  Ref replaceLoads(Ref node, llvm::function_ref<Ref(Ref load)> map);
  /// The same operation on other operands (as many as node has).
  Ref rebuild(Ref node, llvm::ArrayRef<Ref> args);

private:
  struct Hash {
    size_t operator()(const Node *node) const;
  };
  struct Equal {
    bool operator()(const Node *a, const Node *b) const;
  };

  Ref intern(Node node);
  Ref le0(Ref linear);
  Ref eq0(Ref linear);
  Ref logic(Op op, llvm::ArrayRef<Ref> args);
  Ref overSelect(llvm::ArrayRef<Ref> args, llvm::function_ref<Ref(llvm::ArrayRef<Ref>)> build);
  Ref agreeAtPoint(Ref condition, Ref a, Ref b);
  Ref exactArithmetic(FOp op, Ref a, Ref b);
  Ref rewrite(Ref root, llvm::function_ref<Ref(Ref node)> leaf, llvm::function_ref<Ref(Ref node)> done);

  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<Table>> tables;
  std::unordered_set<const Node *, Hash, Equal> interned;
  std::unordered_map<unsigned, std::pair<int64_t, int64_t>> rootRanges;
};

inline bool isConst(Ref node) { return node->op == Op::Const; }
inline bool isInt(Ref node, int64_t value) { return node->op == Op::Const && node->imm == value && !isFloat(node->kind); }

/// The value at the given coordinates. `load` gives the elements of run-time tensors (none may occur when absent).
Scalar evaluate(Ref node, llvm::ArrayRef<int64_t> coords,
                llvm::function_ref<Scalar(Ref load, llvm::ArrayRef<int64_t> indices)> load = nullptr);

/// One operation on operand values; shared by evaluation and constant folding.
Scalar apply(Ref node, llvm::ArrayRef<Scalar> args);
double applyFloat(FOp op, Kind kind, double a, double b);

/// For messages and tests, e.g. `(d1 - d0 <= 0 & load0[d0, d3] == 0)`.
std::string toString(Ref node);

} // namespace forebay::expr

#endif // FOREBAY_LIB_IMPORT_INDEXEXPR_H
