//===- Options.h - Command line of forebay-run ------------------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_RUN_OPTIONS_H
#define FOREBAY_TOOLS_FOREBAY_RUN_OPTIONS_H

#include "Calibrate.h"
#include "Feeds.h"
#include "Session.h"
#include "Weights.h"

namespace forebay::rt {

struct RunOptions {
  std::string program;
  bool help = false, version = false;
  std::string describe;             ///< "text", "json", "commands", or empty
  bool calibrate = false;
  CalibrateOptions calibration;
  bool hasSteps = false;
  uint64_t steps = 0;
  FeedOptions feeds;
  WeightOptions weights;
  bool hasSchedule = false;
  SessionOptions session;           ///< schedule, hyper, threads, delays, fault
  std::string saveWeights, saveOutputs, metrics, trace, profile;
  std::string checkpointDir;
  uint64_t checkpointEvery = 0;
  bool resume = false;
};

/// Reads arguments and the environment variables for tests. Everything that is wrong is reported.
bool parseOptions(int argc, char **argv, RunOptions &options, Problems &problems);

extern const char *const kHelp;

} // namespace forebay::rt

#endif // FOREBAY_TOOLS_FOREBAY_RUN_OPTIONS_H
