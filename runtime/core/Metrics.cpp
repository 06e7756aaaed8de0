//===- Metrics.cpp - One line of JSON for each step -----------------------===//

#include "Metrics.h"
#include "Files.h"

#include "forebay/kernels.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::rt;
using Json = nlohmann::ordered_json;

static std::string jsonString(const std::string &text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

size_t forebay::rt::formatNumber(double value, char *begin, char *end) {
  return size_t(std::to_chars(begin, end, value).ptr - begin);
}

std::string forebay::rt::metricsHeader(const Session &session) {
  const Program &program = session.program();
  utsname system{};
  uname(&system);
  Json json;
  json["forebay"] = FOREBAY_VERSION;
  json["producer"] = program.producer;
  json["program_abi"] = program.abi;
  json["kernel_abi"] = program.kernelAbi;
  json["host"] = std::string(system.sysname) + " " + system.machine;
  json["backend"] = session.backend().name;
  json["machine"] = program.machine;
  json["instruction_set"] = program.isa;
  json["kernel_instruction_set"] = kernels::instructionSet();
  json["blas"] = kernels::blasKernel();
  json["threads"] = session.threads();
  json["policy"] = program.policy;
  json["precision"] = program.precision;
  json["optimizer"] = program.optimizer;
  json["accumulate"] = program.accumulate;
  json["dims"] = Json::object();
  for (const auto &[name, value] : program.dims)
    json["dims"][name] = value;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Metrics::~Metrics() {
  if (fd >= 0)
    ::close(fd);
}

/// Offset behind the last line of steps up to `keep`, or 0 if there is none. What follows is of steps that will be run again, or was cut.
static uint64_t endOfStep(std::string_view content, uint64_t keep) {
  uint64_t found = 0;
  for (uint64_t at = 0; at < content.size();) {
    size_t end = content.find('\n', at);
    if (end == std::string_view::npos)
      break;
    Json line = Json::parse(content.begin() + at, content.begin() + end, nullptr, false);
    at = end + 1;
    if (!line.is_object())
      break;
    if (!line.contains("step"))
      continue;
    if (!line["step"].is_number_unsigned() || line["step"].get<uint64_t>() > keep)
      break;
    found = at;
  }
  return found;
}

bool Metrics::open(const std::string &file, const Session &session, uint64_t keep, Problems &problems) {
  path = file;
  auto fail = [&](const std::string &what, const char *hint) {
    problems.error("--metrics=" + path, what, hint);
    return false;
  };
  const char *other = "name a file that is new or may be replaced";
  // A pipe that nobody reads would be waited for.
  fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd < 0 && errno == ENXIO && irregular(path) == "is a pipe")
    return fail("is a pipe that nobody reads", "start its reader first");
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0)
    return fail(std::strerror(errno), other);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  uint64_t offset = 0;
  if (S_ISREG(info.st_mode)) {
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      return fail("another run is writing to it", "wait for its end, or choose another file");
    MappedFile old;
    std::string ignored;
    if (keep != 0 && old.open(path, ignored))
      offset = endOfStep(old.view(), keep);
    if (ftruncate(fd, off_t(offset)) != 0 || lseek(fd, 0, SEEK_END) < 0)
      return fail(std::strerror(errno), other);
  }
  const Program &program = session.program();
  speculates = session.speculates();
  size_t longest = 0;
  for (const Queue &queue : program.queues)
    queueKeys.push_back(jsonString(queue.name) + ": ");
  for (const Tensor &tensor : program.tensors) {
    tensorNames.push_back(jsonString(tensor.name));
    longest = std::max(longest, tensorNames.back().size());
  }
  size_t room = 768 + longest;
  for (const std::string &key : queueKeys)
    room += key.size() + 40;
  std::string header = metricsHeader(session) + "\n";
  line.resize(std::max(room, header.size()));
  if (offset != 0)
    return true;
  append(header.c_str());
  send();
  return failed == 0 || fail(std::strerror(failed), other);
}

void Metrics::append(const char *text) {
  size_t bytes = std::strlen(text);
  std::memcpy(line.data() + used, text, bytes);
  used += bytes;
}

void Metrics::append(double value) {
  if (!std::isfinite(value))
    return append("null");
  used += formatNumber(value, line.data() + used, line.data() + line.size());
}

void Metrics::append(uint64_t value) { used = size_t(std::to_chars(line.data() + used, line.data() + line.size(), value).ptr - line.data()); }

void Metrics::send() {
  for (size_t at = 0; at < used && failed == 0;) {
    ssize_t done = ::write(fd, line.data() + at, used - at);
    if (done > 0)
      at += size_t(done);
    else if (done == 0 || errno != EINTR)
      failed = done == 0 ? EIO : errno;
  }
  used = 0;
}

void Metrics::write(const StepResult &result) {
  if (fd < 0 || failed != 0)
    return;
  append("{\"step\": ");
  append(result.step);
  append(", \"loss\": ");
  append(result.loss);
  append(", \"grad_norm\": ");
  append(double(result.norm));
  append(", \"lr\": ");
  append(result.lr);
  append(", \"applied\": ");
  append(result.applied ? "true" : "false");
  append(", \"clipped\": ");
  append(result.clipped ? "true" : "false");
  append(", \"nonfinite\": ");
  append(result.nonfinite >= 0 ? tensorNames[result.nonfinite].c_str() : "null");
  if (speculates) {
    append(", \"speculation\": {\"step\": ");
    append(!result.speculated ? "\"off\"" : result.committed ? "\"committed\"" : result.applied ? "\"redone\"" : "\"skipped\"");
    const Speculation &counts = result.speculation;
    for (auto [key, count] : {std::pair(", \"speculated\": ", counts.speculated), {", \"committed\": ", counts.committed},
                              {", \"redone\": ", counts.redone}, {", \"skipped\": ", counts.skipped}}) {
      append(key);
      append(count);
    }
    append("}");
  }
  append(", \"loss_scale\": 1, \"tokens\": ");
  append(result.tokens);
  append(", \"step_s\": ");
  append(double(result.times.end - result.times.begin) * 1e-9);
  append(", \"queue_s\": {");
  for (size_t i = 0; i < queueKeys.size(); ++i) {
    append(i == 0 ? "" : ", ");
    append(queueKeys[i].c_str());
    append(double(result.times.busy[i]) * 1e-9);
  }
  append("}}\n");
  send();
}

bool Metrics::close(std::string &error) {
  if (fd < 0)
    return true;
  if (::close(fd) != 0 && failed == 0)
    failed = errno;
  fd = -1;
  if (failed != 0)
    error = std::strerror(failed);
  return failed == 0;
}
