//===- Machine.h - What the planner knows of a machine ----------*- C++ -*-===//
///
/// \file
/// Memory spaces and queues. Read from machines/*.mlir by lib/Dialect/Offload/Transforms/Machine.cpp. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_MACHINE_H
#define FOREBAY_PLANNING_MACHINE_H

#include "forebay/program.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace forebay::planning {

/// A measured function of one size: linear in the logarithm of x between points, constant beyond the first and the last.
struct Curve {
  struct Point {
    double x, y;
  };
  std::vector<Point> points; ///< ascending x; empty: 0 everywhere
  double at(double x) const;
  /// Largest y; 0 if empty.
  double most() const;
};

struct MachineSpace {
  std::string name;
  uint64_t capacity = 0; ///< usable bytes
  uint64_t total = 0;    ///< bytes there are; `capacity` is the usable share of them
  double bandwidth = 0;  ///< bytes/s that all users together can move; shared by engines and copies. 0: not limited
};

/// Flops/s of one class of operations in one type.
struct ComputeRate {
  OpClass cls = OpClass::Matmul;
  DType type = DType::F32;
  double flops = 0;
  Curve share; ///< of `flops`, by the smallest dimension of the product; empty: 1
};

struct MachineQueue {
  std::string name;
  bool compute = false; ///< runs dispatches; otherwise copies only
  double launch = 0;    ///< seconds that each command takes beside its work
  /// Of a CPU; 0: not said. An engine that copies has some if its copies are made by threads: then they take the cores of the engine that computes on the host.
  uint32_t cores = 0;
  // Engines that compute.
  double bandwidth = 0; ///< bytes/s that a dispatch of this engine moves at most
  std::array<double, 7> classBandwidth{}; ///< the same by OpClass (optimizer, cast, ...); 0: `bandwidth`
  std::vector<ComputeRate> rates;
  std::vector<std::pair<DType, double>> peaks; ///< flops/s of the data sheet, dense: the denominator of MFU
  /// That of `classBandwidth`, or `bandwidth` where it says nothing.
  double bandwidthOf(OpClass cls) const {
    double own = classBandwidth[static_cast<unsigned>(cls)];
    return own > 0 ? own : bandwidth;
  }
  // Engines that copy.
  Curve link;           ///< bytes/s by bytes of one transfer
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
  /// A second queue of the compute engine (a stream beside the main one): casts and updates run there and share the engine. -1: none.
  int32_t sideQueue = -1;
  /// Second queues of the two links: what comes ahead of use and what leaves for a while need not stand behind weights and state. They share the links. -1: none.
  int32_t sideToCompute = -1, sideToHost = -1;
  bool speculation = true; ///< what runs programs on this machine can update before the verdict

  /// Whether dispatches of `queue` run on the compute engine: its main queue, or the second one.
  bool onComputeEngine(uint32_t queue) const { return queue == computeQueue || static_cast<int32_t>(queue) == sideQueue; }
  /// Queues of what comes ahead of use and what leaves for a while.
  uint32_t fetchQueue() const { return sideToCompute >= 0 ? sideToCompute : toCompute; }
  uint32_t offloadQueue() const { return sideToHost >= 0 ? sideToHost : toHost; }
  bool offloads() const { return computeSpace != hostSpace; }
  /// Has the rates that a model of time needs.
  bool timed() const;
  /// Flops/s of the data sheet for `type`, of the compute engine; 0 if not known.
  double peak(DType type) const;
};

/// Seconds that a dispatch of `cost` takes on `queue` when nothing else runs, launch included: launch + max(flops / rate, bytes / bandwidth). A class without a
/// rate in this type counts at the rate of products in it; without any rate only bytes count.
double dispatchSeconds(const Machine &machine, uint32_t queue, const Cost &cost);
/// Seconds that one transfer of `bytes` takes on copy queue `queue` when nothing else runs, launch included.
double copySeconds(const Machine &machine, uint32_t queue, uint64_t bytes);

/// All of `machine` as text that `parseMachine` reads back exactly (floats to the last bit); for Program::machineModel.
std::string toText(const Machine &machine);
bool parseMachine(const std::string &text, Machine &machine, std::string &error);

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
