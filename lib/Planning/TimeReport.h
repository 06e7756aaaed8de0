//===- TimeReport.h - The part of a plan's report about time ----*- C++ -*-===//

#ifndef FOREBAY_LIB_PLANNING_TIMEREPORT_H
#define FOREBAY_LIB_PLANNING_TIMEREPORT_H

#include "forebay/Planning/PlanReport.h"

namespace forebay::planning {

/// Simulates `program`. Nothing, and `why`, if that cannot be done.
std::optional<TimeReport> reportTime(const Program &program, const Machine &machine, std::string &why);

/// Lines about time, for people; empty if nothing is known and nothing needs to be said.
std::string timeText(const PlanReport &report);
/// Fields about time, each with a comma and a line break in front.
std::string timeJson(const PlanReport &report);

std::string pad(std::string text, size_t width);
} // namespace forebay::planning

#endif // FOREBAY_LIB_PLANNING_TIMEREPORT_H
