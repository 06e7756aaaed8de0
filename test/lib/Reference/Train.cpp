//===- Train.cpp - Reference interpreter: operations of train -------------===//
//
// Activations, masks, norms, softmax, embedding and loss, with their gradients, from their definitions in TrainOps.td.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace forebay;
using namespace forebay::reference;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

static const double kSqrt2OverPi = std::sqrt(2.0 / M_PI);

static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
static double gelu(double x) { return x * 0.5 * (1.0 + std::erf(x * M_SQRT1_2)); }
static double geluSlope(double x) {
  return 0.5 * (1.0 + std::erf(x * M_SQRT1_2)) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI);
}
static double geluTanh(double x) { return 0.5 * x * (1.0 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x))); }
static double geluTanhSlope(double x) {
  double t = std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * kSqrt2OverPi * (1.0 + 3.0 * 0.044715 * x * x);
}
static double silu(double x) { return x * sigmoid(x); }
static double siluSlope(double x) { return sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))); }

static LogicalResult apply(const Frame &f, double (*fn)(double)) {
  for (int64_t i = 0, n = f.out().size(); i < n; ++i)
    f.out().floats[i] = fn(f.in(0).floats[i]);
  return success();
}
static LogicalResult applySlope(const Frame &f, double (*slope)(double)) {
  for (int64_t i = 0, n = f.out().size(); i < n; ++i)
    f.out().floats[i] = f.in(0).floats[i] * slope(f.in(1).floats[i]);
  return success();
}

//===----------------------------------------------------------------------===//
// Index expressions
//===----------------------------------------------------------------------===//

static LogicalResult iota(const Frame &f) {
  auto op = cast<train::IotaOp>(f.op);
  for (int64_t i = 0, n = f.out().size(); i < n; ++i)
    f.out().ints[i] = int64_t(op.getStart()) + int64_t(op.getStep()) * i;
  return success();
}

static LogicalResult causalMask(const Frame &f) {
  auto window = cast<train::CausalMaskOp>(f.op).getWindow();
  int64_t at = 0;
  forEachIndex(f.out().shape, [&](ArrayRef<int64_t> index) {
    int64_t q = index[index.size() - 2], k = index.back();
    f.out().ints[at++] = k <= q && (!window || k > q - int64_t(*window));
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Rows: everything below works on the last axis
//===----------------------------------------------------------------------===//

/// Calls `fn(row number, offset of its first element, length)`.
static void forEachRow(const Tensor &tensor, function_ref<void(int64_t, int64_t, int64_t)> fn) {
  int64_t length = tensor.shape.back();
  for (int64_t row = 0, rows = length ? tensor.size() / length : 0; row < rows; ++row)
    fn(row, row * length, length);
}

static LogicalResult softmax(const Frame &f) {
  const std::vector<double> &x = f.in(0).floats;
  forEachRow(f.in(0), [&](int64_t, int64_t at, int64_t n) {
    double largest = *std::max_element(&x[at], &x[at] + n), sum = 0.0;
    for (int64_t i = at; i < at + n; ++i)
      sum += f.out().floats[i] = std::exp(x[i] - largest);
    for (int64_t i = at; i < at + n; ++i)
      f.out().floats[i] /= sum;
  });
  return success();
}

static LogicalResult softmaxGrad(const Frame &f) {
  const std::vector<double> &g = f.in(0).floats, &y = f.in(1).floats;
  forEachRow(f.in(0), [&](int64_t, int64_t at, int64_t n) {
    double dot = 0.0;
    for (int64_t i = at; i < at + n; ++i)
      dot += g[i] * y[i];
    for (int64_t i = at; i < at + n; ++i)
      f.out().floats[i] = y[i] * (g[i] - dot);
  });
  return success();
}

static LogicalResult layerNorm(const Frame &f) {
  auto op = cast<train::LayerNormOp>(f.op);
  const std::vector<double> &x = f.in(0).floats;
  const Tensor *weight = op.getWeight() ? f.scope.lookup(op.getWeight()).get() : nullptr;
  const Tensor *bias = op.getBias() ? f.scope.lookup(op.getBias()).get() : nullptr;
  forEachRow(f.in(0), [&](int64_t row, int64_t at, int64_t n) {
    double mean = 0.0, variance = 0.0;
    for (int64_t i = 0; i < n; ++i)
      mean += x[at + i] / n;
    for (int64_t i = 0; i < n; ++i)
      variance += (x[at + i] - mean) * (x[at + i] - mean) / n;
    double rstd = 1.0 / std::sqrt(variance + op.getEps().convertToDouble());
    for (int64_t i = 0; i < n; ++i)
      f.out().floats[at + i] = (x[at + i] - mean) * rstd * (weight ? weight->floats[i] : 1.0) +
                               (bias ? bias->floats[i] : 0.0);
    f.out(1).floats[row] = mean;
    f.out(2).floats[row] = rstd;
  });
  return success();
}

/// With h = (x - mean) * rstd and e = grad * weight: dx = rstd * (e - mean(e) - h * mean(e * h)).
static LogicalResult layerNormGrad(const Frame &f) {
  auto op = cast<train::LayerNormGradOp>(f.op);
  const std::vector<double> &g = f.in(0).floats, &x = f.in(1).floats;
  const Tensor *weight = op.getWeight() ? f.scope.lookup(op.getWeight()).get() : nullptr;
  forEachRow(f.in(0), [&](int64_t row, int64_t at, int64_t n) {
    double mean = f.in(2).floats[row], rstd = f.in(3).floats[row], meanE = 0.0, meanEh = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      double h = (x[at + i] - mean) * rstd, e = g[at + i] * (weight ? weight->floats[i] : 1.0);
      meanE += e / n;
      meanEh += e * h / n;
      f.out(1).floats[i] += g[at + i] * h;
      f.out(2).floats[i] += g[at + i];
    }
    for (int64_t i = 0; i < n; ++i) {
      double h = (x[at + i] - mean) * rstd, e = g[at + i] * (weight ? weight->floats[i] : 1.0);
      f.out(0).floats[at + i] = rstd * (e - meanE - h * meanEh);
    }
  });
  return success();
}

static double rmsFactor(const Tensor *weight, bool unitOffset, int64_t i) {
  return weight ? weight->floats[i] + (unitOffset ? 1.0 : 0.0) : 1.0;
}

static LogicalResult rmsNorm(const Frame &f) {
  auto op = cast<train::RMSNormOp>(f.op);
  const std::vector<double> &x = f.in(0).floats;
  const Tensor *weight = op.getWeight() ? f.scope.lookup(op.getWeight()).get() : nullptr;
  forEachRow(f.in(0), [&](int64_t row, int64_t at, int64_t n) {
    double square = 0.0;
    for (int64_t i = 0; i < n; ++i)
      square += x[at + i] * x[at + i] / n;
    double rstd = 1.0 / std::sqrt(square + op.getEps().convertToDouble());
    for (int64_t i = 0; i < n; ++i)
      f.out().floats[at + i] = x[at + i] * rstd * rmsFactor(weight, op.getUnitOffset(), i);
    f.out(1).floats[row] = rstd;
  });
  return success();
}

/// With h = x * rstd and e = grad * factor: dx = rstd * (e - h * mean(e * h)).
static LogicalResult rmsNormGrad(const Frame &f) {
  auto op = cast<train::RMSNormGradOp>(f.op);
  const std::vector<double> &g = f.in(0).floats, &x = f.in(1).floats;
  const Tensor *weight = op.getWeight() ? f.scope.lookup(op.getWeight()).get() : nullptr;
  forEachRow(f.in(0), [&](int64_t row, int64_t at, int64_t n) {
    double rstd = f.in(2).floats[row], meanEh = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      double h = x[at + i] * rstd;
      meanEh += g[at + i] * rmsFactor(weight, op.getUnitOffset(), i) * h / n;
      f.out(1).floats[i] += g[at + i] * h;
    }
    for (int64_t i = 0; i < n; ++i) {
      double h = x[at + i] * rstd, e = g[at + i] * rmsFactor(weight, op.getUnitOffset(), i);
      f.out(0).floats[at + i] = rstd * (e - h * meanEh);
    }
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Embedding and loss
//===----------------------------------------------------------------------===//

static FailureOr<int64_t> rowOf(Operation *op, int64_t id, int64_t rows) {
  if (id < -rows || id >= rows)
    return op->emitError() << "id " << id << " is outside of a table of " << rows << " rows";
  return id < 0 ? id + rows : id;
}

static LogicalResult embedding(const Frame &f) {
  int64_t rows = f.in(0).shape.front(), width = rows ? f.in(0).size() / rows : 0;
  for (auto [number, id] : llvm::enumerate(f.in(1).ints)) {
    FailureOr<int64_t> row = rowOf(f.op, id, rows);
    if (failed(row))
      return failure();
    for (int64_t i = 0; i < width; ++i)
      if (f.out().isFloat)
        f.out().floats[number * width + i] = f.in(0).floats[*row * width + i];
      else
        f.out().ints[number * width + i] = f.in(0).ints[*row * width + i];
  }
  return success();
}

static LogicalResult embeddingGrad(const Frame &f) {
  int64_t rows = f.out().shape.front(), width = rows ? f.out().size() / rows : 0;
  for (auto [number, id] : llvm::enumerate(f.in(1).ints)) {
    // Rows outside the table are dropped: that is how padding gets no gradient.
    if (id < -rows || id >= rows)
      continue;
    for (int64_t i = 0, row = id < 0 ? id + rows : id; i < width; ++i)
      f.out().floats[row * width + i] += f.in(0).floats[number * width + i];
  }
  return success();
}

static LogicalResult crossEntropy(const Frame &f) {
  auto op = cast<train::CrossEntropyOp>(f.op);
  const std::vector<double> &x = f.in(0).floats;
  int64_t classes = f.in(0).shape[1], count = 0;
  double total = 0.0;
  for (auto [row, label] : llvm::enumerate(f.in(1).ints)) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (int64_t i = 0; i < classes; ++i)
      largest = std::max(largest, x[row * classes + i]);
    for (int64_t i = 0; i < classes; ++i)
      sum += std::exp(x[row * classes + i] - largest);
    double lse = largest + std::log(sum);
    f.out(1).floats[row] = lse;
    if (label == int64_t(op.getIgnoreIndex()))
      continue;
    if (label < 0 || label >= classes)
      return f.op->emitError() << "label " << label << " is not one of " << classes << " classes";
    total += lse - x[row * classes + label];
    ++count;
  }
  f.out().floats[0] = op.getSum() ? total : total / count;
  return success();
}

static LogicalResult crossEntropyGrad(const Frame &f) {
  auto op = cast<train::CrossEntropyGradOp>(f.op);
  int64_t classes = f.in(1).shape[1], count = 0;
  for (int64_t label : f.in(2).ints)
    count += label != int64_t(op.getIgnoreIndex());
  double scale = f.in(0).floats[0] / (op.getSum() ? 1 : std::max<int64_t>(count, 1));
  for (auto [row, label] : llvm::enumerate(f.in(2).ints)) {
    if (label == int64_t(op.getIgnoreIndex()))
      continue;
    for (int64_t i = 0; i < classes; ++i) {
      int64_t at = row * classes + i;
      f.out().floats[at] = scale * (std::exp(f.in(1).floats[at] - f.in(3).floats[row]) - (i == label ? 1.0 : 0.0));
    }
  }
  return success();
}

void forebay::reference::addTrainHandlers(Handlers &h) {
  h["train.gelu"] = [](const Frame &f) { return apply(f, cast<train::GeluOp>(f.op).getTanh() ? geluTanh : gelu); };
  h["train.gelu_grad"] = [](const Frame &f) {
    return applySlope(f, cast<train::GeluGradOp>(f.op).getTanh() ? geluTanhSlope : geluSlope);
  };
  h["train.silu"] = [](const Frame &f) { return apply(f, silu); };
  h["train.silu_grad"] = [](const Frame &f) { return applySlope(f, siluSlope); };
  h["train.sigmoid"] = [](const Frame &f) { return apply(f, sigmoid); };
  h["train.detach"] = [](const Frame &f) {
    f.out() = f.in(0);
    return success();
  };
  h["train.iota"] = iota;
  h["train.causal_mask"] = causalMask;
  h["train.softmax"] = softmax;
  h["train.softmax_grad"] = softmaxGrad;
  h["train.layer_norm"] = layerNorm;
  h["train.layer_norm_grad"] = layerNormGrad;
  h["train.rms_norm"] = rmsNorm;
  h["train.rms_norm_grad"] = rmsNormGrad;
  h["train.embedding"] = embedding;
  h["train.embedding_grad"] = embeddingGrad;
  h["train.cross_entropy"] = crossEntropy;
  h["train.cross_entropy_grad"] = crossEntropyGrad;
}
