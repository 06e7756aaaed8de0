//===- OffloadDialect.cpp - offload dialect, attributes, types ------------===//

#include "forebay/Dialect/Offload/IR/Offload.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace forebay::offload;

#include "forebay/Dialect/Offload/IR/OffloadDialect.cpp.inc"
#include "forebay/Dialect/Offload/IR/OffloadEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "forebay/Dialect/Offload/IR/OffloadAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "forebay/Dialect/Offload/IR/OffloadTypes.cpp.inc"

void OffloadDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "forebay/Dialect/Offload/IR/OffloadAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "forebay/Dialect/Offload/IR/OffloadTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "forebay/Dialect/Offload/IR/OffloadOps.cpp.inc"
      >();
}

/// `[1, 2, 3]`
static ParseResult parseIntegers(AsmParser &parser, SmallVectorImpl<int64_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseInteger(values.emplace_back()); });
}

Attribute KernelAttr::parse(AsmParser &parser, Type) {
  std::string name;
  bool compiled = false;
  SmallVector<int64_t> params, tiles, inplace;
  int64_t scratch = 0, workspace = 0, flops = 0, executed = 0, width = 0, traffic = 0;
  OpClass opClass = OpClass::Elementwise;
  Type type;
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&key))
      return {};
    if (key == "compiled") {
      compiled = true;
      continue;
    }
    SmallVectorImpl<int64_t> *list = key == "params" ? &params : key == "tiles" ? &tiles : key == "inplace" ? &inplace : nullptr;
    if (key == "class") {
      StringRef value;
      if (parser.parseEqual() || parser.parseKeyword(&value))
        return {};
      std::optional<OpClass> known = symbolizeOpClass(value);
      if (!known) {
        parser.emitError(loc, "unknown class of kernels '") << value << "'";
        return {};
      }
      opClass = *known;
      continue;
    }
    if (key == "type") {
      if (parser.parseEqual() || parser.parseType(type))
        return {};
      continue;
    }
    int64_t *number = llvm::StringSwitch<int64_t *>(key)
                          .Case("scratch", &scratch)
                          .Case("workspace", &workspace)
                          .Case("flops", &flops)
                          .Case("executed", &executed)
                          .Case("width", &width)
                          .Case("traffic", &traffic)
                          .Default(nullptr);
    if (!list && !number) {
      parser.emitError(loc, "unknown kernel field '") << key << "'";
      return {};
    }
    if (parser.parseEqual() || (list ? parseIntegers(parser, *list) : parser.parseInteger(*number)))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), name, compiled, params, tiles, scratch, workspace, inplace, flops, executed, opClass, type, width, traffic);
}

void KernelAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printString(getName());
  if (getCompiled())
    printer << ", compiled";
  auto list = [&](StringRef key, ArrayRef<int64_t> values) {
    if (values.empty())
      return;
    printer << ", " << key << " = [";
    llvm::interleaveComma(values, printer.getStream());
    printer << "]";
  };
  auto number = [&](StringRef key, int64_t value) {
    if (value)
      printer << ", " << key << " = " << value;
  };
  list("params", getParams());
  list("tiles", getTiles());
  number("scratch", getScratch());
  number("workspace", getWorkspace());
  list("inplace", getInplace());
  number("flops", getFlops());
  number("executed", getExecuted());
  if (getOpClass() != OpClass::Elementwise)
    printer << ", class = " << stringifyOpClass(getOpClass());
  if (getType())
    printer << ", type = " << getType();
  number("width", getWidth());
  number("traffic", getTraffic());
  printer << ">";
}
