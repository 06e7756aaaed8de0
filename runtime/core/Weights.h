//===- Weights.h - Where parameters and buffers come from -------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_WEIGHTS_H
#define FOREBAY_RUNTIME_WEIGHTS_H

#include "Problems.h"
#include "forebay/program.h"

namespace forebay::rt {

class Session;

struct WeightOptions {
  std::string source;          ///< --weights: .safetensors, .onnx, folder; empty: the model that the program records
  bool verify = false;         ///< also hash external data
  bool hasInit = false;        ///< draw what is absent
  uint64_t initSeed = 0;
  bool skipParameters = false; ///< a checkpoint has them: buffers only
};

/// What `loadWeights` may read: descriptions ("the model") and paths, some of which may not exist.
std::vector<std::pair<std::string, std::string>> weightFiles(const Program &program, const std::string &programPath, const WeightOptions &options);

/// Fills parameters and buffers of `session` and the copies made of them. `programPath` is where step.so lies.
bool loadWeights(Session &session, const std::string &programPath, const WeightOptions &options, Problems &problems);

/// The rule for absent weights: normal(0, 0.02) for rank >= 2; else 1 for names ending in "weight", else 0. Depends on seed, name and
/// element alone; the same bits on every machine.
void initialWeights(const std::string &name, const std::vector<int64_t> &shape, uint64_t seed, float *values, uint64_t count);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_WEIGHTS_H
