//===- Pictures.h - A simulated step to look at -----------------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_SIM_PICTURES_H
#define FOREBAY_TOOLS_FOREBAY_SIM_PICTURES_H

#include "forebay/Planning/PlanReport.h"
#include "forebay/Planning/Timeline.h"

#include "llvm/Support/raw_ostream.h"

namespace forebay::sim {

/// One steady step of a program, and the memory over its time.
struct SimulatedStep {
  const Program &program;
  const planning::PlanReport &report;
  planning::SimModel model;
  planning::SimResult result;
  std::vector<planning::MemoryCurve> memory; ///< by space
  std::string decisions;                     ///< section "decisions" of the plan's file; empty: not known

  SimulatedStep(const Program &program, const planning::PlanReport &report, const planning::Machine &machine, std::string decisions = "");
};

/// One self-contained HTML page: timeline.html with the step as JSON in it.
void writePage(llvm::raw_ostream &os, const SimulatedStep &step);

/// Chrome's trace format, for ui.perfetto.dev: one track a queue as forebay-run --trace writes, counters for the memories.
void writeTrace(llvm::raw_ostream &os, const SimulatedStep &step);

} // namespace forebay::sim

#endif // FOREBAY_TOOLS_FOREBAY_SIM_PICTURES_H
