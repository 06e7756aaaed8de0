//===- Console.h - What a run prints ----------------------------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_RUN_CONSOLE_H
#define FOREBAY_TOOLS_FOREBAY_RUN_CONSOLE_H

#include "Session.h"

namespace forebay::rt {

/// A line that moves on a terminal, or a line every few seconds elsewhere. Allocates nothing after construction.
class ProgressLine {
public:
  ProgressLine(const Session &session, uint64_t lastStep);
  void show(const StepResult &result);
  /// Ends the moving line, if there is one.
  void end();

  /// Nanoseconds of each queue, and of all steps so far.
  const std::vector<int64_t> &busy() const { return queueBusy; }
  int64_t elapsed() const { return total; }
  uint64_t steps() const { return count; }
  uint64_t tokens() const { return seen; }

private:
  const Session &session;
  uint64_t last;
  bool terminal, forward, open = false;
  int64_t printed = 0, total = 0, sincePrint = 0;
  uint64_t count = 0, seen = 0, tokensSincePrint = 0;
  std::vector<int64_t> queueBusy;
};

/// Time by queue and by kernel, counts of steps.
void printSummary(const Session &session, const ProgressLine &line, const Progress &before);

/// Time by kernel, phase and command as JSON.
bool writeProfile(const Session &session, const ProgressLine &line, const std::string &path, std::string &error);

} // namespace forebay::rt

#endif // FOREBAY_TOOLS_FOREBAY_RUN_CONSOLE_H
