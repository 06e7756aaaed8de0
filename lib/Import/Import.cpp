//===- Import.cpp - From an ONNX file to IR -------------------------------===//

#include "forebay/Import/Import.h"

#include "Emitter.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace forebay {

using namespace import;

namespace {

/// One run of the importer.
class Importer {
public:
  Importer(MLIRContext &context, const Model &model, const ImportOptions &options, Diagnostics &diags)
      : model(model), options(options), diags(diags), b(&context), emitter(model, diags, b) {}

  OwningOpRef<ModuleOp> run();

private:
  void describeModule(ModuleOp module);
  void bindInitializer(const Initializer &initializer);
  BlockArgument addArgument(const Tensor &tensor, train::Role role);
  std::optional<int> findLoss();
  bool addResults();
  void dropUnusedBuffers();
  void addRanges();
  struct Range;
  bool isFeed(Value value);
  std::optional<Range> rangeOf(BlockArgument input);
  void narrow(BlockArgument input, Range range);
  void boundIndex(const Emitter::FedIndex &index);

  const Model &model;
  const ImportOptions &options;
  Diagnostics &diags;
  OpBuilder b;
  Emitter emitter;
  func::FuncOp function;
};

} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void Importer::describeModule(ModuleOp module) {
  auto number = [&](int64_t value) { return b.getI64IntegerAttr(value); };
  module->setAttr("train.model", b.getDictionaryAttr({b.getNamedAttr("path", b.getStringAttr(model.path())),
                                                      b.getNamedAttr("bytes", number(model.bytes())),
                                                      b.getNamedAttr("hash", number(int64_t(model.hash())))}));
  SmallVector<NamedAttribute> dims;
  for (const auto &[name, value] : model.dims())
    dims.push_back(b.getNamedAttr(name, number(value)));
  module->setAttr("train.dims", b.getDictionaryAttr(dims));
  SmallVector<Attribute> files;
  for (const DataFile &file : model.dataFiles())
    files.push_back(b.getDictionaryAttr({b.getNamedAttr("name", b.getStringAttr(file.name)),
                                         b.getNamedAttr("bytes", number(file.bytes))}));
  module->setAttr("train.data_files", b.getArrayAttr(files));
}

BlockArgument Importer::addArgument(const Tensor &tensor, train::Role role) {
  Type type = RankedTensorType::get(tensor.shape, emitter.elementType(tensor.dtype));
  unsigned index = function.getNumArguments();
  auto attributes = b.getDictionaryAttr({b.getNamedAttr(train::kNameAttr, b.getStringAttr(tensor.name)),
                                         b.getNamedAttr(train::kRoleAttr, train::RoleAttr::get(b.getContext(), role))});
  (void)function.insertArgument(index, type, attributes, NameLoc::get(b.getStringAttr(tensor.name)));
  return function.getArgument(index);
}

void Importer::bindInitializer(const Initializer &initializer) {
  bool integers = !initializer.isFloat();
  if (initializer.role == InitializerRole::Constant || (initializer.role == InitializerRole::Buffer && integers)) {
    // Positions and triangles that a model keeps as buffers are as good as computed ones.
    if (auto bytes = model.data(initializer))
      if (auto val = emitter.constant(initializer, *bytes, /*progressions=*/true))
        return emitter.bind(initializer.name, *val);
  }
  bool parameter = initializer.role == InitializerRole::Parameter;
  BlockArgument argument = addArgument(initializer, parameter ? train::Role::Parameter : train::Role::Buffer);
  unsigned index = argument.getArgNumber();
  if (const auto &source = initializer.source)
    function.setArgAttr(index, train::kSourceAttr,
                        train::SourceAttr::get(b.getContext(), source->file, source->offset, source->bytes));
  if (parameter && initializer.trainable)
    function.setArgAttr(index, train::kTrainableAttr, b.getUnitAttr());
  emitter.bind(initializer.name, emitter.argument(initializer, argument));
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

static std::string describeOutput(const std::string &name, const Val &val) {
  std::string text = "'" + name + "' ";
  llvm::raw_string_ostream os(text);
  os << onnx::TensorProto_DataType_Name(onnx::TensorProto::DataType(val.dtype)) << " [";
  llvm::interleaveComma(val.shape, os);
  os << "]";
  return text;
}

/// Index of the output that is minimised.
std::optional<int> Importer::findLoss() {
  const auto &outputs = model.graph().output();
  auto isLoss = [&](int i) {
    const Val &val = *emitter.lookup(outputs[i].name());
    return val.shape.empty() && (val.dtype == onnx::TensorProto::FLOAT || val.dtype == onnx::TensorProto::DOUBLE);
  };
  std::vector<int> candidates;
  for (int i = 0; i < outputs.size(); ++i)
    if (options.loss.empty() ? isLoss(i) : outputs[i].name() == options.loss)
      candidates.push_back(i);
  if (candidates.size() == 1 && isLoss(candidates[0]))
    return candidates[0];
  std::string where = options.loss.empty() ? options.model : "--loss=" + options.loss;
  if (!options.loss.empty() && candidates.empty())
    diags.error(where, "the graph has no output of this name");
  else if (!options.loss.empty())
    diags.error(where, "the loss must be a floating scalar, this output is " +
                           describeOutput(options.loss, *emitter.lookup(options.loss)));
  else if (candidates.empty())
    diags.error(where, "no output is a floating scalar, so there is nothing to minimise");
  else
    diags.error(where, "several outputs are floating scalars: the loss must be named");
  for (const auto &output : outputs)
    diags.note("output " + describeOutput(output.name(), *emitter.lookup(output.name())));
  diags.note(candidates.size() > 1 ? "choose one of them with --loss=NAME"
                                   : "export the model with its loss as an output, or compile with --forward");
  return std::nullopt;
}

bool Importer::addResults() {
  const auto &outputs = model.graph().output();
  std::optional<int> loss;
  if (!options.forward && !(loss = findLoss()))
    return false;
  SmallVector<Value> values;
  SmallVector<Type> types;
  for (const auto &output : outputs) {
    if (emitter.lookup(output.name())->sequence) {
      diags.error("output '" + output.name() + "'", "is a sequence of tensors, which is not supported");
      diags.note("give out its tensors one by one");
      return false;
    }
    emitter.t.loc = NameLoc::get(b.getStringAttr(output.name()));
    values.push_back(emitter.ir(*emitter.lookup(output.name())));
    types.push_back(values.back().getType());
  }
  func::ReturnOp::create(b, b.getUnknownLoc(), values);
  function.setType(b.getFunctionType(function.getArgumentTypes(), types));
  for (int i = 0; i < outputs.size(); ++i) {
    function.setResultAttr(i, train::kNameAttr, b.getStringAttr(outputs[i].name()));
    auto role = loss == i ? train::Role::Loss : train::Role::Output;
    function.setResultAttr(i, train::kRoleAttr, train::RoleAttr::get(b.getContext(), role));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Afterwards
//===----------------------------------------------------------------------===//

void Importer::dropUnusedBuffers() {
  llvm::BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments()) {
    auto role = function.getArgAttrOfType<train::RoleAttr>(argument.getArgNumber(), train::kRoleAttr);
    if (role.getValue() == train::Role::Buffer && argument.use_empty())
      unused.set(argument.getArgNumber());
  }
  (void)function.eraseArguments(unused);
}

struct Importer::Range {
  int64_t lo, hi; ///< [lo, hi)
  std::optional<int64_t> ignore;
};

std::optional<Importer::Range> Importer::rangeOf(BlockArgument input) {
  auto range = function.getArgAttrOfType<DictionaryAttr>(input.getArgNumber(), train::kRangeAttr);
  if (!range)
    return std::nullopt;
  Range result{range.getAs<IntegerAttr>("lo").getInt(), range.getAs<IntegerAttr>("hi").getInt(), std::nullopt};
  if (auto ignore = range.getAs<IntegerAttr>("ignore"))
    result.ignore = ignore.getInt();
  return result;
}

void Importer::narrow(BlockArgument input, Range range) {
  if (auto before = rangeOf(input)) {
    range.lo = std::max(range.lo, before->lo);
    range.hi = std::min(range.hi, before->hi);
    // What one use ignores another may not.
    if (range.ignore != before->ignore)
      range.ignore = std::nullopt;
  }
  SmallVector<NamedAttribute> attributes{b.getNamedAttr("lo", b.getI64IntegerAttr(range.lo)),
                                         b.getNamedAttr("hi", b.getI64IntegerAttr(range.hi))};
  if (range.ignore)
    attributes.push_back(b.getNamedAttr("ignore", b.getI64IntegerAttr(*range.ignore)));
  function.setArgAttr(input.getArgNumber(), train::kRangeAttr, b.getDictionaryAttr(attributes));
}

bool Importer::isFeed(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getOwner() == &function.front() &&
         function.getArgAttrOfType<train::RoleAttr>(argument.getArgNumber(), train::kRoleAttr).getValue() == train::Role::Input;
}

/// The fed input that labels are views of; null if they are computed.
static Value behindViews(Value labels) {
  while (Operation *op = labels.getDefiningOp()) {
    if (auto pad = dyn_cast<tensor::PadOp>(op))
      labels = pad.getSource();
    else if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::ExtractSliceOp, linalg::TransposeOp,
                 linalg::BroadcastOp, arith::ExtSIOp, arith::TruncIOp>(op))
      labels = op->getOperand(0);
    else
      break;
  }
  return labels;
}

/// The largest number in [0, most] that `holds`; it does for 0, and for all below one that it does for.
static int64_t largest(int64_t most, function_ref<bool(int64_t)> holds) {
  int64_t low = 0, high = 1;
  for (; high < most && holds(high); high = high > most / 2 ? most : 2 * high)
    low = high;
  for (high = std::min(high, most); low < high;) {
    int64_t middle = low + (high - low + 1) / 2;
    if (holds(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Restricts a feed so that the index stays inside its axis, whatever is fed.
void Importer::boundIndex(const Emitter::FedIndex &index) {
  using Interval = Emitter::Interval;
  constexpr int64_t kFar = int64_t(1) << 62;
  auto known = [&](BlockArgument feed) -> std::optional<Interval> {
    std::optional<Range> range = isFeed(feed) ? rangeOf(feed) : std::nullopt;
    if (!range)
      return std::nullopt;
    int64_t ignore = range->ignore.value_or(range->lo);
    return Interval{std::min(range->lo, ignore), std::max(range->hi - 1, ignore)};
  };
  auto stays = [&](BlockArgument chosen, Interval interval) {
    Interval bounds = emitter.boundsOf(index.index, [&](BlockArgument feed) {
      return feed == chosen ? std::optional(interval) : known(feed);
    });
    return bounds.lo >= -index.size && bounds.hi < index.size;
  };
  if (stays(nullptr, {}))
    return;
  // One feed has to give way: the one that nothing has bounded so far, or the only one there is.
  SmallVector<BlockArgument, 2> feeds = emitter.feedsOf(index.index), free;
  llvm::copy_if(feeds, std::back_inserter(free), [&](BlockArgument feed) { return isFeed(feed) && !known(feed); });
  if (free.empty() && feeds.size() == 1 && isFeed(feeds.front()))
    free = feeds;
  // What holds for a part of a feed (a column of GatherND's indices) must not be asked of the rest.
  if (free.size() == 1 && !emitter.readsPart(index.index, free.front()) && stays(free.front(), {0, 0})) {
    BlockArgument feed = free.front();
    Interval before = known(feed).value_or(Interval{-kFar, kFar});
    int64_t hi = largest(std::max<int64_t>(before.hi, 0), [&](int64_t hi) { return stays(feed, {0, hi}); });
    int64_t lo = -largest(std::max<int64_t>(-before.lo, 0), [&](int64_t lo) { return stays(feed, {-lo, hi}); });
    std::optional<Range> declared = rangeOf(feed);
    std::optional<int64_t> ignore = declared ? declared->ignore : std::nullopt;
    // A feed that may only be 0 is of no use: rather a warning.
    if (lo != hi)
      return narrow(feed, {lo, hi + 1, ignore && *ignore >= lo && *ignore <= hi ? ignore : std::nullopt});
  }
  std::string names;
  for (BlockArgument feed : feeds)
    names += (names.empty() ? "'" : ", '") +
             function.getArgAttrOfType<StringAttr>(feed.getArgNumber(), train::kNameAttr).getValue().str() + "'";
  diags.warning(index.where, "reads at positions that " + (names.empty() ? "are computed" : "follow from " + names) +
                                 ", which may leave an axis of size " + Twine(index.size));
  diags.note("a step in which one does ends the run, with nothing applied; see that what is fed keeps to the axis");
}

void Importer::addRanges() {
  function.walk([&](train::CrossEntropyOp loss) {
    Value labels = behindViews(loss.getLabels());
    if (isFeed(labels))
      narrow(cast<BlockArgument>(labels), {0, shapeOf(loss.getLogits())[1], loss.getIgnoreIndex()});
  });
  for (const Emitter::FedIndex &index : emitter.fedIndices())
    boundIndex(index);
}

OwningOpRef<ModuleOp> Importer::run() {
  auto module = OwningOpRef<ModuleOp>(ModuleOp::create(b.getUnknownLoc()));
  describeModule(*module);
  b.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(b, b.getUnknownLoc(), "forward", b.getFunctionType({}, {}));
  b.setInsertionPointToEnd(function.addEntryBlock());
  try {
    for (const Tensor &input : model.inputs())
      emitter.bind(input.name, emitter.argument(input, addArgument(input, train::Role::Input)));
    for (const Initializer &initializer : model.initializers())
      bindInitializer(initializer);
  } catch (const NodeError &error) {
    diags.error(options.model, "an input or initializer " + error.what);
    if (!error.note.empty())
      diags.note(error.note);
    return nullptr;
  }
  if (!emitter.run() || !addResults())
    return nullptr;
  if (failed(verify(*module))) {
    assert(false && "the importer emitted invalid IR");
    return nullptr;
  }
  PassManager passes(b.getContext());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  if (failed(passes.run(*module)))
    return nullptr;
  addRanges();
  dropUnusedBuffers();
  return module;
}

OwningOpRef<ModuleOp> importOnnx(MLIRContext &context, const ImportOptions &options, Diagnostics &diags) {
  context.loadDialect<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect, math::MathDialect, tensor::TensorDialect,
                      train::TrainDialect>();
  MlirDiagnostics handler(&context, diags);
  auto isSupported = [](StringRef domain, StringRef op, int64_t) { return findOp(domain, op) != nullptr; };
  std::unique_ptr<Model> model = Model::load(options, isSupported, diags);
  if (!model)
    return nullptr;
  return Importer(context, *model, options, diags).run();
}

} // namespace forebay
