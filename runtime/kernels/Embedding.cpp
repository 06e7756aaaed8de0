//===- Embedding.cpp - Rows of a table, and the gradient of the table -----===//

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

namespace {

FB_INLINE int64_t idOf(const void *ids, const EmbeddingParams &p, int64_t i) {
  return p.idBytes == 8 ? static_cast<const int64_t *>(ids)[i] : static_cast<const int32_t *>(ids)[i];
}

/// Row of the table that an id names, or -1. Negative ids count from the end.
FB_INLINE int64_t rowOf(const void *ids, const EmbeddingParams &p, int64_t i) {
  int64_t id = idOf(ids, p, i);
  if (id < 0)
    id += p.vocab;
  return id >= 0 && id < p.vocab ? id : -1;
}

} // namespace

FB_KERNEL(embedding) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<EmbeddingParams>(params);
  const char *table = static_cast<const char *>(operands[0]);
  char *out = static_cast<char *>(operands[2]);
  size_t bytes = size_t(p.width * p.elementBytes);
  Span span = spanOf(tile, p.rowsPerTile, p.count);
  for (int64_t i = span.begin; i < span.end; ++i) {
    int64_t row = rowOf(operands[1], p, i);
    char *to = out + size_t(i) * bytes;
    if (row >= 0) {
      memcpy(to, table + size_t(row) * bytes, bytes);
      continue;
    }
    memset(to, 0xff, bytes);
    reportBadIndex(idOf(operands[1], p, i), p.vocab);
  }
}

FB_KERNEL(embedding_grad) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<EmbeddingParams>(params);
  const float *grad = static_cast<const float *>(operands[0]);
  const void *ids = operands[1];
  float *table = static_cast<float *>(operands[p.add ? 3 : 2]);
  Span span = spanOf(tile, p.rowsPerTile, p.vocab);
  size_t bytes = size_t((span.end - span.begin) * p.width) * sizeof(float);
  if (!p.add)
    memset(table + span.begin * p.width, 0, bytes);
  else if (operands[2] != operands[3])
    memcpy(table + span.begin * p.width, static_cast<const float *>(operands[2]) + span.begin * p.width, bytes);
  for (int64_t i = 0; i < p.count; ++i) {
    int64_t row = rowOf(ids, p, i);
    if (row < span.begin || row >= span.end)
      continue;
    float *to = table + row * p.width;
    const float *from = grad + i * p.width;
    for (int64_t j = 0; j < p.width; ++j)
      to[j] = to[j] + from[j];
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
