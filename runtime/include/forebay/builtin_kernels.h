//===- builtin_kernels.h - Parameter blocks of built-in kernels -*- C++ -*-===//
///
/// \file
/// The hand-written kernels that a program may name, and the block of int64 that each takes as
/// `params`. The compiler fills the blocks, the runtime reads them. Strides and offsets are in elements. A double
/// travels as its bit pattern (`Bits`). Element type is f32 unless said otherwise.
///
/// Every sum runs in a fixed tree (16 interleaved lanes combined pairwise, rows in order), so that results do not depend on
/// threads or instruction set; see docs/algorithms/kernels.md.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_BUILTIN_KERNELS_H
#define FOREBAY_BUILTIN_KERNELS_H

#include <cstdint>
#include <cstring>

namespace forebay::kernels {

using Bits = int64_t;
inline Bits toBits(double value) {
  Bits bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline double fromBits(Bits bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// "gemm": C[b] = A[b] B[b] (+ bias). Operands: A, B, (bias [n] if `bias`), C.
/// A is m x k and B is k x n after the optional transposition; element (i, j) of A is at
/// offA + sum(batch index * strideA) + i * lda + j, or j * lda + i with transA; likewise B, C (C is never transposed).
/// Batch is up to 4 nested dimensions (size 1 where unused). Tile t of phase 0: batch-major, then row tiles, then column tiles;
/// tileM x tileN is fixed at compile time from the shape alone (see `gemmTile` in lib/Conversion).
struct GemmParams {
  int64_t m, n, k, transA, transB, lda, ldb, ldc, offA, offB, offC;
  int64_t batch[4], strideA[4], strideB[4], strideC[4];
  int64_t tileM, tileN, bias;
};

/// A strided view of a contiguous operand: element (i0, .., i5) is at offset + sum(i * stride). Rank <= 6, leading
/// dimensions of size 1 where the rank is lower.
struct View {
  int64_t offset, stride[6];
};

/// "softmax": x [rows, cols] -> y.  "softmax_grad": dy, y -> dx.  tiles: ceil(rows / rowsPerTile).
struct RowsParams {
  int64_t rows, cols, rowsPerTile;
};

/// "layer_norm": x, [weight], [bias] -> y, mean, rstd.   "rms_norm": x, [weight] -> y, rstd.
/// "layer_norm_grad": dy, x, mean, rstd, [weight] -> dx, dweight, dbias, workspace.
/// "rms_norm_grad": dy, x, rstd, [weight] -> dx, dweight, workspace.
/// Gradients have two phases: 0, tiles of rowsPerTile rows: dx and partial sums of dweight (and dbias) of the tile into the workspace
/// [tiles][1 or 2][cols] f32; 1, tiles of 64 columns: partials added in order of tiles.
struct NormParams {
  int64_t rows, cols, rowsPerTile, hasWeight, hasBias, unitOffset;
  Bits eps;
};

/// "attention": q, k, v, [mask], [key_padding] -> o, lse.
/// "attention_grad": do, q, k, v, o, lse, [mask], [key_padding] -> dq, dk, dv, workspace.
/// Views are over (b, h, s, d) = stride[2..5] of View; the innermost stride is 1. lse is [B, H, Sq] contiguous.
/// mask: View over (b, h, q, k) with stride 0 where broadcast; maskKind 0 none, 1 bool (i1 stored as one byte), 2 float.
/// key_padding: bool bytes [B, Sk] contiguous. window 0: none. softcap 0.0: none.
/// "attention": phase 0, tiles (b, h, ceil(Sq / blockQ)). "attention_grad": phase 0 delta = rowsum(do * o) into the workspace
/// [B, H, Sq] f32; phase 1 dq: tiles (b, h, ceil(Sq / blockQ)); phase 2 dk, dv: tiles (b, hk, ceil(Sk / blockK)).
struct AttentionParams {
  int64_t batch, heads, kvHeads, queries, keys, dim, valueDim;
  View q, k, v, o, dO, dq, dk, dv, mask;
  int64_t maskKind, hasPadding, causal, window, blockQ, blockK;
  Bits scale, softcap;
};

/// "rotary": x, cos, sin -> y. View x, y over (b, h, s, d); cos, sin contiguous [S, half] or [B, S, half] (`perBatch`).
/// tiles: ceil(B * H * S / rowsPerTile).
struct RotaryParams {
  int64_t batch, heads, seq, dim, half, perBatch, interleaved, inverse, rowsPerTile;
  View x, y;
};

/// "embedding": table [V, width], ids [n] (idBytes 4 or 8) -> [n, width]; any element size (`elementBytes`). tiles: ceil(n / rowsPerTile).
/// "embedding_grad": grad [n, width], ids [n] -> dtable [V, width]. tiles: blocks of rows of the table,
/// ceil(V / rowsPerTile): zeroes its rows, then scans the ids in order and adds.
struct EmbeddingParams {
  int64_t vocab, width, count, idBytes, elementBytes, rowsPerTile;
};

/// "cross_entropy": logits [rows, cols], labels [rows] -> loss [], lse [rows], workspace [rows] f32 (loss of a row).
/// phase 0: row tiles; phase 1: one tile, the mean or sum.
/// "cross_entropy_grad": dloss [], logits, labels, lse -> dlogits (may be in place over logits). phase 0: row tiles.
struct CrossEntropyParams {
  int64_t rows, cols, idBytes, ignoreIndex, sum, rowsPerTile;
};

/// "reduce": x -> y. x is viewed as [outer, reduce, inner] contiguous; y [outer, inner].
/// kind 0 sum, 1 max, 2 min, 3 product. Fixed tree: docs/algorithms/kernels.md. phase 0: tiles of (outer, inner) elements or, for long
/// reductions, partial sums of `reducePerTile` elements into the workspace, added in order in phase 1.
struct ReduceParams {
  int64_t outer, reduce, inner, kind, elementsPerTile, reducePerTile;
};

/// "copy": strided copy of one tensor, any element size: dst(view) = src(view). sizes: rank 6. tiles over the outermost dimensions.
struct CopyParams {
  int64_t size[6];
  View src, dst;
  int64_t elementBytes, rowsPerTile;
};

/// "fill": dst[0 .. count) = the low elementBytes bytes of `pattern`. tiles: ceil(count / elementsPerTile).
struct FillParams {
  int64_t count, elementBytes, pattern, elementsPerTile;
};

/// "accumulate": acc, grad -> acc (in place): acc += grad.
/// "norm_partials": grad [count] -> partials [ceil(count / 1024)]; each element is divided by `accumulate` first (not if 1).
struct FlatParams {
  int64_t count, accumulate, elementsPerTile;
};

/// "verdict": partials of `gradients` gradients -> verdict [4]; one tile. `hasClip`, clip.
/// params continue with the number of partials of each gradient.
struct VerdictParams {
  int64_t gradients, hasClip;
  Bits clip;
};

} // namespace forebay::kernels
#endif
