//===- PlanFile.cpp - Plans as files --------------------------------------===//

#include "forebay/Planning/PlanFile.h"
#include "forebay/Planning/PlanReport.h"
#include "forebay/paths.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

using namespace forebay;
using namespace forebay::planning;

static constexpr std::string_view kMagic = "forebay plan ";
static constexpr std::string_view kVersion = "1";
static constexpr std::string_view kSection = "section ";

std::string planning::writePlan(const PlanFile &plan, const PlanReport &report) {
  std::string program = serialize(plan.program);
  std::string out = std::string(kMagic) + std::string(kVersion) + "\npolicy " + report.policy + " on machine " + report.machine + (report.fits ? ": fits" : ": does not fit");
  if (report.time)
    out += ", step " + readableSeconds(report.time->stepSeconds);
  out += "\n";
  auto line = [&](const std::string &name, size_t bytes) { out += std::string(kSection) + name + " " + std::to_string(bytes) + "\n"; };
  line("program", program.size());
  for (auto &[name, bytes] : plan.sections)
    line(name, bytes.size());
  out += "\n" + program;
  for (auto &[name, bytes] : plan.sections)
    out += bytes;
  return out;
}

bool planning::parsePlan(std::string_view bytes, PlanFile &plan, std::string &error) {
  auto fail = [&](std::string why) {
    error = std::move(why);
    return false;
  };
  if (bytes.substr(0, kMagic.size()) != kMagic)
    return fail("neither a plan nor a step.so");
  PlanFile result;
  std::vector<std::pair<std::string, uint64_t>> sections;
  for (bool first = true;; first = false) {
    size_t end = bytes.find('\n');
    if (end == std::string_view::npos)
      return fail("the plan is cut: its header has no end");
    std::string line(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
    if (first && line.substr(kMagic.size()) != kVersion)
      return fail("the plan has version " + line.substr(kMagic.size()) + ", this tool reads version " + std::string(kVersion));
    if (line.empty())
      break;
    if (line.compare(0, kSection.size(), kSection) != 0)
      continue;
    size_t space = line.rfind(' ');
    char *stop = nullptr;
    errno = 0;
    uint64_t size = std::strtoull(line.c_str() + space, &stop, 10);
    if (space < kSection.size() || *stop || errno)
      return fail("the plan is damaged: '" + line + "'");
    sections.emplace_back(line.substr(kSection.size(), space - kSection.size()), size);
  }
  bool found = false;
  for (auto &[name, size] : sections) {
    if (size > bytes.size())
      return fail("the plan is cut: section '" + name + "' has " + std::to_string(size) + " bytes, there are " + std::to_string(bytes.size()));
    std::string_view content = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (name != "program")
      result.sections.emplace(name, content);
    else if (found = true; !deserialize(content, result.program, error))
      return false;
  }
  if (!found)
    return fail("the plan is damaged: it has no program");
  if (!bytes.empty())
    return fail("the plan is damaged: " + std::to_string(bytes.size()) + " bytes too many");
  if (auto decisions = result.sections.find("placement"); decisions != result.sections.end())
    result.program.placement = decisions->second;
  plan = std::move(result);
  return true;
}

/// Everything that reports and the simulator use as an index. (Whether the program may run is the verifier's question: a plan over budget is read, too.)
static bool checkIndices(const Program &program, std::string &error) {
  auto check = [&](bool good, const std::string &what) {
    if (!good)
      error = what;
    return good;
  };
  if (!check(!program.queues.empty() && !program.spaces.empty() && program.accumulate > 0, "the program has no queues, memories or micro-steps"))
    return false;
  for (const Tensor &tensor : program.tensors)
    if (!check(tensor.space < program.spaces.size() && byteSize(tensor.type) > 0, "tensor '" + tensor.name + "' has an impossible memory or type"))
      return false;
  for (const Value &value : program.values)
    if (!check(value.space < program.spaces.size() && value.first <= value.last && (value.last < program.step.size() || program.step.empty()),
               "value '" + value.label + "' has an impossible memory or life"))
      return false;
  for (const Command &c : program.step) {
    bool good = c.queue < program.queues.size() && c.signal < static_cast<int64_t>(program.events) &&
                (c.kind != CommandKind::Copy || (!c.operands.empty() && c.operands.size() % 2 == 0)) &&
                (c.kernel < static_cast<int64_t>(program.kernels.size())) && (c.tensor < static_cast<int64_t>(program.tensors.size()));
    for (const Range &range : c.operands)
      good &= range.space < program.spaces.size();
    for (const Wait &wait : c.waits)
      good &= wait.event < program.events;
    if (!check(good, "command '" + c.label + "' names a queue, memory, kernel, tensor or event that does not exist"))
      return false;
  }
  return true;
}

bool planning::readPlan(const std::string &path, PlanFile &plan, std::string &error) {
  // Opening a pipe would wait for its writer.
  if (error = irregular(path); !error.empty())
    return false;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    error = std::strerror(errno);
    return false;
  }
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) {
    error = "cannot be read";
    return false;
  }
  bool elf = bytes.compare(0, 4, "\x7f" "ELF") == 0;
  if (elf ? !readProgramFile(path, plan.program, error) : !parsePlan(bytes, plan, error))
    return false;
  return checkIndices(plan.program, error);
}
