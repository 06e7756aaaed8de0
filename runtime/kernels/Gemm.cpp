//===- Gemm.cpp - Matrix products on a fixed grid of tiles ----------------===//
//
// Each tile is one sgemm call of single-threaded OpenBLAS: its bits depend on the tile's shape alone.
//
//===----------------------------------------------------------------------===//

#include "Simd.h"

#include <cblas.h>

namespace forebay::kernels::FOREBAY_ISA {

namespace {
/// BLAS insists on a leading dimension of at least a row's length, also for a single row, where it means nothing.
FB_INLINE blasint leading(int64_t given, int64_t rows, int64_t rowLength) {
  return blasint(rows <= 1 ? maxOf(rowLength, 1) : maxOf(given, 1));
}
} // namespace

FB_KERNEL(gemm) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<GemmParams>(params);
  const float *a = static_cast<const float *>(operands[0]) + p.offA;
  const float *b = static_cast<const float *>(operands[1]) + p.offB;
  const float *bias = p.bias ? static_cast<const float *>(operands[2]) : nullptr;
  float *c = static_cast<float *>(operands[p.bias ? 3 : 2]) + p.offC;

  int64_t tilesN = ceilDiv(p.n, p.tileN), tilesM = ceilDiv(p.m, p.tileM);
  Span columns = spanOf(tile % tilesN, p.tileN, p.n), rows = spanOf(tile / tilesN % tilesM, p.tileM, p.m);
  int64_t index = tile / (tilesN * tilesM);
  for (int d = 3; d >= 0; --d) {
    int64_t i = index % p.batch[d];
    index /= p.batch[d];
    a += i * p.strideA[d], b += i * p.strideB[d], c += i * p.strideC[d];
  }
  a += rows.begin * (p.transA ? 1 : p.lda);
  b += columns.begin * (p.transB ? p.ldb : 1);
  c += rows.begin * p.ldc + columns.begin;
  int64_t m = rows.end - rows.begin, n = columns.end - columns.begin;

  if (p.k == 0) {
    for (int64_t i = 0; i < m; ++i)
      memset(c + i * p.ldc, 0, size_t(n) * sizeof(float));
  } else {
    blasint lda = p.transA ? leading(p.lda, p.k, m) : leading(p.lda, m, p.k);
    blasint ldb = p.transB ? leading(p.ldb, n, p.k) : leading(p.ldb, p.k, n);
    cblas_sgemm(CblasRowMajor, p.transA ? CblasTrans : CblasNoTrans, p.transB ? CblasTrans : CblasNoTrans, blasint(m),
                blasint(n), blasint(p.k), 1.0f, a, lda, b, ldb, 0.0f, c, leading(p.ldc, m, n));
  }
  if (!bias)
    return;
  bias += columns.begin;
  for (int64_t i = 0; i < m; ++i) {
    float *row = c + i * p.ldc;
    for (int64_t j = 0; j < n; ++j)
      row[j] = row[j] + bias[j];
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
