//===- Softmax.cpp - Softmax over rows, and its gradient ------------------===//

#include "Math.h"

namespace forebay::kernels::FOREBAY_ISA {

FB_KERNEL(softmax) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<RowsParams>(params);
  const float *x = static_cast<const float *>(operands[0]);
  float *y = static_cast<float *>(operands[1]);
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float *in = x + r * p.cols;
    float *out = y + r * p.cols;
    // A row of -inf gives -inf - -inf = NaN, as does a row that holds +inf or NaN.
    Floats shift = splat(maxOfRow(in, p.cols)), sum = splat(0.0f);
    forRow(in, p.cols, -kInfinity, [&](Floats v, int64_t i, int64_t count) {
      Floats e = expOf(v - shift);
      storeSome(out + i, e, count);
      sum = sum + (count == kLanes ? e : loadTail(out + i, count, 0.0f));
    });
    Floats scale = splat(1.0f / sumLanes(sum));
    forRow(out, p.cols, 0.0f, [&](Floats v, int64_t i, int64_t count) { storeSome(out + i, v * scale, count); });
  }
}

FB_KERNEL(softmax_grad) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<RowsParams>(params);
  const float *dy = static_cast<const float *>(operands[0]);
  const float *y = static_cast<const float *>(operands[1]);
  float *dx = static_cast<float *>(operands[2]);
  Span rows = spanOf(tile, p.rowsPerTile, p.rows);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float *grad = dy + r * p.cols, *out = y + r * p.cols;
    float *in = dx + r * p.cols;
    Floats sum = splat(0.0f);
    forRow(out, p.cols, 0.0f, [&](Floats v, int64_t i, int64_t count) {
      sum = sum + v * loadSome(grad + i, count, 0.0f);
    });
    Floats dot = splat(sumLanes(sum));
    forRow(out, p.cols, 0.0f, [&](Floats v, int64_t i, int64_t count) {
      storeSome(in + i, v * (loadSome(grad + i, count, 0.0f) - dot), count);
    });
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
