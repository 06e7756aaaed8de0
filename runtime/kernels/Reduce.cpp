//===- Reduce.cpp - Sums, maxima, minima, products along one axis ---------===//
//
// Sums of contiguous elements (inner = 1) run in 16 lanes; sums of rows add four rows at a time, (a + b) + (c + d), to the total.
// Chunks of the reduced axis are added in order.
//
//===----------------------------------------------------------------------===//

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

namespace {

struct Sum {
  static constexpr float identity = 0.0f;
  template <typename T> FB_INLINE T apply(T a, T b) { return a + b; }
};
struct Product {
  static constexpr float identity = 1.0f;
  template <typename T> FB_INLINE T apply(T a, T b) { return a * b; }
};
// Both keep a NaN on either side.
struct Max {
  static constexpr float identity = -kInfinity;
  template <typename T> FB_INLINE T apply(T a, T b) {
    T r = a > b ? a : b;
    return a == a ? r : a;
  }
};
struct Min {
  static constexpr float identity = kInfinity;
  template <typename T> FB_INLINE T apply(T a, T b) {
    T r = a < b ? a : b;
    return a == a ? r : a;
  }
};

template <typename Op> FB_INLINE float reduceContiguous(const float *x, int64_t n) {
  Floats total = splat(Op::identity);
  forRow(x, n, Op::identity, [&](Floats v, int64_t, int64_t) { total = Op::apply(total, v); });
  float lane[16];
  store(lane, total);
  for (int width = 8; width >= 1; width /= 2)
    for (int i = 0; i < width; ++i)
      lane[i] = Op::apply(lane[i], lane[i + width]);
  return lane[0];
}

/// out[0 .. n) = the reduction of `rows` rows that lie `stride` apart.
template <typename Op>
FB_INLINE void reduceRows(const float *x, int64_t rows, int64_t stride, float *out, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    out[j] = Op::identity;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float *a = x + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes)
      store(out + j, Op::apply(load(out + j), Op::apply(Op::apply(load(a + j), load(b + j)),
                                                        Op::apply(load(c + j), load(d + j)))));
    for (; j < n; ++j)
      out[j] = Op::apply(out[j], Op::apply(Op::apply(a[j], b[j]), Op::apply(c[j], d[j])));
  }
  for (; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j)
      out[j] = Op::apply(out[j], x[r * stride + j]);
}

template <typename Op>
FB_INLINE void reduceWith(const ReduceParams &p, const float *x, float *y, float *workspace, int32_t phase, int64_t tile) {
  int64_t chunks = reduceChunks(p), outputs = p.outer * p.inner, parts = ceilDiv(outputs, p.elementsPerTile);
  Span elements = spanOf(tile % parts, p.elementsPerTile, outputs);
  if (phase == 1)
    return reduceRows<Op>(workspace + elements.begin, chunks, outputs, y + elements.begin, elements.end - elements.begin);
  int64_t chunk = tile / parts;
  Span reduced = spanOf(chunk, p.reducePerTile, p.reduce);
  int64_t rows = reduced.end - reduced.begin;
  float *out = chunks > 1 ? workspace + chunk * outputs : y;
  for (int64_t e = elements.begin; e < elements.end;) {
    int64_t outer = e / p.inner, inner = e % p.inner;
    const float *in = x + (outer * p.reduce + reduced.begin) * p.inner + inner;
    if (p.inner == 1) {
      out[e++] = reduceContiguous<Op>(in, rows);
      continue;
    }
    int64_t n = minOf(p.inner - inner, elements.end - e);
    reduceRows<Op>(in, rows, p.inner, out + e, n);
    e += n;
  }
}

} // namespace

FB_KERNEL(reduce) {
  (void)scratch;
  const auto &p = paramsAs<ReduceParams>(params);
  const float *x = static_cast<const float *>(operands[0]);
  float *y = static_cast<float *>(operands[1]);
  float *workspace = reduceChunks(p) > 1 ? static_cast<float *>(operands[2]) : nullptr;
  switch (p.kind) {
  case 0:
    return reduceWith<Sum>(p, x, y, workspace, phase, tile);
  case 1:
    return reduceWith<Max>(p, x, y, workspace, phase, tile);
  case 2:
    return reduceWith<Min>(p, x, y, workspace, phase, tile);
  default:
    return reduceWith<Product>(p, x, y, workspace, phase, tile);
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
