//===- SmallProblem.h - Steps small enough for all plans --------*- C++ -*-===//

#ifndef FOREBAY_TEST_UNIT_PLANNING_SMALLPROBLEM_H
#define FOREBAY_TEST_UNIT_PLANNING_SMALLPROBLEM_H

#include "RandomProblem.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace forebay::planning::test {

/// 2^x for x even in [from, to].
inline double logUniform(std::mt19937 &rng, double from, double to) { return std::exp2(from + (to - from) * (rng() % 1024) / 1023.0); }

/// The order of magnitude of a superchip, each rate up to 3.2 times less or more.
inline Machine randomSuperchip(std::mt19937 &rng) {
  auto vary = [&] { return logUniform(rng, -1.68, 1.68); };
  Machine m = superchip();
  if (rng() % 2) {
    m.queues.push_back({"side", true});
    m.sideQueue = 4;
  }
  m.speculation = rng() % 4 > 0;
  m.spaces[0].bandwidth = 3e12 * vary();
  m.spaces[1].bandwidth = rng() % 2 ? 400e9 * vary() : 0;
  MachineQueue &gpu = m.queues[0], &cpu = m.queues[1];
  gpu.launch = 3e-6;
  gpu.bandwidth = m.spaces[0].bandwidth;
  double matmul = 300e12 * vary();
  gpu.rates = {{OpClass::Matmul, DType::BF16, matmul, {}}, {OpClass::Matmul, DType::F32, matmul / 2, {}}};
  cpu.launch = 1e-6;
  cpu.bandwidth = m.spaces[1].bandwidth > 0 ? m.spaces[1].bandwidth * 0.9 : 300e9 * vary();
  cpu.classBandwidth[static_cast<unsigned>(OpClass::Optimizer)] = cpu.bandwidth * 0.8;
  if (m.sideQueue >= 0) {
    MachineQueue side = gpu;
    side.name = "side";
    m.queues[m.sideQueue] = side;
  }
  double link = 200e9 * vary();
  for (uint32_t copy : {m.toCompute, m.toHost}) {
    m.queues[copy].launch = 5e-6;
    m.queues[copy].link.points = {{1 << 16, link / 4}, {1 << 20, link / 2}, {64 << 20, 0.94 * link}, {1ull << 31, link}}; // auto makes no smaller buckets then

  }
  return m;
}

/// A chain of products, some followed by an elementwise operation that backward differentiates from its input; AdamW. As the compiler makes it, in fp32 or mixed precision.
class SmallProblem {
public:
  /// `shrink`: powers of two by which everything is smaller, at most 10.
  explicit SmallProblem(std::mt19937 &rng, double shrink = 0) : rng(rng), shrink(shrink) {
    mixed = rng() % 2;
    unit = mixed ? 2 : 4;
    tokens = static_cast<uint64_t>(logUniform(rng, 9 - shrink / 2, 14 - shrink / 2));
    layers.resize(2 + rng() % 3);
    problem.accumulate = rng() % 8 == 0 ? 2 : 1;
  }

  uint64_t multiple = 1024; ///< of elements that parameters have

  Problem make() {
    uint32_t x = value("x", Role::Input, width() * unit, true);
    for (Layer &l : layers) {
      l.elements = static_cast<uint64_t>(logUniform(rng, 20 - shrink, 26 - shrink)) / multiple * multiple;
      l.parameter = value("w", Role::Parameter, l.elements * 4, true);
    }
    for (Layer &l : layers) {
      l.weight = l.parameter;
      if (mixed) {
        l.weight = value("w16", Role::Parameter, l.elements * 2);
        op(OpKind::CastWeight, Phase::Forward, {l.parameter}, {l.weight}, {OpClass::Cast, DType::BF16, 0, l.elements * 6, 0});
      }
    }
    for (Layer &l : layers) {
      l.in = x;
      l.product = value("y", Role::Activation, width() * unit);
      op(OpKind::Compute, Phase::Forward, {l.in, l.weight}, {l.product}, matmul(l));
      x = l.product;
      if (rng() % 3 == 0) {
        l.out = x = value("z", Role::Activation, problem.values[l.product].bytes);
        op(OpKind::Compute, Phase::Forward, {l.product}, {x}, traffic(2 * problem.values[l.product].bytes));
      }
    }
    uint32_t loss = value("loss", Role::Loss, 4), dx = value("dx", Role::Activation, problem.values[x].bytes);
    op(OpKind::Compute, Phase::Forward, {x}, {loss}, traffic(problem.values[x].bytes));
    problem.outputs.push_back({"loss", loss, Role::Loss});
    op(OpKind::Compute, Phase::Backward, {x}, {dx}, traffic(2 * problem.values[x].bytes));
    for (size_t i = layers.size(); i-- > 0;)
      dx = backward(layers[i], dx);
    finish();
    // Up to five buckets.
    uint64_t bytes = 0;
    for (const Layer &l : layers)
      bytes += l.elements * 4;
    problem.bucketBytes = std::max<uint64_t>(bytes / (2 + rng() % 4) / 4096 * 4096, 4096);
    return std::move(problem);
  }

private:
  struct Layer {
    uint64_t elements = 0;
    uint32_t parameter = 0, weight = 0, in = 0, product = 0, gradient = 0;
    int64_t out = -1;
  };

  uint32_t value(std::string label, Role role, uint64_t bytes, bool argument = false) {
    problem.values.push_back({label + std::to_string(problem.values.size()), role, bytes});
    uint32_t v = problem.values.size() - 1;
    if (argument)
      problem.arguments.push_back({v, -1});
    return v;
  }
  ProblemOp &op(OpKind kind, Phase phase, std::vector<uint32_t> operands, std::vector<uint32_t> results, Cost cost) {
    ProblemOp o;
    o.kind = kind;
    o.phase = phase;
    o.label = "op" + std::to_string(problem.ops.size());
    o.operands = std::move(operands);
    o.results = std::move(results);
    o.kernel = 0;
    o.tiles = {1};
    o.cost = cost;
    problem.ops.push_back(std::move(o));
    return problem.ops.back();
  }
  /// Elements of an activation: not all layers are equally wide.
  uint64_t width() { return tokens * static_cast<uint64_t>(logUniform(rng, 9 - shrink / 2, 14 - shrink / 2)); }
  Cost matmul(const Layer &l) const {
    return {OpClass::Matmul, mixed ? DType::BF16 : DType::F32, 2.0 * tokens * l.elements, l.elements * unit, std::min<uint64_t>(tokens, 1024)};
  }
  Cost traffic(uint64_t bytes) const { return {OpClass::Elementwise, mixed ? DType::BF16 : DType::F32, 0, bytes, 0}; }

  uint32_t backward(Layer &l, uint32_t dx) {
    if (l.out >= 0) {
      uint32_t dy = value("dy", Role::Activation, problem.values[l.product].bytes);
      op(OpKind::Compute, Phase::Backward, {dx, l.product}, {dy}, traffic(3 * problem.values[dy].bytes));
      dx = dy;
    }
    l.gradient = value("dw", Role::Activation, l.elements * unit);
    op(OpKind::Compute, Phase::Backward, {dx, l.in}, {l.gradient}, matmul(l));
    uint32_t next = value("dx", Role::Activation, problem.values[l.in].bytes);
    op(OpKind::Compute, Phase::Backward, {dx, l.weight}, {next}, matmul(l));
    return next;
  }

  void finish() {
    uint32_t scalars = value("scalars", Role::Control, 32), verdict = value("verdict", Role::Control, 16);
    std::vector<std::array<uint32_t, 2>> states;
    for (const Layer &l : layers) {
      uint32_t m = value("m", Role::Moment, l.elements * 4, true);
      states.push_back({m, value("v", Role::Moment, l.elements * 4, true)});
    }
    std::vector<uint32_t> sums, partials;
    for (const Layer &l : layers) {
      uint32_t sum = l.gradient;
      auto count = static_cast<int64_t>(l.elements);
      if (mixed) {
        sum = value("dw32", Role::Gradient, l.elements * 4);
        op(OpKind::CastGradient, Phase::Backward, {l.gradient}, {sum}, {OpClass::Cast, DType::BF16, 0, l.elements * 6, 0});
      }
      if (problem.accumulate > 1) {
        uint32_t accumulator = value("acc", Role::Accumulator, l.elements * 4, true), total = value("sum", Role::Accumulator, l.elements * 4);
        problem.arguments.back().donated = total;
        ProblemOp &o = op(OpKind::Accumulate, Phase::Accumulate, {accumulator, sum}, {total}, {OpClass::Elementwise, DType::F32, 0, l.elements * 12, 0});
        o.inplace = {0};
        o.params = {count, problem.accumulate, 65536};
        sum = total;
      }
      partials.push_back(value("partials", Role::Control, (l.elements + 1023) / 1024 * 4));
      op(OpKind::NormPartials, Phase::Verdict, {sum}, {partials.back()}, {OpClass::Reduction, DType::F32, 0, l.elements * 4, 0}).params = {count, problem.accumulate, 65536};
      sums.push_back(sum);
    }
    op(OpKind::Verdict, Phase::Verdict, partials, {verdict}, Cost());
    op(OpKind::Scalars, Phase::Update, {}, {scalars}, Cost()).group = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      std::vector<uint32_t> replaced{layers[i].parameter, states[i][0], states[i][1]}, results;
      for (uint32_t old : replaced) {
        results.push_back(value("new", problem.values[old].role, problem.values[old].bytes));
        for (ProblemArgument &a : problem.arguments)
          if (a.value == old)
            a.donated = results.back();
      }
      ProblemOp &o = op(OpKind::Update, Phase::Update, {replaced[0], sums[i], replaced[1], replaced[2], scalars, verdict}, results,
                        {OpClass::Optimizer, DType::F32, 12.0 * layers[i].elements, 28 * layers[i].elements, 0});
      o.inplace = {0, 2, 3};
      o.params = {0, static_cast<int64_t>(layers[i].elements), 16384};
    }
  }

  std::mt19937 &rng;
  const double shrink;
  bool mixed;
  uint64_t unit, tokens;
  Problem problem;
  std::vector<Layer> layers;
};

} // namespace forebay::planning::test

#endif
