//===- Gradients.cpp - Accumulation, norm and verdict ---------------------===//

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

FB_KERNEL(accumulate) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<FlatParams>(params);
  const float *sum = static_cast<const float *>(operands[0]), *grad = static_cast<const float *>(operands[1]);
  float *out = static_cast<float *>(operands[2]); // usually `sum`
  Span span = spanOf(tile, p.elementsPerTile, p.count);
  forRow(grad + span.begin, span.end - span.begin, 0.0f, [&](Floats v, int64_t i, int64_t count) {
    storeSome(out + span.begin + i, loadSome(sum + span.begin + i, count, 0.0f) + v, count);
  });
}

FB_KERNEL(norm_partials) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<FlatParams>(params);
  const float *grad = static_cast<const float *>(operands[0]);
  float *partials = static_cast<float *>(operands[1]);
  Floats divisor = splat(float(p.accumulate));
  Span span = spanOf(tile, p.elementsPerTile, p.count);
  for (int64_t begin = span.begin; begin < span.end; begin += 1024) {
    Floats sum = splat(0.0f);
    int64_t count = minOf(1024, span.end - begin);
    if (p.accumulate == 1)
      forRow(grad + begin, count, 0.0f, [&](Floats v, int64_t, int64_t) { sum = sum + v * v; });
    else
      forRow(grad + begin, count, 0.0f, [&](Floats v, int64_t, int64_t) {
        v = v / divisor;
        sum = sum + v * v;
      });
    partials[begin / 1024] = sumLanes(sum);
  }
}

FB_KERNEL(verdict) {
  (void)phase, (void)tile, (void)scratch;
  const auto &p = paramsAs<VerdictParams>(params);
  const int64_t *counts = params + sizeof(VerdictParams) / sizeof(int64_t);
  float *result = static_cast<float *>(operands[p.gradients]);
  double total = 0.0;
  int64_t firstBad = -1;
  for (int64_t g = 0; g < p.gradients; ++g) {
    const float *partials = static_cast<const float *>(operands[g]);
    double sum = 0.0;
    for (int64_t i = 0; i < counts[g]; ++i)
      sum = sum + double(partials[i]);
    bool finite = sum - sum == 0.0;
    if (!finite && firstBad < 0)
      firstBad = g;
    total = total + sum;
  }
  float norm = float(__builtin_sqrt(total));
  double clip = fromBits(p.clip);
  bool clipped = p.hasClip && firstBad < 0 && double(norm) > clip;
  result[0] = norm;
  result[1] = clipped ? float(clip / double(norm)) : 1.0f;
  result[2] = firstBad < 0 ? 1.0f : 0.0f;
  result[3] = float(firstBad);
}

} // namespace forebay::kernels::FOREBAY_ISA
