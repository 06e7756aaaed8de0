//===- TimedMachine.h - A machine with rates for tests ----------*- C++ -*-===//

#ifndef FOREBAY_TEST_UNIT_PLANNING_TIMEDMACHINE_H
#define FOREBAY_TEST_UNIT_PLANNING_TIMEDMACHINE_H

#include "RandomProblem.h"

namespace forebay::planning::test {

/// Round numbers that bring every queue and channel into play at the sizes of RandomProblem.h; no real machine.
inline Machine timedSuperchip() {
  Machine m = superchip();
  m.spaces[0].bandwidth = 4e9;
  m.spaces[1].bandwidth = 1e9;
  MachineQueue &gpu = m.queues[0], &cpu = m.queues[1];
  gpu.launch = 1e-6;
  gpu.bandwidth = 3e9;
  gpu.rates = {{OpClass::Matmul, DType::F32, 100e9, {{{64, 0.5}, {512, 1}}}}};
  gpu.peaks = {{DType::F32, 120e9}};
  cpu.launch = 1e-7;
  cpu.cores = 8;
  cpu.bandwidth = 0.8e9;
  cpu.classBandwidth[static_cast<unsigned>(OpClass::Optimizer)] = 0.7e9;
  cpu.rates = {{OpClass::Matmul, DType::F32, 5e9, {}}};
  for (uint32_t copy : {m.toCompute, m.toHost}) {
    m.queues[copy].launch = 1e-6;
    m.queues[copy].link.points = {{4096, 0.2e9}, {65536, 0.5e9}, {1 << 20, 0.6e9}};
  }
  return m;
}

} // namespace forebay::planning::test

#endif
