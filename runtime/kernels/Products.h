//===- Products.h - Small products on packed panels -------------*- C++ -*-===//
///
/// \file
/// The products of attention: too small for a library that packs its operands at every call. Each element of a product is one chain of
/// fused multiply-adds in the order of the inner dimension, whatever the blocking, so the bits depend on neither the instruction
/// set nor a BLAS. (Without FMA in hardware, `fma` is a call: right, but slow.)
///
/// A packed matrix B [depth, cols] is a row of panels of 16 columns, each [depth][16], columns past the end being 0.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_KERNELS_PRODUCTS_H
#define FOREBAY_KERNELS_PRODUCTS_H

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

FB_INLINE Floats fmaOf(Floats a, Floats b, Floats c) {
#if defined(__clang__)
  return __builtin_elementwise_fma(a, b, c);
#else
  for (int i = 0; i < kLanes; ++i)
    c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#endif
}

typedef float Quad __attribute__((vector_size(16)));

/// dst[i][j] = src[j][i] of 4 x 4 elements.
FB_INLINE void transposeQuad(const float *src, int64_t srcStride, float *dst, int64_t dstStride) {
  Quad row[4];
  for (int i = 0; i < 4; ++i)
    memcpy(&row[i], src + i * srcStride, sizeof(Quad));
  Quad a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5), b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  Quad c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7), d = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  Quad out[4] = {__builtin_shufflevector(a, b, 0, 1, 4, 5), __builtin_shufflevector(a, b, 2, 3, 6, 7),
                 __builtin_shufflevector(c, d, 0, 1, 4, 5), __builtin_shufflevector(c, d, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i)
    memcpy(dst + i * dstStride, &out[i], sizeof(Quad));
}

/// Packs B = src [depth, cols].
FB_INLINE void packRows(const float *src, int64_t stride, int64_t depth, int64_t cols, float *packed) {
  for (int64_t begin = 0; begin < cols; begin += kLanes) {
    int64_t count = minOf(kLanes, cols - begin);
    for (int64_t l = 0; l < depth; ++l, packed += kLanes)
      store(packed, loadSome(src + l * stride + begin, count, 0.0f));
  }
}

/// Packs B = src^T of src [cols, depth].
FB_INLINE void packTransposed(const float *src, int64_t stride, int64_t cols, int64_t depth, float *packed) {
  for (int64_t begin = 0; begin < cols; begin += kLanes, packed += depth * kLanes) {
    int64_t count = minOf(kLanes, cols - begin), whole = count / 4 * 4, l = 0;
    const float *rows = src + begin * stride;
    for (; l + 4 <= depth; l += 4)
      for (int64_t j = 0; j < whole; j += 4)
        transposeQuad(rows + j * stride + l, stride, packed + l * kLanes + j, kLanes);
    for (; l < depth; ++l)
      for (int64_t j = 0; j < whole; ++j)
        packed[l * kLanes + j] = rows[j * stride + l];
    for (int64_t j = whole; j < kLanes; ++j)
      for (l = 0; l < depth; ++l)
        packed[l * kLanes + j] = j < count ? rows[j * stride + l] : 0.0f;
  }
}

/// Rows x 16 elements: c = alpha * a b, or c + alpha * a b.
template <int Rows, bool Add>
FB_INLINE void multiplyBlock(int64_t cols, int64_t depth, const float *a, int64_t aRow, int64_t aStep, const float *panel,
                             float alpha, float *c, int64_t cRow) {
  Floats sum[Rows];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
    sum[r] = splat(0.0f);
  for (int64_t l = 0; l < depth; ++l) {
    Floats b = load(panel + l * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
      sum[r] = fmaOf(splat(a[r * aRow + l * aStep]), b, sum[r]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    Floats value = sum[r] * splat(alpha);
    float *out = c + r * cRow;
    storeSome(out, Add ? loadSome(out, cols, 0.0f) + value : value, cols);
  }
}

#if defined(__AVX512F__)
constexpr int kRowsAtOnce = 12;
#else
constexpr int kRowsAtOnce = 6;
#endif

/// C [rows, cols] = alpha * A B, or with Add C + alpha * A B. A(i, l) = a[i * aRow + l * aStep]; B is packed, `panelDepth` being the depth
/// with which it was packed (of which the first `depth` rows from `panels` are used). Without Add, C's rows must have room for
/// whole vectors.
template <bool Add>
FB_INLINE void multiplyPanels(int64_t rows, int64_t cols, int64_t depth, const float *a, int64_t aRow, int64_t aStep,
                              const float *panels, int64_t panelDepth, float alpha, float *c, int64_t cRow) {
  for (int64_t j = 0; j < cols; j += kLanes, panels += panelDepth * kLanes) {
    int64_t count = Add ? minOf(kLanes, cols - j) : kLanes, i = 0;
    for (; i + kRowsAtOnce <= rows; i += kRowsAtOnce)
      multiplyBlock<kRowsAtOnce, Add>(count, depth, a + i * aRow, aRow, aStep, panels, alpha, c + i * cRow + j, cRow);
    for (; i + 4 <= rows; i += 4)
      multiplyBlock<4, Add>(count, depth, a + i * aRow, aRow, aStep, panels, alpha, c + i * cRow + j, cRow);
    for (; i < rows; ++i)
      multiplyBlock<1, Add>(count, depth, a + i * aRow, aRow, aStep, panels, alpha, c + i * cRow + j, cRow);
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
#endif
