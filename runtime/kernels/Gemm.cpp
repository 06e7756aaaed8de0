//===- Gemm.cpp - Matrix products on a fixed grid of tiles ----------------===//
//
// Each tile is one sgemm call of single-threaded OpenBLAS: its bits depend on the tile's shape alone.
//
//===----------------------------------------------------------------------===//

#include "Blas.h"

namespace forebay::kernels::FOREBAY_ISA {

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

  product(p.transA, p.transB, m, n, p.k, 1.0f, a, p.lda, b, p.ldb, 0.0f, c, p.ldc);
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
