//===- Presets.h - Machine files for benchmarks of the planner --*- C++ -*-===//

#ifndef FOREBAY_BENCH_PLANNING_PRESETS_H
#define FOREBAY_BENCH_PLANNING_PRESETS_H

#include "forebay/Planning/Machine.h"

#include <optional>
#include <string>

namespace forebay::bench {

/// The machine called `nameOrFile`, as the compiler reads it
/// (docs/machines.md). Errors go to standard error.
std::optional<planning::Machine> loadPreset(const std::string &nameOrFile);

} // namespace forebay::bench

#endif // FOREBAY_BENCH_PLANNING_PRESETS_H
