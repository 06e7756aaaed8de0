//===- Diff.h - Two plans beside each other ---------------------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_SIM_DIFF_H
#define FOREBAY_TOOLS_FOREBAY_SIM_DIFF_H

#include "forebay/Planning/PlanReport.h"

namespace forebay::sim {

struct Plan {
  const Program &program;
  const planning::PlanReport &report;
};

/// A table of what differs: step time, bytes by space and role, commands by queue, then parameters whose placement differs, those that changed alike in one row.
std::string diffText(const Plan &a, const Plan &b);

} // namespace forebay::sim

#endif // FOREBAY_TOOLS_FOREBAY_SIM_DIFF_H
