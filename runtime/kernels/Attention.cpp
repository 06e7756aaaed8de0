//===- Attention.cpp - Attention in memory linear in the tokens -----------===//
//
// Blocks of queries meet blocks of keys: a product gives the scores, a pass over their rows turns them into weights with a running
// maximum and sum, a second product adds to the output (Dao et al., arXiv 2205.14135). Of each block of keys only the part is
// computed that some row of the block of queries can see, so causal attention costs little more than half. The gradient recomputes the
// weights from lse. Blocks of keys are packed once for all the queries of a tile. See docs/algorithms/kernels.md.
//
//===----------------------------------------------------------------------===//

#include "Math.h"
#include "Products.h"

namespace forebay::kernels::FOREBAY_ISA {

namespace {

struct Matrix {
  float *data;
  int64_t stride;
  float *row(int64_t i) const { return data + i * stride; }
};

/// The matrix of batch b and head h of a view.
FB_INLINE Matrix matrixOf(void *operand, const View &view, int64_t b, int64_t h) {
  return {static_cast<float *>(operand) + view.offset + b * view.stride[2] + h * view.stride[3], view.stride[4]};
}

/// What one head's scores need.
struct Head {
  const AttentionParams &p;
  Matrix q, k;
  const float *floatMask = nullptr;
  const uint8_t *boolMask = nullptr, *padding = nullptr;
  int64_t maskRow = 0, maskCol = 0;
  float scale, softcap;

  Head(const AttentionParams &p, void *const *operands, int q, int masks, int64_t b, int64_t h)
      : p(p), q(matrixOf(operands[q], p.q, b, h)), k(matrixOf(operands[q + 1], p.k, b, h / (p.heads / p.kvHeads))),
        scale(float(fromBits(p.scale))), softcap(float(fromBits(p.softcap))) {
    if (p.maskKind) {
      int64_t offset = p.mask.offset + b * p.mask.stride[2] + h * p.mask.stride[3];
      maskRow = p.mask.stride[4], maskCol = p.mask.stride[5];
      if (p.maskKind == 1)
        boolMask = static_cast<const uint8_t *>(operands[masks]) + offset;
      else
        floatMask = static_cast<const float *>(operands[masks]) + offset;
      ++masks;
    }
    if (p.hasPadding)
      padding = static_cast<const uint8_t *>(operands[masks]) + b * p.keys;
  }

  /// Keys that `causal` and `window` let queries [first, last] see.
  Span keysOf(int64_t first, int64_t last) const {
    int64_t begin = p.window ? maxOf(0, first - p.window + 1) : 0;
    int64_t end = p.causal ? minOf(p.keys, last + 1) : p.keys;
    return {minOf(begin, end), end};
  }

  /// Whether any key of the row is not hidden by causal, window, padding or a bool mask.
  bool seesAKey(int64_t query) const {
    Span keys = keysOf(query, query);
    for (int64_t j = keys.begin; j < keys.end; ++j)
      if ((!padding || padding[j]) && (!boolMask || boolMask[query * maskRow + j * maskCol]))
        return true;
    return false;
  }

  /// The part of a block of keys that any of the queries sees; it begins at a whole panel.
  Span partOf(Span block, Span queries) const {
    Span visible = keysOf(queries.begin, queries.end - 1);
    int64_t begin = maxOf(block.begin, visible.begin), end = minOf(block.end, visible.end);
    return {block.begin + (begin - block.begin) / kLanes * kLanes, end};
  }

  /// scale * q k^T of queries and a part of a block of keys (of which `packed` holds all); row 0 of `scores` belongs to the first query.
  void multiply(Span queries, Span block, Span part, const float *packed, Matrix scores) const {
    multiplyPanels<false>(queries.end - queries.begin, part.end - part.begin, p.dim, q.row(queries.begin), q.stride, 1,
                          packed + (part.begin - block.begin) * p.dim, p.dim, scale, scores.data, scores.stride);
  }

  /// Adds the float mask to one row of scores and hides with -inf what padding and a bool mask hide; [begin, end) are the columns that
  /// causal and window let the row see (column j is key + j).
  void maskRowOf(float *s, int64_t query, int64_t key, Span columns) const {
    if (floatMask) {
      const float *mask = floatMask + query * maskRow + key * maskCol;
      if (maskCol == 1)
        for (int64_t j = columns.begin; j < columns.end; ++j)
          s[j] = s[j] + mask[j];
      else
        for (int64_t j = columns.begin; j < columns.end; ++j)
          s[j] = s[j] + mask[j * maskCol];
    }
    if (boolMask) {
      const uint8_t *mask = boolMask + query * maskRow + key * maskCol;
      for (int64_t j = columns.begin; j < columns.end; ++j)
        s[j] = mask[j * maskCol] ? s[j] : -kInfinity;
    }
    if (padding)
      for (int64_t j = columns.begin; j < columns.end; ++j)
        s[j] = padding[key + j] ? s[j] : -kInfinity;
  }

  Span columnsOf(int64_t query, int64_t key, int64_t keys) const {
    Span visible = keysOf(query, query);
    int64_t begin = minOf(maxOf(visible.begin - key, 0), keys), end = minOf(maxOf(visible.end - key, 0), keys);
    return {minOf(begin, end), end};
  }

  void capRow(float *s, Span columns) const {
    Floats cap = splat(softcap);
    forRow(s + columns.begin, columns.end - columns.begin, 0.0f, [&](Floats v, int64_t i, int64_t count) {
      storeSome(s + columns.begin + i, cap * tanhOf(v / cap), count);
    });
  }

  /// One row of a block of scores: cap, masks, the running maximum and sum of exponentials, and the scores replaced by exp(s - maximum)
  /// (0 where hidden). Returns the factor for what was summed under the old maximum.
  float softmaxRow(float *s, int64_t query, int64_t key, int64_t keys, float &max, float &sum) const {
    Span columns = columnsOf(query, key, keys);
    if (softcap != 0.0f)
      capRow(s, columns);
    maskRowOf(s, query, key, columns);
    int64_t n = columns.end - columns.begin;
    float *visible = s + columns.begin;
    float blockMax = maxOfRow(visible, n), factor = 1.0f;
    if (blockMax > max) {
      factor = expOf(max - blockMax); // 0 for the first block with a visible key
      max = blockMax;
    }
    Floats shift = splat(max == -kInfinity ? 0.0f : max), total = splat(0.0f);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      Floats e = expOf(load(visible + i) - shift);
      store(visible + i, e);
      total = total + e;
    }
    if (i < n) {
      Floats e = expOf(loadTail(visible + i, n - i, -kInfinity) - shift);
      storeTail(visible + i, e, n - i);
      total = total + e;
    }
    sum = sum * factor + sumLanes(total);
    memset(s, 0, size_t(columns.begin) * sizeof(float));
    memset(s + columns.end, 0, size_t(keys - columns.end) * sizeof(float));
    return factor;
  }
};

FB_INLINE void zeroRows(Matrix m, int64_t begin, int64_t end, int64_t cols) {
  for (int64_t i = begin; i < end; ++i)
    memset(m.row(i), 0, size_t(cols) * sizeof(float));
}

FB_INLINE void scaleRow(float *x, int64_t n, float factor) {
  for (int64_t j = 0; j < n; ++j)
    x[j] = x[j] * factor;
}

/// Hands out pieces of scratch; the sum is in `attentionLaunch` and `attentionGradLaunch`.
struct Pieces {
  float *next;
  float *take(int64_t count) {
    float *piece = next;
    next += count;
    return piece;
  }
};

/// Calls f(block) for the blocks of `size` of a range.
template <typename F> FB_INLINE void forBlocks(Span range, int64_t size, F f) {
  for (int64_t begin = range.begin; begin < range.end; begin += size)
    f(Span{begin, minOf(begin + size, range.end)});
}

} // namespace

FB_KERNEL(attention) {
  (void)phase;
  const auto &p = paramsAs<AttentionParams>(params);
  int results = 3 + (p.maskKind != 0) + (p.hasPadding != 0);
  int64_t blocks = ceilDiv(p.queries, p.blockQ), h = tile / blocks % p.heads, b = tile / (blocks * p.heads);
  Span queries = spanOf(tile % blocks, p.blockQ, p.queries);
  Head head(p, operands, 0, 3, b, h);
  Matrix v = matrixOf(operands[2], p.v, b, h / (p.heads / p.kvHeads)), o = matrixOf(operands[results], p.o, b, h);
  float *lse = static_cast<float *>(operands[results + 1]) + (b * p.heads + h) * p.queries;

  Pieces pieces{static_cast<float *>(scratch)};
  int64_t stride = roundUp(p.blockK, kLanes);
  Matrix scores{pieces.take(kAttentionRows * stride), stride};
  float *packedK = pieces.take(stride * p.dim), *packedV = pieces.take(p.blockK * roundUp(p.valueDim, kLanes));
  float *max = pieces.take(p.blockQ), *sum = pieces.take(p.blockQ);
  for (int64_t i = 0; i < queries.end - queries.begin; ++i)
    max[i] = -kInfinity, sum[i] = 0.0f;
  zeroRows(o, queries.begin, queries.end, p.valueDim);

  forBlocks(head.keysOf(queries.begin, queries.end - 1), p.blockK, [&](Span block) {
    int64_t keys = block.end - block.begin;
    packTransposed(head.k.row(block.begin), head.k.stride, keys, p.dim, packedK);
    packRows(v.row(block.begin), v.stride, keys, p.valueDim, packedV);
    forBlocks(queries, kAttentionRows, [&](Span rows) {
      Span part = head.partOf(block, rows);
      if (part.begin >= part.end)
        return;
      int64_t count = part.end - part.begin;
      head.multiply(rows, block, part, packedK, scores);
      for (int64_t i = rows.begin; i < rows.end; ++i) {
        float factor = head.softmaxRow(scores.row(i - rows.begin), i, part.begin, count, max[i - queries.begin], sum[i - queries.begin]);
        if (factor != 1.0f)
          scaleRow(o.row(i), p.valueDim, factor);
      }
      multiplyPanels<true>(rows.end - rows.begin, p.valueDim, count, scores.data, scores.stride, 1,
                           packedV + (part.begin - block.begin) * kLanes, keys, 1.0f, o.row(rows.begin), o.stride);
    });
  });
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    float m = max[i - queries.begin], total = sum[i - queries.begin];
    if (m == -kInfinity && !head.seesAKey(i)) {
      zeroRows(o, i, i + 1, p.valueDim);
      lse[i] = -kInfinity;
      continue;
    }
    // A row whose visible keys are all -inf by a float mask gives 0 * (1 / 0) = NaN, as a softmax does.
    scaleRow(o.row(i), p.valueDim, 1.0f / total);
    lse[i] = float(double(m) + logOf(double(total)));
  }
}

namespace {

/// The gradient of one head: blocks of weights are computed again, P = exp(s - shift) * factor with shift = lse and factor = 1 almost
/// always, and dS = P * (dO v^T - delta).
struct HeadGrad : Head {
  Matrix v, dO, dq, dk, dv;
  float *delta, *shift, *factor; ///< workspace, set by phase 0; factor 0: the row sees no key
  Matrix weights, dScores;       ///< scratch, as all the rest
  float *columnsK, *rowsK, *columnsV; ///< a block of keys: k^T, k, v^T packed
  float *rowsQ, *rowsDO;              ///< a block of queries: q, dO packed

  HeadGrad(const AttentionParams &p, void *const *operands, int64_t b, int64_t h, void *scratch) : Head(p, operands, 1, 6, b, h) {
    void *const *results = operands + 6 + (p.maskKind != 0) + (p.hasPadding != 0);
    int64_t hk = h / (p.heads / p.kvHeads), row = (b * p.heads + h) * p.queries, allRows = p.batch * p.heads * p.queries;
    v = matrixOf(operands[3], p.v, b, hk), dO = matrixOf(operands[0], p.dO, b, h);
    dq = matrixOf(results[0], p.dq, b, h), dk = matrixOf(results[1], p.dk, b, hk), dv = matrixOf(results[2], p.dv, b, hk);
    // Without queries there is no workspace.
    delta = p.queries ? static_cast<float *>(results[3]) + row : nullptr;
    shift = delta + allRows, factor = shift + allRows;
    Pieces pieces{static_cast<float *>(scratch)};
    int64_t stride = roundUp(p.blockK, kLanes), dim = roundUp(p.dim, kLanes), valueDim = roundUp(p.valueDim, kLanes);
    weights = {pieces.take(kAttentionRows * stride), stride}, dScores = {pieces.take(kAttentionRows * stride), stride};
    columnsK = pieces.take(stride * p.dim), rowsK = pieces.take(p.blockK * dim), columnsV = pieces.take(stride * p.valueDim);
    rowsQ = pieces.take(kAttentionRows * dim), rowsDO = pieces.take(kAttentionRows * valueDim);
  }

  /// Phase 0: delta, shift and factor of a tile of queries; `lse`, `o` of the forward part.
  void prepare(const float *lse, Matrix o, Span queries) {
    bool coarse = false;
    for (int64_t i = queries.begin; i < queries.end; ++i) {
      Floats sum = splat(0.0f);
      const float *out = o.row(i);
      forRow(dO.row(i), p.valueDim, 0.0f,
             [&](Floats d, int64_t j, int64_t count) { sum = sum + d * loadSome(out + j, count, 0.0f); });
      delta[i] = sumLanes(sum);
      shift[i] = lse[i];
      factor[i] = lse[i] == -kInfinity && !seesAKey(i) ? 0.0f : 1.0f;
      coarse |= lse[i] - lse[i] == 0.0f && (lse[i] > 1024.0f || lse[i] < -1024.0f);
    }
    // So large an lse has lost the sum's digits (a mask that adds -3e38 everywhere loses them all): compute maximum and sum again.
    if (coarse)
      recompute(queries);
  }

  void recompute(Span queries) {
    forBlocks(queries, kAttentionRows, [&](Span rows) {
      float max[kAttentionRows], sum[kAttentionRows];
      for (int64_t i = 0; i < kAttentionRows; ++i)
        max[i] = -kInfinity, sum[i] = 0.0f;
      forBlocks(keysOf(rows.begin, rows.end - 1), p.blockK, [&](Span block) {
        int64_t keys = block.end - block.begin;
        packTransposed(k.row(block.begin), k.stride, keys, p.dim, columnsK);
        multiply(rows, block, block, columnsK, weights);
        for (int64_t i = rows.begin; i < rows.end; ++i)
          softmaxRow(weights.row(i - rows.begin), i, block.begin, keys, max[i - rows.begin], sum[i - rows.begin]);
      });
      for (int64_t i = rows.begin; i < rows.end; ++i)
        if (factor[i] != 0.0f && max[i - rows.begin] != -kInfinity)
          shift[i] = max[i - rows.begin], factor[i] = 1.0f / sum[i - rows.begin];
    });
  }

  void packKeys(Span block) {
    int64_t keys = block.end - block.begin;
    packTransposed(k.row(block.begin), k.stride, keys, p.dim, columnsK);
    packRows(k.row(block.begin), k.stride, keys, p.dim, rowsK);
    packTransposed(v.row(block.begin), v.stride, keys, p.valueDim, columnsV);
  }

  /// P and dS of a block of queries and a part of a block of keys.
  void weightsOf(Span queries, Span block, Span part) {
    int64_t rows = queries.end - queries.begin, keys = part.end - part.begin;
    multiply(queries, block, part, columnsK, weights);
    multiplyPanels<false>(rows, keys, p.valueDim, dO.row(queries.begin), dO.stride, 1,
                          columnsV + (part.begin - block.begin) * p.valueDim, p.valueDim, 1.0f, dScores.data, dScores.stride);
    const Floats cap = splat(softcap);
    const bool capped = softcap != 0.0f;
    for (int64_t i = 0; i < rows; ++i) {
      int64_t query = queries.begin + i;
      float *s = weights.row(i), *ds = dScores.row(i);
      Span columns = factor[query] == 0.0f ? Span{0, 0} : columnsOf(query, part.begin, keys);
      int64_t n = columns.end - columns.begin;
      float *visible = s + columns.begin, *dvisible = ds + columns.begin;
      const Floats center = splat(delta[query]), base = splat(shift[query]), norm = splat(factor[query]);
      if (capped)
        forRow(visible, n, 0.0f, [&](Floats u, int64_t j, int64_t count) {
          Floats t = tanhOf(u / cap);
          storeSome(visible + j, cap * t, count);
          storeSome(dvisible + j, (loadSome(dvisible + j, count, 0.0f) - center) * (splat(1.0f) - t * t), count);
        });
      maskRowOf(s, query, part.begin, columns);
      forRow(visible, n, 0.0f, [&](Floats u, int64_t j, int64_t count) {
        Floats weight = expOf(u - base) * norm, d = loadSome(dvisible + j, count, 0.0f);
        storeSome(visible + j, weight, count);
        storeSome(dvisible + j, weight * (capped ? d : d - center), count);
      });
      for (float *row : {s, ds}) {
        memset(row, 0, size_t(columns.begin) * sizeof(float));
        memset(row + columns.end, 0, size_t(keys - columns.end) * sizeof(float));
      }
    }
  }

  void addQueryGrad(Span queries, Span block, Span part) {
    multiplyPanels<true>(queries.end - queries.begin, p.dim, part.end - part.begin, dScores.data, dScores.stride, 1,
                         rowsK + (part.begin - block.begin) * kLanes, block.end - block.begin, scale, dq.row(queries.begin),
                         dq.stride);
  }
  void addKeyGrads(Span queries, Span part) {
    int64_t rows = queries.end - queries.begin, keys = part.end - part.begin;
    packRows(dO.row(queries.begin), dO.stride, rows, p.valueDim, rowsDO);
    packRows(q.row(queries.begin), q.stride, rows, p.dim, rowsQ);
    multiplyPanels<true>(keys, p.valueDim, rows, weights.data, 1, weights.stride, rowsDO, rows, 1.0f, dv.row(part.begin), dv.stride);
    multiplyPanels<true>(keys, p.dim, rows, dScores.data, 1, dScores.stride, rowsQ, rows, scale, dk.row(part.begin), dk.stride);
  }

  /// All that a tile of queries gives to dq (split).
  void queryTile(Span queries) {
    zeroRows(dq, queries.begin, queries.end, p.dim);
    forBlocks(keysOf(queries.begin, queries.end - 1), p.blockK, [&](Span block) {
      packKeys(block);
      forBlocks(queries, kAttentionRows, [&](Span rows) {
        Span part = partOf(block, rows);
        if (part.begin >= part.end)
          return;
        weightsOf(rows, block, part);
        addQueryGrad(rows, block, part);
      });
    });
  }

  /// All queries that see a block of keys: what this head adds to dk, dv and, with `queryGrads`, to dq.
  void keyBlock(Span block, bool queryGrads) {
    forBlocks({0, p.queries}, kAttentionRows, [&](Span rows) {
      Span part = partOf(block, rows);
      if (part.begin >= part.end)
        return;
      weightsOf(rows, block, part);
      addKeyGrads(rows, part);
      if (queryGrads)
        addQueryGrad(rows, block, part);
    });
  }
};

} // namespace

FB_KERNEL(attention_grad) {
  const auto &p = paramsAs<AttentionParams>(params);
  if (phase == 0 || (phase == 1 && p.split)) {
    int64_t blocks = ceilDiv(p.queries, p.blockQ), h = tile / blocks % p.heads, b = tile / (blocks * p.heads);
    Span queries = spanOf(tile % blocks, p.blockQ, p.queries);
    HeadGrad grad(p, operands, b, h, scratch);
    if (phase == 1)
      return grad.queryTile(queries);
    const float *lse = static_cast<const float *>(operands[5]) + (b * p.heads + h) * p.queries;
    return grad.prepare(lse, matrixOf(operands[4], p.o, b, h), queries);
  }
  // Tiles that own keys: all keys of a key head, or (split) a block of them.
  int64_t blocks = p.split ? ceilDiv(p.keys, p.blockK) : 1, group = p.heads / p.kvHeads;
  int64_t hk = tile / blocks % p.kvHeads, b = tile / (blocks * p.kvHeads);
  Span keys = p.split ? spanOf(tile % blocks, p.blockK, p.keys) : Span{0, p.keys};
  for (int64_t h = hk * group; h < (hk + 1) * group && !p.split; ++h)
    zeroRows(HeadGrad(p, operands, b, h, scratch).dq, 0, p.queries, p.dim);
  forBlocks(keys, p.blockK, [&](Span block) {
    for (int64_t h = hk * group; h < (hk + 1) * group; ++h) {
      HeadGrad grad(p, operands, b, h, scratch);
      if (h == hk * group) { // what the heads share
        zeroRows(grad.dk, block.begin, block.end, p.dim);
        zeroRows(grad.dv, block.begin, block.end, p.valueDim);
        grad.packKeys(block);
      }
      grad.keyBlock(block, /*queryGrads=*/!p.split);
    }
  });
}

} // namespace forebay::kernels::FOREBAY_ISA
