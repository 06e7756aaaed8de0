//===- Tensor.cpp - Values of the reference interpreter -------------------===//

#include "Tensor.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace mlir;
using namespace forebay::reference;

static int64_t product(ArrayRef<int64_t> shape) {
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  return size;
}

Tensor::Tensor(ArrayRef<int64_t> shape, bool isFloat) : shape(shape), isFloat(isFloat) {
  if (isFloat)
    floats.resize(product(shape));
  else
    ints.resize(product(shape));
}

static ArrayRef<int64_t> shapeOf(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? shaped.getShape() : ArrayRef<int64_t>();
}

Tensor::Tensor(Type type) : Tensor(shapeOf(type), isa<FloatType>(getElementTypeOrSelf(type))) {}

Tensor Tensor::scalar(double value) { return ofFloats({}, {value}); }
Tensor Tensor::scalar(int64_t value) { return ofInts({}, {value}); }

Tensor Tensor::ofFloats(ArrayRef<int64_t> shape, std::vector<double> values) {
  assert(int64_t(values.size()) == product(shape) && "as many values as elements");
  Tensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.floats = std::move(values);
  return tensor;
}

Tensor Tensor::ofInts(ArrayRef<int64_t> shape, std::vector<int64_t> values) {
  assert(int64_t(values.size()) == product(shape) && "as many values as elements");
  Tensor tensor;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.isFloat = false;
  tensor.ints = std::move(values);
  return tensor;
}

SmallVector<int64_t> Tensor::strides() const {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t axis = int64_t(shape.size()) - 2; axis >= 0; --axis)
    strides[axis] = strides[axis + 1] * shape[axis + 1];
  return strides;
}

double forebay::reference::roundTo(Type floatType, double value) {
  if (floatType.isF64())
    return value;
  if (floatType.isF32())
    return static_cast<float>(value);
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(cast<FloatType>(floatType).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number.convertToDouble();
}

//===----------------------------------------------------------------------===//
// Bytes and files
//===----------------------------------------------------------------------===//

template <typename T, typename Out>
static void load(StringRef bytes, std::vector<Out> &out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<Out>(value);
  }
}

/// Elements of `bits` bits each; signed integers, or bool when `bits` is 1 (a byte each).
static void decode(StringRef bytes, unsigned bits, bool isSigned, Tensor &tensor) {
  if (tensor.isFloat)
    return bits == 64 ? load<double>(bytes, tensor.floats) : load<float>(bytes, tensor.floats);
  switch (bits) {
  case 64:
    return load<int64_t>(bytes, tensor.ints);
  case 32:
    return isSigned ? load<int32_t>(bytes, tensor.ints) : load<uint32_t>(bytes, tensor.ints);
  case 16:
    return isSigned ? load<int16_t>(bytes, tensor.ints) : load<uint16_t>(bytes, tensor.ints);
  default:
    return isSigned ? load<int8_t>(bytes, tensor.ints) : load<uint8_t>(bytes, tensor.ints);
  }
}

Tensor forebay::reference::fromBytes(Type type, StringRef bytes) {
  Tensor tensor(type);
  Type element = getElementTypeOrSelf(type);
  unsigned bits = element.getIntOrFloatBitWidth();
  assert((tensor.isFloat ? bits >= 32 : true) && "f32 and f64 only");
  assert(int64_t(bytes.size()) >= tensor.size() * std::max<int64_t>(bits / 8, 1) && "enough bytes");
  decode(bytes, bits, bits > 1, tensor);
  return tensor;
}

llvm::Expected<Tensor> forebay::reference::readNpy(StringRef path) {
  auto fail = [&](const Twine &what) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), path + ": " + what);
  };
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return fail(file.getError().message());
  StringRef data = (*file)->getBuffer();
  if (data.size() < 12 || !data.starts_with("\x93NUMPY"))
    return fail("not a .npy file");
  size_t start = data[6] == 1 ? 10 : 12;
  size_t length = uint8_t(data[8]) | uint8_t(data[9]) << 8;
  if (start == 12)
    length |= size_t(uint8_t(data[10])) << 16 | size_t(uint8_t(data[11])) << 24;
  if (data.size() < start + length)
    return fail("cut short");
  StringRef header = data.substr(start, length), body = data.substr(start + length);
  if (!header.contains("'fortran_order': False"))
    return fail("not in C order");
  StringRef type = header.split("'descr': '").second.split('\'').first;
  SmallVector<StringRef> parts;
  header.split("'shape': (").second.split(')').first.split(parts, ',', -1, /*KeepEmpty=*/false);
  SmallVector<int64_t> shape;
  for (StringRef part : parts) {
    int64_t dim;
    if (part.trim().empty())
      continue;
    if (part.trim().getAsInteger(10, dim))
      return fail("bad shape");
    shape.push_back(dim);
  }
  unsigned bytes;
  if (type.size() != 3 || !StringRef("<|").contains(type[0]) || !StringRef("fiub").contains(type[1]) ||
      type.drop_front(2).getAsInteger(10, bytes) || (type[1] == 'f' && bytes < 4))
    return fail("type '" + type + "' is not supported");
  Tensor tensor(shape, type[1] == 'f');
  if (int64_t(body.size()) < tensor.size() * bytes)
    return fail("cut short");
  decode(body, bytes * 8, type[1] == 'i', tensor);
  return tensor;
}

llvm::Error forebay::reference::writeNpy(StringRef path, const Tensor &tensor) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error)
    return llvm::createStringError(error, path + ": " + error.message());
  std::string header = std::string("{'descr': '") + (tensor.isFloat ? "<f8" : "<i8") +
                       "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : tensor.shape)
    header += std::to_string(dim) + ",";
  header += "), }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  os << StringRef("\x93NUMPY\x01\x00", 8) << char(header.size() & 0xff) << char(header.size() >> 8) << header;
  const void *bytes = tensor.isFloat ? static_cast<const void *>(tensor.floats.data()) : tensor.ints.data();
  os.write(static_cast<const char *>(bytes), tensor.size() * 8);
  return llvm::Error::success();
}
