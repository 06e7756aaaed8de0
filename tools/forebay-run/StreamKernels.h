//===- StreamKernels.h - What is compiled in a program, to measure it -*- C++ -*-===//
///
/// \file
/// forebay-compile generates the optimizer, casts and elementwise chains; forebay-run has no compiler. These are the same loops by hand, for the instruction
/// set of this CPU: at memory bandwidth it does not matter who wrote them.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TOOLS_FOREBAY_RUN_STREAMKERNELS_H
#define FOREBAY_TOOLS_FOREBAY_RUN_STREAMKERNELS_H

#include "forebay/kernel_abi.h"

namespace forebay::rt {

/// params: as the flat kernels (FlatParams).
struct StreamKernels {
  fb_kernel_fn triad;    ///< b, c -> a: a = b + s c
  fb_kernel_fn adamw;    ///< p, m, v, g -> p, m, v in place; reads 16 and writes 12 bytes an element
  fb_kernel_fn toBf16;   ///< f32 -> bf16, to nearest even
  fb_kernel_fn fromBf16; ///< bf16 -> f32
  fb_kernel_fn nothing;
};

/// Those for the widest instruction set that this CPU has.
const StreamKernels &streamKernels();

} // namespace forebay::rt

#endif // FOREBAY_TOOLS_FOREBAY_RUN_STREAMKERNELS_H
