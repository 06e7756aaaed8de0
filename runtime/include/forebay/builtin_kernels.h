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

// Functions here are static: the kernels are compiled once per instruction set, and a shared inline function would be
// linked from whichever object came first.

using Bits = int64_t;
static inline Bits toBits(double value) {
  Bits bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline double fromBits(Bits bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// What the engine must know to run a kernel; the `...Launch` functions below compute it from the parameter block, so that
/// compiler and kernels agree. A workspace of 0 bytes means that there is no workspace operand.
struct Launch {
  int32_t phases = 1;
  int64_t tiles[3] = {0, 0, 0};
  int64_t scratchBytes = 0;    ///< for each worker
  int64_t workspaceBytes = 0;  ///< last operand
};

static inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t minOf(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t maxOf(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }
static inline Launch onePhase(int64_t tiles) {
  Launch launch;
  launch.tiles[0] = tiles;
  return launch;
}

/// Rows that make a tile of about 32 Ki elements: the default of every `rowsPerTile`.
static inline int64_t defaultRowsPerTile(int64_t rows, int64_t cols) {
  int64_t perTile = maxOf(1, 32768 / maxOf(1, cols));
  return maxOf(1, minOf(rows, perTile));
}
/// The same where each tile leaves a row of partial sums (gradients of norms): at most 64 tiles.
static inline int64_t defaultGradRowsPerTile(int64_t rows, int64_t cols) {
  return maxOf(defaultRowsPerTile(rows, cols), ceilDiv(rows, 64));
}
/// Default of `elementsPerTile` of the flat kernels.
inline constexpr int64_t kElementsPerTile = 65536;

/// "gemm": C[b] = A[b] B[b] (+ bias). Operands: A, B, (bias [n] if `bias`), C.
/// A is m x k and B is k x n after the optional transposition; element (i, j) of A is at
/// offA + sum(batch index * strideA) + i * lda + j, or j * lda + i with transA; likewise B, C (C is never transposed).
/// Batch is up to 4 nested dimensions (size 1 where unused). Tile t of phase 0: batch-major, then row tiles, then column tiles;
/// tileM x tileN is fixed at compile time from the shape alone (`setGemmTile`). A leading dimension must be at least the length
/// of a stored row, unless there is only one; batch strides are free (0 broadcasts A or B). m, n and k may be 0.
struct GemmParams {
  int64_t m, n, k, transA, transB, lda, ldb, ldc, offA, offB, offC;
  int64_t batch[4], strideA[4], strideB[4], strideC[4];
  int64_t tileM, tileN, bias;
};

/// Sets tileM, tileN from the shape. A tile of m x n x k costs mnk + (30 m + 15 n) k multiplications (each tile packs its rows of A and
/// columns of B again) + the call; chosen is the grid that is best for 1 to 8 workers together.
static inline void setGemmTile(GemmParams &p) {
  int64_t batches = p.batch[0] * p.batch[1] * p.batch[2] * p.batch[3];
  int64_t m = maxOf(1, p.m), n = maxOf(1, p.n), k = maxOf(1, p.k);
  const int64_t workers[4] = {1, 2, 4, 8}, weight[4] = {4, 4, 2, 1};
  double best = 0;
  for (int64_t partsM = ceilDiv(m, 1024), i = 0; i < 24; ++i, ++partsM)
    for (int64_t partsN = ceilDiv(n, 1024), j = 0; j < 24; ++j, ++partsN) {
      int64_t tileM = minOf(m, roundUp(ceilDiv(m, partsM), 16)), tileN = minOf(n, roundUp(ceilDiv(n, partsN), 16));
      int64_t tiles = batches * ceilDiv(m, tileM) * ceilDiv(n, tileN);
      double tile = double(tileM * tileN + 30 * tileM + 15 * tileN) * double(k) + 20000, cost = 0;
      for (int w = 0; w < 4; ++w)
        cost += double(weight[w] * workers[w] * ceilDiv(maxOf(1, tiles), workers[w])) * tile;
      if (best != 0 && cost >= best)
        continue;
      best = cost;
      p.tileM = tileM, p.tileN = tileN;
    }
}
static inline Launch gemmLaunch(const GemmParams &p) {
  return onePhase(p.batch[0] * p.batch[1] * p.batch[2] * p.batch[3] * ceilDiv(p.m, p.tileM) * ceilDiv(p.n, p.tileN));
}

/// A strided view of a contiguous operand: element (i0, .., i5) is at offset + sum(i * stride). Rank <= 6, leading
/// dimensions of size 1 where the rank is lower.
struct View {
  int64_t offset, stride[6];
};

/// "softmax": x [rows, cols] -> y (may be in place).  "softmax_grad": dy, y -> dx (may be in place over either).
/// tiles: ceil(rows / rowsPerTile).
struct RowsParams {
  int64_t rows, cols, rowsPerTile;
};
static inline Launch softmaxLaunch(const RowsParams &p) { return onePhase(ceilDiv(p.rows, p.rowsPerTile)); }

/// "layer_norm": x, [weight], [bias] -> y, mean, rstd.   "rms_norm": x, [weight] -> y, rstd.
/// "layer_norm_grad": dy, x, mean, rstd, [weight] -> dx, dweight, dbias, workspace.
/// "rms_norm_grad": dy, x, rstd, [weight] -> dx, dweight, workspace.
/// Gradients have two phases: 0, tiles of rowsPerTile rows: dx and partial sums of dweight (and dbias) of the tile into the workspace
/// [tiles][1 or 2][cols] f32; 1, tiles of 64 columns: partials added in order of tiles.
struct NormParams {
  int64_t rows, cols, rowsPerTile, hasWeight, hasBias, unitOffset;
  Bits eps;
};
/// y may be in place over x, dx over dy or x.
static inline Launch normLaunch(const NormParams &p) { return onePhase(ceilDiv(p.rows, p.rowsPerTile)); }
/// `sums`: 2 for layer_norm_grad (dweight, dbias), 1 for rms_norm_grad.
static inline Launch normGradLaunch(const NormParams &p, int64_t sums) {
  Launch launch;
  launch.phases = 2;
  launch.tiles[0] = ceilDiv(p.rows, p.rowsPerTile);
  launch.tiles[1] = ceilDiv(p.cols, 64);
  launch.workspaceBytes = launch.tiles[0] * sums * p.cols * 4;
  return launch;
}

/// "attention": q, k, v, [mask], [key_padding] -> o, lse.
/// "attention_grad": do, q, k, v, o, lse, [mask], [key_padding] -> dq, dk, dv, workspace.
/// Views are over (b, h, s, d) = stride[2..5] of View; the innermost stride is 1, the row stride at least the row's length (unless
/// there is only one row); q, k, v, dO may be broadcast over b or h. lse is [B, H, Sq] contiguous.
/// mask: View over (b, h, q, k) with stride 0 where broadcast; maskKind 0 none, 1 bool (i1 stored as one byte), 2 float.
/// key_padding: bool bytes [B, Sk] contiguous. window 0: none. softcap 0.0: none.
/// "attention": phase 0, tiles (b, h, ceil(Sq / blockQ)).
/// "attention_grad": phase 0, tiles (b, h, ceil(Sq / blockQ)): what each row needs into the workspace [3][B, H, Sq] f32.
/// `split` 0: phase 1, tiles (b, hk): dq, dk, dv of the heads that share a key head; 5 products a block.
/// `split` 1: phase 1, tiles (b, h, ceil(Sq / blockQ)): dq; phase 2, tiles (b, hk, ceil(Sk / blockK)): dk, dv; 7 products a
/// block, for when there are too few heads to keep the workers busy.
struct AttentionParams {
  int64_t batch, heads, kvHeads, queries, keys, dim, valueDim;
  View q, k, v, o, dO, dq, dk, dv, mask;
  int64_t maskKind, hasPadding, causal, window, blockQ, blockK;
  Bits scale, softcap;
  int64_t split;
};
/// Rows of queries that are computed at once; a tile's blockQ rows share the packed keys.
inline constexpr int64_t kAttentionRows = 64;
/// Sets blockQ, blockK and split from the shape.
static inline void setAttentionTile(AttentionParams &p) {
  p.blockQ = 256;
  while (p.blockQ > kAttentionRows && p.batch * p.heads * ceilDiv(p.queries, p.blockQ) < 32)
    p.blockQ /= 2;
  p.blockQ = maxOf(1, minOf(p.queries, p.blockQ));
  p.blockK = maxOf(1, minOf(p.keys, 256));
  p.split = p.batch * p.kvHeads < 32 && p.queries * p.keys > 512 * 512;
}
static inline Launch attentionLaunch(const AttentionParams &p) {
  Launch launch = onePhase(p.batch * p.heads * ceilDiv(p.queries, p.blockQ));
  int64_t keys = roundUp(p.blockK, 16);
  launch.scratchBytes = 4 * (keys * (kAttentionRows + p.dim + roundUp(p.valueDim, 16)) + 2 * p.blockQ);
  return launch;
}
static inline Launch attentionGradLaunch(const AttentionParams &p) {
  Launch launch = onePhase(p.batch * p.heads * ceilDiv(p.queries, p.blockQ));
  launch.phases = p.split ? 3 : 2;
  launch.tiles[1] = p.split ? launch.tiles[0] : p.batch * p.kvHeads;
  launch.tiles[2] = p.split ? p.batch * p.kvHeads * ceilDiv(p.keys, p.blockK) : 0;
  int64_t keys = roundUp(p.blockK, 16), dim = roundUp(p.dim, 16), valueDim = roundUp(p.valueDim, 16);
  launch.scratchBytes = 4 * (keys * (2 * kAttentionRows + 2 * dim + valueDim) + kAttentionRows * (dim + valueDim));
  launch.workspaceBytes = 3 * p.batch * p.heads * p.queries * 4;
  return launch;
}

/// "rotary": x, cos, sin -> y. View x, y over (b, h, s, d); cos, sin contiguous [S, half] or [B, S, half] (`perBatch`).
/// tiles: ceil(B * H * S / rowsPerTile).
/// Strides of the innermost dimension are 1. y may be in place over x.
struct RotaryParams {
  int64_t batch, heads, seq, dim, half, perBatch, interleaved, inverse, rowsPerTile;
  View x, y;
};
static inline Launch rotaryLaunch(const RotaryParams &p) {
  return onePhase(ceilDiv(p.batch * p.heads * p.seq, p.rowsPerTile));
}

/// "embedding": table [V, width], ids [n] (idBytes 4 or 8) -> [n, width]; any element size (`elementBytes`). tiles: ceil(n / rowsPerTile).
/// "embedding_grad": grad [n, width], ids [n] -> dtable [V, width]. tiles: blocks of rows of the table,
/// ceil(V / rowsPerTile): zeroes its rows, then scans the ids in order and adds. An id in [-V, 0) counts from the end; another id
/// outside the table is never followed: its row is all ones bits (NaN), its gradient is dropped. With `add`, "embedding_grad" takes
/// grad, ids, base -> dtable (may be in place over base): base + the gradient, without the pass that zeroes the table.
struct EmbeddingParams {
  int64_t vocab, width, count, idBytes, elementBytes, rowsPerTile;
  int64_t add = 0;
};
static inline Launch embeddingLaunch(const EmbeddingParams &p) { return onePhase(ceilDiv(p.count, p.rowsPerTile)); }
static inline Launch embeddingGradLaunch(const EmbeddingParams &p) { return onePhase(ceilDiv(p.vocab, p.rowsPerTile)); }
/// Each tile of embedding_grad scans all ids, so a tile is not small: 256 Ki elements, at most 64 tiles.
static inline int64_t embeddingGradRowsPerTile(int64_t vocab, int64_t width) {
  int64_t perTile = maxOf(maxOf(1, 262144 / maxOf(1, width)), ceilDiv(vocab, 64));
  return maxOf(1, minOf(vocab, perTile));
}

/// "cross_entropy": logits [rows, cols], labels [rows] -> loss [], lse [rows], workspace [rows] f32 (loss of a row).
/// phase 0: row tiles; phase 1: one tile, the mean or sum.
/// "cross_entropy_grad": dloss [], logits, labels, lse -> dlogits (may be in place over logits). phase 0: row tiles.
/// lse of an ignored row is 0. A label that is neither in [0, cols) nor ignored gives NaN.
struct CrossEntropyParams {
  int64_t rows, cols, idBytes, ignoreIndex, sum, rowsPerTile;
};
static inline Launch crossEntropyLaunch(const CrossEntropyParams &p) {
  Launch launch;
  launch.phases = 2;
  launch.tiles[0] = ceilDiv(p.rows, p.rowsPerTile);
  launch.tiles[1] = 1;
  launch.workspaceBytes = p.rows * 4;
  return launch;
}
static inline Launch crossEntropyGradLaunch(const CrossEntropyParams &p) { return onePhase(ceilDiv(p.rows, p.rowsPerTile)); }

/// "reduce": x -> y, [workspace]. x is viewed as [outer, reduce, inner] contiguous; y [outer, inner].
/// kind 0 sum, 1 max, 2 min (both propagate NaN), 3 product. Fixed tree: docs/algorithms/kernels.md.
/// The reduced axis is cut into chunks of reducePerTile. One chunk (no workspace): phase 0, tiles of elementsPerTile elements of y.
/// More: phase 0, tiles (chunk, elements of y), partial results into the workspace [chunks][outer * inner] f32; phase 1,
/// tiles of elementsPerTile elements of y: the chunks in order.
struct ReduceParams {
  int64_t outer, reduce, inner, kind, elementsPerTile, reducePerTile;
};
static inline int64_t reduceChunks(const ReduceParams &p) { return maxOf(1, ceilDiv(p.reduce, p.reducePerTile)); }
static inline Launch reduceLaunch(const ReduceParams &p) {
  int64_t chunks = reduceChunks(p), outputs = p.outer * p.inner, parts = ceilDiv(outputs, p.elementsPerTile);
  Launch launch = onePhase(chunks * parts);
  if (chunks > 1) {
    launch.phases = 2;
    launch.tiles[1] = parts;
    launch.workspaceBytes = chunks * outputs * 4;
  }
  return launch;
}
/// Sets the tile from the shape: about 64 Ki elements read a tile, whole rows where they are not too long, at most 64 chunks.
static inline void setReduceTile(ReduceParams &p) {
  int64_t columns = minOf(p.inner, 16384);  // contiguous elements read at once
  int64_t chunk = maxOf(p.inner == 1 ? 65536 : 16, 65536 / maxOf(1, columns));
  chunk = maxOf(chunk, ceilDiv(p.reduce, 64));
  p.reducePerTile = chunk;
  if (p.inner > 1 && p.outer * p.inner >= 16 * 16384)  // enough tiles without cutting the reduced axis
    p.reducePerTile = maxOf(1, p.reduce);
  int64_t outputs = maxOf(1, 65536 / maxOf(1, minOf(p.reduce, p.reducePerTile)));
  p.elementsPerTile = p.inner == 1 ? outputs : maxOf(columns, outputs);
}

/// "copy": strided copy of one tensor, any element size: dst(view) = src(view). The order of the six dimensions is free (the same
/// for both sides); `setCopyTile` puts them in the best one. Strides of src may be 0 or negative; dst elements are distinct.
/// A row is a run of the last dimension; tiles: ceil(size[0] * .. * size[4] / rowsPerTile).
struct CopyParams {
  int64_t size[6];
  View src, dst;
  int64_t elementBytes, rowsPerTile;
};
static inline Launch copyLaunch(const CopyParams &p) {
  int64_t rows = p.size[5] == 0 ? 0 : p.size[0] * p.size[1] * p.size[2] * p.size[3] * p.size[4];
  return onePhase(ceilDiv(rows, p.rowsPerTile));
}
/// Merges dimensions that are contiguous on both sides, moves the dimension along which dst is contiguous last and that along
/// which src is contiguous next to it (the two of a blocked transposition), and chooses rowsPerTile.
static inline void setCopyTile(CopyParams &p) {
  int64_t size[6], src[6], dst[6];
  int rank = 0;
  for (int i = 0; i < 6; ++i) {
    if (p.size[i] == 1)
      continue;
    size[rank] = p.size[i], src[rank] = p.src.stride[i], dst[rank] = p.dst.stride[i];
    ++rank;
  }
  auto moveLast = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      int64_t t = size[i]; size[i] = size[i + 1], size[i + 1] = t;
      t = src[i], src[i] = src[i + 1], src[i + 1] = t;
      t = dst[i], dst[i] = dst[i + 1], dst[i + 1] = t;
    }
  };
  // Stable sort by falling stride of dst, so that neighbours in memory are neighbours here.
  for (int i = 1; i < rank; ++i)
    for (int j = i; j > 0 && dst[j - 1] < dst[j]; --j)
      moveLast(j - 1, j);
  for (int i = rank - 2; i >= 0; --i) {
    if (src[i] != src[i + 1] * size[i + 1] || dst[i] != dst[i + 1] * size[i + 1])
      continue;
    size[i + 1] *= size[i], src[i] = src[i + 1];
    moveLast(i, rank - 1);  // drop dimension i
    --rank;
  }
  if (rank > 1 && src[rank - 1] != 1)
    for (int i = 0; i < rank - 1; ++i)
      if (src[i] == 1) {
        moveLast(i, rank - 2);
        break;
      }
  for (int i = 0; i < 6; ++i) {
    int from = i - (6 - rank);
    p.size[i] = from < 0 ? 1 : size[from];
    p.src.stride[i] = from < 0 ? 0 : src[from];
    p.dst.stride[i] = from < 0 ? 0 : dst[from];
  }
  p.rowsPerTile = maxOf(1, 65536 / maxOf(1, p.size[5]));
  if (p.src.stride[5] != 1)
    p.rowsPerTile = maxOf(p.rowsPerTile, 64);
}

/// "fill": dst[0 .. count) = the low elementBytes bytes of `pattern`. tiles: ceil(count / elementsPerTile).
struct FillParams {
  int64_t count, elementBytes, pattern, elementsPerTile;
};
static inline Launch fillLaunch(const FillParams &p) { return onePhase(ceilDiv(p.count, p.elementsPerTile)); }

/// "accumulate": acc, grad -> acc (in place): acc += grad.
/// "norm_partials": grad [count] -> partials [ceil(count / 1024)]; each element is divided by `accumulate` first (not if 1).
struct FlatParams {
  int64_t count, accumulate, elementsPerTile;  // elementsPerTile of norm_partials: a multiple of 1024
};
static inline Launch flatLaunch(const FlatParams &p) { return onePhase(ceilDiv(p.count, p.elementsPerTile)); }

/// "verdict": partials of `gradients` gradients -> verdict [4]; one tile. `hasClip`, clip.
/// params continue with the number of partials of each gradient.
struct VerdictParams {
  int64_t gradients, hasClip;
  Bits clip;
};
static inline Launch verdictLaunch() { return onePhase(1); }

} // namespace forebay::kernels
#endif
