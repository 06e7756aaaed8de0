//===- Describe.h - What a program is, in words -----------------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_DESCRIBE_H
#define FOREBAY_RUNTIME_DESCRIBE_H

#include "forebay/program.h"

namespace forebay::rt {

/// Text for people: model, inputs, outputs, state, memory by space and role, queues, kernels, commands.
std::string describeText(const Program &program);
/// The same as one JSON object; with `commands`, the command table too.
std::string describeJson(const Program &program, bool commands);

/// Bytes of the planned buffers of `space` by role, at the command where the live bytes are largest. `peak` is their sum.
std::vector<std::pair<Role, uint64_t>> rolesAtPeak(const Program &program, uint32_t space, uint64_t &peak);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_DESCRIBE_H
