//===- Calibrate.h - Measures this computer ---------------------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_RUN_CALIBRATE_H
#define FOREBAY_TOOLS_FOREBAY_RUN_CALIBRATE_H

#include "Problems.h"

#include <string>

namespace forebay::rt {

struct CalibrateOptions {
  std::string machine = "cpu"; ///< or superchip-emu
  std::string output;
  unsigned threads = 0;        ///< 0: the allowed cores
  bool quick = false;          ///< small sizes, few repetitions
};

/// Writes a machine file for forebay-compile. Says on the standard error output what it does. Exit status.
int calibrate(const CalibrateOptions &options, Problems &problems);

} // namespace forebay::rt

#endif // FOREBAY_TOOLS_FOREBAY_RUN_CALIBRATE_H
