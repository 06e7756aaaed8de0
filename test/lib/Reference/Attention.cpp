//===- Attention.cpp - Reference interpreter: attention and rotary --------===//

#include "Evaluator.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace forebay;
using namespace forebay::reference;

namespace {

/// Scores of one attention, row by row. `OpT` is the operation or its gradient, which have the same masks.
template <typename OpT>
class Scores {
public:
  Scores(const Frame &f, OpT op) : f(f), op(op), query(get(op.getQuery())), key(get(op.getKey())) {
    mask = op.getMask() ? &get(op.getMask()) : nullptr;
    padding = op.getKeyPadding() ? &get(op.getKeyPadding()) : nullptr;
    batch = query.shape[0], heads = query.shape[1], queries = query.shape[2], width = query.shape[3];
    keyHeads = key.shape[1], keys = key.shape[2];
    scale = op.getScale().convertToDouble();
    softcap = op.getSoftcap() ? op.getSoftcap()->convertToDouble() : 0.0;
  }

  const Tensor &get(Value value) const { return *f.scope.lookup(value); }
  int64_t keyHead(int64_t h) const { return h / (heads / keyHeads); }
  int64_t queryRow(int64_t b, int64_t h, int64_t q) const { return (b * heads + h) * queries + q; }
  int64_t keyRow(int64_t b, int64_t h, int64_t k) const { return (b * keyHeads + keyHead(h)) * keys + k; }

  bool hidden(int64_t b, int64_t h, int64_t q, int64_t k) const {
    if (op.getCausal() && k > q)
      return true;
    if (op.getWindow() && k <= q - int64_t(*op.getWindow()))
      return true;
    if (padding && !padding->ints[b * keys + k])
      return true;
    return mask && !mask->isFloat && !mask->ints[maskOffset(b, h, q, k)];
  }

  /// The score before the masks, after scale and soft cap.
  double capped(int64_t b, int64_t h, int64_t q, int64_t k) const {
    double dot = 0.0;
    for (int64_t i = 0; i < width; ++i)
      dot += query.floats[queryRow(b, h, q) * width + i] * key.floats[keyRow(b, h, k) * width + i];
    double s = scale * dot;
    return softcap ? softcap * std::tanh(s / softcap) : s;
  }

  double bias(int64_t b, int64_t h, int64_t q, int64_t k) const {
    return mask && mask->isFloat ? mask->floats[maskOffset(b, h, q, k)] : 0.0;
  }

  const Frame &f;
  mutable OpT op;
  const Tensor &query, &key;
  const Tensor *mask, *padding;
  int64_t batch, heads, queries, width, keyHeads, keys;
  double scale, softcap;

private:
  int64_t maskOffset(int64_t b, int64_t h, int64_t q, int64_t k) const {
    SmallVector<int64_t> strides = mask->strides();
    return (mask->shape[0] == 1 ? 0 : b * strides[0]) + (mask->shape[1] == 1 ? 0 : h * strides[1]) +
           (mask->shape[2] == 1 ? 0 : q * strides[2]) + k * strides[3];
  }
};

} // namespace

static LogicalResult attention(const Frame &f) {
  auto op = cast<train::AttentionOp>(f.op);
  Scores<decltype(op)> scores(f, op);
  const Tensor &value = f.in(2);
  int64_t out = value.shape[3];
  forEachIndex({scores.batch, scores.heads, scores.queries}, [&](ArrayRef<int64_t> i) {
    int64_t b = i[0], h = i[1], q = i[2], row = scores.queryRow(b, h, q);
    std::vector<double> s(scores.keys, 0.0);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
    std::vector<int64_t> visible;
    for (int64_t k = 0; k < scores.keys; ++k) {
      if (scores.hidden(b, h, q, k))
        continue;
      visible.push_back(k);
      s[k] = scores.capped(b, h, q, k) + scores.bias(b, h, q, k);
      largest = std::max(largest, s[k]);
    }
    for (int64_t k : visible)
      sum += std::exp(s[k] - largest);
    f.out(1).floats[row] = visible.empty() ? largest : largest + std::log(sum);
    for (int64_t k : visible)
      for (int64_t d = 0; d < out; ++d)
        f.out(0).floats[row * out + d] +=
            std::exp(s[k] - largest) / sum * value.floats[scores.keyRow(b, h, k) * out + d];
  });
  return success();
}

static LogicalResult attentionGrad(const Frame &f) {
  auto op = cast<train::AttentionGradOp>(f.op);
  Scores<decltype(op)> scores(f, op);
  const Tensor &grad = f.in(0), &value = f.in(3), &lse = f.in(5);
  int64_t width = scores.width, out = value.shape[3];
  forEachIndex({scores.batch, scores.heads, scores.queries}, [&](ArrayRef<int64_t> i) {
    int64_t b = i[0], h = i[1], q = i[2], row = scores.queryRow(b, h, q);
    std::vector<double> p(scores.keys, 0.0), dp(scores.keys, 0.0), slope(scores.keys, 0.0);
    double dot = 0.0;
    for (int64_t k = 0; k < scores.keys; ++k) {
      if (scores.hidden(b, h, q, k))
        continue;
      double s = scores.capped(b, h, q, k), t = scores.softcap ? s / scores.softcap : 0.0;
      slope[k] = scores.scale * (1.0 - t * t);
      p[k] = std::exp(s + scores.bias(b, h, q, k) - lse.floats[row]);
      for (int64_t d = 0; d < out; ++d) {
        double g = grad.floats[row * out + d];
        dp[k] += g * value.floats[scores.keyRow(b, h, k) * out + d];
        f.out(2).floats[scores.keyRow(b, h, k) * out + d] += p[k] * g;
      }
      dot += p[k] * dp[k];
    }
    for (int64_t k = 0; k < scores.keys; ++k) {
      if (scores.hidden(b, h, q, k))
        continue;
      double ds = p[k] * (dp[k] - dot) * slope[k];
      for (int64_t d = 0; d < width; ++d) {
        f.out(0).floats[row * width + d] += ds * scores.key.floats[scores.keyRow(b, h, k) * width + d];
        f.out(1).floats[scores.keyRow(b, h, k) * width + d] += ds * scores.query.floats[row * width + d];
      }
    }
  });
  return success();
}

static LogicalResult rotary(const Frame &f) {
  auto op = cast<train::RotaryOp>(f.op);
  const Tensor &x = f.in(0), &cos = f.in(1), &sin = f.in(2);
  int64_t heads = x.shape[1], length = x.shape[2], width = x.shape[3], half = cos.shape.back();
  double sign = op.getInverse() ? -1.0 : 1.0;
  f.out() = x;
  forEachIndex({x.shape[0], heads, length, half}, [&](ArrayRef<int64_t> i) {
    int64_t row = ((i[0] * heads + i[1]) * length + i[2]) * width;
    int64_t angle = ((cos.rank() == 3 ? i[0] * length : 0) + i[2]) * half + i[3];
    int64_t first = op.getInterleaved() ? 2 * i[3] : i[3], second = op.getInterleaved() ? first + 1 : i[3] + half;
    double a = x.floats[row + first], b = x.floats[row + second];
    double c = cos.floats[angle], s = sign * sin.floats[angle];
    f.out().floats[row + first] = a * c - b * s;
    f.out().floats[row + second] = b * c + a * s;
  });
  return success();
}

void forebay::reference::addAttentionHandlers(Handlers &h) {
  h["train.attention"] = attention;
  h["train.attention_grad"] = attentionGrad;
  h["train.rotary"] = rotary;
}
