//===- PlanFile.h - Plans as files ------------------------------*- C++ -*-===//
///
/// \file
/// What `forebay-compile --plan-only -o F` writes and forebay-sim reads: a few lines of text for people (`head -4 F`), then sections of bytes.
///
///     forebay plan 1
///     policy zero-offload on machine gh200-96: fits, step 1.234 s
///     section program 123456
///     (an empty line, then the bytes of the sections in the order of their lines)
///
/// The section "program" holds serialize()'s bytes of the whole program without its compiled kernels. The section "decisions" has a line for each
/// decision of the planner, taken (+) or rejected (-): name, subject ("bucket 3"), reason, numbers as KEY=VALUE, between tabs. A section "placement",
/// which the compiler does not write, holds decisions as toText (Policy.h) writes them and replaces those of the program: so a script can force an option. Readers skip sections that they do not know.
/// No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_PLANFILE_H
#define FOREBAY_PLANNING_PLANFILE_H

#include "forebay/program.h"

#include <map>

namespace forebay::planning {

struct PlanReport;

struct PlanFile {
  Program program;
  std::map<std::string, std::string> sections; ///< the others, by name (no spaces in it)
};

/// The bytes of the file. `report` is that of the program, for the line that people read.
std::string writePlan(const PlanFile &plan, const PlanReport &report);

/// Reads a plan, or the program of a step.so. On error returns false and says why in one line; the program's indices are checked.
bool readPlan(const std::string &path, PlanFile &plan, std::string &error);
/// The same of a file's content.
bool parsePlan(std::string_view bytes, PlanFile &plan, std::string &error);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_PLANFILE_H
