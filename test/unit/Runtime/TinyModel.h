//===- TinyModel.h - A small program that really trains ---------*- C++ -*-===//
///
/// \file
/// Logistic-like regression with a table lookup, built by hand as the compiler would build it, in two placements:
///
///   y[i] = sum_j x[i][j] w[j] + e[id[i]];  loss = mean_i (y[i] - 1)^2;  momentum updates w and e; `f` is frozen, `n` has no gradient
///
/// `Resident` has one space; `Offload` keeps masters and moments in a second one, with weight copies and gradients that are copied. With `speculate` its updates run
/// before the verdict, into shadows.
/// Also the plain loops to compare with. Used by the unit tests and by the step.so that the tests of forebay-run use.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TEST_RUNTIME_TINYMODEL_H
#define FOREBAY_TEST_RUNTIME_TINYMODEL_H

#include "forebay/builtin_kernels.h"
#include "forebay/kernel_abi.h"
#include "forebay/program.h"

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace forebay::testing {

constexpr int64_t kRows = 4, kWidth = 3, kVocab = 5;

//===----------------------------------------------------------------------===//
// "Compiled" kernels
//===----------------------------------------------------------------------===//

// x [4,3], ids [4], w [3], e [5] -> loss [], dw [3], de [5]
inline void tinyForwardBackward(void *const *operands, const int64_t *, int32_t, int64_t, void *) {
  auto *x = static_cast<const float *>(operands[0]);
  auto *ids = static_cast<const int64_t *>(operands[1]);
  auto *w = static_cast<const float *>(operands[2]), *e = static_cast<const float *>(operands[3]);
  auto *loss = static_cast<float *>(operands[4]), *dw = static_cast<float *>(operands[5]), *de = static_cast<float *>(operands[6]);
  *loss = 0;
  for (int64_t j = 0; j < kWidth; ++j)
    dw[j] = 0;
  for (int64_t v = 0; v < kVocab; ++v)
    de[v] = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    float y = ids[i] >= 0 ? e[ids[i]] : 0.0f;
    for (int64_t j = 0; j < kWidth; ++j)
      y += x[i * kWidth + j] * w[j];
    float d = y - 1.0f, g = 2.0f * d / float(kRows);
    *loss += d * d / float(kRows);
    for (int64_t j = 0; j < kWidth; ++j)
      dw[j] += g * x[i * kWidth + j];
    if (ids[i] >= 0)
      de[ids[i]] += g;
  }
}

// parameter, gradient, state, scalars [2] (lr, momentum), verdict [4] -> parameter, state (in place or not). params {first, count, per tile, K}
inline void tinyUpdate(void *const *operands, const int64_t *params, int32_t, int64_t tile, void *) {
  auto *p = static_cast<const float *>(operands[0]);
  auto *g = static_cast<const float *>(operands[1]);
  auto *m = static_cast<const float *>(operands[2]);
  auto *scalars = static_cast<const float *>(operands[3]), *verdict = static_cast<const float *>(operands[4]);
  int64_t begin = tile * params[2], end = std::min(begin + params[2], params[1]);
  for (int64_t i = begin; i < end; ++i) {
    float grad = g[i] / float(params[3]) * verdict[1];
    float next = scalars[1] * m[i] + grad, weight = p[i];
    static_cast<float *>(operands[6])[i] = next;
    static_cast<float *>(operands[5])[i] = weight - scalars[0] * next;
  }
}

// x, a -> y = x + a (outputs of the forward program)
inline void tinyShift(void *const *operands, const int64_t *params, int32_t, int64_t, void *) {
  for (int64_t i = 0; i < params[0]; ++i)
    static_cast<float *>(operands[2])[i] = static_cast<const float *>(operands[0])[i] + static_cast<const float *>(operands[1])[0];
}

// Alphabetical: lr, momentum. A schedule that also shows t: lr / t^0.
inline void tinyScalars(int64_t t, const double *hyper, float *results) {
  results[0] = float(hyper[0]);
  results[1] = float(t == 1 ? 0.0 : hyper[1]);
}

inline std::map<std::string, void *> tinyKernels() {
  return {{"tiny_forward_backward", reinterpret_cast<void *>(tinyForwardBackward)},
          {"tiny_update", reinterpret_cast<void *>(tinyUpdate)},
          {"tiny_shift", reinterpret_cast<void *>(tinyShift)},
          {"tiny_scalars", reinterpret_cast<void *>(tinyScalars)}};
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

struct TinyOptions {
  bool offload = false;
  uint32_t accumulate = 1;
  bool clip = false;
  double clipNorm = 0;
  bool speculate = false; ///< with `offload`
  double rejectLimit = 1;
};

/// Initial weights as they lie in tiny.onnx: w, e, f, n.
inline std::vector<float> tinyInitial() {
  std::vector<float> values;
  for (int i = 0; i < int(kWidth + kVocab + 2 + 2); ++i)
    values.push_back(0.25f * float(i % 7) - 0.6f);
  return values;
}

class TinyBuilder {
public:
  explicit TinyBuilder(const TinyOptions &options) : options(options) {}

  Program build() {
    Program &p = program;
    p.kernelAbi = FOREBAY_KERNEL_ABI;
    p.producer = "test";
    p.machine = options.offload ? "superchip-emu" : "cpu";
    p.policy = options.offload ? "zero-offload" : "resident";
    p.precision = "fp32";
    p.entry = "train";
    p.optimizer = "tiny";
    p.scalarResults = 2;
    p.hyper = {{"momentum", 0.5, false}, {"lr", 0.125, false}};
    p.groups = {{{0.5, 0.125}, {false, false}, 1.0}, {{0.25, 0.125}, {true, false}, 2.0}};
    p.accumulate = options.accumulate;
    p.hasClip = options.clip;
    p.clipNorm = options.clipNorm;
    p.rejectLimit = options.rejectLimit;
    p.tokensPerMicroStep = kRows;
    p.batch = 2;
    p.sequence = 2;
    p.dims = {{"batch", 2}};
    if (options.offload) {
      p.spaces = {{"hbm", 0, 1 << 20}, {"host", 0, 1 << 20}};
      p.queues = {{"gpu", true}, {"cpu", true}, {"h2d", false}, {"d2h", false}};
    } else {
      p.spaces = {{"host", 0, 1 << 20}};
      p.queues = {{"cpu", true}};
    }
    p.kernels = {{"tiny_forward_backward", true}, {"tiny_update", true}, {"norm_partials", false}, {"verdict", false}, {"accumulate", false}};
    tensors();
    commands();
    return p;
  }

private:
  uint32_t masterSpace() const { return options.offload ? 1 : 0; }

  uint32_t tensor(const std::string &name, Role role, DType type, std::vector<int64_t> shape, uint32_t space) {
    Tensor t;
    t.name = name;
    t.role = role;
    t.type = type;
    t.shape = shape;
    t.space = space;
    t.bytes = byteSize(type);
    for (int64_t dim : shape)
      t.bytes *= uint64_t(dim);
    t.offset = program.spaces[space].arenaBytes;
    program.spaces[space].arenaBytes += (t.bytes + 63) / 64 * 64;
    program.tensors.push_back(t);
    return uint32_t(program.tensors.size() - 1);
  }

  Range at(uint32_t index, Access access) const {
    const Tensor &t = program.tensors[index];
    return {t.space, t.offset, t.bytes, access};
  }

  void tensors() {
    x = tensor("x", Role::Input, DType::F32, {kRows, kWidth}, 0);
    ids = tensor("input_ids", Role::Input, DType::I64, {2, 2}, 0);
    Tensor &t = program.tensors[ids];
    t.hasRange = t.hasIgnore = true;
    t.lo = 0;
    t.hi = kVocab;
    t.ignore = -100;
    uint64_t offset = 16; // behind a header
    auto parameter = [&](const char *name, std::vector<int64_t> shape, bool trainable, bool noGradient, int32_t group) {
      uint32_t index = tensor(name, Role::Parameter, DType::F32, shape, masterSpace());
      Tensor &t = program.tensors[index];
      t.file = "tiny.onnx";
      t.fileOffset = offset;
      offset += t.bytes;
      t.trainable = trainable;
      t.noGradient = noGradient;
      t.group = group;
      return index;
    };
    w = parameter("layer.weight", {kWidth}, true, false, 0);
    e = parameter("embed.weight", {kVocab, 1}, true, false, 1);
    parameter("frozen.bias", {2}, false, false, -1);
    parameter("unused.weight", {2}, true, true, 0);
    mw = tensor("layer.weight/momentum", Role::Moment, DType::F32, {kWidth}, masterSpace());
    me = tensor("embed.weight/momentum", Role::Moment, DType::F32, {kVocab, 1}, masterSpace());
    wc = w, ec = e;
    if (options.offload) {
      wc = tensor("layer.weight", Role::WeightCopy, DType::F32, {kWidth}, 0);
      ec = tensor("embed.weight", Role::WeightCopy, DType::F32, {kVocab, 1}, 0);
      program.tensors[wc].copyOf = int32_t(w);
      program.tensors[ec].copyOf = int32_t(e);
    }
    loss = tensor("loss", Role::Loss, DType::F32, {}, 0);
    dw = tensor("layer.weight/grad", Role::Gradient, DType::F32, {kWidth}, 0);
    de = tensor("embed.weight/grad", Role::Gradient, DType::F32, {kVocab, 1}, 0);
    sw = sumw = dw, se = sume = de;
    if (options.accumulate > 1) {
      sumw = tensor("layer.weight/sum", Role::Accumulator, DType::F32, {kWidth}, 0);
      sume = tensor("embed.weight/sum", Role::Accumulator, DType::F32, {kVocab, 1}, 0);
    }
    sw = sumw, se = sume;
    if (options.offload) {
      sw = tensor("layer.weight/host", Role::Staging, DType::F32, {kWidth}, 1);
      se = tensor("embed.weight/host", Role::Staging, DType::F32, {kVocab, 1}, 1);
    }
    nw = tensor("norm.w", Role::Control, DType::F32, {1}, masterSpace());
    ne = tensor("norm.e", Role::Control, DType::F32, {1}, masterSpace());
    verdict = tensor("verdict", Role::Control, DType::F32, {4}, masterSpace());
    scalars0 = tensor("scalars.0", Role::Control, DType::F32, {2}, masterSpace());
    scalars1 = tensor("scalars.1", Role::Control, DType::F32, {2}, masterSpace());
    if (options.speculate) {
      assumed = tensor("assumed", Role::Control, DType::F32, {4}, 1);
      const float values[] = {0, 1, 1, -1};
      program.tensors[assumed].initial.assign(reinterpret_cast<const char *>(values), sizeof values);
      for (uint32_t of : {w, e, mw, me}) {
        const Tensor home = program.tensors[of];
        next[of] = tensor(home.name, Role::Shadow, home.type, home.shape, home.space);
        program.tensors[next[of]].copyOf = int32_t(of);
      }
    }
    for (size_t i = 0; i < program.tensors.size(); ++i) {
      const Tensor &t = program.tensors[i];
      program.values.push_back({t.name, t.role, t.space, t.offset, t.bytes, 0, 0, true});
    }
  }

  Command &add(CommandKind kind, const char *queue, const char *label, const char *phase, std::vector<Range> operands,
               Predicate predicate = Predicate::Always) {
    Command c;
    c.kind = kind;
    c.label = label;
    c.phase = phase;
    c.operands = std::move(operands);
    c.predicate = predicate;
    for (size_t i = 0; i < program.queues.size(); ++i)
      if (program.queues[i].name == queue)
        c.queue = uint32_t(i);
    program.step.push_back(c);
    return program.step.back();
  }

  void commands() {
    const char *gpu = options.offload ? "gpu" : "cpu", *cpu = "cpu", *h2d = options.offload ? "h2d" : "cpu", *d2h = options.offload ? "d2h" : "cpu";
    add(CommandKind::Feed, h2d, "x", "forward", {at(x, Access::Write)}).index = int32_t(x);
    add(CommandKind::Feed, h2d, "input_ids", "forward", {at(ids, Access::Write)}).index = int32_t(ids);
    Command &body = add(CommandKind::Dispatch, gpu, "model", "forward",
                        {at(x, Access::Read), at(ids, Access::Read), at(wc, Access::Read), at(ec, Access::Read), at(loss, Access::Write),
                         at(dw, Access::Write), at(de, Access::Write)});
    body.kernel = 0;
    body.tiles = {1};
    body.cost.flops = 4.0 * kRows * kWidth;
    add(CommandKind::Report, gpu, "loss", "forward", {at(loss, Access::Read)}).index = int32_t(loss);
    if (options.accumulate > 1)
      for (auto [sum, gradient, label] : {std::tuple(sumw, dw, "layer.weight"), std::tuple(sume, de, "embed.weight")}) {
        add(CommandKind::Copy, gpu, label, "accumulate", {at(gradient, Access::Read), at(sum, Access::Write)}, Predicate::FirstMicro);
        int64_t count = int64_t(program.tensors[sum].bytes / 4);
        Command &c = add(CommandKind::Dispatch, gpu, label, "accumulate",
                         {at(sum, Access::Read), at(gradient, Access::Read), at(sum, Access::Write)}, Predicate::LaterMicro);
        c.kernel = 4;
        c.params = {count, 1, 1024};
        c.tiles = {1};
      }
    if (options.offload)
      for (auto [from, to, label] : {std::tuple(sumw, sw, "layer.weight"), std::tuple(sume, se, "embed.weight")})
        add(CommandKind::Copy, d2h, label, "backward", {at(from, Access::Read), at(to, Access::Write)}, Predicate::LastMicro);
    add(CommandKind::Scalars, cpu, "scalars", "update", {at(scalars0, Access::Write)}, Predicate::LastMicro).index = 0;
    add(CommandKind::Scalars, cpu, "scalars", "update", {at(scalars1, Access::Write)}, Predicate::LastMicro).index = 1;
    for (auto [gradient, partial, parameter] : {std::tuple(sw, nw, w), std::tuple(se, ne, e)}) {
      Command &c = add(CommandKind::Dispatch, cpu, "norm", "verdict", {at(gradient, Access::Read), at(partial, Access::Write)}, Predicate::LastMicro);
      c.kernel = 2;
      c.params = {int64_t(program.tensors[gradient].bytes / 4), int64_t(options.accumulate), 1024};
      c.tiles = {1};
      c.tensor = int32_t(parameter);
    }
    if (options.speculate)
      updates(Predicate::Speculate, assumed);
    Command &decide = add(CommandKind::Dispatch, cpu, "verdict", "verdict",
                          {at(nw, Access::Read), at(ne, Access::Read), at(verdict, Access::Write)}, Predicate::LastMicro);
    decide.kernel = 3;
    decide.params = {2, options.clip, kernels::toBits(options.clipNorm), 1, 1};
    decide.tiles = {1};
    add(CommandKind::Verdict, cpu, "verdict", "verdict", {at(verdict, Access::Read)}, Predicate::LastMicro);
    updates(options.speculate ? Predicate::Redo : Predicate::Apply, verdict);
    if (options.speculate)
      for (auto [from, to, label] : {std::tuple(w, wc, "layer.weight"), std::tuple(e, ec, "embed.weight")})
        add(CommandKind::Copy, h2d, label, "update", {at(from, Access::Read), at(to, Access::Write)}, Predicate::Restore);
    waits();
    for (Value &value : program.values)
      value.last = uint32_t(program.step.size() - 1);
  }

  /// Both parameters, then their copies; into shadows if there are any.
  void updates(Predicate predicate, uint32_t said) {
    auto target = [&](uint32_t of) { return next.count(of) ? next[of] : of; };
    for (auto [parameter, gradient, moment, scalars] : {std::tuple(w, sw, mw, scalars0), std::tuple(e, se, me, scalars1)}) {
      int64_t count = int64_t(program.tensors[parameter].bytes / 4);
      Command &c = add(CommandKind::Dispatch, "cpu", "update", "update",
                       {at(parameter, Access::Read), at(gradient, Access::Read), at(moment, Access::Read), at(scalars, Access::Read),
                        at(said, Access::Read), at(target(parameter), Access::Write), at(target(moment), Access::Write)},
                       predicate);
      c.kernel = 1;
      c.params = {0, count, 2, int64_t(options.accumulate)};
      c.tiles = {(count + 1) / 2};
      c.tensor = int32_t(parameter);
    }
    if (options.offload)
      for (auto [from, to, label] : {std::tuple(w, wc, "layer.weight"), std::tuple(e, ec, "embed.weight")})
        add(CommandKind::Copy, "h2d", label, "update", {at(target(from), Access::Read), at(to, Access::Write)}, predicate);
  }

  /// Every pair of commands on different queues that must not overlap (each of a pair of tensors counts as both); also verdict against what depends on it.
  void waits() {
    std::vector<Command> &step = program.step;
    program.events = uint32_t(step.size());
    const Pairs pairs(program);
    auto conflict = [&](const Command &a, const Command &b) {
      auto decides = [](const Command &c) { return c.kind == CommandKind::Verdict; };
      auto depends = [](const Command &c) { return c.kind == CommandKind::Scalars || c.predicate >= Predicate::Apply; };
      if ((decides(a) && depends(b)) || (decides(b) && depends(a)))
        return true;
      for (const Range &given : a.operands)
        for (const Range &r : {given, pairs.exchanged(given).value_or(given)})
          for (const Range &s : b.operands)
            if (r.space == s.space && r.offset < s.offset + s.bytes && s.offset < r.offset + r.bytes &&
                ((uint8_t(r.access) | uint8_t(s.access)) & 2) != 0)
              return true;
      return false;
    };
    for (size_t i = 0; i < step.size(); ++i) {
      step[i].signal = int32_t(i);
      for (size_t j = 0; j < step.size(); ++j)
        if (i != j && step[i].queue != step[j].queue && conflict(step[i], step[j]))
          step[i].waits.push_back({uint32_t(j), j < i ? 0u : 1u});
    }
  }

  TinyOptions options;
  Program program;
  uint32_t x = 0, ids = 0, w = 0, e = 0, mw = 0, me = 0, wc = 0, ec = 0, loss = 0, dw = 0, de = 0, sumw = 0, sume = 0, sw = 0, se = 0;
  uint32_t nw = 0, ne = 0, verdict = 0, scalars0 = 0, scalars1 = 0, assumed = 0;
  std::map<uint32_t, uint32_t> next; ///< tensor: its shadow
};

inline Program tinyProgram(const TinyOptions &options) { return TinyBuilder(options).build(); }

/// A forward program: y = x + bias, one output.
inline Program tinyForwardProgram() {
  Program p;
  p.kernelAbi = FOREBAY_KERNEL_ABI;
  p.producer = "test";
  p.machine = "cpu";
  p.policy = "resident";
  p.precision = "fp32";
  p.entry = "forward";
  p.spaces = {{"host", 192, 1 << 20}};
  p.queues = {{"cpu", true}};
  p.kernels = {{"tiny_shift", true}};
  p.tokensPerMicroStep = 4;
  Tensor x, bias, y;
  x.name = "x", x.role = Role::Input, x.type = DType::F32, x.shape = {2, 2}, x.space = 0, x.offset = 0, x.bytes = 16;
  bias = x, bias.name = "bias", bias.role = Role::Buffer, bias.shape = {1}, bias.offset = 64, bias.bytes = 4, bias.file = "tiny.onnx", bias.fileOffset = 16;
  y = x, y.name = "head/y", y.role = Role::Output, y.offset = 128;
  p.tensors = {x, bias, y};
  Command feed, shift, report;
  feed.kind = CommandKind::Feed, feed.index = 0, feed.operands = {{0, 0, 16, Access::Write}}, feed.phase = "forward";
  shift.kind = CommandKind::Dispatch, shift.kernel = 0, shift.tiles = {1}, shift.params = {4}, shift.phase = "forward";
  shift.operands = {{0, 0, 16, Access::Read}, {0, 64, 4, Access::Read}, {0, 128, 16, Access::Write}};
  report.kind = CommandKind::Report, report.index = 2, report.operands = {{0, 128, 16, Access::Read}}, report.phase = "forward";
  p.step = {feed, shift, report};
  return p;
}

//===----------------------------------------------------------------------===//
// Plain loops
//===----------------------------------------------------------------------===//

struct TinyReference {
  std::vector<float> w, e, mw, me;
  uint64_t t = 0;
  std::vector<double> losses;
  std::vector<float> norms;
  std::vector<double> rates;
  std::vector<bool> applied;

  TinyReference() : mw(kWidth, 0), me(kVocab, 0) {
    std::vector<float> initial = tinyInitial();
    w.assign(initial.begin(), initial.begin() + kWidth);
    e.assign(initial.begin() + kWidth, initial.begin() + kWidth + kVocab);
  }

  /// One step on K rows of data. `rate` maps t to the schedule's rate; NaN is put into element 0 of w's gradient if `bad`.
  template <typename Rate>
  void step(const std::vector<std::vector<float>> &x, const std::vector<std::vector<int64_t>> &ids, const TinyOptions &options, Rate rate,
            double momentum, bool bad = false) {
    float sumw[kWidth], sume[kVocab];
    double lossSum = 0;
    for (uint32_t k = 0; k < options.accumulate; ++k) {
      float loss, dw[kWidth], de[kVocab];
      void *operands[] = {const_cast<float *>(x[k].data()), const_cast<int64_t *>(ids[k].data()), w.data(), e.data(), &loss, dw, de};
      tinyForwardBackward(operands, nullptr, 0, 0, nullptr);
      lossSum += loss;
      for (int j = 0; j < kWidth; ++j)
        sumw[j] = k == 0 ? dw[j] : sumw[j] + dw[j];
      for (int j = 0; j < kVocab; ++j)
        sume[j] = k == 0 ? de[j] : sume[j] + de[j];
    }
    if (bad)
      sumw[0] = NAN;
    double square = 0;
    for (float g : sumw)
      square += double(g / float(options.accumulate)) * double(g / float(options.accumulate));
    for (float g : sume)
      square += double(g / float(options.accumulate)) * double(g / float(options.accumulate));
    losses.push_back(lossSum / options.accumulate);
    norms.push_back(float(std::sqrt(square)));
    rates.push_back(rate(t + 1));
    applied.push_back(std::isfinite(square));
    if (!applied.back())
      return;
    ++t;
    float coefficient = options.clip && norms.back() > float(options.clipNorm) ? float(options.clipNorm / std::sqrt(square)) : 1.0f;
    auto update = [&](std::vector<float> &p, std::vector<float> &m, const float *g, double lr, double mu) {
      for (size_t i = 0; i < p.size(); ++i) {
        float grad = g[i] / float(options.accumulate) * coefficient;
        m[i] = float(t == 1 ? 0.0 : mu) * m[i] + grad;
        p[i] = p[i] - float(lr) * m[i];
      }
    };
    update(w, mw, sumw, rate(t), momentum);
    update(e, me, sume, rate(t) * 2.0, 0.25);
  }
};

} // namespace forebay::testing

#endif // FOREBAY_TEST_RUNTIME_TINYMODEL_H
