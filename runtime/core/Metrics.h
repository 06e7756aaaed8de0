//===- Metrics.h - One line of JSON for each step ---------------*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_METRICS_H
#define FOREBAY_RUNTIME_METRICS_H

#include "Problems.h"
#include "Session.h"

namespace forebay::rt {

/// Writes a header line, then one line a step. Numbers read back to the same bits; what is not finite is null. Allocates only in `open`.
class Metrics {
public:
  ~Metrics();

  /// `keep`: the file goes on after the line of this step (a resumed run); lines after it are cut off. 0: a new file.
  bool open(const std::string &path, const Session &session, uint64_t keep, Problems &problems);
  void write(const StepResult &result);
  /// False with a reason if some line could not be written.
  bool close(std::string &error);

private:
  void append(const char *text);
  void append(double value);
  void append(uint64_t value);
  void send();

  int fd = -1;
  std::string path;
  int failed = 0; ///< errno of the first write that failed
  std::vector<std::string> queueKeys;   ///< "\"gpu\":"
  std::vector<std::string> tensorNames; ///< quoted, by tensor
  bool speculates = false;
  std::vector<char> line;
  size_t used = 0;
};

/// What the header line says; also the first lines of --describe.
std::string metricsHeader(const Session &session);

/// Decimal text that reads back to the same double.
size_t formatNumber(double value, char *begin, char *end);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_METRICS_H
