//===- StreamKernels.cpp - What is compiled in a program, to measure it ---===//

#include "StreamKernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace forebay::rt;

namespace {

#define FB_BODY static inline __attribute__((always_inline)) void

struct Span {
  int64_t begin, end;
};
inline __attribute__((always_inline)) Span spanOf(const int64_t *params, int64_t tile) {
  return {tile * params[2], std::min((tile + 1) * params[2], params[0])};
}

FB_BODY triadBody(void *const *operands, const int64_t *params, int64_t tile) {
  auto *__restrict b = static_cast<const float *>(operands[0]);
  auto *__restrict c = static_cast<const float *>(operands[1]);
  auto *__restrict a = static_cast<float *>(operands[2]);
  Span span = spanOf(params, tile);
  for (int64_t i = span.begin; i < span.end; ++i)
    a[i] = b[i] + 0.5f * c[i];
}

FB_BODY adamwBody(void *const *operands, const int64_t *params, int64_t tile) {
  auto *__restrict p = static_cast<float *>(operands[0]);
  auto *__restrict m = static_cast<float *>(operands[1]);
  auto *__restrict v = static_cast<float *>(operands[2]);
  auto *__restrict g = static_cast<const float *>(operands[3]);
  Span span = spanOf(params, tile);
  for (int64_t i = span.begin; i < span.end; ++i) {
    float gradient = g[i], decayed = p[i] * (1.0f - 1e-6f);
    float first = 0.9f * m[i] + (1.0f - 0.9f) * gradient;
    float second = 0.999f * v[i] + (1.0f - 0.999f) * (gradient * gradient);
    m[i] = first;
    v[i] = second;
    p[i] = decayed - 1e-4f * (first * 1.1f) / (std::sqrt(second * 1.001f) + 1e-8f);
  }
}

FB_BODY toBf16Body(void *const *operands, const int64_t *params, int64_t tile) {
  auto *__restrict x = static_cast<const uint32_t *>(operands[0]);
  auto *__restrict y = static_cast<uint16_t *>(operands[1]);
  Span span = spanOf(params, tile);
  for (int64_t i = span.begin; i < span.end; ++i) {
    uint32_t bits = x[i], rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    y[i] = uint16_t((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16) | 0x40 : rounded);
  }
}

FB_BODY fromBf16Body(void *const *operands, const int64_t *params, int64_t tile) {
  auto *__restrict x = static_cast<const uint16_t *>(operands[0]);
  auto *__restrict y = static_cast<uint32_t *>(operands[1]);
  Span span = spanOf(params, tile);
  for (int64_t i = span.begin; i < span.end; ++i)
    y[i] = uint32_t(x[i]) << 16;
}

void nothing(void *const *, const int64_t *, int32_t, int64_t, void *) {}

// One set of functions for each instruction set that is worth it; the bodies are inlined into them.
#define FB_SET(NAME, TARGET)                                                                                                                     \
  TARGET void triad_##NAME(void *const *o, const int64_t *p, int32_t, int64_t t, void *) { triadBody(o, p, t); }                                 \
  TARGET void adamw_##NAME(void *const *o, const int64_t *p, int32_t, int64_t t, void *) { adamwBody(o, p, t); }                                 \
  TARGET void toBf16_##NAME(void *const *o, const int64_t *p, int32_t, int64_t t, void *) { toBf16Body(o, p, t); }                               \
  TARGET void fromBf16_##NAME(void *const *o, const int64_t *p, int32_t, int64_t t, void *) { fromBf16Body(o, p, t); }                           \
  const StreamKernels set_##NAME = {triad_##NAME, adamw_##NAME, toBf16_##NAME, fromBf16_##NAME, nothing};

FB_SET(plain, )
#if defined(__x86_64__)
FB_SET(avx2, __attribute__((target("avx2"))))
FB_SET(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

} // namespace

const StreamKernels &forebay::rt::streamKernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return set_avx512;
  if (__builtin_cpu_supports("avx2"))
    return set_avx2;
#endif
  return set_plain;
}
