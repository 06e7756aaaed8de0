//===- Table.cpp - The kernels of one instruction set, by name ------------===//

#include "Simd.h"

namespace forebay::kernels::FOREBAY_ISA {

extern const KernelEntry table[];
#define FB_ENTRY(NAME) {#NAME, &NAME},
const KernelEntry table[] = {FB_KERNELS(FB_ENTRY){nullptr, nullptr}};

} // namespace forebay::kernels::FOREBAY_ISA
