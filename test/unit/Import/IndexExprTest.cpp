//===- IndexExprTest.cpp - Index expressions against brute force ----------===//

#include "../../../lib/Import/IndexExpr.h"

#include "gtest/gtest.h"

#include <random>

using namespace forebay::expr;

namespace {

/// An expression with the value computed beside it by plain arithmetic at one point of [5, 7, 3].
struct Pair {
  Ref node;
  std::vector<int64_t> values; // one for each of the 105 points
};

constexpr int64_t kShape[] = {5, 7, 3};
constexpr unsigned kPoints = 5 * 7 * 3;

std::array<int64_t, 3> point(unsigned i) { return {i / 21, i / 3 % 7, i % 3}; }

int64_t floorDivide(int64_t a, int64_t b) { return int64_t(std::floor(double(a) / double(b))); }

int64_t loaded(llvm::ArrayRef<int64_t> at) { return (at[0] * 31 + at[1] * 17 + at[2] * 7) % 11 - 5; }

class Generator {
public:
  Generator(Context &context, unsigned seed) : context(context), random(seed) {}

  Pair integer(int depth) {
    switch (depth == 0 ? pick(4) : pick(14)) {
    case 0:
    case 1: {
      unsigned axis = pick(3);
      return leaf(context.coord(axis, kShape[axis]), [&](auto at) { return at[axis]; });
    }
    case 2: {
      int64_t k = int64_t(pick(13)) - 6;
      return leaf(context.intConst(k), [&](auto) { return k; });
    }
    case 3: {
      Ref c[] = {context.coord(0, 5), context.coord(1, 7), context.coord(2, 3)};
      return leaf(context.load(Kind::Int, 0, c), [&](auto at) { return loaded(at); });
    }
    case 4:
    case 5:
      return binary(depth, [&](Ref a, Ref b) { return context.add(a, b); }, [](int64_t a, int64_t b) { return a + b; });
    case 6:
      return binary(depth, [&](Ref a, Ref b) { return context.sub(a, b); }, [](int64_t a, int64_t b) { return a - b; });
    case 7:
      return binary(depth, [&](Ref a, Ref b) { return context.mul(a, b); }, [](int64_t a, int64_t b) { return a * b; });
    case 8: {
      int64_t k = 1 + pick(9);
      return unary(depth, [&](Ref a) { return context.floorDiv(a, context.intConst(k)); },
                   [&](int64_t a) { return floorDivide(a, k); });
    }
    case 9: {
      int64_t k = 1 + pick(9);
      return unary(depth, [&](Ref a) { return context.floorMod(a, context.intConst(k)); },
                   [&](int64_t a) { return a - floorDivide(a, k) * k; });
    }
    case 10: {
      int64_t k = 1 + pick(9);
      bool mod = pick(2);
      return unary(depth,
                   [&](Ref a) {
                     return mod ? context.truncMod(a, context.intConst(k)) : context.truncDiv(a, context.intConst(k));
                   },
                   [&](int64_t a) { return mod ? a % k : a / k; });
    }
    case 11:
      return pick(2) ? binary(depth, [&](Ref a, Ref b) { return context.min(a, b); },
                              [](int64_t a, int64_t b) { return std::min(a, b); })
                     : binary(depth, [&](Ref a, Ref b) { return context.max(a, b); },
                              [](int64_t a, int64_t b) { return std::max(a, b); });
    case 12: {
      Pair c = boolean(depth - 1), a = integer(depth - 1), b = integer(depth - 1);
      Pair result{context.select(c.node, a.node, b.node), {}};
      for (unsigned i = 0; i < kPoints; ++i)
        result.values.push_back(c.values[i] ? a.values[i] : b.values[i]);
      return result;
    }
    default: {
      Pair a = boolean(depth - 1);
      a.node = context.cast(a.node, Kind::Int);
      return a;
    }
    }
  }

  Pair boolean(int depth) {
    switch (depth == 0 ? pick(3) : pick(7)) {
    case 0:
      return binary(depth, [&](Ref a, Ref b) { return context.le(a, b); }, [](int64_t a, int64_t b) { return a <= b; });
    case 1:
      return binary(depth, [&](Ref a, Ref b) { return context.lt(a, b); }, [](int64_t a, int64_t b) { return a < b; });
    case 2:
      return binary(depth, [&](Ref a, Ref b) { return context.eq(a, b); }, [](int64_t a, int64_t b) { return a == b; });
    case 3:
    case 4: {
      Pair a = boolean(depth - 1), b = boolean(depth - 1), c = boolean(depth - 1);
      bool conjunction = pick(2);
      Pair result{conjunction ? context.andOf({a.node, b.node, c.node}) : context.orOf({a.node, b.node, c.node}), {}};
      for (unsigned i = 0; i < kPoints; ++i)
        result.values.push_back(conjunction ? a.values[i] && b.values[i] && c.values[i]
                                            : a.values[i] || b.values[i] || c.values[i]);
      return result;
    }
    case 5: {
      Pair a = boolean(depth - 1);
      a.node = context.notOf(a.node);
      for (int64_t &v : a.values)
        v = !v;
      return a;
    }
    default: {
      Pair a = integer(depth - 1);
      a.node = context.cast(a.node, Kind::Bool);
      for (int64_t &v : a.values)
        v = v != 0;
      return a;
    }
    }
  }

private:
  unsigned pick(unsigned n) { return random() % n; }

  template <typename Value> Pair leaf(Ref node, Value value) {
    Pair result{node, {}};
    for (unsigned i = 0; i < kPoints; ++i)
      result.values.push_back(value(point(i)));
    return result;
  }
  template <typename Build, typename Value> Pair unary(int depth, Build build, Value value) {
    Pair a = integer(std::max(depth - 1, 0));
    a.node = build(a.node);
    for (int64_t &v : a.values)
      v = value(v);
    return a;
  }
  template <typename Build, typename Value> Pair binary(int depth, Build build, Value value) {
    Pair a = integer(std::max(depth - 1, 0)), b = integer(std::max(depth - 1, 0));
    Pair result{build(a.node, b.node), {}};
    for (unsigned i = 0; i < kPoints; ++i)
      result.values.push_back(value(a.values[i], b.values[i]));
    return result;
  }

  Context &context;
  std::mt19937 random;
};

Scalar loadScalar(Ref, llvm::ArrayRef<int64_t> at) { return {loaded(at), 0}; }

TEST(IndexExpr, SimplificationKeepsValues) {
  unsigned folded = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Context context;
    Generator generator(context, seed);
    Pair pair = seed % 2 ? generator.boolean(4) : generator.integer(4);
    folded += isConst(pair.node);
    for (unsigned i = 0; i < kPoints; ++i) {
      auto at = point(i);
      int64_t got = evaluate(pair.node, at, loadScalar).i;
      ASSERT_EQ(got, pair.values[i]) << "seed " << seed << " at " << at[0] << "," << at[1] << "," << at[2] << ": "
                                     << toString(pair.node);
      if (pair.node->kind == Kind::Int) {
        ASSERT_GE(got, pair.node->lo) << toString(pair.node);
        ASSERT_LE(got, pair.node->hi) << toString(pair.node);
      }
    }
  }
  EXPECT_GT(folded, 20u) << "nothing is ever simplified to a constant";
}

TEST(IndexExpr, SubstitutionKeepsValues) {
  // [5, 7, 3] read through a slice from (1, 2, 0) of size (3, 4, 3) with axes 0 and 2 exchanged.
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Context context;
    Generator generator(context, seed + 77777);
    Pair pair = generator.integer(4);
    Ref moved = context.substitute(pair.node, [&](unsigned axis, int64_t) {
      if (axis == 0)
        return context.addConst(context.coord(2, 3), 1);
      if (axis == 1)
        return context.addConst(context.coord(1, 4), 2);
      return context.coord(0, 3);
    });
    for (int64_t a = 0; a < 3; ++a)
      for (int64_t b = 0; b < 4; ++b)
        for (int64_t c = 0; c < 3; ++c)
          ASSERT_EQ(evaluate(moved, {a, b, c}, loadScalar).i, pair.values[(c + 1) * 21 + (b + 2) * 3 + a])
              << "seed " << seed << ": " << toString(pair.node) << " became " << toString(moved);
  }
}

TEST(IndexExpr, ReshapeAndBack) {
  Context context;
  int64_t batch = 4, seq = int64_t(1) << 20;
  Ref flat = context.coord(0, batch * seq), size = context.intConst(seq);
  Ref loads[] = {context.floorDiv(flat, size), context.floorMod(flat, size)};
  Ref load = context.load(Kind::Int, 0, loads);
  Ref back = context.substitute(load, [&](unsigned, int64_t) {
    return context.linear({{seq, context.coord(0, batch)}, {1, context.coord(1, seq)}}, 0);
  });
  EXPECT_EQ(toString(back), "load0[d0, d1]");
  EXPECT_EQ(context.linear({{seq, loads[0]}, {1, loads[1]}}, 0), flat);
}

TEST(IndexExpr, CausalMaskHasOneForm) {
  Context context;
  int64_t seq = int64_t(1) << 20;
  Ref q = context.coord(2, seq), k = context.coord(3, seq);
  Ref causal = context.le(k, q);
  EXPECT_EQ(causal, context.notOf(context.lt(q, k)));
  // Where(Equal(Trilu(1), 0), false, true)
  Ref one = context.floatConst(Kind::F32, 1), zero = context.floatConst(Kind::F32, 0);
  Ref trilu = context.select(causal, one, zero);
  Ref masked = context.select(context.fcmp(FOp::Eq, trilu, zero), context.boolConst(false), context.boolConst(true));
  EXPECT_EQ(masked, causal);
  EXPECT_EQ(toString(context.lt(context.addConst(q, -128), k)), "(d2 - d3 - 127) <= 0");
}

TEST(IndexExpr, PackedSequenceTestFolds) {
  // diff(positions, prepend = positions[:1] - 1) == 1 everywhere.
  Context context;
  int64_t seq = 1000;
  Ref d = context.coord(1, seq + 1);
  Ref concat = context.select(context.lt(d, context.intConst(1)), context.intConst(-1), context.addConst(d, -1));
  auto slice = [&](int64_t from) {
    return context.substitute(concat, [&](unsigned, int64_t) { return context.addConst(context.coord(1, seq), from); });
  };
  Ref different = context.notOf(context.eq(context.sub(slice(1), slice(0)), context.intConst(1)));
  EXPECT_EQ(different, context.boolConst(false));
}

TEST(IndexExpr, IntegersWrapLikeHardware) {
  Context context;
  int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(context.add(context.intConst(max), context.intConst(1))->imm, std::numeric_limits<int64_t>::min());
  Ref d = context.coord(0, 10);
  EXPECT_EQ(context.le(d, context.intConst(max)), context.boolConst(true));
  EXPECT_EQ(context.lt(d, context.intConst(std::numeric_limits<int64_t>::min())), context.boolConst(false));
  // A sum that may leave 64 bits decides nothing.
  Ref big = context.linear({{max, d}}, 5);
  EXPECT_EQ(context.le(big, context.intConst(0))->op, Op::Le0);
}

TEST(IndexExpr, FloatsRoundToTheirType) {
  Context context;
  Ref third = context.fbinary(FOp::Div, context.floatConst(Kind::F32, 1), context.floatConst(Kind::F32, 3));
  EXPECT_EQ(third->fimm, double(1.0f / 3.0f));
  EXPECT_EQ(context.cast(context.intConst(16777217), Kind::F32)->fimm, 16777216.0);
  EXPECT_EQ(context.cast(context.floatConst(Kind::F32, -2.75), Kind::Int)->imm, -2);
  EXPECT_EQ(context.cast(context.floatConst(Kind::F32, -INFINITY), Kind::Int)->imm, std::numeric_limits<int64_t>::min());
  Ref nan = context.floatConst(Kind::F32, NAN);
  EXPECT_EQ(context.fcmp(FOp::Eq, nan, nan), context.boolConst(false));
}

TEST(IndexExpr, KnownRangesOfLoadsKeepValues) {
  unsigned narrower = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Context context;
    context.setRootRange(1, -5, 5);
    Generator generator(context, seed + 5555);
    Pair pair = seed % 2 ? generator.boolean(4) : generator.integer(4);
    Ref known = context.replaceLoads(pair.node, [&](Ref load) { return context.load(load->kind, 1, load->args); });
    narrower += known->lo > pair.node->lo || known->hi < pair.node->hi;
    for (unsigned i = 0; i < kPoints; ++i) {
      int64_t got = evaluate(known, point(i), loadScalar).i;
      ASSERT_EQ(got, pair.values[i]) << "seed " << seed << ": " << toString(pair.node) << " became " << toString(known);
      if (known->kind == Kind::Int) {
        ASSERT_GE(got, known->lo) << toString(known);
        ASSERT_LE(got, known->hi) << toString(known);
      }
    }
  }
  EXPECT_GT(narrower, 20u);
}

TEST(IndexExpr, WholeNumbersInFloatsAreIntegers) {
  Context context;
  Ref d = context.coord(0, 100), x = context.cast(d, Kind::F32), one = context.floatConst(Kind::F32, 1);
  // int(float(d + 1) * 1 - 1), OPT's positions.
  Ref counted = context.cast(context.addConst(d, 1), Kind::F32);
  Ref position = context.fbinary(FOp::Sub, context.fbinary(FOp::Mul, counted, one), one);
  EXPECT_EQ(context.cast(position, Kind::Int), d);
  EXPECT_EQ(context.cast(context.fbinary(FOp::Mul, x, x), Kind::Int), context.mul(d, d));
  // A fraction, a sum that needs rounding, and a product that may be -0 stay as they are.
  EXPECT_EQ(context.fbinary(FOp::Add, x, context.floatConst(Kind::F32, 0.5))->op, Op::FBinary);
  EXPECT_EQ(context.fbinary(FOp::Add, x, context.floatConst(Kind::F32, 16777200))->op, Op::FBinary);
  EXPECT_EQ(context.fbinary(FOp::Mul, x, context.floatConst(Kind::F32, -2))->op, Op::FBinary);
  EXPECT_EQ(context.fbinary(FOp::Add, x, context.floatConst(Kind::F32, -0.0))->op, Op::FBinary);
}

TEST(IndexExpr, DivisionByZeroIsZero) {
  Context context;
  Ref at[] = {context.coord(0, 5), context.coord(1, 7), context.coord(2, 3)};
  Ref load = context.load(Kind::Int, 0, at), five = context.intConst(5);
  auto divisor = [](int64_t value) { return [value](Ref, llvm::ArrayRef<int64_t>) { return Scalar{value, 0}; }; };
  for (auto build : {&Context::floorDiv, &Context::floorMod, &Context::truncDiv, &Context::truncMod}) {
    Ref node = (context.*build)(five, load);
    EXPECT_EQ(evaluate(node, {0, 0, 0}, divisor(0)).i, 0);
    EXPECT_EQ(evaluate(node, {0, 0, 0}, divisor(5)).i, build == &Context::floorDiv || build == &Context::truncDiv ? 1 : 0);
  }
}

} // namespace
