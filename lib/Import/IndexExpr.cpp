//===- IndexExpr.cpp - Building and simplifying expressions ---------------===//

#include "IndexExpr.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

using namespace llvm;

namespace forebay::expr {

static constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
static constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
/// Fed integers are taken to be below this in magnitude, so that comparing them does not overflow.
static constexpr int64_t kLoadBound = int64_t(1) << 62;

using Wide = __int128;

static int64_t wrapAdd(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
static int64_t wrapMul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
static int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
static int64_t floorModulo(int64_t a, int64_t b) { return a - floorDivide(a, b) * b; }

/// The interval [lo, hi], or everything where it does not fit (the value may wrap).
static void setInterval(Node &node, Wide lo, Wide hi) {
  bool fits = lo >= kMin && hi <= kMax;
  node.lo = fits ? int64_t(lo) : kMin;
  node.hi = fits ? int64_t(hi) : kMax;
}

Context::Context() = default;
Context::~Context() = default;

size_t Context::Hash::operator()(const Node *n) const {
  return hash_combine(n->op, n->kind, n->fop, n->root, n->imm, n->size, llvm::bit_cast<uint64_t>(n->fimm), n->table,
                      hash_combine_range(n->args.begin(), n->args.end()),
                      hash_combine_range(n->coefs.begin(), n->coefs.end()));
}

bool Context::Equal::operator()(const Node *a, const Node *b) const {
  return a->op == b->op && a->kind == b->kind && a->fop == b->fop && a->root == b->root && a->imm == b->imm &&
         a->size == b->size && llvm::bit_cast<uint64_t>(a->fimm) == llvm::bit_cast<uint64_t>(b->fimm) &&
         a->table == b->table && a->args == b->args && a->coefs == b->coefs;
}

Ref Context::intern(Node node) {
  auto found = interned.find(&node);
  if (found != interned.end())
    return *found;
  node.id = nodes.size();
  node.hasLoad = node.op == Op::Load;
  if (node.op == Op::Coord)
    node.axes = uint64_t(1) << node.imm;
  for (Ref arg : node.args) {
    node.hasLoad |= arg->hasLoad;
    node.axes |= arg->axes;
    node.depth = std::max(node.depth, arg->depth + 1);
  }
  if (node.kind == Kind::Bool && node.op != Op::Const)
    node.lo = 0, node.hi = 1;
  nodes.push_back(std::make_unique<Node>(std::move(node)));
  interned.insert(nodes.back().get());
  return nodes.back().get();
}

static Node make(Op op, Kind kind, ArrayRef<Ref> args = {}) {
  Node node;
  node.op = op;
  node.kind = kind;
  node.lo = kMin;
  node.hi = kMax;
  node.args.assign(args.begin(), args.end());
  return node;
}

//===----------------------------------------------------------------------===//
// Leaves
//===----------------------------------------------------------------------===//

Ref Context::intConst(int64_t value) {
  Node node = make(Op::Const, Kind::Int);
  node.imm = node.lo = node.hi = value;
  return intern(std::move(node));
}

Ref Context::boolConst(bool value) {
  Node node = make(Op::Const, Kind::Bool);
  node.imm = node.lo = node.hi = value;
  return intern(std::move(node));
}

Ref Context::floatConst(Kind kind, double value) {
  Node node = make(Op::Const, kind);
  node.fimm = kind == Kind::F32 ? double(float(value)) : value;
  return intern(std::move(node));
}

Ref Context::coord(unsigned axis, int64_t size) {
  assert(axis < 64 && "the rank of a tensor is below 64");
  if (size == 1)
    return intConst(0);
  Node node = make(Op::Coord, Kind::Int);
  node.imm = axis;
  node.size = size;
  node.lo = 0;
  node.hi = std::max<int64_t>(size - 1, 0);
  return intern(std::move(node));
}

Ref Context::load(Kind kind, unsigned root, ArrayRef<Ref> indices) {
  Node node = make(Op::Load, kind, indices);
  node.root = root;
  if (kind == Kind::Int) {
    auto range = rootRanges.find(root);
    node.lo = range == rootRanges.end() ? -kLoadBound : range->second.first;
    node.hi = range == rootRanges.end() ? kLoadBound : range->second.second;
  }
  return intern(std::move(node));
}

void Context::setRootRange(unsigned root, int64_t lo, int64_t hi) {
  rootRanges[root] = {std::max(lo, -kLoadBound), std::min(hi, kLoadBound)};
}

Ref Context::table(Kind kind, const Table *table, ArrayRef<Ref> indices) {
  if (llvm::all_of(indices, isConst)) {
    int64_t at = 0;
    bool inside = true;
    for (auto [index, size] : llvm::zip_equal(indices, table->shape)) {
      inside &= index->imm >= 0 && index->imm < size;
      at = at * size + index->imm;
    }
    if (inside) {
      if (isFloat(kind))
        return floatConst(kind, table->floats[at]);
      return kind == Kind::Bool ? boolConst(table->ints[at]) : intConst(table->ints[at]);
    }
  }
  Node node = make(Op::Table, kind, indices);
  node.table = table;
  if (kind == Kind::Int)
    node.lo = table->lo, node.hi = table->hi;
  return intern(std::move(node));
}

Ref Context::constant(Kind kind, Table value, ArrayRef<Ref> indices) {
  auto same = [](double a, double b) { return llvm::bit_cast<uint64_t>(a) == llvm::bit_cast<uint64_t>(b); };
  if (isFloat(kind)) {
    ArrayRef<double> v = value.floats;
    if (!v.empty() && llvm::all_of(v, [&](double x) { return same(x, v.front()); }))
      return floatConst(kind, v.front());
  } else if (ArrayRef<int64_t> v = value.ints; !v.empty()) {
    value.lo = *llvm::min_element(v);
    value.hi = *llvm::max_element(v);
    if (value.lo == value.hi)
      return kind == Kind::Bool ? boolConst(value.lo) : intConst(value.lo);
  }
  tables.push_back(std::make_unique<Table>(std::move(value)));
  return table(kind, tables.back().get(), indices);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Ref Context::linear(ArrayRef<std::pair<int64_t, Ref>> terms, int64_t constant) {
  SmallVector<std::pair<Ref, int64_t>, 4> sum;
  auto addTerm = [&](int64_t coef, Ref node) {
    for (auto &[other, total] : sum)
      if (other == node) {
        total = wrapAdd(total, coef);
        return;
      }
    sum.push_back({node, coef});
  };
  for (auto [coef, node] : terms) {
    assert(node->kind == Kind::Int && "linear forms are of integers");
    if (isConst(node)) {
      constant = wrapAdd(constant, wrapMul(coef, node->imm));
    } else if (node->op == Op::Linear) {
      constant = wrapAdd(constant, wrapMul(coef, node->imm));
      for (auto [arg, c] : llvm::zip_equal(node->args, node->coefs))
        addTerm(wrapMul(coef, c), arg);
    } else {
      addTerm(coef, node);
    }
  }
  // m * (x mod c) + m * c * (x div c) is m * x.
  for (unsigned i = 0; i < sum.size(); ++i) {
    auto [mod, m] = sum[i];
    if (m == 0 || mod->op != Op::FloorMod || !isConst(mod->args[1]))
      continue;
    for (auto &[div, d] : sum) {
      if (div->op != Op::FloorDiv || div->args != mod->args || d != wrapMul(m, mod->args[1]->imm) || d == 0)
        continue;
      SmallVector<std::pair<int64_t, Ref>, 4> rest;
      for (auto [node, coef] : sum)
        if (node != mod && node != div)
          rest.push_back({coef, node});
      rest.push_back({m, mod->args[0]});
      return linear(rest, constant);
    }
  }
  llvm::erase_if(sum, [](auto &term) { return term.second == 0; });
  if (sum.empty())
    return intConst(constant);
  if (sum.size() == 1 && sum[0].second == 1 && constant == 0)
    return sum[0].first;
  llvm::sort(sum, [](auto &a, auto &b) { return a.first->id < b.first->id; });

  Node node = make(Op::Linear, Kind::Int);
  node.imm = constant;
  Wide lo = constant, hi = constant;
  bool wraps = false;
  for (auto [arg, coef] : sum) {
    node.args.push_back(arg);
    node.coefs.push_back(coef);
    Wide a = Wide(coef) * arg->lo, b = Wide(coef) * arg->hi;
    lo += std::min(a, b);
    hi += std::max(a, b);
    wraps |= lo < Wide(kMin) * 4 || hi > Wide(kMax) * 4;
  }
  if (!wraps)
    setInterval(node, lo, hi);
  return intern(std::move(node));
}

Ref Context::mul(Ref a, Ref b) {
  if (isConst(a))
    return scale(b, a->imm);
  if (isConst(b))
    return scale(a, b->imm);
  if (a->id > b->id)
    std::swap(a, b);
  Node node = make(Op::Mul, Kind::Int, {a, b});
  Wide p[] = {Wide(a->lo) * b->lo, Wide(a->lo) * b->hi, Wide(a->hi) * b->lo, Wide(a->hi) * b->hi};
  setInterval(node, *std::min_element(p, p + 4), *std::max_element(p, p + 4));
  return intern(std::move(node));
}

/// Splits a linear form into `divisor * quotient + rest` with the coefficients of rest in [0, divisor).
static std::pair<SmallVector<std::pair<int64_t, Ref>, 4>, SmallVector<std::pair<int64_t, Ref>, 4>>
splitBy(Ref node, int64_t divisor) {
  SmallVector<std::pair<int64_t, Ref>, 4> quotient, rest;
  auto split = [&](int64_t coef, Ref arg) {
    if (int64_t q = floorDivide(coef, divisor))
      quotient.push_back({q, arg});
    if (int64_t r = floorModulo(coef, divisor))
      rest.push_back({r, arg});
  };
  if (node->op != Op::Linear)
    split(1, node);
  else
    for (auto [arg, coef] : llvm::zip_equal(node->args, node->coefs))
      split(coef, arg);
  return {quotient, rest};
}

/// The greatest common divisor of all coefficients (not of the constant).
static int64_t commonFactor(Ref node) {
  if (node->op != Op::Linear)
    return 1;
  uint64_t g = 0;
  for (int64_t coef : node->coefs)
    g = std::gcd(g, coef < 0 ? -uint64_t(coef) : uint64_t(coef));
  return g > uint64_t(kMax) ? 1 : int64_t(g);
}

static bool mayWrap(Ref node) { return node->lo == kMin || node->hi == kMax; }

Ref Context::floorDiv(Ref a, Ref b) {
  if (isConst(b) && b->imm > 0 && !mayWrap(a)) {
    int64_t divisor = b->imm;
    if (divisor == 1)
      return a;
    if (isConst(a))
      return intConst(floorDivide(a->imm, divisor));
    if (floorDivide(a->lo, divisor) == floorDivide(a->hi, divisor))
      return intConst(floorDivide(a->lo, divisor));
    if (a->op == Op::FloorDiv && isConst(a->args[1]) && a->args[1]->imm > 0 && divisor < (int64_t(1) << 31) &&
        a->args[1]->imm < (int64_t(1) << 31))
      return floorDiv(a->args[0], intConst(a->args[1]->imm * divisor));
    int64_t constant = a->op == Op::Linear ? a->imm : 0;
    auto [quotient, rest] = splitBy(a, divisor);
    Ref r = linear(rest, floorModulo(constant, divisor));
    if (!quotient.empty() || constant != floorModulo(constant, divisor)) {
      if (!mayWrap(r))
        return linear({{1, linear(quotient, floorDivide(constant, divisor))}, {1, floorDiv(r, b)}}, 0);
    }
    int64_t g = std::gcd(commonFactor(a), divisor);
    if (a->op == Op::Linear && g > 1 && constant >= 0) {
      // floor((g x + k) / (g d)) = floor((x + floor(k / g)) / d)
      SmallVector<std::pair<int64_t, Ref>, 4> terms;
      for (auto [arg, coef] : llvm::zip_equal(a->args, a->coefs))
        terms.push_back({coef / g, arg});
      return floorDiv(linear(terms, floorDivide(constant, g)), intConst(divisor / g));
    }
  }
  Node node = make(Op::FloorDiv, Kind::Int, {a, b});
  if (isConst(b) && b->imm > 0)
    node.lo = floorDivide(a->lo, b->imm), node.hi = floorDivide(a->hi, b->imm);
  return intern(std::move(node));
}

Ref Context::floorMod(Ref a, Ref b) {
  if (isConst(b) && b->imm > 0) {
    int64_t divisor = b->imm;
    if (isConst(a))
      return intConst(floorModulo(a->imm, divisor));
    if (!mayWrap(a)) {
      if (floorDivide(a->lo, divisor) == floorDivide(a->hi, divisor))
        return addConst(a, wrapMul(-floorDivide(a->lo, divisor), divisor));
      if (a->op == Op::FloorMod && isConst(a->args[1]) && a->args[1]->imm % divisor == 0)
        return floorMod(a->args[0], b);
      int64_t constant = a->op == Op::Linear ? a->imm : 0;
      auto [quotient, rest] = splitBy(a, divisor);
      Ref r = linear(rest, floorModulo(constant, divisor));
      if (r != a && !mayWrap(r))
        return floorMod(r, b);
    }
  }
  Node node = make(Op::FloorMod, Kind::Int, {a, b});
  if (isConst(b) && b->imm > 0)
    node.lo = 0, node.hi = b->imm - 1;
  return intern(std::move(node));
}

Ref Context::truncDiv(Ref a, Ref b) {
  if (isConst(a) && isConst(b) && b->imm != 0 && !(a->imm == kMin && b->imm == -1))
    return intConst(a->imm / b->imm);
  if (a->lo >= 0 && isConst(b) && b->imm > 0)
    return floorDiv(a, b);
  Node node = make(Op::TruncDiv, Kind::Int, {a, b});
  if (isConst(b) && b->imm > 0)
    node.lo = a->lo / b->imm, node.hi = a->hi / b->imm;
  return intern(std::move(node));
}

Ref Context::truncMod(Ref a, Ref b) {
  if (isConst(a) && isConst(b) && b->imm != 0 && b->imm != -1)
    return intConst(a->imm % b->imm);
  if (a->lo >= 0 && isConst(b) && b->imm > 0)
    return floorMod(a, b);
  return intern(make(Op::TruncMod, Kind::Int, {a, b}));
}

Ref Context::min(Ref a, Ref b) {
  if (a->hi <= b->lo || a == b)
    return a;
  if (b->hi <= a->lo)
    return b;
  if (a->id > b->id)
    std::swap(a, b);
  Node node = make(Op::Min, Kind::Int, {a, b});
  node.lo = std::min(a->lo, b->lo);
  node.hi = std::min(a->hi, b->hi);
  return intern(std::move(node));
}

Ref Context::max(Ref a, Ref b) {
  if (a->lo >= b->hi || a == b)
    return a;
  if (b->lo >= a->hi)
    return b;
  if (a->id > b->id)
    std::swap(a, b);
  Node node = make(Op::Max, Kind::Int, {a, b});
  node.lo = std::max(a->lo, b->lo);
  node.hi = std::max(a->hi, b->hi);
  return intern(std::move(node));
}

//===----------------------------------------------------------------------===//
// Booleans
//===----------------------------------------------------------------------===//

/// Where every argument is a constant or a select (all of one condition) between constants: the select of the results.
Ref Context::overSelect(ArrayRef<Ref> args, function_ref<Ref(ArrayRef<Ref>)> build) {
  Ref condition = nullptr;
  for (Ref arg : args) {
    if (isConst(arg))
      continue;
    if (arg->op != Op::Select || !isConst(arg->args[1]) || !isConst(arg->args[2]) ||
        (condition && condition != arg->args[0]))
      return nullptr;
    condition = arg->args[0];
  }
  if (!condition)
    return nullptr;
  SmallVector<Ref, 3> yes, no;
  for (Ref arg : args) {
    yes.push_back(isConst(arg) ? arg : arg->args[1]);
    no.push_back(isConst(arg) ? arg : arg->args[2]);
  }
  return select(condition, build(yes), build(no));
}

/// The select of constants that a linear form depends on alone, as a select; else null.
static bool isScaledSelect(Ref node) {
  return node->op == Op::Linear && node->args.size() == 1 && node->args[0]->op == Op::Select &&
         isConst(node->args[0]->args[1]) && isConst(node->args[0]->args[2]);
}

Ref Context::le0(Ref a) {
  if (!mayWrap(a)) {
    if (a->hi <= 0)
      return boolConst(true);
    if (a->lo > 0)
      return boolConst(false);
  }
  if (isScaledSelect(a))
    return overSelect(a->args[0], [&](ArrayRef<Ref> v) { return le0(linear({{a->coefs[0], v[0]}}, a->imm)); });
  if (Ref r = overSelect(a, [&](ArrayRef<Ref> v) { return le0(v[0]); }))
    return r;
  if (int64_t g = commonFactor(a); g > 1 && !mayWrap(a)) {
    SmallVector<std::pair<int64_t, Ref>, 4> terms;
    for (auto [arg, coef] : llvm::zip_equal(a->args, a->coefs))
      terms.push_back({coef / g, arg});
    return le0(linear(terms, -floorDivide(-a->imm, g)));
  }
  return intern(make(Op::Le0, Kind::Bool, a));
}

Ref Context::eq0(Ref a) {
  if (isConst(a))
    return boolConst(a->imm == 0);
  if (!mayWrap(a) && (a->lo > 0 || a->hi < 0))
    return boolConst(false);
  if (isScaledSelect(a))
    return overSelect(a->args[0], [&](ArrayRef<Ref> v) { return eq0(linear({{a->coefs[0], v[0]}}, a->imm)); });
  if (Ref r = overSelect(a, [&](ArrayRef<Ref> v) { return eq0(v[0]); }))
    return r;
  if (a->op == Op::Linear && !mayWrap(a)) {
    int64_t g = commonFactor(a);
    if (a->imm % g != 0)
      return boolConst(false);
    if (a->coefs[0] < 0)
      g = -g;
    if (g != 1) {
      SmallVector<std::pair<int64_t, Ref>, 4> terms;
      for (auto [arg, coef] : llvm::zip_equal(a->args, a->coefs))
        terms.push_back({coef / g, arg});
      return eq0(linear(terms, a->imm / g));
    }
  }
  return intern(make(Op::Eq0, Kind::Bool, a));
}

Ref Context::le(Ref a, Ref b) {
  if (a->hi <= b->lo)
    return boolConst(true);
  if (a->lo > b->hi)
    return boolConst(false);
  return le0(sub(a, b));
}

Ref Context::lt(Ref a, Ref b) { return notOf(le(b, a)); }

Ref Context::eq(Ref a, Ref b) {
  if (a->kind == Kind::Bool) {
    if (a == b)
      return boolConst(true);
    return notOf(select(a, notOf(b), b));
  }
  if (a->hi < b->lo || a->lo > b->hi)
    return boolConst(false);
  return eq0(sub(a, b));
}

Ref Context::logic(Op op, ArrayRef<Ref> args) {
  bool neutral = op == Op::And;
  SmallVector<Ref, 4> flat;
  auto append = [&](Ref arg) {
    if (!llvm::is_contained(flat, arg))
      flat.push_back(arg);
  };
  for (Ref arg : args) {
    assert(arg->kind == Kind::Bool && "and/or are of booleans");
    if (isConst(arg)) {
      if (bool(arg->imm) != neutral)
        return boolConst(!neutral);
      continue;
    }
    if (arg->op == op)
      llvm::for_each(arg->args, append);
    else
      append(arg);
  }
  for (Ref arg : flat)
    if (arg->op == Op::Not && llvm::is_contained(flat, arg->args[0]))
      return boolConst(!neutral);
  if (flat.empty())
    return boolConst(neutral);
  if (flat.size() == 1)
    return flat[0];
  llvm::sort(flat, [](Ref a, Ref b) { return a->id < b->id; });
  return intern(make(op, Kind::Bool, flat));
}

Ref Context::andOf(ArrayRef<Ref> args) { return logic(Op::And, args); }
Ref Context::orOf(ArrayRef<Ref> args) { return logic(Op::Or, args); }

Ref Context::notOf(Ref a) {
  if (isConst(a))
    return boolConst(!a->imm);
  if (a->op == Op::Not)
    return a->args[0];
  if (a->op == Op::Le0 && !mayWrap(a->args[0]))
    return le0(linear({{-1, a->args[0]}}, 1));
  if (a->op == Op::Or || a->op == Op::And) {
    // Conjunctions are what masks are split by.
    SmallVector<Ref, 4> inverted;
    for (Ref arg : a->args)
      inverted.push_back(notOf(arg));
    if (a->op == Op::Or)
      return andOf(inverted);
    if (llvm::all_of(inverted, [](Ref arg) { return arg->op != Op::Not; }))
      return orOf(inverted);
  }
  return intern(make(Op::Not, Kind::Bool, a));
}

//===----------------------------------------------------------------------===//
// Select, casts, floats
//===----------------------------------------------------------------------===//

/// Where `condition` singles out one point x = v of a coordinate and both sides agree there, the other side alone.
Ref Context::agreeAtPoint(Ref condition, Ref a, Ref b) {
  if (condition->op != Op::Le0 && condition->op != Op::Eq0)
    return nullptr;
  Ref form = condition->args[0];
  Ref x = form->op == Op::Linear ? form->args[0] : form;
  if (x->op != Op::Coord || (form->op == Op::Linear && (form->args.size() != 1 || std::abs(form->coefs[0]) != 1)))
    return nullptr;
  int64_t coef = form->op == Op::Linear ? form->coefs[0] : 1, k = form->op == Op::Linear ? form->imm : 0;
  int64_t last = x->size - 1;
  std::optional<int64_t> onlyTrue, onlyFalse;
  if (condition->op == Op::Eq0) {
    onlyTrue = -k * coef;
  } else if (coef == 1) { // x <= -k
    if (k == 0)
      onlyTrue = 0;
    if (1 - k == last)
      onlyFalse = last;
  } else { // x >= k
    if (k == last)
      onlyTrue = last;
    if (k == 1)
      onlyFalse = 0;
  }
  auto at = [&](Ref node, int64_t value) {
    return substitute(node, [&](unsigned axis, int64_t size) {
      return axis == unsigned(x->imm) ? intConst(value) : coord(axis, size);
    });
  };
  if (onlyTrue && at(a, *onlyTrue) == at(b, *onlyTrue))
    return b;
  if (onlyFalse && at(a, *onlyFalse) == at(b, *onlyFalse))
    return a;
  return nullptr;
}

Ref Context::select(Ref condition, Ref a, Ref b) {
  assert(condition->kind == Kind::Bool && a->kind == b->kind && "select of one kind by a boolean");
  if (isConst(condition))
    return condition->imm ? a : b;
  if (a == b)
    return a;
  if (condition->op == Op::Not)
    return select(condition->args[0], b, a);
  if (a->op == Op::Select && a->args[0] == condition)
    return select(condition, a->args[1], b);
  if (b->op == Op::Select && b->args[0] == condition)
    return select(condition, a, b->args[2]);
  if (a->kind == Kind::Bool) {
    if (isConst(a))
      return a->imm ? orOf({condition, b}) : andOf({notOf(condition), b});
    if (isConst(b))
      return b->imm ? orOf({notOf(condition), a}) : andOf({condition, a});
  }
  if (Ref r = agreeAtPoint(condition, a, b))
    return r;
  Node node = make(Op::Select, a->kind, {condition, a, b});
  if (a->kind == Kind::Int)
    node.lo = std::min(a->lo, b->lo), node.hi = std::max(a->hi, b->hi);
  return intern(std::move(node));
}

Ref Context::cast(Ref a, Kind kind) {
  if (a->kind == kind)
    return a;
  if (kind == Kind::Bool)
    return isFloat(a->kind) ? notOf(fcmp(FOp::Eq, a, floatConst(a->kind, 0))) : notOf(eq0(a));
  if (a->kind == Kind::Bool) {
    if (kind == Kind::Int)
      return select(a, intConst(1), intConst(0));
    return select(a, floatConst(kind, 1), floatConst(kind, 0));
  }
  if (Ref r = overSelect(a, [&](ArrayRef<Ref> v) { return cast(v[0], kind); }))
    return r;
  Op op = a->kind == Kind::Int ? Op::ToFloat : kind == Kind::Int ? Op::ToInt : Op::FCast;
  Node node = make(op, kind, a);
  if (isConst(a)) {
    Scalar value = apply(&node, Scalar{a->imm, a->fimm});
    return kind == Kind::Int ? intConst(value.i) : floatConst(kind, value.f);
  }
  // An integer that the float holds exactly comes back unchanged.
  int64_t exact = int64_t(1) << (a->kind == Kind::F32 ? 24 : 53);
  if (op == Op::ToInt && a->op == Op::ToFloat && a->args[0]->lo >= -exact && a->args[0]->hi <= exact)
    return a->args[0];
  return intern(std::move(node));
}

Ref Context::fcmp(FOp predicate, Ref a, Ref b) {
  Node node = make(Op::FCmp, Kind::Bool, {a, b});
  node.fop = predicate;
  if (isConst(a) && isConst(b))
    return boolConst(apply(&node, {Scalar{0, a->fimm}, Scalar{0, b->fimm}}).i);
  if (Ref r = overSelect({a, b}, [&](ArrayRef<Ref> v) { return fcmp(predicate, v[0], v[1]); }))
    return r;
  return intern(std::move(node));
}

/// Sums, differences and products of integers that a float holds exactly are exact: they stay integers, so that what follows (a
/// position that was computed as a float) can be decided.
Ref Context::exactArithmetic(FOp op, Ref a, Ref b) {
  int64_t exact = int64_t(1) << (a->kind == Kind::F32 ? 24 : 53);
  auto integer = [&](Ref node) -> Ref {
    if (node->op == Op::ToFloat)
      return node->args[0];
    // -0 is no integer.
    bool whole = isConst(node) && node->fimm >= -double(exact) && node->fimm <= double(exact) &&
                 node->fimm == double(int64_t(node->fimm)) && !(node->fimm == 0 && std::signbit(node->fimm));
    return whole ? intConst(int64_t(node->fimm)) : nullptr;
  };
  auto fits = [&](Ref node) { return node->lo >= -exact && node->hi <= exact; };
  Ref x = integer(a), y = integer(b);
  if (!x || !y || !fits(x) || !fits(y))
    return nullptr;
  Ref result;
  if (op == FOp::Add)
    result = add(x, y);
  else if (op == FOp::Sub)
    result = sub(x, y);
  else if (op == FOp::Mul && x->lo >= 0 && y->lo >= 0) // else a product may be -0
    result = mul(x, y);
  else
    return nullptr;
  return fits(result) ? cast(result, a->kind) : nullptr;
}

Ref Context::fbinary(FOp op, Ref a, Ref b) {
  Node node = make(Op::FBinary, a->kind, {a, b});
  node.fop = op;
  if (isConst(a) && isConst(b))
    return floatConst(a->kind, applyFloat(op, a->kind, a->fimm, b->fimm));
  if ((op == FOp::Mul || op == FOp::Div) && isConst(b) && b->fimm == 1)
    return a;
  if (op == FOp::Mul && isConst(a) && a->fimm == 1)
    return b;
  if (Ref r = overSelect({a, b}, [&](ArrayRef<Ref> v) { return fbinary(op, v[0], v[1]); }))
    return r;
  if (Ref r = exactArithmetic(op, a, b))
    return r;
  return intern(std::move(node));
}

Ref Context::funary(FOp op, Ref a) {
  Node node = make(Op::FUnary, a->kind, a);
  node.fop = op;
  if (isConst(a))
    return floatConst(a->kind, applyFloat(op, a->kind, a->fimm, 0));
  if (Ref r = overSelect(a, [&](ArrayRef<Ref> v) { return funary(op, v[0]); }))
    return r;
  return intern(std::move(node));
}

} // namespace forebay::expr
