//===- TinyStep.cpp - A step.so without a compiler ------------------------===//
//
// What lib/Target writes, made by hand: the program in its section, and the table of kernels. FOREBAY_TINY_PROGRAM is the file with
// the serialized program.
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

using namespace forebay::testing;

asm(".section .forebay.program,\"a\"\n"
    ".incbin \"" FOREBAY_TINY_PROGRAM "\"\n"
    ".previous\n");

extern "C" {
struct KernelTableEntry {
  const char *name;
  void *address;
};
extern const KernelTableEntry forebay_kernels[];
const KernelTableEntry forebay_kernels[] = {{"tiny_forward_backward", reinterpret_cast<void *>(tinyForwardBackward)},
                                            {"tiny_update", reinterpret_cast<void *>(tinyUpdate)},
                                            {"tiny_shift", reinterpret_cast<void *>(tinyShift)},
                                            {"tiny_scalars", reinterpret_cast<void *>(tinyScalars)},
                                            {nullptr, nullptr}};
}
