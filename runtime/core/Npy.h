//===- Npy.h - Arrays in NumPy's format -------------------------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_NPY_H
#define FOREBAY_RUNTIME_NPY_H

#include "forebay/program.h"

namespace forebay::rt {

struct NpyArray {
  DType type = DType::F32;
  std::vector<int64_t> shape;
  const char *data = nullptr; ///< inside the bytes that were parsed
  uint64_t bytes = 0;
};

/// Reads the header of a .npy file (versions 1 to 3, C order, little-endian) and checks that all data is there.
bool parseNpy(std::string_view file, NpyArray &array, std::string &error);

/// Header of a file with this content; its length depends on neither type nor shape (192 bytes), so that it can be written again.
std::string npyHeader(DType type, const std::vector<int64_t> &shape);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_NPY_H
