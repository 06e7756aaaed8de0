//===- TraceFile.h - What ran when, for Perfetto ----------------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_TRACEFILE_H
#define FOREBAY_RUNTIME_TRACEFILE_H

#include "Session.h"

namespace forebay::rt {

/// Writes the recorded commands of all queues in Chrome's JSON format: one track a queue, one slice a command, args with step, micro-step,
/// phase and kernel. `lost` counts commands that no longer fitted.
bool writeTrace(const Session &session, const std::string &path, uint64_t &lost, std::string &error);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_TRACEFILE_H
