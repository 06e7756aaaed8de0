//===- Copy.cpp - Strided copies (transpositions) and fills ---------------===//

#include "Products.h"

namespace forebay::kernels::FOREBAY_ISA {

namespace {

template <typename T>
FB_INLINE void transposeBlock(const T *src, int64_t srcStride, T *dst, int64_t dstStride, int64_t rows, int64_t cols) {
  // dst [rows, cols], contiguous along cols; src [cols, rows], contiguous along rows.
  int64_t i = 0;
  if constexpr (sizeof(T) == 4)
    for (; i + 4 <= rows; i += 4) {
      int64_t j = 0;
      for (; j + 4 <= cols; j += 4)
        transposeQuad(reinterpret_cast<const float *>(src + j * srcStride + i), srcStride,
                      reinterpret_cast<float *>(dst + i * dstStride + j), dstStride);
      for (; j < cols; ++j)
        for (int64_t k = i; k < i + 4; ++k)
          dst[k * dstStride + j] = src[j * srcStride + k];
    }
  for (; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      dst[i * dstStride + j] = src[j * srcStride + i];
}

/// The two last dimensions: rows x cols elements.
template <typename T>
FB_INLINE void copyPlane(const T *src, int64_t srcRow, int64_t srcCol, T *dst, int64_t dstRow, int64_t dstCol, int64_t rows,
                         int64_t cols) {
  if (srcCol == 1 && dstCol == 1) {
    for (int64_t i = 0; i < rows; ++i)
      memcpy(dst + i * dstRow, src + i * srcRow, size_t(cols) * sizeof(T));
    return;
  }
  if (srcCol == 0 && dstCol == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      T value = src[i * srcRow];
      for (int64_t j = 0; j < cols; ++j)
        dst[i * dstRow + j] = value;
    }
    return;
  }
  if (srcRow == 1 && dstCol == 1) {
    // Whole cache lines of 16 rows of src, written to 64 rows of dst: few enough lines even where strides are powers of 2.
    constexpr int64_t kRows = 64, kCols = 16;
    for (int64_t i = 0; i < rows; i += kRows)
      for (int64_t j = 0; j < cols; j += kCols)
        transposeBlock(src + j * srcCol + i, srcCol, dst + i * dstRow + j, dstRow, minOf(kRows, rows - i),
                       minOf(kCols, cols - j));
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      dst[i * dstRow + j * dstCol] = src[i * srcRow + j * srcCol];
}

template <typename T> FB_INLINE void copyTile(const CopyParams &p, const void *source, void *target, int64_t tile) {
  const T *src = static_cast<const T *>(source) + p.src.offset;
  T *dst = static_cast<T *>(target) + p.dst.offset;
  int64_t rows = p.size[0] * p.size[1] * p.size[2] * p.size[3] * p.size[4];
  Span span = spanOf(tile, p.rowsPerTile, rows);
  for (int64_t row = span.begin; row < span.end;) {
    // Rows up to the end of dimension 4, or of the tile, form a plane.
    int64_t index = row, from = 0, to = 0;
    for (int d = 4; d >= 0; --d) {
      int64_t i = index % p.size[d];
      index /= p.size[d];
      from += i * p.src.stride[d], to += i * p.dst.stride[d];
    }
    int64_t count = minOf(p.size[4] - row % p.size[4], span.end - row);
    copyPlane(src + from, p.src.stride[4], p.src.stride[5], dst + to, p.dst.stride[4], p.dst.stride[5], count, p.size[5]);
    row += count;
  }
}

template <typename T> FB_INLINE void fillSpan(void *target, int64_t pattern, Span span) {
  T *dst = static_cast<T *>(target);
  for (int64_t i = span.begin; i < span.end; ++i)
    dst[i] = T(pattern);
}

struct Wide {
  uint64_t half[2];
};

} // namespace

FB_KERNEL(copy) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<CopyParams>(params);
  switch (p.elementBytes) {
  case 1:
    return copyTile<uint8_t>(p, operands[0], operands[1], tile);
  case 2:
    return copyTile<uint16_t>(p, operands[0], operands[1], tile);
  case 4:
    return copyTile<uint32_t>(p, operands[0], operands[1], tile);
  case 8:
    return copyTile<uint64_t>(p, operands[0], operands[1], tile);
  default:
    return copyTile<Wide>(p, operands[0], operands[1], tile);
  }
}

FB_KERNEL(fill) {
  (void)phase, (void)scratch;
  const auto &p = paramsAs<FillParams>(params);
  Span span = spanOf(tile, p.elementsPerTile, p.count);
  switch (p.elementBytes) {
  case 1:
    return fillSpan<uint8_t>(operands[0], p.pattern, span);
  case 2:
    return fillSpan<uint16_t>(operands[0], p.pattern, span);
  case 4:
    return fillSpan<uint32_t>(operands[0], p.pattern, span);
  default:
    return fillSpan<uint64_t>(operands[0], p.pattern, span);
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
