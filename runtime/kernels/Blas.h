//===- Blas.h - One single-threaded product --------------------*- C++ -*-===//

#ifndef FOREBAY_KERNELS_BLAS_H
#define FOREBAY_KERNELS_BLAS_H

#include "Simd.h"

#include <cblas.h>

namespace forebay::kernels::FOREBAY_ISA {

/// BLAS insists on a leading dimension of at least a row's length, also for a single row, where it means nothing.
FB_INLINE blasint leading(int64_t given, int64_t rows, int64_t rowLength) {
  return blasint(rows <= 1 ? maxOf(rowLength, 1) : maxOf(given, 1));
}

/// C = alpha * op(A) op(B) + beta * C, row-major. With beta 0 C is not read.
FB_INLINE void product(bool transA, bool transB, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                       const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  if (m == 0 || n == 0)
    return;
  if (k == 0) {
    for (int64_t i = 0; i < m && beta == 0.0f; ++i)
      memset(c + i * ldc, 0, size_t(n) * sizeof(float));
    return;
  }
  cblas_sgemm(CblasRowMajor, transA ? CblasTrans : CblasNoTrans, transB ? CblasTrans : CblasNoTrans, blasint(m), blasint(n),
              blasint(k), alpha, a, transA ? leading(lda, k, m) : leading(lda, m, k), b,
              transB ? leading(ldb, n, k) : leading(ldb, k, n), beta, c, leading(ldc, m, n));
}

} // namespace forebay::kernels::FOREBAY_ISA
#endif
