//===- RaceVerifier.h - Is a command table safe to run? ---------*- C++ -*-===//
///
/// \file
/// Re-derives every hazard from the program alone. Shares no code with the planner that made the program; the compiler runs it
/// after lowering, the runtime at load. Method and limits: docs/algorithms/race-verification.md. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_RACEVERIFIER_H
#define FOREBAY_PLANNING_RACEVERIFIER_H

#include "forebay/program.h"

#include <string>

namespace forebay {

/// True if every index and range of `program` is in bounds, events are signalled once, no wait can block for ever, every two conflicting
/// accesses are ordered as in program order (also across micro-steps, whatever predicates skip), and what is read has been
/// written. Otherwise false, and `error` says in one line what is wrong and where.
bool verifyProgram(const Program &program, std::string &error);

} // namespace forebay

#endif // FOREBAY_PLANNING_RACEVERIFIER_H
