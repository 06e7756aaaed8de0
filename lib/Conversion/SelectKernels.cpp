//===- SelectKernels.cpp - The kernel of each dispatch function -----------===//

#include "forebay/Conversion/LoopNest.h"
#include "forebay/Conversion/MatchContract.h"
#include "forebay/Conversion/Passes.h"
#include "forebay/Conversion/RootOps.h"
#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/StepAttrs.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/builtin_kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/CastInterfaces.h"

#include <map>

using namespace mlir;

namespace forebay {
#define GEN_PASS_DEF_FOREBAYSELECTKERNELS
#include "forebay/Conversion/Passes.h.inc"
} // namespace forebay

using namespace forebay;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
static ArrayRef<int64_t> shapeOf(Value value) { return typeOf(value).getShape(); }
static int64_t sizeOf(Value value) { return typeOf(value).getNumElements(); }
using kernels::ceilDiv;
static int64_t bytesOf(Type type) { return std::max(1u, type.getIntOrFloatBitWidth() / 8); }

namespace {

/// What becomes the attribute.
struct Choice {
  std::string name;
  bool compiled = false;
  SmallVector<int64_t> params, tiles, inplace;
  int64_t scratch = 0, workspace = 0, flops = 0;
  int64_t executed = 0; ///< of `flops`, 0: all
  offload::OpClass opClass = offload::OpClass::Elementwise;
  Type type;            ///< of the operands of products; null: f32
  int64_t width = 0, traffic = 0;

  /// The block as the array of int64 that it is.
  template <typename Params> void setParams(const Params &block) {
    static_assert(sizeof(Params) % sizeof(int64_t) == 0);
    const auto *words = reinterpret_cast<const int64_t *>(&block);
    params.assign(words, words + sizeof(Params) / sizeof(int64_t));
  }
  void setLaunch(const kernels::Launch &launch) {
    tiles.assign(launch.tiles, launch.tiles + launch.phases);
    scratch = launch.scratchBytes;
    workspace = launch.workspaceBytes;
  }
};

/// A view over rank 6, leading dimensions of size 1.
kernels::View viewParams(const StridedView &view) {
  kernels::View result{view.offset, {0, 0, 0, 0, 0, 0}};
  for (unsigned i = 0; i < view.rank(); ++i)
    result.stride[6 - view.rank() + i] = view.sizes[i] == 1 ? 0 : view.strides[i];
  return result;
}

class Selector {
public:
  explicit Selector(func::FuncOp function) : function(function) {}

  FailureOr<Choice> select() {
    Operation *root = findRoot();
    LogicalResult status = success();
    if (!root || isElementwise(root) || isCompiledRoot(root))
      status = selectCompiled(root);
    else
      status = llvm::TypeSwitch<Operation *, LogicalResult>(root)
                   .Case<linalg::ContractOp, linalg::ReduceOp, train::SoftmaxOp, train::SoftmaxGradOp, train::LayerNormOp,
                         train::LayerNormGradOp, train::RMSNormOp, train::RMSNormGradOp, train::AttentionOp,
                         train::AttentionGradOp, train::RotaryOp, train::EmbeddingOp, train::EmbeddingGradOp,
                         train::CrossEntropyOp, train::CrossEntropyGradOp, train::AccumulateOp, train::NormPartialsOp,
                         train::VerdictOp, train::CastOp>([&](auto op) { return selectFor(op); })
                   .Default([&](Operation *op) { return op->emitError() << "no kernel computes it"; });
    if (failed(status))
      return failure();
    setCost(root);
    if (root && !choice.compiled)
      addTypeToName(root);
    return choice;
  }

private:
  //===--------------------------------------------------------------------===//
  // Cost
  //===--------------------------------------------------------------------===//

  /// Kernels of the types below f32 are others; what only moves bytes is one for all.
  void addTypeToName(Operation *root) {
    if (isa<train::CastOp, train::EmbeddingOp>(root))
      return;
    for (Type type : llvm::concat<const Type>(root->getOperandTypes(), root->getResultTypes()))
      if (Type element = getElementTypeOrSelf(type); element.isBF16() || element.isF16()) {
        choice.name += element.isBF16() ? "_bf16" : "_f16";
        return;
      }
  }

  void setCost(Operation *root) {
    choice.opClass = classOf(root);
    if (auto contract = dyn_cast_or_null<linalg::ContractOp>(root)) {
      choice.flops = cast<train::CostOpInterface>(root).getFlops();
      choice.width = smallestDimension(contract);
    }
    if (choice.opClass == offload::OpClass::Matmul || choice.opClass == offload::OpClass::Attention)
      if (Type type = typeOf(root->getOperand(0)).getElementType(); !type.isF32())
        choice.type = type;
    if (root && !choice.compiled)
      for (Value operand : root->getOperands())
        if (isa<RankedTensorType>(operand.getType()))
          if (std::optional<StridedView> view = traceView(operand); view && !isRead(view->base))
            addRead(view->base, view->sizes, view->strides);
    setTraffic();
  }

  offload::OpClass classOf(Operation *root) {
    using offload::OpClass;
    if (!root)
      return OpClass::Elementwise; // copies and fills
    if (isElementwise(root)) {
      auto isCast = [](Operation &op) { return !isElementwise(&op) || isa<CastOpInterface>(op); };
      return llvm::all_of(function.front(), isCast) ? OpClass::Cast : OpClass::Elementwise;
    }
    return llvm::TypeSwitch<Operation *, OpClass>(root)
        .Case<linalg::ContractOp>([](auto) { return OpClass::Matmul; })
        .Case<train::AttentionOp, train::AttentionGradOp>([](auto) { return OpClass::Attention; })
        .Case<linalg::ReduceOp, train::SoftmaxOp, train::SoftmaxGradOp, train::LayerNormOp, train::LayerNormGradOp, train::RMSNormOp,
              train::RMSNormGradOp, train::CrossEntropyOp, train::CrossEntropyGradOp, train::VerdictOp>(
            [](auto) { return OpClass::Reduction; })
        .Case<train::EmbeddingOp, train::EmbeddingGradOp>([](auto) { return OpClass::Gather; })
        .Case<train::UpdateOp>([](auto) { return OpClass::Optimizer; })
        .Case<train::CastOp>([](auto) { return OpClass::Cast; })
        // train.norm_partials, too: one stream at memory bandwidth, which its few additions hide behind.
        .Default([](Operation *) { return OpClass::Elementwise; });
  }

  /// Of m, n, k, each the product of the dimensions that two of A, B, C share and the third lacks.
  static int64_t smallestDimension(linalg::ContractOp op) {
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    int64_t m = 1, n = 1, k = 1;
    for (auto [dim, size] : llvm::enumerate(cast<linalg::LinalgOp>(op.getOperation()).getStaticLoopRanges())) {
      bool in[3];
      for (unsigned i = 0; i < 3; ++i)
        in[i] = maps[i].isFunctionOfDim(dim);
      if (in[0] && in[1] && in[2])
        continue;
      (in[2] ? in[0] ? m : n : k) *= size;
    }
    return std::min({m, n, k});
  }

  bool isRead(Value base) const {
    auto argument = dyn_cast<BlockArgument>(base);
    return argument && reads.count(argument.getArgNumber());
  }

  /// The kernel reads these elements of `base`, an argument; what is repeated is read once.
  void addRead(Value base, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
    auto argument = dyn_cast<BlockArgument>(base);
    if (!argument)
      return;
    int64_t elements = 1;
    for (auto [size, stride] : llvm::zip(sizes, strides))
      elements *= stride ? size : 1;
    reads[argument.getArgNumber()] += elements * bytesOf(typeOf(base).getElementType());
  }

  /// Says the traffic where it is not all bytes of operands and results: slices, rows of a table. Arguments whose use is not known count whole.
  void setTraffic() {
    int64_t all = 0, read = 0, written = 0;
    for (Value argument : function.getArguments()) {
      int64_t bytes = sizeOf(argument) * bytesOf(typeOf(argument).getElementType());
      auto known = reads.find(cast<BlockArgument>(argument).getArgNumber());
      all += bytes;
      read += known == reads.end() ? bytes : std::min(bytes, known->second);
    }
    for (Value value : function.front().getTerminator()->getOperands())
      written += sizeOf(value) * bytesOf(typeOf(value).getElementType());
    if (read != all)
      choice.traffic = read + written;
  }

  /// Share of the query-key pairs that causal masks and windows leave, times `flops`.
  template <typename Op> int64_t executedFlops(Op op) {
    int64_t queries = shapeOf(op.getQuery())[2], keys = shapeOf(op.getKey())[2], pairs = 0, window = op.getWindow().value_or(0);
    for (int64_t q = 0; q < queries; ++q) {
      int64_t end = op.getCausal() ? std::min(q + 1, keys) : keys, begin = window ? std::max<int64_t>(0, q - window + 1) : 0;
      pairs += std::max<int64_t>(0, end - begin);
    }
    int64_t square = queries * keys, flops = op.getFlops();
    if (pairs == square)
      return 0;
    return flops / square * pairs + static_cast<int64_t>(static_cast<double>(flops % square) / square * pairs);
  }

  //===--------------------------------------------------------------------===//
  // Kernels
  //===--------------------------------------------------------------------===//

  /// The operation that does the work; null for copies and constants.
  Operation *findRoot() {
    Operation *last = nullptr;
    for (Operation &op : function.front().without_terminator()) {
      if (isa<linalg::ContractOp>(op) || isBuiltinRoot(&op) || isCompiledRoot(&op))
        return &op;
      if (isElementwise(&op))
        last = &op;
    }
    return last;
  }

  Value result(unsigned index = 0) { return function.front().getTerminator()->getOperand(index); }

  /// Where result `index` of `op` lies in what the function returns.
  StridedView resultView(Operation *op, unsigned index = 0) { return *traceResult(op->getResult(index), result(index)); }

  LogicalResult selectFor(linalg::ContractOp op) {
    std::optional<StridedView> a = traceView(op->getOperand(0)), b = traceView(op->getOperand(1)), bias;
    Value product = op->getResult(0);
    if (product.hasOneUse())
      if (auto sum = dyn_cast<arith::AddFOp>(*product.user_begin())) {
        bias = traceView(sum.getLhs() == product ? sum.getRhs() : sum.getLhs());
        product = sum.getResult();
      }
    auto match = matchContract(op, *a, *b, *traceResult(product, result()), bias ? &*bias : nullptr);
    if (!match)
      return selectCompiled(op);
    assert(a->base == function.getArgument(match->swapped ? 1 : 0) && "operands are in the order of the kernel");
    choice.name = "gemm";
    choice.setParams(match->params);
    choice.setLaunch(kernels::gemmLaunch(match->params));
    choice.flops = match->flops();
    return success();
  }

  LogicalResult selectFor(linalg::ReduceOp op) {
    std::optional<ReducedRange> range = reducedRange(op);
    if (!range)
      return op.emitError() << "reduces dimensions that are not adjacent";
    kernels::ReduceParams p{range->outer, range->reduce, range->inner, *reduceKind(op), 0, 0};
    kernels::setReduceTile(p);
    choice.setLaunch(kernels::reduceLaunch(p));
    choice.name = "reduce";
    choice.setParams(p);
    choice.flops = p.outer * p.reduce * p.inner;
    return success();
  }

  LogicalResult selectRows(StringRef name, Value x, int64_t flops) {
    int64_t cols = shapeOf(x).empty() ? 1 : shapeOf(x).back(), rows = cols ? sizeOf(x) / cols : 0;
    kernels::RowsParams p{rows, cols, kernels::defaultRowsPerTile(rows, cols)};
    choice.name = name;
    choice.setParams(p);
    choice.setLaunch(kernels::softmaxLaunch(p));
    choice.inplace = {0};
    choice.flops = flops * sizeOf(x);
    return success();
  }
  LogicalResult selectFor(train::SoftmaxOp op) { return selectRows("softmax", op.getInput(), 5); }
  LogicalResult selectFor(train::SoftmaxGradOp op) { return selectRows("softmax_grad", op.getGrad(), 4); }

  LogicalResult selectNorm(StringRef name, Value x, bool weight, bool bias, bool unitOffset, double eps, unsigned partials) {
    int64_t cols = shapeOf(x).back(), rows = cols ? sizeOf(x) / cols : 0;
    kernels::NormParams p{rows, cols, 0, weight, bias, unitOffset, kernels::toBits(eps)};
    p.rowsPerTile = partials ? kernels::defaultGradRowsPerTile(rows, cols) : kernels::defaultRowsPerTile(rows, cols);
    choice.name = name;
    choice.setParams(p);
    choice.setLaunch(partials ? kernels::normGradLaunch(p, partials) : kernels::normLaunch(p));
    choice.inplace.assign(function.getNumResults(), -1);
    choice.inplace[0] = 0;
    choice.flops = (partials ? 12 : 8) * sizeOf(x);
    return success();
  }
  LogicalResult selectFor(train::LayerNormOp op) {
    return selectNorm("layer_norm", op.getInput(), bool(op.getWeight()), bool(op.getBias()), false, op.getEps().convertToDouble(), 0);
  }
  LogicalResult selectFor(train::LayerNormGradOp op) {
    return selectNorm("layer_norm_grad", op.getInput(), bool(op.getWeight()), false, false, 0, 2);
  }
  LogicalResult selectFor(train::RMSNormOp op) {
    return selectNorm("rms_norm", op.getInput(), bool(op.getWeight()), false, op.getUnitOffset(), op.getEps().convertToDouble(), 0);
  }
  LogicalResult selectFor(train::RMSNormGradOp op) {
    return selectNorm("rms_norm_grad", op.getInput(), bool(op.getWeight()), false, op.getUnitOffset(), 0, 1);
  }

  template <typename Op> kernels::AttentionParams attentionParams(Op op) {
    ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey()), v = shapeOf(op.getValue());
    kernels::AttentionParams p{};
    p.batch = q[0];
    p.heads = q[1];
    p.kvHeads = k[1];
    p.queries = q[2];
    p.keys = k[2];
    p.dim = q[3];
    p.valueDim = v[3];
    p.q = viewParams(*traceView(op.getQuery()));
    p.k = viewParams(*traceView(op.getKey()));
    p.v = viewParams(*traceView(op.getValue()));
    if (Value mask = op.getMask()) {
      StridedView view = *traceView(mask);
      // Dimensions of size 1 are repeated; a mask of one query row as well.
      p.mask = viewParams(view);
      p.maskKind = typeOf(mask).getElementType().isInteger(1) ? 1 : 2;
    }
    p.hasPadding = bool(op.getKeyPadding());
    p.causal = op.getCausal();
    p.window = op.getWindow().value_or(0);
    kernels::setAttentionTile(p);
    p.scale = kernels::toBits(op.getScale().convertToDouble());
    p.softcap = kernels::toBits(op.getSoftcap() ? op.getSoftcap()->convertToDouble() : 0.0);
    return p;
  }

  LogicalResult selectFor(train::AttentionOp op) {
    kernels::AttentionParams p = attentionParams(op);
    p.o = viewParams(resultView(op));
    choice.name = "attention";
    choice.setParams(p);
    choice.setLaunch(kernels::attentionLaunch(p));
    choice.flops = op.getFlops();
    choice.executed = executedFlops(op);
    return success();
  }

  LogicalResult selectFor(train::AttentionGradOp op) {
    kernels::AttentionParams p = attentionParams(op);
    p.o = viewParams(*traceView(op.getOutput()));
    p.dO = viewParams(*traceView(op.getGrad()));
    p.dq = viewParams(resultView(op, 0));
    p.dk = viewParams(resultView(op, 1));
    p.dv = viewParams(resultView(op, 2));
    choice.name = "attention_grad";
    choice.setParams(p);
    choice.setLaunch(kernels::attentionGradLaunch(p));
    choice.flops = op.getFlops();
    choice.executed = executedFlops(op);
    return success();
  }

  LogicalResult selectFor(train::RotaryOp op) {
    ArrayRef<int64_t> x = shapeOf(op.getInput()), c = shapeOf(op.getCos());
    kernels::RotaryParams p{};
    p.batch = x[0];
    p.heads = x[1];
    p.seq = x[2];
    p.dim = x[3];
    p.half = c.back();
    p.perBatch = c.size() == 3;
    p.interleaved = op.getInterleaved();
    p.inverse = op.getInverse();
    int64_t rows = p.batch * p.heads * p.seq;
    p.rowsPerTile = kernels::defaultRowsPerTile(rows, p.dim);
    p.x = viewParams(*traceView(op.getInput()));
    p.y = viewParams(resultView(op));
    choice.name = "rotary";
    choice.setParams(p);
    choice.setLaunch(kernels::rotaryLaunch(p));
    if (sizeOf(op.getInput()) == sizeOf(function.getArgument(0)) && std::memcmp(&p.x, &p.y, sizeof p.x) == 0)
      choice.inplace = {0};
    choice.flops = 3 * sizeOf(op.getInput());
    return success();
  }

  LogicalResult selectFor(train::EmbeddingOp op) {
    int64_t vocab = shapeOf(op.getTable())[0], count = sizeOf(op.getIds());
    int64_t width = count ? sizeOf(op.getResult()) / count : 0;
    Type type = typeOf(op.getTable()).getElementType();
    kernels::EmbeddingParams p{vocab, width, count, bytesOf(typeOf(op.getIds()).getElementType()), bytesOf(type), kernels::defaultRowsPerTile(count, width)};
    choice.name = "embedding";
    choice.setParams(p);
    choice.setLaunch(kernels::embeddingLaunch(p));
    reads[0] = count * width * bytesOf(type); // rows, not the table
    return success();
  }

  LogicalResult selectFor(train::EmbeddingGradOp op) {
    int64_t vocab = shapeOf(op.getDtable())[0], count = sizeOf(op.getIds());
    int64_t width = vocab ? sizeOf(op.getDtable()) / vocab : 0;
    kernels::EmbeddingParams p{vocab, width, count, bytesOf(typeOf(op.getIds()).getElementType()),
                               bytesOf(typeOf(op.getDtable()).getElementType()), kernels::embeddingGradRowsPerTile(vocab, width)};
    choice.name = "embedding_grad";
    choice.setParams(p);
    choice.setLaunch(kernels::embeddingGradLaunch(p));
    choice.flops = sizeOf(op.getGrad());
    return success();
  }

  template <typename Op> kernels::CrossEntropyParams crossEntropyParams(Op op) {
    ArrayRef<int64_t> shape = shapeOf(op.getLogits());
    return {shape[0], shape[1], bytesOf(typeOf(op.getLabels()).getElementType()), int64_t(op.getIgnoreIndex()), op.getSum(),
            kernels::defaultRowsPerTile(shape[0], shape[1])};
  }
  LogicalResult selectFor(train::CrossEntropyOp op) {
    auto p = crossEntropyParams(op);
    choice.name = "cross_entropy";
    choice.setParams(p);
    choice.setLaunch(kernels::crossEntropyLaunch(p));
    choice.flops = 5 * p.rows * p.cols;
    return success();
  }
  LogicalResult selectFor(train::CrossEntropyGradOp op) {
    auto p = crossEntropyParams(op);
    choice.name = "cross_entropy_grad";
    choice.setParams(p);
    choice.setLaunch(kernels::crossEntropyGradLaunch(p));
    choice.inplace = {1};
    choice.flops = 4 * p.rows * p.cols;
    return success();
  }

  LogicalResult selectFor(train::CastOp op) {
    auto nameOf = [](Type type) { return type.isF32() ? "f32" : type.isF64() ? "f64" : type.isBF16() ? "bf16" : "f16"; };
    std::string name = std::string("cast_") + nameOf(typeOf(op.getInput()).getElementType()) + "_" + nameOf(typeOf(op.getResult()).getElementType());
    if (failed(selectFlat(name, op.getInput(), 1)))
      return failure();
    choice.flops = sizeOf(op.getInput());
    return success();
  }

  LogicalResult selectFlat(StringRef name, Value grad, int64_t accumulate) {
    kernels::FlatParams p{sizeOf(grad), accumulate, kernels::kElementsPerTile};
    choice.name = name;
    choice.setParams(p);
    choice.setLaunch(kernels::flatLaunch(p));
    choice.flops = 2 * p.count;
    return success();
  }
  LogicalResult selectFor(train::AccumulateOp op) {
    choice.inplace = {0};
    return selectFlat("accumulate", op.getGrad(), 1);
  }
  LogicalResult selectFor(train::NormPartialsOp op) { return selectFlat("norm_partials", op.getGrad(), op.getAccumulate()); }

  LogicalResult selectFor(train::VerdictOp op) {
    std::optional<APFloat> clip = op.getClip();
    choice.setParams(kernels::VerdictParams{int64_t(op.getPartials().size()), clip.has_value(),
                                            kernels::toBits(clip ? clip->convertToDouble() : 0.0)});
    for (Value partials : op.getPartials())
      choice.params.push_back(sizeOf(partials));
    choice.name = "verdict";
    choice.setLaunch(kernels::verdictLaunch());
    return success();
  }

  LogicalResult selectFill(DenseElementsAttr constant) {
    Type type = constant.getElementType();
    Attribute value = constant.getSplatValue<Attribute>();
    APInt bits = isa<FloatAttr>(value) ? cast<FloatAttr>(value).getValue().bitcastToAPInt() : cast<IntegerAttr>(value).getValue();
    kernels::FillParams p{constant.getNumElements(), bytesOf(type), int64_t(bits.getZExtValue()), kernels::kElementsPerTile};
    choice.name = "fill";
    choice.setParams(p);
    choice.setLaunch(kernels::fillLaunch(p));
    return success();
  }

  /// A copy through strides: dimensions merged where source and destination allow it.
  bool selectCopy(const StridedView &source) {
    StridedView target = StridedView::contiguous(source.sizes);
    SmallVector<int64_t> sizes, from, to;
    for (unsigned i = 0; i < source.rank(); ++i) {
      if (source.sizes[i] == 1)
        continue;
      if (!sizes.empty() && from.back() == source.strides[i] * source.sizes[i]) {
        sizes.back() *= source.sizes[i];
        from.back() = source.strides[i];
        to.back() = target.strides[i];
        continue;
      }
      sizes.push_back(source.sizes[i]);
      from.push_back(source.strides[i]);
      to.push_back(target.strides[i]);
    }
    if (sizes.size() > 6)
      return false;
    kernels::CopyParams p{};
    StridedView view{{}, source.offset, sizes, from}, dst{{}, 0, sizes, to};
    for (unsigned i = 0; i < 6; ++i) {
      unsigned skip = 6 - sizes.size();
      p.size[i] = i < skip ? 1 : sizes[i - skip];
    }
    p.src = viewParams(view);
    p.dst = viewParams(dst);
    p.elementBytes = bytesOf(typeOf(result()).getElementType());
    kernels::setCopyTile(p);
    choice.name = "copy";
    choice.setParams(p);
    choice.setLaunch(kernels::copyLaunch(p));
    return true;
  }

  LogicalResult selectCompiled(Operation *root) {
    if (auto update = dyn_cast_or_null<train::UpdateOp>(root))
      return selectUpdate(update);
    if (!root) {
      if (DenseElementsAttr constant = constantOf(result()); constant && constant.isSplat())
        return selectFill(constant);
      std::optional<StridedView> view = traceView(result());
      if (view && isa<BlockArgument>(view->base) && selectCopy(*view)) {
        addRead(view->base, view->sizes, view->strides);
        return success();
      }
    }
    SmallVector<LoopNest, 1> nests;
    std::string why;
    if (failed(buildLoopNests(function, nests, why)))
      return (root ? root->emitError() : function.emitError()) << "no kernel computes it: " << why;
    choice.name = function.getSymName();
    choice.compiled = true;
    int64_t tiles = 0;
    for (const LoopNest &nest : nests) {
      tiles += nest.tiling().tiles();
      unsigned ops = nest.reduced ? 1 : 0;
      for (const ScalarNode &node : nest.nodes)
        ops += node.kind == ScalarNode::Op;
      choice.flops += ops * nest.numElements();
    }
    addReads(nests);
    choice.tiles = {tiles};
    selectInplace(nests);
    return success();
  }

  void addReads(ArrayRef<LoopNest> nests) {
    for (const LoopNest &nest : nests)
      for (size_t i = 0; i < nest.nodes.size(); ++i) {
        const ScalarNode &node = nest.nodes[i];
        auto isSame = [&](const ScalarNode &other) {
          return other.kind == ScalarNode::Load && other.operand == node.operand && other.access == node.access;
        };
        if (node.kind == ScalarNode::Load && node.operand < function.getNumArguments() && llvm::none_of(ArrayRef(nest.nodes).take_front(i), isSame))
          addRead(function.getArgument(node.operand), nest.sizes, node.access.strides);
      }
  }

  /// A result takes over the buffer of an argument of its size where every point reads just the element that it writes.
  void selectInplace(ArrayRef<LoopNest> nests) {
    SmallVector<bool> taken(function.getNumArguments());
    bool any = false;
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      int64_t found = -1;
      for (unsigned argument = 0; argument < function.getNumArguments() && found < 0; ++argument)
        if (!taken[argument] && canTakeOver(nests, argument, i))
          found = argument;
      if (found >= 0)
        taken[found] = any = true;
      choice.inplace.push_back(found);
    }
    if (!any)
      choice.inplace.clear();
  }

  bool canTakeOver(ArrayRef<LoopNest> nests, unsigned argument, unsigned index) {
    RankedTensorType from = typeOf(function.getArgument(argument)), to = typeOf(result(index));
    if (bytesOf(from.getElementType()) != bytesOf(to.getElementType()) || from.getNumElements() != to.getNumElements())
      return false;
    for (const LoopNest &nest : nests) {
      if (nest.reduced)
        return false;
      for (const ScalarNode &node : nest.nodes) {
        if (node.kind != ScalarNode::Load || node.operand != argument)
          continue;
        for (const LoopNest::Store &store : nest.stores)
          if (store.operand == function.getNumArguments() + index && !(store.access == node.access))
            return false;
      }
    }
    return true;
  }

  LogicalResult selectUpdate(train::UpdateOp op) {
    auto optimizer = SymbolTable::lookupNearestSymbolFrom<train::OptimizerOp>(op, op.getOptimizerAttr());
    if (!optimizer)
      return op.emitError() << "names no optimizer: " << op.getOptimizerAttr();
    int64_t count = sizeOf(op.getParameter()), perTile = kernels::kElementsPerTile, states = op.getState().size();
    auto update = SymbolTable(optimizer).lookup<func::FuncOp>("update");
    choice.name = ("update_" + op.getOptimizer()).str();
    if (op.getAccumulate() != 1)
      choice.name += "_" + std::to_string(op.getAccumulate());
    if (op->hasAttr(train::kKeepParameterAttr))
      choice.name += "_kept";
    choice.compiled = true;
    choice.params = {0, count, perTile};
    choice.tiles = {ceilDiv(count, perTile)};
    choice.inplace = {0};
    for (int64_t i = 0; i < states; ++i)
      choice.inplace.push_back(2 + i);
    choice.flops = count * (1 + std::distance(update.front().begin(), update.front().end()));
    return success();
  }

  func::FuncOp function;
  Choice choice;
  std::map<unsigned, int64_t> reads; ///< argument: bytes, where its use is known
};

struct SelectKernels : forebay::impl::ForebaySelectKernelsBase<SelectKernels> {
  void runOnOperation() override {
    SetVector<Operation *> functions;
    SymbolTableCollection symbols;
    getOperation().walk([&](offload::DispatchOp op) {
      functions.insert(symbols.lookupNearestSymbolFrom(op, op.getKernelAttr()));
    });
    bool failedAny = false;
    for (Operation *op : functions) {
      auto function = cast<func::FuncOp>(op);
      if (function->hasAttr(offload::kKernelAttr))
        continue;
      FailureOr<Choice> choice = Selector(function).select();
      if (failed(choice)) {
        failedAny = true;
        continue;
      }
      function->setAttr(offload::kKernelAttr,
                        offload::KernelAttr::get(&getContext(), choice->name, choice->compiled, choice->params,
                                                 choice->tiles, choice->scratch, choice->workspace, choice->inplace,
                                                 choice->flops, choice->executed, choice->opClass, choice->type, choice->width,
                                                 choice->traffic));
    }
    if (failedAny)
      signalPassFailure();
  }
};

} // namespace
