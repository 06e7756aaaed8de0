//===- IndexExprEval.cpp - Evaluating and printing expressions ------------===//

#include "IndexExpr.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>
#include <cmath>
#include <limits>

using namespace llvm;

namespace forebay::expr {

double applyFloat(FOp op, Kind kind, double a, double b) {
  auto compute = [&]() -> double {
    switch (op) {
    case FOp::Add:
      return a + b;
    case FOp::Sub:
      return a - b;
    case FOp::Mul:
      return a * b;
    case FOp::Div:
      return a / b;
    case FOp::Pow:
      return std::pow(a, b);
    case FOp::Min:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
    case FOp::Max:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
    case FOp::Neg:
      return -a;
    case FOp::Abs:
      return std::fabs(a);
    case FOp::Sqrt:
      return std::sqrt(a);
    case FOp::Exp:
      return std::exp(a);
    case FOp::Log:
      return std::log(a);
    case FOp::Tanh:
      return std::tanh(a);
    case FOp::Erf:
      return std::erf(a);
    case FOp::Sin:
      return std::sin(a);
    case FOp::Cos:
      return std::cos(a);
    case FOp::Ceil:
      return std::ceil(a);
    case FOp::Floor:
      return std::floor(a);
    default:
      llvm_unreachable("not an operation on floats");
    }
  };
  // + - * / sqrt of fp32 operands in fp64, rounded once more, are the fp32 results.
  double result = compute();
  return kind == Kind::F32 ? double(float(result)) : result;
}

static int64_t toInt(double value) {
  if (std::isnan(value))
    return 0;
  if (value >= 9223372036854775808.0)
    return std::numeric_limits<int64_t>::max();
  if (value <= -9223372036854775808.0)
    return std::numeric_limits<int64_t>::min();
  return int64_t(value);
}

Scalar apply(Ref node, ArrayRef<Scalar> v) {
  auto ints = [](int64_t value) { return Scalar{value, 0}; };
  auto floats = [&](double value) { return Scalar{0, node->kind == Kind::F32 ? double(float(value)) : value}; };
  switch (node->op) {
  case Op::Const:
    return {node->imm, node->fimm};
  case Op::Linear: {
    uint64_t sum = node->imm;
    for (auto [arg, coef] : llvm::zip_equal(v, node->coefs))
      sum += uint64_t(arg.i) * uint64_t(coef);
    return ints(int64_t(sum));
  }
  case Op::Mul:
    return ints(int64_t(uint64_t(v[0].i) * uint64_t(v[1].i)));
  case Op::FloorDiv:
  case Op::FloorMod: {
    if (v[1].i == 0)
      return ints(0);
    if (v[1].i == -1)
      return ints(node->op == Op::FloorDiv ? int64_t(-uint64_t(v[0].i)) : 0);
    int64_t q = v[0].i / v[1].i, r = v[0].i % v[1].i;
    bool down = r != 0 && (r < 0) != (v[1].i < 0);
    return ints(node->op == Op::FloorDiv ? q - down : r + (down ? v[1].i : 0));
  }
  case Op::TruncDiv:
    return ints(v[1].i == 0 ? 0 : v[1].i == -1 ? int64_t(-uint64_t(v[0].i)) : v[0].i / v[1].i);
  case Op::TruncMod:
    return ints(v[1].i == 0 || v[1].i == -1 ? 0 : v[0].i % v[1].i);
  case Op::Min:
    return ints(std::min(v[0].i, v[1].i));
  case Op::Max:
    return ints(std::max(v[0].i, v[1].i));
  case Op::Le0:
    return ints(v[0].i <= 0);
  case Op::Eq0:
    return ints(v[0].i == 0);
  case Op::And:
    return ints(llvm::all_of(v, [](Scalar s) { return s.i; }));
  case Op::Or:
    return ints(llvm::any_of(v, [](Scalar s) { return s.i; }));
  case Op::Not:
    return ints(!v[0].i);
  case Op::Select:
    return v[0].i ? v[1] : v[2];
  case Op::ToFloat:
    // One rounding: int64 to float, not by way of double.
    return Scalar{0, node->kind == Kind::F32 ? double(float(v[0].i)) : double(v[0].i)};
  case Op::ToInt:
    return ints(toInt(v[0].f));
  case Op::FCast:
    return floats(v[0].f);
  case Op::FBinary:
    return floats(applyFloat(node->fop, node->kind, v[0].f, v[1].f));
  case Op::FUnary:
    return floats(applyFloat(node->fop, node->kind, v[0].f, 0));
  case Op::FCmp:
    switch (node->fop) {
    case FOp::Lt:
      return ints(v[0].f < v[1].f);
    case FOp::Le:
      return ints(v[0].f <= v[1].f);
    default:
      return ints(v[0].f == v[1].f);
    }
  case Op::Coord:
  case Op::Table:
  case Op::Load:
    break;
  }
  llvm_unreachable("leaves are evaluated by evaluate()");
}

Scalar evaluate(Ref root, ArrayRef<int64_t> coords, function_ref<Scalar(Ref, ArrayRef<int64_t>)> load) {
  DenseMap<Ref, Scalar> done;
  SmallVector<Ref, 16> stack{root};
  while (!stack.empty()) {
    Ref node = stack.back();
    if (done.count(node)) {
      stack.pop_back();
      continue;
    }
    SmallVector<Scalar, 4> args;
    if (node->op == Op::Select) {
      // Only the side that is taken: the other may read out of bounds.
      auto condition = done.find(node->args[0]);
      if (condition == done.end()) {
        stack.push_back(node->args[0]);
        continue;
      }
      Ref side = node->args[condition->second.i ? 1 : 2];
      auto value = done.find(side);
      if (value == done.end())
        stack.push_back(side);
      else
        done[node] = Scalar(value->second);
      continue;
    }
    for (Ref arg : node->args) {
      auto found = done.find(arg);
      if (found == done.end())
        stack.push_back(arg);
      else
        args.push_back(found->second);
    }
    if (args.size() != node->args.size())
      continue;
    if (node->op == Op::Coord) {
      done[node] = Scalar{coords[node->imm], 0};
    } else if (node->op == Op::Table || node->op == Op::Load) {
      SmallVector<int64_t, 4> indices;
      for (Scalar arg : args)
        indices.push_back(arg.i);
      if (node->op == Op::Load) {
        assert(load && "an expression with loads needs their values");
        done[node] = load(node, indices);
        continue;
      }
      int64_t at = 0;
      for (auto [index, size] : llvm::zip_equal(indices, node->table->shape)) {
        assert(index >= 0 && index < size && "index out of the table");
        at = at * size + index;
      }
      done[node] = isFloat(node->kind) ? Scalar{0, node->table->floats[at]} : Scalar{node->table->ints[at], 0};
    } else {
      done[node] = apply(node, args);
    }
  }
  return done[root];
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static StringRef nameOf(FOp op) {
  static const char *const names[] = {"none", "+",    "-",   "*",    "/",   "pow", "min", "max",  "neg",   "abs", "sqrt",
                                      "exp",  "log",  "tanh", "erf", "sin", "cos", "ceil", "floor", "<",   "<=",  "=="};
  return names[unsigned(op)];
}

static void print(raw_ostream &os, Ref node) {
  auto list = [&](StringRef separator) {
    llvm::interleave(node->args, os, [&](Ref arg) { print(os, arg); }, separator);
  };
  auto call = [&](StringRef name) {
    os << name << "(";
    list(", ");
    os << ")";
  };
  auto infix = [&](StringRef symbol) {
    os << "(";
    list((" " + symbol + " ").str());
    os << ")";
  };
  switch (node->op) {
  case Op::Const:
    if (isFloat(node->kind))
      os << node->fimm;
    else if (node->kind == Kind::Bool)
      os << (node->imm ? "true" : "false");
    else
      os << node->imm;
    return;
  case Op::Coord:
    os << "d" << node->imm;
    return;
  case Op::Table:
  case Op::Load:
    os << (node->op == Op::Table ? "table" : "load" + std::to_string(node->root)) << "[";
    list(", ");
    os << "]";
    return;
  case Op::Linear: {
    os << "(";
    bool first = true;
    for (auto [arg, coef] : llvm::zip_equal(node->args, node->coefs)) {
      int64_t shown = coef;
      if (!first) {
        os << (coef < 0 ? " - " : " + ");
        shown = coef < 0 ? -coef : coef;
      }
      if (shown == -1)
        os << "-";
      else if (shown != 1)
        os << shown << "*";
      print(os, arg);
      first = false;
    }
    if (node->imm)
      os << (node->imm < 0 ? " - " : " + ") << (node->imm < 0 ? -node->imm : node->imm);
    os << ")";
    return;
  }
  case Op::Mul:
    return infix("*");
  case Op::FloorDiv:
    return infix("floordiv");
  case Op::FloorMod:
    return infix("mod");
  case Op::TruncDiv:
    return infix("div");
  case Op::TruncMod:
    return infix("rem");
  case Op::Min:
    return call("min");
  case Op::Max:
    return call("max");
  case Op::Le0:
    print(os, node->args[0]);
    os << " <= 0";
    return;
  case Op::Eq0:
    print(os, node->args[0]);
    os << " == 0";
    return;
  case Op::And:
    return infix("&");
  case Op::Or:
    return infix("|");
  case Op::Not:
    return call("not");
  case Op::Select:
    return call("select");
  case Op::ToFloat:
    return call("float");
  case Op::ToInt:
    return call("int");
  case Op::FCast:
    return call(node->kind == Kind::F32 ? "f32" : "f64");
  case Op::FBinary:
  case Op::FCmp:
    return infix(nameOf(node->fop));
  case Op::FUnary:
    return call(nameOf(node->fop));
  }
}

std::string toString(Ref node) {
  std::string text;
  raw_string_ostream os(text);
  print(os, node);
  return text;
}

} // namespace forebay::expr
