//===- Norm.cpp - LayerNorm and RMSNorm over rows, and their gradients ----===//

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

namespace {

FB_INLINE float sumOfRow(const float *x, int64_t n) {
  Floats sum = splat(0.0f);
  forRow(x, n, 0.0f, [&](Floats v, int64_t, int64_t) { sum = sum + v; });
  return sumLanes(sum);
}

/// Sum of (x - mean)^2.
FB_INLINE float squaresOfRow(const float *x, int64_t n, float mean) {
  Floats sum = splat(0.0f), center = splat(mean);
  forRow(x, n, mean, [&](Floats v, int64_t, int64_t) {
    Floats d = v - center;
    sum = sum + d * d;
  });
  return sumLanes(sum);
}

FB_INLINE float reciprocalRoot(float squares, int64_t n, double eps) {
  return float(1.0 / __builtin_sqrt(double(squares) / double(n) + eps));
}

/// Phase 1 of the gradients: 64 columns of each of `sums` results, the tiles' partial sums in order.
FB_INLINE void addPartials(const float *workspace, int64_t tiles, int64_t sums, int64_t cols, int64_t tile,
                           float *const *results) {
  Span columns = spanOf(tile, 64, cols);
  int64_t n = columns.end - columns.begin;
  for (int64_t s = 0; s < sums; ++s) {
    float *out = results[s] + columns.begin;
    memset(out, 0, size_t(n) * sizeof(float));
    for (int64_t t = 0; t < tiles; ++t) {
      const float *part = workspace + (t * sums + s) * cols + columns.begin;
      for (int64_t j = 0; j < n; ++j)
        out[j] = out[j] + part[j];
    }
  }
}

} // namespace

FB_KERNEL(layer_norm) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<NormParams>(params);
  const float *x = static_cast<const float *>(operands[0]);
  int next = 1;
  const float *weight = p.hasWeight ? static_cast<const float *>(operands[next++]) : nullptr;
  const float *bias = p.hasBias ? static_cast<const float *>(operands[next++]) : nullptr;
  float *y = static_cast<float *>(operands[next]), *mean = static_cast<float *>(operands[next + 1]),
        *rstd = static_cast<float *>(operands[next + 2]);
  double eps = fromBits(p.eps);
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float *in = x + r * p.cols;
    float *out = y + r * p.cols;
    float center = sumOfRow(in, p.cols) / float(p.cols);
    float scale = reciprocalRoot(squaresOfRow(in, p.cols, center), p.cols, eps);
    mean[r] = center, rstd[r] = scale;
    Floats mid = splat(center), factor = splat(scale);
    // Vectors by hand: y may be x, which would send the compiler to its scalar loop.
    forRow(in, p.cols, 0.0f, [&](Floats v, int64_t i, int64_t count) {
      v = (v - mid) * factor;
      if (weight)
        v = v * loadSome(weight + i, count, 0.0f);
      if (bias)
        v = v + loadSome(bias + i, count, 0.0f);
      storeSome(out + i, v, count);
    });
  }
}

FB_KERNEL(layer_norm_grad) {
  (void)scratch;
  const auto &p = paramsAs<NormParams>(params);
  const float *dy = static_cast<const float *>(operands[0]), *x = static_cast<const float *>(operands[1]),
              *mean = static_cast<const float *>(operands[2]), *rstd = static_cast<const float *>(operands[3]);
  const float *weight = p.hasWeight ? static_cast<const float *>(operands[4]) : nullptr;
  void *const *results = operands + (p.hasWeight ? 5 : 4);
  float *dx = static_cast<float *>(results[0]), *workspace = p.rows ? static_cast<float *>(results[3]) : nullptr; // no rows, no operand
  if (phase == 1) {
    float *sums[2] = {static_cast<float *>(results[1]), static_cast<float *>(results[2])};
    return addPartials(workspace, ceilDiv(p.rows, p.rowsPerTile), 2, p.cols, tile, sums);
  }
  float *dweight = workspace + tile * 2 * p.cols, *dbias = dweight + p.cols;
  memset(dweight, 0, size_t(2 * p.cols) * sizeof(float));
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float *grad = dy + r * p.cols, *in = x + r * p.cols;
    float *din = dx + r * p.cols;
    Floats center = splat(mean[r]), scale = splat(rstd[r]), sum = splat(0.0f), dot = splat(0.0f);
    // g = dy * weight, xhat = (x - mean) * rstd: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)).
    forRow(grad, p.cols, 0.0f, [&](Floats d, int64_t i, int64_t count) {
      Floats xhat = (loadSome(in + i, count, mean[r]) - center) * scale;
      storeSome(dweight + i, loadSome(dweight + i, count, 0.0f) + d * xhat, count);
      storeSome(dbias + i, loadSome(dbias + i, count, 0.0f) + d, count);
      Floats g = weight ? d * loadSome(weight + i, count, 0.0f) : d;
      sum = sum + g;
      dot = dot + g * xhat;
    });
    Floats c1 = splat(sumLanes(sum) / float(p.cols)), c2 = splat(sumLanes(dot) / float(p.cols));
    forRow(grad, p.cols, 0.0f, [&](Floats d, int64_t i, int64_t count) {
      Floats xhat = (loadSome(in + i, count, mean[r]) - center) * scale;
      Floats g = weight ? d * loadSome(weight + i, count, 0.0f) : d;
      storeSome(din + i, scale * (g - c1 - xhat * c2), count);
    });
  }
}

FB_KERNEL(rms_norm) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<NormParams>(params);
  const float *x = static_cast<const float *>(operands[0]);
  const float *weight = p.hasWeight ? static_cast<const float *>(operands[1]) : nullptr;
  float *y = static_cast<float *>(operands[p.hasWeight ? 2 : 1]), *rstd = static_cast<float *>(operands[p.hasWeight ? 3 : 2]);
  const Floats offset = splat(p.unitOffset ? 1.0f : 0.0f);
  double eps = fromBits(p.eps);
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float *in = x + r * p.cols;
    float *out = y + r * p.cols;
    float scale = reciprocalRoot(squaresOfRow(in, p.cols, 0.0f), p.cols, eps);
    rstd[r] = scale;
    Floats factor = splat(scale);
    forRow(in, p.cols, 0.0f, [&](Floats v, int64_t i, int64_t count) {
      v = v * factor;
      if (weight)
        v = v * (loadSome(weight + i, count, 0.0f) + offset);
      storeSome(out + i, v, count);
    });
  }
}

FB_KERNEL(rms_norm_grad) {
  (void)scratch;
  const auto &p = paramsAs<NormParams>(params);
  const float *dy = static_cast<const float *>(operands[0]), *x = static_cast<const float *>(operands[1]),
              *rstd = static_cast<const float *>(operands[2]);
  const float *weight = p.hasWeight ? static_cast<const float *>(operands[3]) : nullptr;
  void *const *results = operands + (p.hasWeight ? 4 : 3);
  float *dx = static_cast<float *>(results[0]), *workspace = p.rows ? static_cast<float *>(results[2]) : nullptr;
  if (phase == 1) {
    float *sums[1] = {static_cast<float *>(results[1])};
    return addPartials(workspace, ceilDiv(p.rows, p.rowsPerTile), 1, p.cols, tile, sums);
  }
  float *dweight = workspace + tile * p.cols;
  memset(dweight, 0, size_t(p.cols) * sizeof(float));
  const Floats offset = splat(p.unitOffset ? 1.0f : 0.0f);
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float *grad = dy + r * p.cols, *in = x + r * p.cols;
    float *din = dx + r * p.cols;
    Floats scale = splat(rstd[r]), dot = splat(0.0f);
    forRow(grad, p.cols, 0.0f, [&](Floats d, int64_t i, int64_t count) {
      Floats xhat = loadSome(in + i, count, 0.0f) * scale;
      storeSome(dweight + i, loadSome(dweight + i, count, 0.0f) + d * xhat, count);
      Floats g = weight ? d * (loadSome(weight + i, count, 0.0f) + offset) : d;
      dot = dot + g * xhat;
    });
    Floats c = splat(sumLanes(dot) / float(p.cols));
    forRow(grad, p.cols, 0.0f, [&](Floats d, int64_t i, int64_t count) {
      Floats xhat = loadSome(in + i, count, 0.0f) * scale;
      Floats g = weight ? d * (loadSome(weight + i, count, 0.0f) + offset) : d;
      storeSome(din + i, scale * (g - xhat * c), count);
    });
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
