//===- Evaluator.cpp - Reference interpreter: functions and blocks --------===//

#include "Evaluator.h"

#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace forebay::reference;

void forebay::reference::forEachIndex(ArrayRef<int64_t> shape, function_ref<void(ArrayRef<int64_t>)> fn) {
  if (llvm::is_contained(shape, 0))
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    fn(index);
    int64_t axis = int64_t(shape.size()) - 1;
    for (; axis >= 0 && ++index[axis] == shape[axis]; --axis)
      index[axis] = 0;
    if (axis < 0)
      return;
  }
}

int64_t forebay::reference::offsetOf(ArrayRef<int64_t> index, ArrayRef<int64_t> strides) {
  int64_t offset = 0;
  for (auto [i, stride] : llvm::zip_equal(index, strides))
    offset += i * stride;
  return offset;
}

static const Handlers &allHandlers() {
  static const Handlers handlers = [] {
    Handlers table;
    addElementwiseHandlers(table);
    addStructuredHandlers(table);
    addTensorHandlers(table);
    addTrainHandlers(table);
    addAttentionHandlers(table);
    addStepHandlers(table);
    return table;
  }();
  return handlers;
}

/// Calls a function named by `attribute` of a call-like operation.
static LogicalResult evaluateCall(const Frame &frame, StringRef attribute) {
  auto symbol = frame.op->getAttrOfType<FlatSymbolRefAttr>(attribute);
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(frame.op, symbol);
  if (!callee)
    return frame.op->emitError() << "calls an unknown function " << symbol;
  auto results = frame.evaluator.call(callee, frame.operands);
  if (failed(results))
    return failure();
  llvm::move(*results, frame.results.begin());
  return success();
}

LogicalResult Evaluator::evaluate(Operation *op, Scope &scope) {
  SmallVector<TensorRef> operands;
  for (Value operand : op->getOperands())
    operands.push_back(scope.lookup(operand));
  std::vector<Tensor> results;
  for (Type type : op->getResultTypes()) {
    if (auto shaped = dyn_cast<ShapedType>(type); shaped && !shaped.hasStaticShape())
      return op->emitError() << "has a dynamic shape";
    results.emplace_back(type);
  }

  Frame frame{*this, scope, op, operands, results};
  StringRef name = op->getName().getStringRef();
  LogicalResult done = failure();
  if (auto it = allHandlers().find(name); it != allHandlers().end())
    done = it->second(frame);
  else if (name == "func.call")
    done = evaluateCall(frame, "callee");
  else if (name == "offload.dispatch")
    done = evaluateCall(frame, "kernel");
  else if (isa<linalg::LinalgOp>(op))
    done = evaluateLinalg(frame);
  else
    return op->emitError() << "'" << name << "' is not known to the reference interpreter";
  if (failed(done))
    return failure();

  for (auto [value, tensor] : llvm::zip_equal(op->getResults(), results)) {
    Type element = getElementTypeOrSelf(value.getType());
    if (options.roundToType && tensor.isFloat)
      for (double &number : tensor.floats)
        number = roundTo(element, number);
    scope[value] = std::make_shared<Tensor>(std::move(tensor));
  }
  return success();
}

FailureOr<std::vector<TensorRef>> Evaluator::run(Block &block, Scope &scope) {
  // Uses left in this block, so that values are freed after their last one.
  llvm::DenseMap<Value, unsigned> uses;
  for (Operation &op : block)
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() == &block)
        ++uses[operand];
  for (Operation &op : block.without_terminator()) {
    if (failed(evaluate(&op, scope)))
      return failure();
    for (Value operand : op.getOperands())
      if (auto it = uses.find(operand); it != uses.end() && --it->second == 0 && op.getNumRegions() == 0 &&
                                        llvm::all_of(operand.getUsers(), [&](Operation *user) {
                                          return user->getBlock() == &block;
                                        }))
        scope.erase(operand);
  }
  std::vector<TensorRef> results;
  for (Value operand : block.getTerminator()->getOperands())
    results.push_back(scope.lookup(operand));
  return results;
}

FailureOr<std::vector<Tensor>> Evaluator::call(func::FuncOp func, ArrayRef<TensorRef> arguments) {
  if (func.isExternal() || !func.getBody().hasOneBlock())
    return func.emitError() << "needs one block to be evaluated";
  assert(arguments.size() == func.getNumArguments() && "an argument each");
  Scope scope;
  for (auto [argument, tensor] : llvm::zip(func.getArguments(), arguments))
    scope[argument] = tensor;
  auto results = run(func.getBody().front(), scope);
  if (failed(results))
    return failure();
  std::vector<Tensor> tensors;
  for (const TensorRef &result : *results)
    tensors.push_back(*result);
  return tensors;
}

FailureOr<std::vector<Tensor>> forebay::reference::evaluate(func::FuncOp func, ArrayRef<Tensor> arguments,
                                                            const EvaluateOptions &options) {
  SmallVector<TensorRef> refs;
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    auto type = dyn_cast<ShapedType>(func.getArgumentTypes()[index]);
    if (type && type.getShape() != ArrayRef<int64_t>(argument.shape))
      return emitError(func.getLoc()) << "argument " << index << " must have the shape of " << Type(type);
    refs.push_back(std::make_shared<Tensor>(argument));
  }
  return Evaluator(options).call(func, refs);
}
