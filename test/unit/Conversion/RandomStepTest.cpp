//===- RandomStepTest.cpp - Steps made at random --------------------------===//
//
// Chains of elementwise operations, views, reductions, products and concatenations of small odd shapes: whatever is fused, copied
// or followed by strides, the values are the reference interpreter's.
//
//===----------------------------------------------------------------------===//

#include "StepRunner.h"

#include <gtest/gtest.h>
#include <random>

using namespace forebay::test;

namespace {

using Shape = std::vector<int64_t>;

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  std::string step() {
    std::string arguments;
    for (int i = 0; i < 3; ++i) {
      Shape shape = randomShape();
      std::string name = "%a" + std::to_string(i);
      arguments += (i ? ", " : "") + name + ": " + type(shape);
      values.push_back({name, shape});
    }
    for (int i = 0; i < 14; ++i)
      add();
    std::string results, types;
    for (int i = 0; i < 4; ++i) {
      Value value = pick();
      results += (i ? ", " : "") + value.name;
      types += (i ? ", " : "") + type(value.shape);
    }
    return "func.func @step(" + arguments + ") -> (" + types + ") {\n%zero = arith.constant 0.0 : f32\n" + body + "return " + results +
           " : " + types + "\n}\n";
  }

private:
  struct Value {
    std::string name;
    Shape shape;
  };

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  /// Mostly the newer values, so that chains are long.
  Value pick() { return values[values.size() - 1 - std::min<int64_t>(below(int64_t(values.size())), below(int64_t(values.size())))]; }
  static int64_t product(const Shape &shape) {
    int64_t result = 1;
    for (int64_t size : shape)
      result *= size;
    return result;
  }
  Shape randomShape() {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 33};
    Shape shape(1 + below(3));
    for (int64_t &size : shape)
      size = sizes[below(8)];
    return shape;
  }
  static std::string list(const Shape &shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); ++i)
      text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
  }
  static std::string type(const Shape &shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f32>";
  }
  std::string fresh() { return "%v" + std::to_string(next++); }
  void emit(const Shape &shape, const std::string &text) {
    std::string name = fresh();
    body += name + " = " + text + "\n";
    values.push_back({name, shape});
  }
  std::string empty(const Shape &shape) {
    std::string name = fresh();
    body += name + " = tensor.empty() : " + type(shape) + "\n";
    return name;
  }
  std::string zeros(const Shape &shape) {
    std::string init = empty(shape), name = fresh();
    body += name + " = linalg.fill ins(%zero : f32) outs(" + init + " : " + type(shape) + ") -> " + type(shape) + "\n";
    return name;
  }
  static std::string oneToOne(size_t first, size_t last) {
    std::string text = "[";
    for (size_t i = first; i < last; ++i)
      text += (i > first ? ", " : "") + std::to_string(i);
    return text + "]";
  }

  void add() {
    Value x = pick();
    size_t rank = x.shape.size();
    switch (below(13)) {
    case 0:
      return emit(x.shape, "math.tanh " + x.name + " : " + type(x.shape));
    case 1:
      return emit(x.shape, "math.absf " + x.name + " : " + type(x.shape));
    case 2:
    case 3: { // with a value of the same shape, or itself
      std::vector<Value> same;
      for (const Value &value : values)
        if (value.shape == x.shape)
          same.push_back(value);
      const char *ops[] = {"arith.addf ", "arith.subf ", "arith.mulf ", "arith.maximumf "};
      std::string other = same[below(int64_t(same.size()))].name, product = ops[below(4)] + x.name + ", " + other;
      return emit(x.shape, product + " : " + type(x.shape));
    }
    case 4: { // transpose (upstream's verifier does not survive rank 0)
      if (rank == 0)
        return;
      Shape perm(rank), shape;
      for (size_t i = 0; i < rank; ++i)
        perm[i] = int64_t(i);
      std::shuffle(perm.begin(), perm.end(), random);
      for (int64_t dim : perm)
        shape.push_back(x.shape[dim]);
      std::string init = empty(shape);
      return emit(shape, "linalg.transpose ins(" + x.name + " : " + type(x.shape) + ") outs(" + init + " : " + type(shape) + ") permutation = " + list(perm));
    }
    case 5: { // join two dimensions
      if (rank < 2)
        return;
      size_t dim = below(int64_t(rank) - 1);
      Shape shape;
      std::string groups;
      for (size_t i = 0; i < rank; ++i) {
        bool first = i == dim;
        shape.push_back(first ? x.shape[i] * x.shape[i + 1] : x.shape[i]);
        groups += (i ? ", " : "") + oneToOne(i, i + 1 + first);
        i += first;
      }
      return emit(shape, "tensor.collapse_shape " + x.name + " [" + groups + "] : " + type(x.shape) + " into " + type(shape));
    }
    case 6: { // split one
      if (rank == 0 || rank > 4)
        return;
      size_t dim = below(int64_t(rank));
      int64_t size = x.shape[dim], factor = size % 3 == 0 ? 3 : size % 2 == 0 ? 2 : 1;
      Shape shape;
      std::string groups;
      for (size_t i = 0; i < rank; ++i) {
        size_t at = shape.size();
        if (i == dim) {
          shape.push_back(factor);
          shape.push_back(size / factor);
        } else {
          shape.push_back(x.shape[i]);
        }
        groups += (i ? ", " : "") + oneToOne(at, shape.size());
      }
      return emit(shape, "tensor.expand_shape " + x.name + " [" + groups + "] output_shape " + list(shape) + " : " + type(x.shape) + " into " + type(shape));
    }
    case 7: { // slice
      Shape offsets, sizes, steps(rank, 1);
      for (int64_t size : x.shape) {
        offsets.push_back(below(size));
        sizes.push_back(1 + below(size - offsets.back()));
      }
      return emit(sizes, "tensor.extract_slice " + x.name + list(offsets) + " " + list(sizes) + " " + list(steps) + " : " + type(x.shape) + " to " + type(sizes));
    }
    case 8: { // broadcast along a new dimension
      if (rank > 3 || product(x.shape) > 2000)
        return;
      int64_t dim = below(int64_t(rank) + 1);
      Shape shape = x.shape;
      shape.insert(shape.begin() + dim, 1 + below(5));
      std::string init = empty(shape);
      return emit(shape, "linalg.broadcast ins(" + x.name + " : " + type(x.shape) + ") outs(" + init + " : " + type(shape) + ") dimensions = " + list({dim}));
    }
    case 9: { // sum
      Shape dims, shape;
      for (size_t i = 0; i < rank; ++i)
        below(2) ? dims.push_back(int64_t(i)) : shape.push_back(x.shape[i]);
      if (dims.empty())
        return;
      std::string init = zeros(shape);
      return emit(shape, "linalg.reduce { arith.addf } ins(" + x.name + " : " + type(x.shape) + ") outs(" + init + " : " + type(shape) + ") dimensions = " + list(dims));
    }
    case 10: { // concatenation with itself and another of the same shape
      if (rank == 0 || product(x.shape) > 2000)
        return;
      int64_t dim = below(int64_t(rank));
      Shape shape = x.shape;
      shape[dim] *= 2;
      return emit(shape, "tensor.concat dim(" + std::to_string(dim) + ") " + x.name + ", " + x.name + " : (" + type(x.shape) + ", " + type(x.shape) + ") -> " + type(shape));
    }
    case 11: // softmax: keeps values small
      if (rank == 0)
        return;
      return emit(x.shape, "train.softmax " + x.name + " : " + type(x.shape));
    case 12: { // product of two matrices (last two dimensions) that share a size
      if (rank != 2)
        return;
      for (const Value &y : values) {
        if (y.shape.size() != 2 || y.name == x.name)
          continue;
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 2; ++j)
            if (x.shape[i] == y.shape[j]) {
              Shape shape{x.shape[1 - i], y.shape[1 - j]};
              std::string init = zeros(shape);
              std::string mapA = i == 0 ? "(k, m)" : "(m, k)", mapB = j == 0 ? "(k, n)" : "(n, k)";
              auto map = [](const std::string &results) { return "affine_map<(m, n, k) -> " + results + ">"; };
              return emit(shape, "linalg.contract indexing_maps = [" + map(mapA) + ", " + map(mapB) + ", " + map("(m, n)") + "] ins(" + x.name + ", " + y.name + " : " + type(x.shape) + ", " + type(y.shape) + ") outs(" + init + " : " + type(shape) + ") -> " + type(shape));
            }
      }
      return;
    }
    }
  }

  std::mt19937 random;
  std::vector<Value> values;
  std::string body;
  int next = 0;
};

class RandomStep : public testing::TestWithParam<unsigned> {};

} // namespace

TEST_P(RandomStep, MatchesReference) {
  for (unsigned i = 0; i < 20; ++i) {
    std::string text = Generator(GetParam() * 1000 + i).step();
    SCOPED_TRACE(text);
    StepRunner runner(text);
    runner.compare(i, 1e-3);
    if (HasFatalFailure() || !runner.valid())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomStep, testing::Range(0u, 4u));
