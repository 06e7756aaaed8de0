//===- kernels.h - The built-in kernels of this CPU -------------*- C++ -*-===//
///
/// \file
/// Kernels are compiled once per instruction set; the lookup chooses for the CPU that runs. The bits do not
/// depend on the choice (matrix products excepted: OpenBLAS chooses its own kernel, see `blasKernel`).
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_KERNELS_H
#define FOREBAY_KERNELS_H

#include "forebay/kernel_abi.h"

#include <atomic>
#include <string_view>
#include <vector>

namespace forebay::kernels {

struct KernelEntry {
  const char *name;
  fb_kernel_fn function;
};

/// Built-in kernel by its name in builtin_kernels.h, or null.
const KernelEntry *lookupBuiltin(std::string_view name);

/// Instruction set of the kernels that `lookupBuiltin` returns: "x86-64", "x86-64-v3", "x86-64-v4", "aarch64".
const char *instructionSet();

/// Instruction sets that were compiled in and that this CPU runs, the chosen one last; and their kernels (for tests).
std::vector<const char *> runnableInstructionSets();
const KernelEntry *lookupBuiltin(std::string_view name, std::string_view instructionSet);

/// OpenBLAS's kernel, e.g. "Zen": matrix products have its bits.
const char *blasKernel();

/// Makes OpenBLAS single-threaded and lets it allocate what it allocates once per thread. Called once by each worker before the first
/// kernel, so that nothing is allocated during a step.
void warmUpBlas();

/// An index into a table, or a label, that is out of range. Feeds are checked before a run; what a model computes can only be seen by the kernel
/// that uses it, which has no other way to say so. Its result for that index is NaN.
struct BadIndex {
  int64_t index = 0, size = 0;
};
/// Keeps the first one that is reported until it is taken. Any thread; does not allocate.
class BadIndexSink {
public:
  void report(int64_t index, int64_t size);
  /// Whether there was one since the last call.
  bool take(BadIndex &found);

private:
  std::atomic<int> state{0}; ///< 0 none, 1 being written, 2 there
  BadIndex kept;
};
/// What the kernels that run on this thread report to; null: nobody asks. `sink` must outlive them.
void setBadIndexSink(BadIndexSink *sink);
/// Called by kernels.
void reportBadIndex(int64_t index, int64_t size);

} // namespace forebay::kernels
#endif
