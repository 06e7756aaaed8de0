//===- Simd.h - Sixteen lanes, the same bits everywhere ---------*- C++ -*-===//
///
/// \file
/// Vectors of 16 floats in GCC's and clang's vector syntax: four, two or one register, depending on the instruction
/// set; the arithmetic of a lane is IEEE single precision in the order written (the files are compiled with
/// -ffp-contract=off and without fast-math). FMA only where `fmaOf` stands (Products.h).
///
/// Everything lies in a namespace named after the instruction set, and nothing from the C++ library that could be emitted as a
/// shared function is used: the linker would keep one copy, perhaps the one this CPU cannot run.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_KERNELS_SIMD_H
#define FOREBAY_KERNELS_SIMD_H

#include "forebay/builtin_kernels.h"
#include "forebay/kernels.h"

#include <cstdint>
#include <cstring>

#ifndef FOREBAY_ISA
#error "compiled once per instruction set: see CMakeLists.txt"
#endif

namespace forebay::kernels::FOREBAY_ISA {

constexpr int64_t kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));

constexpr float kInfinity = __builtin_inff();

#define FB_INLINE static inline __attribute__((always_inline))

FB_INLINE Floats splat(float x) { return Floats{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
FB_INLINE Words splatWord(uint32_t x) { return Words{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
FB_INLINE Floats load(const float *p) {
  Floats v;
  memcpy(&v, p, sizeof v);
  return v;
}
FB_INLINE void store(float *p, Floats v) { memcpy(p, &v, sizeof v); }
/// The first `count` < 16 elements; `fill` in the other lanes.
FB_INLINE Floats loadTail(const float *p, int64_t count, float fill) {
  Floats v = splat(fill);
  memcpy(&v, p, size_t(count) * sizeof(float));
  return v;
}
FB_INLINE void storeTail(float *p, Floats v, int64_t count) { memcpy(p, &v, size_t(count) * sizeof(float)); }

/// a where a > b, else b: a NaN in a is dropped, one in b is kept.
FB_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }

/// The lanes' sum: lane i + lane i + 8, then + 4, + 2, + 1.
FB_INLINE float sumLanes(Floats v) {
  float lane[16];
  store(lane, v);
  for (int width = 8; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i)
      lane[i] = lane[i] + lane[i + width];
  return lane[0];
}
FB_INLINE float maxLanes(Floats v) {
  float lane[16];
  store(lane, v);
  for (int width = 8; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i)
      lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  return lane[0];
}

/// The largest element, NaN ignored; -inf of none.
FB_INLINE float maxOfRow(const float *x, int64_t n) {
  Floats best = splat(-kInfinity);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    best = larger(load(x + i), best);
  if (i < n)
    best = larger(loadTail(x + i, n - i, -kInfinity), best);
  return maxLanes(best);
}

/// Calls f(vector of x[i..], i, count) for whole vectors and the tail (filled with `fill`).
template <typename F> FB_INLINE void forRow(const float *x, int64_t n, float fill, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    f(load(x + i), i, kLanes);
  if (i < n)
    f(loadTail(x + i, n - i, fill), i, n - i);
}
FB_INLINE Floats loadSome(const float *p, int64_t count, float fill) {
  return count == kLanes ? load(p) : loadTail(p, count, fill);
}
FB_INLINE void storeSome(float *p, Floats v, int64_t count) {
  if (count == kLanes)
    store(p, v);
  else
    storeTail(p, v, count);
}

/// Half-open range of rows (or elements) of a tile.
struct Span {
  int64_t begin, end;
};
FB_INLINE Span spanOf(int64_t tile, int64_t perTile, int64_t count) {
  return {tile * perTile, minOf((tile + 1) * perTile, count)};
}

template <typename T> FB_INLINE const T &paramsAs(const int64_t *params) {
  static_assert(sizeof(T) % sizeof(int64_t) == 0, "parameter blocks are int64");
  return *reinterpret_cast<const T *>(params);
}

// The kernels, all of type fb_kernel_fn.
#define FB_KERNEL(NAME)                                                                                                \
  void NAME(void *const *operands, const int64_t *params, int32_t phase, int64_t tile, void *scratch)
#define FB_KERNELS(X)                                                                                                  \
  X(gemm) X(softmax) X(softmax_grad) X(layer_norm) X(layer_norm_grad) X(rms_norm) X(rms_norm_grad)                     \
  X(attention) X(attention_grad) X(rotary) X(embedding) X(embedding_grad) X(cross_entropy) X(cross_entropy_grad)       \
  X(reduce) X(copy) X(fill) X(accumulate) X(norm_partials) X(verdict)
#define FB_DECLARE(NAME) FB_KERNEL(NAME);
FB_KERNELS(FB_DECLARE)
#undef FB_DECLARE

} // namespace forebay::kernels::FOREBAY_ISA
#endif
