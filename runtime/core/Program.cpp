//===- Program.cpp - Names of the program format --------------------------===//

#include "forebay/program.h"

using namespace forebay;

unsigned forebay::byteSize(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F16:
  case DType::BF16:
  case DType::I16:
    return 2;
  case DType::I8:
  case DType::U8:
  case DType::Bool:
    return 1;
  }
  return 0;
}

const char *forebay::name(DType type) {
  static const char *const names[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"};
  return names[static_cast<unsigned>(type)];
}

const char *forebay::name(Role role) {
  static const char *const names[] = {"input",  "parameter", "weight copy", "buffer",     "moment",  "accumulator", "output",
                                      "loss",   "gradient",  "activation",  "control", "staging", "workspace"};
  return names[static_cast<unsigned>(role)];
}
