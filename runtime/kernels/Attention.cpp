//===- Attention.cpp - Attention in memory linear in the tokens -----------===//
//
// Blocks of queries meet blocks of keys: a product gives the scores, a pass over their rows turns them into weights with a running
// maximum and sum, a second product adds to the output (Dao et al., arXiv 2205.14135). The range of keys is cut to what the
// block's rows can see, so causal attention costs little more than half. The gradient recomputes the weights from lse.
// See docs/algorithms/kernels.md.
//
//===----------------------------------------------------------------------===//

#include "Blas.h"
#include "Math.h"

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

  /// scale * q k^T of a block; row i of `scores` belongs to query + i.
  void multiply(int64_t query, int64_t rows, int64_t key, int64_t keys, Matrix scores) const {
    product(false, true, rows, keys, p.dim, scale, q.row(query), q.stride, k.row(key), k.stride, 0.0f, scores.data,
            scores.stride);
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

} // namespace

FB_KERNEL(attention) {
  (void)phase;
  const auto &p = paramsAs<AttentionParams>(params);
  int results = 3 + (p.maskKind != 0) + (p.hasPadding != 0);
  int64_t blocks = ceilDiv(p.queries, p.blockQ), h = tile / blocks % p.heads, b = tile / (blocks * p.heads);
  Span queries = spanOf(tile % blocks, p.blockQ, p.queries);
  int64_t rows = queries.end - queries.begin;
  Head head(p, operands, 0, 3, b, h);
  Matrix v = matrixOf(operands[2], p.v, b, h / (p.heads / p.kvHeads)), o = matrixOf(operands[results], p.o, b, h);
  float *lse = static_cast<float *>(operands[results + 1]) + (b * p.heads + h) * p.queries;

  Matrix scores{static_cast<float *>(scratch), roundUp(p.blockK, 16)};
  float *max = scores.data + p.blockQ * scores.stride, *sum = max + roundUp(p.blockQ, 16);
  for (int64_t i = 0; i < rows; ++i)
    max[i] = -kInfinity, sum[i] = 0.0f;

  Span visible = head.keysOf(queries.begin, queries.end - 1);
  for (int64_t key = visible.begin; key < visible.end; key += p.blockK) {
    int64_t keys = minOf(p.blockK, visible.end - key);
    bool first = key == visible.begin;
    head.multiply(queries.begin, rows, key, keys, scores);
    for (int64_t i = 0; i < rows; ++i) {
      float factor = head.softmaxRow(scores.row(i), queries.begin + i, key, keys, max[i], sum[i]);
      if (!first && factor != 1.0f)
        scaleRow(o.row(queries.begin + i), p.valueDim, factor);
    }
    product(false, false, rows, p.valueDim, keys, 1.0f, scores.data, scores.stride, v.row(key), v.stride, first ? 0.0f : 1.0f,
            o.row(queries.begin), o.stride);
  }
  for (int64_t i = 0; i < rows; ++i) {
    float *out = o.row(queries.begin + i);
    if (max[i] == -kInfinity && !head.seesAKey(queries.begin + i)) {
      memset(out, 0, size_t(p.valueDim) * sizeof(float));
      lse[queries.begin + i] = -kInfinity;
      continue;
    }
    // A row whose visible keys are all -inf by a float mask gives 0 * (1 / 0) = NaN, as a softmax does.
    scaleRow(out, p.valueDim, 1.0f / sum[i]);
    lse[queries.begin + i] = float(double(max[i]) + logOf(double(sum[i])));
  }
}

namespace {

/// The gradient of one head: blocks of weights are computed again, P = exp(s - lse), and dS = P * (dO v^T - delta).
struct HeadGrad : Head {
  Matrix v, dO, dq, dk, dv;
  const float *lse, *delta;
  Matrix weights, dScores; ///< scratch
  float *shift, *factor;   ///< scratch: P = exp(s - shift) * factor; factor 0: the row sees no key

  HeadGrad(const AttentionParams &p, void *const *operands, int64_t b, int64_t h, void *scratch)
      : Head(p, operands, 1, 6, b, h) {
    void *const *results = operands + 6 + (p.maskKind != 0) + (p.hasPadding != 0);
    int64_t hk = h / (p.heads / p.kvHeads);
    v = matrixOf(operands[3], p.v, b, hk), dO = matrixOf(operands[0], p.dO, b, h);
    dq = matrixOf(results[0], p.dq, b, h), dk = matrixOf(results[1], p.dk, b, hk), dv = matrixOf(results[2], p.dv, b, hk);
    lse = static_cast<const float *>(operands[5]) + (b * p.heads + h) * p.queries;
    // Without queries there is no workspace.
    delta = p.queries ? static_cast<const float *>(results[3]) + (b * p.heads + h) * p.queries : nullptr;
    int64_t stride = roundUp(p.blockK, 16);
    weights = {static_cast<float *>(scratch), stride}, dScores = {weights.data + p.blockQ * stride, stride};
    shift = dScores.data + p.blockQ * stride, factor = shift + roundUp(p.blockQ, 16);
  }

  /// Sets shift and factor of the rows of a block of queries.
  void prepareRows(Span queries) {
    bool coarse = false;
    for (int64_t i = queries.begin; i < queries.end; ++i) {
      float value = lse[i];
      bool hidden = value == -kInfinity && !seesAKey(i);
      shift[i - queries.begin] = value;
      factor[i - queries.begin] = hidden ? 0.0f : 1.0f;
      coarse |= value - value == 0.0f && (value > 1024.0f || value < -1024.0f);
    }
    // So large an lse has lost the sum's digits (masks that add -3e38 everywhere lose them all): recompute maximum and sum.
    if (coarse)
      recomputeRows(queries);
  }

  __attribute__((noinline)) void recomputeRows(Span queries) {
    int64_t rows = queries.end - queries.begin;
    float *max = factor + roundUp(p.blockQ, 16), *sum = max + roundUp(p.blockQ, 16);
    for (int64_t i = 0; i < rows; ++i)
      max[i] = -kInfinity, sum[i] = 0.0f;
    Span visible = keysOf(queries.begin, queries.end - 1);
    for (int64_t key = visible.begin; key < visible.end; key += p.blockK) {
      int64_t keys = minOf(p.blockK, visible.end - key);
      multiply(queries.begin, rows, key, keys, weights);
      for (int64_t i = 0; i < rows; ++i)
        softmaxRow(weights.row(i), queries.begin + i, key, keys, max[i], sum[i]);
    }
    for (int64_t i = 0; i < rows; ++i)
      if (factor[i] != 0.0f && max[i] != -kInfinity)
        shift[i] = max[i], factor[i] = 1.0f / sum[i];
  }

  /// P and dS of a block.
  void weightsOf(Span queries, int64_t key, int64_t keys) {
    int64_t rows = queries.end - queries.begin;
    multiply(queries.begin, rows, key, keys, weights);
    product(false, true, rows, keys, p.valueDim, 1.0f, dO.row(queries.begin), dO.stride, v.row(key), v.stride, 0.0f,
            dScores.data, dScores.stride);
    for (int64_t i = 0; i < rows; ++i) {
      int64_t query = queries.begin + i;
      float *s = weights.row(i), *ds = dScores.row(i);
      Span columns = columnsOf(query, key, keys);
      if (factor[i] == 0.0f)
        columns = {0, 0};
      int64_t n = columns.end - columns.begin;
      float *visible = s + columns.begin, *dvisible = ds + columns.begin;
      Floats center = splat(delta[query]), cap = splat(softcap), base = splat(shift[i]), norm = splat(factor[i]);
      if (softcap != 0.0f)
        forRow(visible, n, 0.0f, [&](Floats u, int64_t j, int64_t count) {
          Floats t = tanhOf(u / cap);
          storeSome(visible + j, cap * t, count);
          storeSome(dvisible + j, (loadSome(dvisible + j, count, 0.0f) - center) * (splat(1.0f) - t * t), count);
        });
      maskRowOf(s, query, key, columns);
      bool centered = softcap != 0.0f;
      forRow(visible, n, 0.0f, [&](Floats u, int64_t j, int64_t count) {
        Floats weight = expOf(u - base) * norm, d = loadSome(dvisible + j, count, 0.0f);
        storeSome(visible + j, weight, count);
        storeSome(dvisible + j, weight * (centered ? d : d - center), count);
      });
      for (float *row : {s, ds}) {
        memset(row, 0, size_t(columns.begin) * sizeof(float));
        memset(row + columns.end, 0, size_t(keys - columns.end) * sizeof(float));
      }
    }
  }

  void addQueryGrad(Span queries, int64_t key, int64_t keys, bool first) {
    product(false, false, queries.end - queries.begin, p.dim, keys, scale, dScores.data, dScores.stride, k.row(key), k.stride,
            first ? 0.0f : 1.0f, dq.row(queries.begin), dq.stride);
  }
  void addKeyGrads(Span queries, int64_t key, int64_t keys) {
    int64_t rows = queries.end - queries.begin;
    product(true, false, keys, p.valueDim, rows, 1.0f, weights.data, weights.stride, dO.row(queries.begin), dO.stride, 1.0f,
            dv.row(key), dv.stride);
    product(true, false, keys, p.dim, rows, scale, dScores.data, dScores.stride, q.row(queries.begin), q.stride, 1.0f,
            dk.row(key), dk.stride);
  }

  /// All keys of a block of queries: dq, and dk and dv if `keyGrads`.
  void visitKeys(Span queries, bool keyGrads) {
    prepareRows(queries);
    Span visible = keysOf(queries.begin, queries.end - 1);
    if (visible.begin == visible.end)
      zeroRows(dq, queries.begin, queries.end, p.dim);
    for (int64_t key = visible.begin; key < visible.end; key += p.blockK) {
      int64_t keys = minOf(p.blockK, visible.end - key);
      weightsOf(queries, key, keys);
      addQueryGrad(queries, key, keys, key == visible.begin);
      if (keyGrads)
        addKeyGrads(queries, key, keys);
    }
  }

  /// All queries of a block of keys: dk and dv.
  void visitQueries(Span block) {
    int64_t first = p.causal ? block.begin / p.blockQ * p.blockQ : 0;
    int64_t last = p.window ? minOf(p.queries, block.end - 1 + p.window) : p.queries;
    for (int64_t query = first; query < last; query += p.blockQ) {
      Span queries{query, minOf(query + p.blockQ, p.queries)}, visible = keysOf(query, queries.end - 1);
      int64_t key = maxOf(block.begin, visible.begin), end = minOf(block.end, visible.end);
      if (key >= end)
        continue;
      prepareRows(queries);
      weightsOf(queries, key, end - key);
      addKeyGrads(queries, key, end - key);
    }
  }
};

/// Phase 0: delta = rowsum(dO * o).
FB_INLINE void rowSums(const AttentionParams &p, void *const *operands, float *delta, int64_t b, int64_t h, Span queries) {
  Matrix dO = matrixOf(operands[0], p.dO, b, h), o = matrixOf(operands[4], p.o, b, h);
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    Floats sum = splat(0.0f);
    const float *out = o.row(i);
    forRow(dO.row(i), p.valueDim, 0.0f,
           [&](Floats d, int64_t j, int64_t count) { sum = sum + d * loadSome(out + j, count, 0.0f); });
    delta[i] = sumLanes(sum);
  }
}

} // namespace

FB_KERNEL(attention_grad) {
  const auto &p = paramsAs<AttentionParams>(params);
  int64_t group = p.heads / p.kvHeads;
  if (phase == 0 || (phase == 1 && p.split)) {
    int64_t blocks = ceilDiv(p.queries, p.blockQ), h = tile / blocks % p.heads, b = tile / (blocks * p.heads);
    Span queries = spanOf(tile % blocks, p.blockQ, p.queries);
    float *workspace = static_cast<float *>(operands[9 + (p.maskKind != 0) + (p.hasPadding != 0)]);
    if (phase == 0)
      return rowSums(p, operands, workspace + (b * p.heads + h) * p.queries, b, h, queries);
    return HeadGrad(p, operands, b, h, scratch).visitKeys(queries, /*keyGrads=*/false);
  }
  // Tiles that own keys: all keys of a key head, or (split) a block of them.
  int64_t blocks = p.split ? ceilDiv(p.keys, p.blockK) : 1;
  int64_t hk = tile / blocks % p.kvHeads, b = tile / (blocks * p.kvHeads);
  Span keys = p.split ? spanOf(tile % blocks, p.blockK, p.keys) : Span{0, p.keys};
  for (int64_t h = hk * group; h < (hk + 1) * group; ++h) {
    HeadGrad grad(p, operands, b, h, scratch);
    if (h == hk * group) {
      zeroRows(grad.dk, keys.begin, keys.end, p.dim);
      zeroRows(grad.dv, keys.begin, keys.end, p.valueDim);
    }
    if (p.split) {
      grad.visitQueries(keys);
      continue;
    }
    for (int64_t query = 0; query < p.queries; query += p.blockQ)
      grad.visitKeys({query, minOf(query + p.blockQ, p.queries)}, /*keyGrads=*/true);
  }
}

} // namespace forebay::kernels::FOREBAY_ISA
