//===- CrossEntropy.cpp - Loss over a vocabulary, and its gradient --------===//

#include "Math.h"

namespace forebay::kernels::FOREBAY_ISA {

namespace {

FB_INLINE int64_t idAt(const void *ids, int64_t bytes, int64_t i) {
  return bytes == 8 ? static_cast<const int64_t *>(ids)[i] : static_cast<const int32_t *>(ids)[i];
}

/// Rows whose label is not ignored.
template <typename T> FB_INLINE int64_t countOf(const T *labels, int64_t rows, int64_t ignore) {
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r)
    count += int64_t(labels[r]) != ignore;
  return count;
}
FB_INLINE int64_t countLabels(const void *labels, const CrossEntropyParams &p) {
  return p.idBytes == 8 ? countOf(static_cast<const int64_t *>(labels), p.rows, p.ignoreIndex)
                        : countOf(static_cast<const int32_t *>(labels), p.rows, p.ignoreIndex);
}

/// The largest element and the sum of exp(x - it), reading memory once: blocks stay in the cache between the two passes.
FB_INLINE void maxAndSum(const float *x, int64_t n, float &max, float &sum) {
  constexpr int64_t kBlock = 2048;
  float best = -kInfinity;
  Floats total = splat(0.0f);
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    int64_t count = minOf(kBlock, n - begin);
    float blockMax = maxOfRow(x + begin, count);
    if (blockMax > best) {
      total = total * expOf(splat(best - blockMax));
      best = blockMax;
    }
    // A row of -inf so far must not give -inf - -inf.
    Floats shift = splat(best == -kInfinity ? 0.0f : best);
    // This pass computes while the next block comes from memory.
    const float *next = x + begin + kBlock;
    forRow(x + begin, count, -kInfinity, [&](Floats v, int64_t i, int64_t) {
      __builtin_prefetch(next + i);
      total = total + expOf(v - shift);
    });
  }
  max = best;
  sum = sumLanes(total);
}

/// Phase 1: one tile, the losses of the rows in 16 lanes of fp64.
FB_INLINE void finish(const float *losses, const void *labels, const CrossEntropyParams &p, float *loss) {
  double lanes[16] = {};
  for (int64_t r = 0; r < p.rows; ++r)
    lanes[r % 16] = lanes[r % 16] + double(losses[r]);
  for (int width = 8; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i)
      lanes[i] = lanes[i] + lanes[i + width];
  *loss = float(p.sum ? lanes[0] : lanes[0] / double(countLabels(labels, p)));
}

} // namespace

FB_KERNEL(cross_entropy) {
  (void)scratch;
  const auto &p = paramsAs<CrossEntropyParams>(params);
  const float *logits = static_cast<const float *>(operands[0]);
  const void *labels = operands[1];
  float *loss = static_cast<float *>(operands[2]), *lse = static_cast<float *>(operands[3]);
  // With no rows there is no workspace.
  float *losses = p.rows ? static_cast<float *>(operands[4]) : nullptr;
  if (phase == 1)
    return finish(losses, labels, p, loss);
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    int64_t label = idAt(labels, p.idBytes, r);
    if (label == p.ignoreIndex) {
      losses[r] = 0.0f, lse[r] = 0.0f;
      continue;
    }
    const float *row = logits + r * p.cols;
    float max, sum;
    maxAndSum(row, p.cols, max, sum);
    double logSum = logOf(double(sum));
    lse[r] = float(double(max) + logSum);
    bool valid = label >= 0 && label < p.cols;
    losses[r] = valid ? float((double(max) - double(row[label])) + logSum) : __builtin_nanf("");
    if (!valid)
      reportBadIndex(label, p.cols);
  }
}

FB_KERNEL(cross_entropy_grad) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<CrossEntropyParams>(params);
  const float *dloss = static_cast<const float *>(operands[0]), *logits = static_cast<const float *>(operands[1]);
  const void *labels = operands[2];
  const float *lse = static_cast<const float *>(operands[3]);
  float *dlogits = static_cast<float *>(operands[4]);
  float factor = p.sum ? *dloss : *dloss / float(countLabels(labels, p));
  Floats scale = splat(factor);
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    int64_t label = idAt(labels, p.idBytes, r);
    const float *row = logits + r * p.cols;
    float *out = dlogits + r * p.cols;
    if (label == p.ignoreIndex) {
      memset(out, 0, size_t(p.cols) * sizeof(float));
      continue;
    }
    bool valid = label >= 0 && label < p.cols;
    Floats shift = splat(valid ? lse[r] : __builtin_nanf(""));
    float atLabel = valid ? (expOf(row[label] - lse[r]) - 1.0f) * factor : 0.0f;
    forRow(row, p.cols, 0.0f,
           [&](Floats v, int64_t i, int64_t count) { storeSome(out + i, expOf(v - shift) * scale, count); });
    if (valid)
      out[label] = atLabel;
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
