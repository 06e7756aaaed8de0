//===- Measure.h - Seconds of commands on this computer ---------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_RUN_MEASURE_H
#define FOREBAY_TOOLS_FOREBAY_RUN_MEASURE_H

#include "forebay/backend.h"
#include "forebay/builtin_kernels.h"

#include <functional>

namespace forebay::rt {

/// A small program that is run on the real backend: the same queues, workers and copies as in training. Commands run one after another also
/// across queues, unless they are told to run together.
class Measure {
public:
  Measure(const std::vector<Queue> &queues, const std::vector<Space> &spaces, unsigned threads);
  ~Measure();

  /// New bytes in a space. Streams that are used together get a skew (see Arena packing in docs/algorithms/packing.md).
  Range range(uint32_t space, uint64_t bytes);
  /// 32-bit floats in [0.5, 1.5) to begin with; integers below `limit` of 64 bits if `limit` is not 0.
  Range filled(uint32_t space, uint64_t bytes, int64_t limit = 0);

  /// Returns the number of the command. The workspace that `launch` asks for is added.
  uint32_t dispatch(uint32_t queue, fb_kernel_fn kernel, const void *params, size_t paramBytes, const kernels::Launch &launch, std::vector<Range> operands);
  template <typename P> uint32_t dispatch(uint32_t queue, const char *name, const P &p, const kernels::Launch &launch, std::vector<Range> operands) {
    return dispatch(queue, builtin(name), &p, sizeof p, launch, std::move(operands));
  }
  uint32_t copy(uint32_t queue, Range from, Range to);
  /// From now on commands of different queues do not wait for each other.
  void together() { ordered = false; }

  /// Runs all commands once to warm up, then `repetitions` times, or less often (but 3 times) if that takes longer than a second. False with a reason if memory is missing.
  bool run(unsigned repetitions, std::string &error);

  /// Medians over the repetitions, in seconds: of a command, of commands [first, last) together, of the whole program.
  double seconds(uint32_t command) const { return seconds(command, command + 1); }
  double seconds(uint32_t first, uint32_t last) const;
  double wall() const;

private:
  static fb_kernel_fn builtin(const char *name);
  uint32_t add(Command command);

  Program program;
  std::vector<fb_kernel_fn> functions;
  unsigned threads;
  bool ordered = true;
  struct Fill {
    Range range;
    int64_t limit;
  };
  std::vector<Fill> fills;
  std::vector<std::vector<int64_t>> times; ///< by repetition and command: nanoseconds
  std::vector<int64_t> walls;              ///< by repetition
};

} // namespace forebay::rt

#endif // FOREBAY_TOOLS_FOREBAY_RUN_MEASURE_H
