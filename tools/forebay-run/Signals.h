//===- Signals.h - Ctrl-C ---------------------------------------*- C++ -*-===//

#ifndef FOREBAY_TOOLS_FOREBAY_RUN_SIGNALS_H
#define FOREBAY_TOOLS_FOREBAY_RUN_SIGNALS_H

#include <atomic>

namespace forebay::rt {

/// From now on SIGINT, SIGTERM and SIGHUP (those that were not ignored) are requests. While nothing is at stake the first one ends the process.
/// Else the first sets `interrupted`, the second says what is waited for, the third ends the process without leaving temporary files.
void installSignalHandlers();

/// Number of the signal, or 0.
extern std::atomic<int> interrupted;

/// What a signal now has to wait for ("the steps that have begun"); null: nothing. The text must stay.
void setActivity(const char *what);

} // namespace forebay::rt

#endif // FOREBAY_TOOLS_FOREBAY_RUN_SIGNALS_H
