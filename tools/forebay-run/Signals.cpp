//===- Signals.cpp - Ctrl-C -----------------------------------------------===//

#include "Signals.h"
#include "Files.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <unistd.h>

using namespace forebay::rt;

std::atomic<int> forebay::rt::interrupted{0};
static std::atomic<int> signals{0};
static std::atomic<const char *> activity{nullptr};

void forebay::rt::setActivity(const char *what) { activity = what; }

/// printf is not for signal handlers.
static void say(const char *text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0)
    return;
}

static void onSignal(int number) {
  int before = errno;
  int count = ++signals;
  const char *what = activity.load();
  if (!what || count > 2) {
    say(what ? "note: ending at once\n" : "note: interrupted before the first step\n");
    removeTemporaries();
    _exit(128 + number);
  }
  if (count == 1)
    interrupted = number;
  say(count == 1 ? "note: interrupted; waiting for " : "note: still waiting for ");
  say(what);
  say(count == 1 ? "\n" : "; once more ends at once, and nothing more is saved\n");
  errno = before;
}

/// Inputs are mapped: reading behind the end of one that has been cut gives a signal.
static void onBusError(int) {
  say("error: forebay-run: a file that it reads became shorter, or its disk failed (SIGBUS)\n"
      "note: leave inputs alone while a run reads them; go on with --resume if there are checkpoints\n");
  removeTemporaries();
  _exit(1);
}

void forebay::rt::installSignalHandlers() {
  struct sigaction action {}, old {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  for (int number : {SIGINT, SIGTERM, SIGHUP})
    sigaddset(&action.sa_mask, number);
  action.sa_flags = SA_RESTART;
  struct sigaction busError {};
  busError.sa_handler = onBusError;
  sigaction(SIGBUS, &busError, nullptr);
  for (int number : {SIGINT, SIGTERM, SIGHUP})
    if (sigaction(number, nullptr, &old) == 0 && old.sa_handler != SIG_IGN) // nohup and background jobs ignore some
      sigaction(number, &action, nullptr);
}
