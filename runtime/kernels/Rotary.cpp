//===- Rotary.cpp - Rotary position embedding -----------------------------===//

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

FB_KERNEL(rotary) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<RotaryParams>(params);
  const float *x = static_cast<const float *>(operands[0]) + p.x.offset;
  const float *cosines = static_cast<const float *>(operands[1]), *sines = static_cast<const float *>(operands[2]);
  float *y = static_cast<float *>(operands[3]) + p.y.offset;
  Span rows = spanOf(tile, p.rowsPerTile, p.batch * p.heads * p.seq);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    int64_t s = r % p.seq, h = r / p.seq % p.heads, b = r / (p.seq * p.heads);
    const float *in = x + b * p.x.stride[2] + h * p.x.stride[3] + s * p.x.stride[4];
    float *out = y + b * p.y.stride[2] + h * p.y.stride[3] + s * p.y.stride[4];
    int64_t angle = (p.perBatch ? b * p.seq + s : s) * p.half;
    const float *cosine = cosines + angle, *sine = sines + angle;
    float sign = p.inverse ? -1.0f : 1.0f;
    for (int64_t i = 0; i < p.half; ++i) {
      int64_t ia = p.interleaved ? 2 * i : i, ib = p.interleaved ? 2 * i + 1 : i + p.half;
      float a = in[ia], c = in[ib], sn = sine[i] * sign;
      out[ia] = a * cosine[i] - c * sn;
      out[ib] = c * cosine[i] + a * sn;
    }
    if (in != out)
      memcpy(out + 2 * p.half, in + 2 * p.half, size_t(p.dim - 2 * p.half) * sizeof(float));
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
