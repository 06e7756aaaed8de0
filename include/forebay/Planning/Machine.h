//===- Machine.h - What the planner knows of a machine ----------*- C++ -*-===//
///
/// \file
/// Memory spaces and queues. Read from machines/*.mlir by lib/Dialect/Offload/Transforms/Machine.cpp. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_MACHINE_H
#define FOREBAY_PLANNING_MACHINE_H

#include <cstdint>
#include <string>
#include <vector>

namespace forebay::planning {

struct MachineSpace {
  std::string name;
  uint64_t capacity; ///< usable bytes
};

struct MachineQueue {
  std::string name;
  bool compute; ///< runs dispatches; otherwise copies only
};

struct Machine {
  std::string name;
  std::vector<MachineSpace> spaces;
  std::vector<MachineQueue> queues;
  uint32_t computeSpace = 0, hostSpace = 0; ///< equal: a machine with one memory
  uint32_t computeQueue = 0; ///< forward and backward
  uint32_t hostQueue = 0;    ///< what the host computes: scalars, verdict, offloaded updates
  uint32_t toCompute = 0;    ///< copies from the host's space to the compute space
  uint32_t toHost = 0;       ///< copies back

  bool offloads() const { return computeSpace != hostSpace; }
};

/// "64MiB", "4096": bytes, or KiB, MiB, GiB. False if `text` is no size.
bool parseSize(const std::string &text, uint64_t &bytes);
/// The shortest text that parseSize reads back to `bytes`.
std::string formatSize(uint64_t bytes);
/// "1.50 GiB", for people.
std::string readableSize(uint64_t bytes);

/// Applies `spec`, e.g. "hbm=64MiB,host=1GiB", to the capacities. On error says why in one line.
bool overrideMemory(Machine &machine, const std::string &spec, std::string &error);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_MACHINE_H
