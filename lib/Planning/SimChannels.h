//===- SimChannels.h - What tasks share on a machine ------------*- C++ -*-===//
///
/// \file
/// Channels of a machine, and tasks that use them, for a schedule and for a command table alike.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_PLANNING_SIMCHANNELS_H
#define FOREBAY_LIB_PLANNING_SIMCHANNELS_H

#include "forebay/Planning/Simulator.h"

namespace forebay::planning {

struct SimChannels {
  explicit SimChannels(const Machine &machine);

  /// `remoteBytes` of the traffic go across the link.
  SimTask dispatch(uint32_t queue, const Cost &cost, uint64_t remoteBytes) const;
  SimTask copy(uint32_t queue, uint64_t bytes, uint32_t from, uint32_t to, double pace) const;

  const Machine &machine;
  std::vector<SimChannel> list; ///< one for each memory, then the compute engine, then the link to it and that from it, then the cores
  uint32_t engine = 0, link = 0, down = 0;
  /// Where copies are made by threads (MachineQueue::cores) they share the host engine's cores with what it computes. 0: they are not.
  uint32_t cores = 0, allCores = 0;

private:
  void useCores(SimTask &task) const;
};

} // namespace forebay::planning

#endif // FOREBAY_LIB_PLANNING_SIMCHANNELS_H
