/*===- runtime.h - Running programs from other programs -----------*- C -*-===*\
|*
|* A C interface to what forebay-run does: open a step.so, give it weights and
|* data, run steps, read tensors. No function throws, aborts or exits; each that can
|* fail returns a status, and `fb_error` says why in words.
|*
|* Objects are used by one thread at a time. Callbacks run on threads of the
|* runtime while `fb_session_run` is on the stack: feeds on the queue that reads them,
|* `fb_step_fn` on the caller's own thread.
|*
\*===----------------------------------------------------------------------===*/

#ifndef FOREBAY_RUNTIME_H
#define FOREBAY_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bumped when an existing declaration changes meaning; structures only grow at their end. */
#define FOREBAY_RUNTIME_ABI 1

typedef enum fb_status {
  FB_OK = 0,
  FB_INVALID_ARGUMENT = 1, /* null where a value is needed, unknown tensor, wrong size */
  FB_BAD_PROGRAM = 2,      /* not a program, another version, another instruction set */
  FB_BAD_WEIGHTS = 3,      /* weights missing, of other shapes, not those recorded */
  FB_IO = 4,               /* a file cannot be written */
  FB_NO_RESOURCES = 5,     /* memory or threads */
  FB_INTERNAL = 6,
  FB_BAD_DATA = 7          /* an index out of range in a row that was fed, or computed from it */
} fb_status;

typedef struct fb_program fb_program;
typedef struct fb_session fb_session;

/* Interface version of the library that is linked. */
uint32_t fb_runtime_abi(void);

/* Why the last call on this thread failed: one or more lines `error: WHERE: WHAT` and `note: ...`. Empty after success. */
const char *fb_error(void);

/* Reads and checks a step.so and loads its code. */
fb_status fb_program_open(const char *path, fb_program **program);
void fb_program_close(fb_program *program);
/* Bytes of the arena of memory space `index`; FB_INVALID_ARGUMENT past the last. */
fb_status fb_program_space(const fb_program *program, uint32_t index, const char **name, uint64_t *bytes);

typedef struct fb_tensor_info {
  const char *name;   /* as in the ONNX graph; moments "<parameter>/<state>" */
  const char *role;   /* "input", "parameter", "moment", "output", "loss", ... */
  const char *type;   /* "f32", "i64", ... */
  const int64_t *shape;
  uint32_t rank;
  uint64_t bytes;
} fb_tensor_info;

/* Tensors count from 0; FB_INVALID_ARGUMENT past the last. */
fb_status fb_program_tensor(const fb_program *program, uint32_t index, fb_tensor_info *info);

/* Writes the row of micro-step `micro` (from 0, over all runs) of input `input` to `row`. Must not block on the session. */
typedef void (*fb_feed_fn)(void *user, const char *input, uint64_t micro, void *row, uint64_t bytes);

typedef struct fb_session_options {
  uint32_t size;             /* sizeof(fb_session_options) */
  uint32_t threads;          /* compute workers; 0: all allowed cores */
  const char *lr_schedule;   /* as --lr-schedule; null: constant */
  uint64_t total_steps;      /* length of a schedule that names no total */
  const char *const *hyper;  /* "KEY=VALUE" ..., ended by null; or null */
  fb_feed_fn feed;
  void *feed_user;
} fb_session_options;

/* Creates memory, queues and threads. `program` must stay open. Moments are zero, weights undefined. */
fb_status fb_session_create(fb_program *program, const fb_session_options *options, fb_session **session);
void fb_session_destroy(fb_session *session);

/* Loads weights from a .safetensors file, a folder, the .onnx, or (null) from where the program says they are. */
fb_status fb_session_load_weights(fb_session *session, const char *path);
/* Draws parameters that have no data from `seed`; see forebay-run --init. */
fb_status fb_session_init_weights(fb_session *session, uint64_t seed);
fb_status fb_session_save_weights(fb_session *session, const char *path);

/* Copies one tensor. `bytes` must be its size. Writing a parameter also refreshes the copies made of it. Not while steps run. */
fb_status fb_session_write(fb_session *session, const char *tensor, const void *data, uint64_t bytes);
fb_status fb_session_read(fb_session *session, const char *tensor, void *data, uint64_t bytes);

typedef struct fb_step {
  uint64_t step;           /* attempt, from 1 */
  double loss;             /* NaN if not finite or not reported */
  float grad_norm;
  double lr;
  int32_t applied, clipped;
  const char *nonfinite;   /* first parameter whose gradient is not finite, or null */
  double seconds;
} fb_step;

/* Called after each step; a value other than 0 ends the run after the steps that have begun. */
typedef int (*fb_step_fn)(void *user, const fb_step *step);

/* Runs up to `steps` steps, then applies what is pending. `ran` (may be null): how many there were. After FB_BAD_DATA nothing was applied from
 * the step on that `fb_error` names; the session runs no more. */
fb_status fb_session_run(fb_session *session, uint64_t steps, fb_step_fn done, void *user, uint64_t *ran);

#ifdef __cplusplus
}
#endif
#endif
