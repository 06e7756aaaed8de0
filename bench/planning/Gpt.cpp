//===- Gpt.cpp - Training steps of GPTs as planning problems --------------===//

#include "Gpt.h"

#include <algorithm>
#include <array>

using namespace forebay;
using namespace forebay::bench;
using namespace forebay::planning;

namespace {

class Maker {
public:
  explicit Maker(const GptShape &shape) : s(shape), unit(shape.mixed ? 2 : 4), type(shape.mixed ? DType::BF16 : DType::F32), t(shape.tokens()), h(shape.hidden) {}

  Problem run() {
    problem.accumulate = s.accumulate;
    uint32_t ids = argument("ids", Role::Input, 8 * t);
    uint32_t table = parameter("embedding", s.vocabulary * h);
    layers.resize(s.layers);
    for (uint64_t l = 0; l < s.layers; ++l)
      declare(layers[l], std::to_string(l));
    castAll();
    // A row is read and written for each token.
    uint32_t x = activation("x0", h);
    op(Phase::Forward, "embedding", {ids, compute[table]}, {x}, traffic(OpClass::Gather, 2 * t * h * unit));
    for (uint64_t l = 0; l < s.layers; ++l)
      x = forward(layers[l], std::to_string(l), x);
    uint32_t final = activation("final", h), loss = value("loss", Role::Loss, 4);
    op(Phase::Forward, "final norm", {x}, {final}, traffic(OpClass::Reduction, 2 * t * h * unit));
    // Logits exist for a block of tokens at a time, in workspace.
    Cost head = matmul(t, s.vocabulary, h);
    op(Phase::Forward, "head", {final, compute[table], ids}, {loss}, head).workspace = logits();
    problem.outputs.push_back({"loss", loss, Role::Loss});

    uint32_t dfinal = activation("dfinal", h), dtable = activation("dtable0", 0, s.vocabulary * h * unit);
    op(Phase::Backward, "head d", {final, compute[table], ids}, {dfinal}, head).workspace = logits();
    op(Phase::Backward, "head dw", {final, compute[table], ids}, {dtable}, matmul(s.vocabulary, h, t)).workspace = logits();
    uint32_t dx = activation("dx", h);
    op(Phase::Backward, "final norm d", {dfinal, x}, {dx}, traffic(OpClass::Reduction, 3 * t * h * unit));
    for (uint64_t l = s.layers; l-- > 0;)
      dx = backward(layers[l], std::to_string(l), dx);
    uint32_t dsum = activation("dtable", 0, s.vocabulary * h * unit);
    op(Phase::Backward, "embedding d", {dtable, dx, ids}, {dsum}, traffic(OpClass::Gather, 3 * t * h * unit)).inplace = {0};
    gradient(table, dsum);
    finish();
    return std::move(problem);
  }

private:
  struct Layer {
    uint32_t qkv, proj, fc1, fc2;        // parameters
    uint32_t x, n1, q, probs, a, mask1, x1, n2, u, g, mask2; // activations
  };

  uint32_t value(std::string label, Role role, uint64_t bytes) {
    problem.values.push_back({std::move(label), role, bytes});
    return problem.values.size() - 1;
  }
  uint32_t argument(std::string label, Role role, uint64_t bytes) {
    uint32_t v = value(std::move(label), role, bytes);
    problem.arguments.push_back({v, -1});
    return v;
  }
  uint32_t parameter(std::string label, uint64_t elements) {
    uint32_t v = argument(std::move(label), Role::Parameter, elements * 4);
    parameters.push_back(v);
    return v;
  }
  uint32_t activation(std::string label, uint64_t width, uint64_t bytes = 0) { return value(std::move(label), Role::Activation, bytes ? bytes : t * width * unit); }

  ProblemOp &op(Phase phase, std::string label, std::vector<uint32_t> operands, std::vector<uint32_t> results, Cost cost, OpKind kind = OpKind::Compute) {
    ProblemOp o;
    o.kind = kind;
    o.phase = phase;
    o.label = std::move(label);
    o.operands = std::move(operands);
    o.results = std::move(results);
    o.kernel = 0;
    o.tiles = {1};
    o.cost = cost;
    problem.ops.push_back(std::move(o));
    return problem.ops.back();
  }
  Cost matmul(uint64_t m, uint64_t n, uint64_t k) const {
    return {OpClass::Matmul, type, 2.0 * m * n * k, (m * k + k * n + m * n) * unit, std::min({m, n, k})};
  }
  Cost traffic(OpClass cls, uint64_t bytes) const { return {cls, type, 0, bytes, 0}; }
  uint64_t logits() const { return std::min<uint64_t>(t, 4096) * s.vocabulary * unit; }

  void declare(Layer &layer, const std::string &n) {
    layer.qkv = parameter("qkv" + n, 3 * h * h);
    layer.proj = parameter("proj" + n, h * h);
    layer.fc1 = parameter("fc1" + n, 4 * h * h);
    layer.fc2 = parameter("fc2" + n, 4 * h * h);
  }

  void castAll() {
    compute.resize(problem.values.size());
    for (uint32_t p : parameters) {
      compute[p] = p;
      if (!s.mixed)
        continue;
      uint64_t elements = problem.values[p].bytes / 4;
      compute[p] = value(problem.values[p].label + " bf16", Role::Parameter, elements * 2);
      op(Phase::Forward, "cast " + problem.values[p].label, {p}, {compute[p]}, traffic(OpClass::Cast, elements * 6), OpKind::CastWeight);
    }
  }

  uint32_t forward(Layer &L, const std::string &n, uint32_t x) {
    auto f = [&](std::string label, std::vector<uint32_t> operands, std::vector<uint32_t> results, Cost cost) -> ProblemOp & {
      return op(Phase::Forward, label + n, std::move(operands), std::move(results), cost);
    };
    L.x = x;
    L.n1 = activation("n1." + n, h);
    f("norm1.", {x}, {L.n1}, traffic(OpClass::Reduction, 2 * t * h * unit));
    L.q = activation("qkv." + n, 3 * h);
    f("qkv.", {L.n1, compute[L.qkv]}, {L.q}, matmul(t, 3 * h, h));
    L.a = activation("a." + n, h);
    double products = 4.0 * t * s.sequence * h; // over the full square
    if (s.fusedAttention) {
      L.probs = value("stats." + n, Role::Activation, t * s.heads * 4);
      f("attention.", {L.q}, {L.a, L.probs}, {OpClass::Attention, type, products / 2, 4 * t * h * unit, s.sequence});
    } else {
      // Scores, mask, softmax, dropout: 9 bytes a score in two-byte types.
      uint64_t scores = t * s.heads * s.sequence;
      uint32_t raw = value("scores." + n, Role::Activation, scores * unit);
      L.probs = value("probs." + n, Role::Activation, scores * unit);
      f("scores.", {L.q}, {raw}, {OpClass::Matmul, type, products / 2, 0, h / s.heads});
      f("softmax.", {raw}, {L.probs}, traffic(OpClass::Reduction, 9 * scores * unit / 2)).inplace = {0};
      f("values.", {L.probs, L.q}, {L.a}, {OpClass::Matmul, type, products / 2, 0, h / s.heads});
    }
    uint32_t p = activation("p." + n, h);
    f("proj.", {L.a, compute[L.proj]}, {p}, matmul(t, h, h));
    L.x1 = activation("x1." + n, h);
    L.mask1 = value("mask1." + n, Role::Activation, t * h);
    L.n2 = activation("n2." + n, h);
    // The sum and the norm are one pass; apart here, because either can be computed again alone.
    f("residual1.", {x, p}, {L.x1, L.mask1}, traffic(OpClass::Elementwise, 2 * t * h * unit + t * h));
    f("norm2.", {L.x1}, {L.n2}, traffic(OpClass::Reduction, 2 * t * h * unit));
    L.u = activation("u." + n, 4 * h);
    f("fc1.", {L.n2, compute[L.fc1]}, {L.u}, matmul(t, 4 * h, h));
    L.g = activation("g." + n, 4 * h);
    f("gelu.", {L.u}, {L.g}, traffic(OpClass::Elementwise, 8 * t * h * unit));
    uint32_t d = activation("d." + n, h);
    f("fc2.", {L.g, compute[L.fc2]}, {d}, matmul(t, h, 4 * h));
    uint32_t out = activation("x2." + n, h);
    L.mask2 = value("mask2." + n, Role::Activation, t * h);
    f("residual2.", {L.x1, d}, {out, L.mask2}, traffic(OpClass::Elementwise, 3 * t * h * unit + t * h));
    return out;
  }

  void gradient(uint32_t parameter, uint32_t value) { gradients.push_back({parameter, value}); }

  uint32_t weightGradient(uint32_t parameter, std::vector<uint32_t> operands, uint64_t m, uint64_t n, const std::string &label) {
    uint32_t dw = activation("d" + problem.values[parameter].label, 0, problem.values[parameter].bytes / 4 * unit);
    op(Phase::Backward, label, std::move(operands), {dw}, matmul(m, n, t));
    gradient(parameter, dw);
    return dw;
  }

  uint32_t backward(Layer &L, const std::string &n, uint32_t dout) {
    auto f = [&](std::string label, std::vector<uint32_t> operands, std::vector<uint32_t> results, Cost cost) -> ProblemOp & {
      return op(Phase::Backward, label + n, std::move(operands), std::move(results), cost);
    };
    uint32_t dd = activation("dd." + n, h), dg = activation("dg." + n, 4 * h), du = activation("du." + n, 4 * h), dn2 = activation("dn2." + n, h);
    f("residual2 d.", {dout, L.mask2}, {dd}, traffic(OpClass::Elementwise, 2 * t * h * unit + t * h));
    f("fc2 d.", {dd, compute[L.fc2]}, {dg}, matmul(t, 4 * h, h));
    weightGradient(L.fc2, {L.g, dd}, 4 * h, h, "fc2 dw." + n);
    f("gelu d.", {dg, L.u}, {du}, traffic(OpClass::Elementwise, 16 * t * h * unit)).inplace = {0};
    f("fc1 d.", {du, compute[L.fc1]}, {dn2}, matmul(t, h, 4 * h));
    weightGradient(L.fc1, {L.n2, du}, h, 4 * h, "fc1 dw." + n);
    uint32_t dx1 = activation("dx1." + n, h), dp = activation("dp." + n, h), da = activation("da." + n, h), dq = activation("dqkv." + n, 3 * h);
    f("residual1 d.", {dn2, dout, L.x1, L.mask1}, {dx1, dp}, traffic(OpClass::Reduction, 8 * t * h * unit + 2 * t * h));
    f("proj d.", {dp, compute[L.proj]}, {da}, matmul(t, h, h));
    weightGradient(L.proj, {L.a, dp}, h, h, "proj dw." + n);
    double products = 4.0 * t * s.sequence * h;
    if (s.fusedAttention) {
      f("attention d.", {da, L.q, L.a, L.probs}, {dq}, {OpClass::Attention, type, products, 8 * t * h * unit, s.sequence});
    } else {
      uint64_t scores = t * s.heads * s.sequence;
      uint32_t dprobs = value("dprobs." + n, Role::Activation, scores * unit), dscores = value("dscores." + n, Role::Activation, scores * unit);
      f("values d.", {da, L.probs, L.q}, {dprobs}, {OpClass::Matmul, type, products, 0, h / s.heads});
      f("softmax d.", {dprobs, L.probs}, {dscores}, traffic(OpClass::Reduction, 18 * scores * unit / 2)).inplace = {0};
      f("scores d.", {dscores, L.q}, {dq}, {OpClass::Matmul, type, products, 0, h / s.heads});
    }
    uint32_t dn1 = activation("dn1." + n, h), dx = activation("dx." + n, h);
    f("qkv d.", {dq, compute[L.qkv]}, {dn1}, matmul(t, h, 3 * h));
    weightGradient(L.qkv, {L.n1, dq}, h, 3 * h, "qkv dw." + n);
    f("norm1 d.", {dn1, dx1, L.x}, {dx}, traffic(OpClass::Reduction, 5 * t * h * unit));
    return dx;
  }

  /// Casts, norm, verdict, scalars, updates.
  void finish() {
    uint32_t scalars = value("scalars", Role::Control, 32), verdict = value("verdict", Role::Control, 16);
    std::vector<std::array<uint32_t, 2>> states;
    for (auto &[p, g] : gradients) {
      std::array<uint32_t, 2> own;
      for (int i = 0; i < 2; ++i)
        own[i] = argument(problem.values[p].label + (i ? "/exp_avg_sq" : "/exp_avg"), Role::Moment, problem.values[p].bytes);
      states.push_back(own);
    }
    std::vector<uint32_t> sums, partials;
    for (auto &[p, g] : gradients) {
      const std::string label = problem.values[p].label;
      uint64_t elements = problem.values[p].bytes / 4;
      auto count = static_cast<int64_t>(elements);
      uint32_t sum = g;
      if (s.mixed) {
        sum = value("d" + label + " fp32", Role::Gradient, elements * 4);
        op(Phase::Backward, "cast d" + label, {g}, {sum}, traffic(OpClass::Cast, elements * 6), OpKind::CastGradient);
      }
      if (s.accumulate > 1) {
        uint32_t accumulator = argument(label + "/grad", Role::Accumulator, elements * 4), total = value(label + " sum", Role::Accumulator, elements * 4);
        problem.arguments.back().donated = total;
        ProblemOp &o = op(Phase::Accumulate, "accumulate " + label, {accumulator, sum}, {total}, traffic(OpClass::Elementwise, elements * 12), OpKind::Accumulate);
        o.inplace = {0};
        o.params = {count, s.accumulate, 65536};
        sum = total;
      }
      uint32_t part = value(label + " partials", Role::Control, (elements + 1023) / 1024 * 4);
      op(Phase::Verdict, "norm " + label, {sum}, {part}, traffic(OpClass::Reduction, elements * 4), OpKind::NormPartials).params = {count, s.accumulate, 65536};
      sums.push_back(sum);
      partials.push_back(part);
    }
    op(Phase::Verdict, "verdict", partials, {verdict}, Cost(), OpKind::Verdict);
    op(Phase::Update, "scalars", {}, {scalars}, Cost(), OpKind::Scalars).group = 0;
    for (size_t i = 0; i < gradients.size(); ++i) {
      uint32_t p = gradients[i].first;
      uint64_t elements = problem.values[p].bytes / 4;
      std::vector<uint32_t> replaced{p, states[i][0], states[i][1]}, results;
      for (uint32_t old : replaced) {
        results.push_back(value("new " + problem.values[old].label, problem.values[old].role, elements * 4));
        for (ProblemArgument &a : problem.arguments)
          if (a.value == old)
            a.donated = results.back();
      }
      // Reads p, g, m, v, writes p, m, v.
      ProblemOp &o = op(Phase::Update, "update " + problem.values[p].label, {p, sums[i], states[i][0], states[i][1], scalars, verdict}, results,
                        {OpClass::Optimizer, DType::F32, 12.0 * elements, 28 * elements, 0}, OpKind::Update);
      o.inplace = {0, 2, 3};
      o.params = {0, static_cast<int64_t>(elements), 16384};
    }
  }

  const GptShape &s;
  const uint64_t unit;
  const DType type;
  const uint64_t t, h;
  Problem problem;
  std::vector<uint32_t> parameters, compute;
  std::vector<Layer> layers;
  std::vector<std::pair<uint32_t, uint32_t>> gradients;
};

} // namespace

Problem forebay::bench::makeGpt(const GptShape &shape) { return Maker(shape).run(); }
