//===- RandomProblem.h - Steps and machines for planner tests ---*- C++ -*-===//

#ifndef FOREBAY_TEST_UNIT_PLANNING_RANDOMPROBLEM_H
#define FOREBAY_TEST_UNIT_PLANNING_RANDOMPROBLEM_H

#include "forebay/Planning/Layout.h"

#include <random>

namespace forebay::planning::test {

inline Machine superchip() {
  Machine m;
  m.name = "superchip";
  m.spaces = {{"hbm", 1ull << 40}, {"host", 1ull << 40}};
  m.queues = {{"gpu", true}, {"cpu", true}, {"h2d", false}, {"d2h", false}};
  m.computeSpace = 0;
  m.hostSpace = 1;
  m.computeQueue = 0;
  m.hostQueue = 1;
  m.toCompute = 2;
  m.toHost = 3;
  return m;
}

inline Machine cpu() {
  Machine m;
  m.name = "cpu";
  m.spaces = {{"host", 1ull << 40}};
  m.queues = {{"cpu", true}};
  return m;
}

struct Shape {
  unsigned layers = 3;
  unsigned accumulate = 1;
  unsigned states = 2;
  uint64_t width = 64; ///< elements of the widest parameter are up to width * 64
  bool random = true;  ///< else all layers are equal
  uint64_t activationBytes = 4096;
};

/// A chain of layers, each with a weight and a bias; some skip connections, in-place operations, frozen weights, tied weights, equal gradients, gradients
/// that are an argument (of a loss that is linear in the bias).
inline Problem makeProblem(std::mt19937 &rng, Shape shape) {
  auto pick = [&](unsigned n) { return shape.random ? static_cast<unsigned>(rng() % n) : n / 2; };
  Problem p;
  p.accumulate = shape.accumulate;
  p.bucketBytes = 4096ull << pick(5);
  auto value = [&](std::string label, Role role, uint64_t bytes) -> uint32_t {
    p.values.push_back({std::move(label), role, bytes});
    return p.values.size() - 1;
  };
  auto argument = [&](std::string label, Role role, uint64_t bytes) {
    uint32_t v = value(std::move(label), role, bytes);
    p.arguments.push_back({v, -1});
    return v;
  };
  auto op = [&](OpKind kind, Phase phase, std::string label, std::vector<uint32_t> operands, std::vector<uint32_t> results) -> ProblemOp & {
    ProblemOp o;
    o.kind = kind;
    o.phase = phase;
    o.label = std::move(label);
    o.operands = std::move(operands);
    o.results = std::move(results);
    o.kernel = 0;
    o.tiles = {1};
    p.ops.push_back(std::move(o));
    return p.ops.back();
  };

  uint32_t x = argument("x", Role::Input, shape.activationBytes);
  std::vector<uint32_t> weights, gradients;
  struct Layer {
    uint32_t w, b, in;
    bool trained;
    int64_t slope = -1; ///< frozen argument that is the gradient of the bias
  };
  std::vector<Layer> layers;
  uint32_t tied = 0;
  for (unsigned l = 0; l < shape.layers; ++l) {
    std::string n = std::to_string(l);
    uint64_t wide = 4 * (1 + pick(shape.width)) * (1 + pick(64));
    Layer layer;
    layer.w = l > 1 && pick(6) == 0 ? tied : argument("w" + n, Role::Parameter, wide);
    layer.b = argument("b" + n, Role::Parameter, 4 * (1 + pick(shape.width)));
    layer.trained = !shape.random || pick(6) != 0;
    layer.in = x;
    if (l == 0)
      tied = layer.w;
    uint32_t y = value("y" + n, Role::Activation, shape.random ? 64 * (1 + pick(2 * shape.activationBytes / 64)) : shape.activationBytes);
    std::vector<uint32_t> read{x, layer.w, layer.b};
    if (shape.random && layer.trained && pick(8) == 0) {
      layer.slope = argument("slope" + n, Role::Parameter, p.values[layer.b].bytes);
      read.push_back(layer.slope);
    }
    ProblemOp &forward = op(OpKind::Compute, Phase::Forward, "forward" + n, read, {y});
    forward.workspace = pick(2) ? 256 : 0;
    if (pick(2)) {
      uint32_t z = value("z" + n, Role::Activation, p.values[y].bytes);
      op(OpKind::Compute, Phase::Forward, "act" + n, {y}, {z}).inplace = {0};
      y = z;
    }
    x = y;
    layers.push_back(layer);
  }
  uint32_t loss = value("loss", Role::Loss, 4), dy = value("dy", Role::Activation, p.values[x].bytes);
  op(OpKind::Compute, Phase::Forward, "loss", {x}, {loss});
  p.outputs.push_back({"loss", loss, Role::Loss});
  if (pick(2))
    p.outputs.push_back({"y", x, Role::Output});
  op(OpKind::Compute, Phase::Backward, "dloss", {x}, {dy});

  std::vector<std::pair<uint32_t, uint32_t>> trained; // parameter, gradient
  for (size_t l = layers.size(); l-- > 0;) {
    const Layer &layer = layers[l];
    std::string n = std::to_string(l);
    uint32_t dx = value("dx" + n, Role::Activation, p.values[layer.in].bytes);
    if (layer.trained) {
      uint32_t db = layer.slope;
      if (layer.slope < 0) {
        db = value("db" + n, Role::Activation, p.values[layer.b].bytes);
        op(OpKind::Compute, Phase::Backward, "db" + n, {dy}, {db});
      }
      trained.push_back({layer.b, db});
      bool known = false;
      for (auto &t : trained)
        known |= t.first == layer.w;
      if (!known) {
        uint32_t dw = value("dw" + n, Role::Activation, p.values[layer.w].bytes);
        op(OpKind::Compute, Phase::Backward, "dw" + n, {dy, layer.in}, {dw}).cost.flops = 1;
        trained.push_back({layer.w, dw});
      }
    }
    ProblemOp &back = op(OpKind::Compute, Phase::Backward, "back" + n, {dy, layer.slope < 0 ? layer.w : static_cast<uint32_t>(layer.slope), layer.in}, {dx});
    if (p.values[dy].bytes == p.values[dx].bytes && pick(2))
      back.inplace = {0};
    dy = dx;
  }
  // Biases of equal size share a gradient now and then.
  for (size_t i = 1; i < trained.size(); ++i)
    if (p.values[trained[i].first].bytes == p.values[trained[0].first].bytes && pick(2))
      trained[i].second = trained[0].second;

  uint32_t scalars = value("scalars", Role::Control, 32), verdict = value("verdict", Role::Control, 16);
  std::vector<uint32_t> partials, sums;
  std::vector<std::vector<uint32_t>> states;
  // Arguments in the order of the parameters.
  for (auto &[w, g] : trained) {
    states.emplace_back();
    for (unsigned s = 0; s < shape.states; ++s)
      states.back().push_back(argument(p.values[w].label + "/s" + std::to_string(s), Role::Moment, p.values[w].bytes));
  }
  for (size_t i = 0; i < trained.size(); ++i) {
    auto [w, g] = trained[i];
    int64_t count = p.values[w].bytes / 4;
    if (shape.accumulate > 1) {
      uint32_t acc = argument(p.values[w].label + "/grad", Role::Accumulator, p.values[w].bytes);
      uint32_t sum = value(p.values[w].label + " sum", Role::Accumulator, p.values[w].bytes);
      ProblemOp &o = op(OpKind::Accumulate, Phase::Accumulate, "accumulate " + p.values[w].label, {acc, g}, {sum});
      o.inplace = {0};
      o.params = {count, 1, 65536};
      p.arguments.back().donated = sum;
      g = sum;
    }
    uint32_t part = value(p.values[w].label + " partials", Role::Control, (count + 1023) / 1024 * 4);
    op(OpKind::NormPartials, Phase::Verdict, "norm " + p.values[w].label, {g}, {part}).params = {count, 1, 65536};
    partials.push_back(part);
    sums.push_back(g);
  }
  op(OpKind::Verdict, Phase::Verdict, "norm", partials, {verdict});
  op(OpKind::Scalars, Phase::Update, "scalars", {}, {scalars}).group = 0;
  for (size_t i = 0; i < trained.size(); ++i) {
    uint32_t w = trained[i].first;
    std::vector<uint32_t> operands{w, sums[i]}, results;
    operands.insert(operands.end(), states[i].begin(), states[i].end());
    operands.push_back(scalars);
    operands.push_back(verdict);
    std::vector<int32_t> inplace;
    for (unsigned r = 0; r <= shape.states; ++r) {
      results.push_back(value("new", Role::Parameter, p.values[w].bytes));
      inplace.push_back(r == 0 ? 0 : r + 1);
      uint32_t replaced = r == 0 ? w : states[i][r - 1];
      for (ProblemArgument &a : p.arguments)
        if (a.value == replaced)
          a.donated = results.back();
    }
    ProblemOp &o = op(OpKind::Update, Phase::Update, "update " + p.values[w].label, operands, results);
    o.inplace = inplace;
    int64_t count = p.values[w].bytes / 4;
    o.params = {0, count, 16384};
  }
  return p;
}

/// Work of the size of the operands, so that every queue and channel has something to do.
inline void addWork(std::mt19937 &rng, Problem &problem) {
  for (ProblemOp &op : problem.ops) {
    if (op.kind == OpKind::Verdict || op.kind == OpKind::Scalars)
      continue;
    for (const auto *list : {&op.operands, &op.results})
      for (uint32_t v : *list)
        op.cost.bytes += problem.values[v].bytes;
    bool product = op.kind == OpKind::Compute && rng() % 2;
    op.cost.cls = product ? OpClass::Matmul : op.kind == OpKind::Update ? OpClass::Optimizer : OpClass::Elementwise;
    op.cost.flops = op.cost.bytes * (product ? 20. + rng() % 100 : 1.);
    op.cost.width = product ? 64 << rng() % 4 : 0;
  }
}

/// What the module level makes of commands, as far as the verifier looks.
inline Program makeProgram(const Machine &machine, const Problem &problem, const Schedule &schedule, const Layout &layout,
                           std::vector<Command> commands, uint32_t events) {
  Program p;
  for (size_t i = 0; i < machine.spaces.size(); ++i)
    p.spaces.push_back({machine.spaces[i].name, layout.spaces[i].arenaBytes, machine.spaces[i].capacity});
  for (const MachineQueue &q : machine.queues)
    p.queues.push_back({q.name, q.compute});
  p.kernels = {{"k", false}};
  p.groups = {Group()};
  p.scalarResults = 8;
  p.accumulate = problem.accumulate;
  p.events = events;
  std::vector<int32_t> tensorOf(schedule.buffers.size(), -1);
  auto tensor = [&](uint32_t b, Role role) {
    Tensor t{};
    t.name = schedule.buffers[b].label;
    t.role = role;
    t.type = DType::U8;
    t.space = schedule.buffers[b].space;
    t.offset = layout.buffers[b].offset;
    t.bytes = schedule.buffers[b].bytes;
    t.shape = {static_cast<int64_t>(t.bytes)};
    p.tensors.push_back(t);
    return static_cast<int32_t>(p.tensors.size() - 1);
  };
  for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
    if (schedule.buffers[b].persistent)
      tensorOf[b] = tensor(b, schedule.buffers[b].role);
  for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
    if (int32_t of = schedule.buffers[b].copyOf; tensorOf[b] >= 0 && of >= 0)
      p.tensors[tensorOf[b]].copyOf = tensorOf[of];
    else if (!schedule.buffers[b].initial.empty())
      p.tensors[tensorOf[b]].initial.resize(schedule.buffers[b].bytes);
  std::vector<int32_t> outputs;
  for (const ScheduledOutput &o : schedule.outputs)
    outputs.push_back(tensor(o.buffer, o.role));
  for (Command &c : commands) {
    if (c.kind == CommandKind::Feed)
      c.index = tensorOf[c.index];
    if (c.kind == CommandKind::Report)
      c.index = outputs[c.index];
  }
  p.step = std::move(commands);
  return p;
}

} // namespace forebay::planning::test

#endif
