//===- KernelBuilder.cpp - Building one kernel function -------------------===//

#include "forebay/Conversion/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace forebay;

KernelBuilder::KernelBuilder(ModuleOp module, StringRef name, Location loc, Signature signature)
    : b(loc, module.getContext()), module(module) {
  b.setInsertionPointToEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), word = b.getI64Type();
  auto nothing = LLVM::LLVMVoidType::get(b.getContext());
  bool scalars = signature == Signature::Scalars;
  auto type = scalars ? LLVM::LLVMFunctionType::get(nothing, {word, pointer, pointer})
                      : LLVM::LLVMFunctionType::get(nothing, {pointer, pointer, b.getI32Type(), word, pointer});
  // Called through the table of kernels only.
  function = LLVM::LLVMFuncOp::create(b, name, type, LLVM::Linkage::Internal);
  Block *block = function.addEntryBlock(b);
  tile = block->getArgument(scalars ? 0 : 3);
  operands = block->getArgument(scalars ? 1 : 0);
  params = block->getArgument(scalars ? 2 : 1);
  group = LLVM::AccessGroupAttr::get(b.getContext(), DistinctAttr::create(b.getUnitAttr()));
  b.setInsertionPointToStart(block);
  auto end = LLVM::ReturnOp::create(b, ValueRange{});
  b.setInsertionPoint(end);
}

Value KernelBuilder::i64(int64_t value) { return arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }

// Offsets stay far below 2^63: no overflow, which lets LLVM see affine addresses.
static constexpr auto kNoWrap = arith::IntegerOverflowFlags::nsw;

static std::optional<int64_t> known(Value value) {
  if (auto constant = value.getDefiningOp<arith::ConstantOp>())
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      return integer.getInt();
  return std::nullopt;
}

Value KernelBuilder::add(Value x, Value y) {
  if (known(x) == 0)
    return y;
  if (known(y) == 0)
    return x;
  return arith::AddIOp::create(b, x, y, kNoWrap);
}

Value KernelBuilder::sub(Value x, Value y) { return known(y) == 0 ? x : arith::SubIOp::create(b, x, y, kNoWrap); }

Value KernelBuilder::mul(Value x, Value y) {
  if (known(x) == 1)
    return y;
  if (known(y) == 1)
    return x;
  return arith::MulIOp::create(b, x, y, kNoWrap);
}

Value KernelBuilder::min(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }

/// How elements lie in memory.
static Type memoryType(Type type) {
  return type.isInteger(1) ? IntegerType::get(type.getContext(), 8) : type;
}

Value KernelBuilder::address(Type type, Value pointer, Value index) {
  return LLVM::GEPOp::create(b, pointer.getType(), memoryType(type), pointer, ArrayRef<LLVM::GEPArg>{index},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelBuilder::operand(unsigned index) {
  return LLVM::LoadOp::create(b, operands.getType(), address(operands.getType(), operands, i64(index)));
}

Value KernelBuilder::param(unsigned index) { return load(b.getI64Type(), params, i64(index), /*parallel=*/false); }

Value KernelBuilder::load(Type type, Value pointer, Value index, bool parallel) {
  auto load = LLVM::LoadOp::create(b, memoryType(type), address(type, pointer, index));
  if (parallel)
    load.setAccessGroupsAttr(b.getArrayAttr(group));
  if (!type.isInteger(1))
    return load;
  Value zero = arith::ConstantOp::create(b, b.getI8IntegerAttr(0));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, load, zero);
}

void KernelBuilder::store(Value value, Value pointer, Value index, bool parallel) {
  Value place = address(value.getType(), pointer, index);
  if (value.getType().isInteger(1))
    value = arith::ExtUIOp::create(b, b.getI8Type(), value);
  auto store = LLVM::StoreOp::create(b, value, place);
  if (parallel)
    store.setAccessGroupsAttr(b.getArrayAttr(group));
}

Value KernelBuilder::table(DenseElementsAttr values) {
  Type element = values.getElementType();
  if (element.isInteger(1)) {
    SmallVector<int8_t> bytes;
    for (bool value : values.getValues<bool>())
      bytes.push_back(value);
    element = b.getI8Type();
    values = DenseElementsAttr::get(RankedTensorType::get({int64_t(bytes.size())}, element), ArrayRef<int8_t>(bytes));
  }
  std::string name = (function.getSymName() + ".table" + Twine(tables++)).str();
  OpBuilder::InsertionGuard guard(b);
  auto type = LLVM::LLVMArrayType::get(element, values.getNumElements());
  b.setInsertionPoint(function);
  auto global = LLVM::GlobalOp::create(b, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                                       values.reshape(RankedTensorType::get({values.getNumElements()}, element)),
                                       /*alignment=*/64);
  b.setInsertionPointToStart(&function.getBody().front());
  return LLVM::AddressOfOp::create(b, global);
}

Value KernelBuilder::scalarOp(Operation *op, ValueRange operands, Type type) {
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrs())
    if (!attribute.getNameDialect()) // Discardable attributes (the phase) stay behind.
      attributes.push_back(attribute);
  return static_cast<OpBuilder &>(b).create(b.getLoc(), op->getName().getIdentifier(), operands, type, attributes)->getResult(0);
}

void KernelBuilder::annotateParallel(scf::ForOp loop, int interleave) {
  MLIRContext *context = b.getContext();
  auto vectorize = LLVM::LoopVectorizeAttr::get(context, b.getBoolAttr(false), {}, {}, {}, {}, {}, {});
  LLVM::LoopInterleaveAttr unroll;
  if (interleave)
    unroll = LLVM::LoopInterleaveAttr::get(context, b.getI32IntegerAttr(interleave));
  loop->setAttr("loop_annotation",
                LLVM::LoopAnnotationAttr::get(context, /*disableNonforced=*/{}, vectorize, unroll, /*unroll=*/{},
                                              /*unrollAndJam=*/{}, /*licm=*/{}, /*distribute=*/{}, /*pipeline=*/{},
                                              /*peeled=*/{}, /*unswitch=*/{}, /*mustProgress=*/{}, /*isVectorized=*/{},
                                              /*startLoc=*/{}, /*endLoc=*/{}, cast<LLVM::AccessGroupAttr>(group)));
}
