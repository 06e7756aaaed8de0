//===- MatchContract.cpp - linalg.contract as a matrix product ------------===//

#include "forebay/Conversion/MatchContract.h"

#include "forebay/Conversion/RootOps.h"

using namespace mlir;
using namespace forebay;

namespace {

/// A dimension of the product, or several merged: its size and its strides in A, B, C and the bias.
struct Dim {
  int64_t size, a, b, c, bias;
  unsigned position = 0; ///< in the iteration space; decides between equal strides
  int64_t key(bool reduction) const { return reduction ? a : c; }
};

struct Dims {
  SmallVector<Dim> batch, m, n, k;
};

} // namespace

/// Sorts by the stride in C (of a reduction: in A) and merges neighbours where all strides allow it.
static void merge(SmallVectorImpl<Dim> &dims, bool reduction) {
  llvm::sort(dims, [&](const Dim &x, const Dim &y) {
    return x.key(reduction) != y.key(reduction) ? x.key(reduction) > y.key(reduction) : x.position < y.position;
  });
  SmallVector<Dim> result;
  for (const Dim &dim : dims) {
    if (!result.empty()) {
      Dim &last = result.back();
      if (last.a == dim.a * dim.size && last.b == dim.b * dim.size && last.c == dim.c * dim.size &&
          last.bias == dim.bias * dim.size) {
        last = {last.size * dim.size, dim.a, dim.b, dim.c, dim.bias, dim.position};
        continue;
      }
    }
    result.push_back(dim);
  }
  dims.assign(result.begin(), result.end());
}

/// Takes the group that becomes the rows, columns or depth of the product; the rest become batches.
static Dim takeMain(SmallVectorImpl<Dim> &dims, SmallVectorImpl<Dim> &batch, size_t which) {
  if (dims.empty())
    return {1, 0, 0, 0, 0};
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != which)
      batch.push_back(dims[i]);
  return dims[which];
}

static std::optional<GemmMatch> matchRoles(Dims dims, int64_t offA, int64_t offB, int64_t offC, bool hasBias) {
  merge(dims.batch, false);
  merge(dims.m, false);
  merge(dims.n, false);
  merge(dims.k, true);
  if (dims.k.size() > 1)
    return std::nullopt;
  // Columns of C must be next to each other.
  size_t unit = 0;
  while (unit < dims.n.size() && dims.n[unit].c != 1)
    ++unit;
  if (!dims.n.empty() && unit == dims.n.size())
    return std::nullopt;
  if (hasBias && (dims.n.size() > 1 || (!dims.n.empty() && dims.n[0].bias != 1)))
    return std::nullopt;
  for (const Dim &dim : llvm::concat<const Dim>(dims.batch, dims.m))
    if (dim.bias != 0)
      return std::nullopt;
  size_t largest = 0;
  for (size_t i = 1; i < dims.m.size(); ++i)
    if (dims.m[i].size > dims.m[largest].size)
      largest = i;
  SmallVector<Dim> batch = dims.batch;
  Dim m = takeMain(dims.m, batch, largest), n = takeMain(dims.n, batch, unit);
  Dim k = dims.k.empty() ? Dim{1, 0, 0, 0, 0} : dims.k[0];
  if (batch.size() > 4)
    return std::nullopt;

  GemmMatch match;
  kernels::GemmParams &p = match.params;
  p = {};
  p.m = m.size;
  p.n = n.size;
  p.k = k.size;
  p.offA = offA;
  p.offB = offB;
  p.offC = offC;
  p.bias = hasBias;
  if (k.size == 1 || k.a == 1) {
    p.lda = m.size == 1 ? k.size : m.a;
    if (p.lda < k.size)
      return std::nullopt;
  } else if (m.size == 1 || m.a == 1) {
    p.transA = 1;
    p.lda = k.a;
    if (p.lda < m.size)
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (n.size == 1 || n.b == 1) {
    p.ldb = k.size == 1 ? n.size : k.b;
    if (p.ldb < n.size)
      return std::nullopt;
  } else if (k.size == 1 || k.b == 1) {
    p.transB = 1;
    p.ldb = n.b;
    if (p.ldb < k.size)
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  p.ldc = m.size == 1 ? n.size : m.c;
  if (p.ldc < n.size)
    return std::nullopt;
  for (int64_t &size : p.batch)
    size = 1;
  for (auto [i, dim] : llvm::enumerate(batch)) {
    unsigned at = 4 - batch.size() + i;
    p.batch[at] = dim.size;
    p.strideA[at] = dim.a;
    p.strideB[at] = dim.b;
    p.strideC[at] = dim.c;
  }
  kernels::setGemmTile(p);
  return match;
}

std::optional<GemmMatch> forebay::matchContract(linalg::ContractOp op, const StridedView &a, const StridedView &b,
                                                const StridedView &c, const StridedView *bias) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto strideOf = [](AffineMap map, unsigned dim, const StridedView &view) -> std::optional<int64_t> {
    std::optional<unsigned> position = map.getResultPosition(getAffineDimExpr(dim, map.getContext()));
    if (!position)
      return std::nullopt;
    return view.strides[*position];
  };
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  for (Type type : op->getOperandTypes())
    if (cast<RankedTensorType>(type).getElementType() != element || !hasKernels(element))
      return std::nullopt;
  if (bias && bias->offset != 0)
    return std::nullopt;

  Dims dims;
  unsigned numDims = maps[0].getNumDims();
  for (unsigned dim = 0; dim < numDims; ++dim) {
    std::optional<int64_t> sa = strideOf(maps[0], dim, a), sb = strideOf(maps[1], dim, b), sc = strideOf(maps[2], dim, c);
    int64_t size = 1;
    for (auto [map, view] : {std::pair(maps[0], &a), std::pair(maps[1], &b), std::pair(maps[2], &c)})
      if (auto position = map.getResultPosition(getAffineDimExpr(dim, op.getContext())))
        size = view->sizes[*position];
    if (size == 1)
      continue;
    std::optional<int64_t> sbias = bias && sc ? strideOf(maps[2], dim, *bias) : std::optional<int64_t>(0);
    Dim entry{size, sa.value_or(0), sb.value_or(0), sc.value_or(0), sbias.value_or(0), dim};
    if (sa && sb && sc)
      dims.batch.push_back(entry);
    else if (sa && sc)
      dims.m.push_back(entry);
    else if (sb && sc)
      dims.n.push_back(entry);
    else if (sa && sb)
      dims.k.push_back(entry);
    else
      return std::nullopt; // Summed over one operand only, or repeated in the result.
  }
  if (auto match = matchRoles(dims, a.offset, b.offset, c.offset, bias))
    return match;
  std::swap(dims.m, dims.n);
  for (SmallVectorImpl<Dim> *list : {&dims.batch, &dims.m, &dims.n, &dims.k})
    for (Dim &dim : *list)
      std::swap(dim.a, dim.b);
  auto match = matchRoles(dims, b.offset, a.offset, c.offset, bias);
  if (match)
    match->swapped = true;
  return match;
}
