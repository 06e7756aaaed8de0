/*===- kernel_abi.h - How a kernel is called ----------------------*- C -*-===*\
|*
|* The contract between compiled kernels (in step.so), built-in kernels (in the runtime) and the
|* engine that runs them.
|*
|* A dispatch runs its kernel once for each tile. Tiles of one phase are independent: they may run in
|* any order and at once on any number of workers, and write disjoint elements. Phase p + 1 starts
|* when phase p has ended. How many phases and tiles there are is fixed at compile time from shapes
|* alone, so that the bits do not depend on the number of workers.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FOREBAY_KERNEL_ABI_H
#define FOREBAY_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bumped when anything in this file, or a parameter block in builtin_kernels.h, changes meaning. */
#define FOREBAY_KERNEL_ABI 1

/*
 * operands  addresses: inputs, then results, then (if the kernel asked for one) the workspace; contiguous row-major buffers
 *           aligned to 64 bytes. A result may share its buffer with an input only where the kernel declared it (in place).
 * params    constants of this dispatch (shapes, strides in elements, bit patterns of doubles); null if none.
 * phase     0, 1, ...
 * tile      0 <= tile < tiles[phase]
 * scratch   private to the calling worker, 64-byte aligned, at least as large as the kernel asked for; undefined on entry.
 */
typedef void (*fb_kernel_fn)(void *const *operands, const int64_t *params, int32_t phase, int64_t tile, void *scratch);

/* Scalar function of an optimizer: step number t (from 1), hyper-parameters in alphabetical order, results as f32. */
typedef void (*fb_scalars_fn)(int64_t t, const double *hyper, float *results);

#ifdef __cplusplus
}
#endif
#endif
