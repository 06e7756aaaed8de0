//===- MachineText.cpp - A machine as text, exactly -----------------------===//
///
/// One line for each thing, words separated by blanks: `space NAME CAPACITY TOTAL BANDWIDTH`, `queue NAME ...` with the lines of the queue behind it,
/// `roles ...` at the end. Numbers are hexadecimal floats, so that they read back to the last bit; names are escaped.
///
//===----------------------------------------------------------------------===//

#include "forebay/Planning/Machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>

using namespace forebay;
using namespace forebay::planning;

static constexpr const char *kHeader = "forebay-machine 1";
static constexpr unsigned kTypes = static_cast<unsigned>(DType::Bool) + 1;
static constexpr unsigned kClasses = static_cast<unsigned>(OpClass::Cast) + 1;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static std::string word(double value) {
  char text[64];
  // Not printf's %a: it writes the decimal point of the locale.
  auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::hex);
  return std::string(text, end.ptr);
}

/// '%' and whatever would end a word as %XX; the empty name as "%".
static std::string word(const std::string &name) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char c : name) {
    if (c > ' ' && c != '%' && c != 127) {
      text += static_cast<char>(c);
      continue;
    }
    text += '%';
    text += digits[c >> 4];
    text += digits[c & 15];
  }
  return text.empty() ? "%" : text;
}

static std::string words(const Curve &curve) {
  std::string text;
  for (const Curve::Point &point : curve.points)
    text += " " + word(point.x) + " " + word(point.y);
  return text;
}

std::string planning::toText(const Machine &machine) {
  std::string text = std::string(kHeader) + "\nname " + word(machine.name) + "\n";
  for (const MachineSpace &space : machine.spaces)
    text += "space " + word(space.name) + " " + std::to_string(space.capacity) + " " + std::to_string(space.total) + " " + word(space.bandwidth) + "\n";
  for (const MachineQueue &queue : machine.queues) {
    text += "queue " + word(queue.name) + (queue.compute ? " computes " : " copies ") + word(queue.launch) + " " + std::to_string(queue.cores) + " " +
            word(queue.bandwidth) + "\n";
    for (unsigned cls = 0; cls < kClasses; ++cls)
      if (queue.classBandwidth[cls] != 0)
        text += std::string("class ") + name(static_cast<OpClass>(cls)) + " " + word(queue.classBandwidth[cls]) + "\n";
    for (const ComputeRate &rate : queue.rates)
      text += std::string("rate ") + name(rate.cls) + " " + name(rate.type) + " " + word(rate.flops) + words(rate.share) + "\n";
    for (auto &[type, flops] : queue.peaks)
      text += std::string("peak ") + name(type) + " " + word(flops) + "\n";
    if (!queue.link.points.empty())
      text += "link" + words(queue.link) + "\n";
  }
  text += "roles";
  for (uint32_t index : {machine.computeSpace, machine.hostSpace, machine.computeQueue, machine.hostQueue, machine.toCompute, machine.toHost})
    text += " " + std::to_string(index);
  for (int32_t index : {machine.sideQueue, machine.sideToCompute, machine.sideToHost})
    text += " " + std::to_string(index);
  return text + "\n";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// The words of one line, from left to right. Once one is not what was wanted, nothing further is.
class Line {
public:
  Line(const std::string &text, size_t begin, size_t end) : text(text), at(begin), last(end) {}

  std::string next() {
    while (at < last && text[at] == ' ')
      ++at;
    size_t begin = at;
    while (at < last && text[at] != ' ')
      ++at;
    good &= at > begin;
    return text.substr(begin, at - begin);
  }
  bool empty() const { return text.find_first_not_of(' ', at) >= last; }

  std::string name() {
    std::string raw = next(), plain;
    if (raw == "%")
      return plain;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '%') {
        plain += raw[i];
        continue;
      }
      unsigned code = 0;
      const char *from = raw.data() + i + 1;
      good &= i + 2 < raw.size() && std::from_chars(from, from + 2, code, 16).ptr == from + 2;
      if (!good)
        return plain;
      plain += static_cast<char>(code);
      i += 2;
    }
    return plain;
  }

  double real() {
    std::string raw = next();
    double value = 0;
    auto read = std::from_chars(raw.data(), raw.data() + raw.size(), value, std::chars_format::hex);
    good &= read.ec == std::errc() && read.ptr == raw.data() + raw.size() && std::isfinite(value);
    return value;
  }

  template <typename Integer> Integer integer() {
    std::string raw = next();
    Integer value = 0;
    auto read = std::from_chars(raw.data(), raw.data() + raw.size(), value);
    good &= read.ec == std::errc() && read.ptr == raw.data() + raw.size();
    return value;
  }

  /// One of the names of an enumeration with `count` values from 0.
  template <typename Enum> Enum oneOf(unsigned count) {
    std::string raw = next();
    for (unsigned i = 0; i < count; ++i)
      if (raw == forebay::name(static_cast<Enum>(i)))
        return static_cast<Enum>(i);
    good = false;
    return Enum();
  }

  Curve curve() {
    Curve curve;
    while (good && !empty()) {
      double x = real(), y = real();
      good &= x > 0 && (curve.points.empty() || x > curve.points.back().x);
      curve.points.push_back({x, y});
    }
    return curve;
  }

  bool good = true;

private:
  const std::string &text;
  size_t at, last;
};

} // namespace

static void readLine(Line &line, Machine &machine, bool &hasRoles) {
  std::string key = line.next();
  if (key == "name") {
    machine.name = line.name();
    return;
  }
  if (key == "space") {
    MachineSpace space;
    space.name = line.name();
    space.capacity = line.integer<uint64_t>();
    space.total = line.integer<uint64_t>();
    space.bandwidth = line.real();
    machine.spaces.push_back(std::move(space));
    return;
  }
  if (key == "queue") {
    MachineQueue queue;
    queue.name = line.name();
    std::string kind = line.next();
    queue.compute = kind == "computes";
    line.good &= queue.compute || kind == "copies";
    queue.launch = line.real();
    queue.cores = line.integer<uint32_t>();
    queue.bandwidth = line.real();
    machine.queues.push_back(std::move(queue));
    return;
  }
  if (key == "roles") {
    for (uint32_t *index : {&machine.computeSpace, &machine.hostSpace, &machine.computeQueue, &machine.hostQueue, &machine.toCompute, &machine.toHost})
      *index = line.integer<uint32_t>();
    for (int32_t *index : {&machine.sideQueue, &machine.sideToCompute, &machine.sideToHost})
      *index = line.integer<int32_t>();
    hasRoles = true;
    return;
  }
  // The rest belongs to the queue in front of it.
  if (machine.queues.empty()) {
    line.good = false;
    return;
  }
  MachineQueue &queue = machine.queues.back();
  if (key == "class") {
    OpClass cls = line.oneOf<OpClass>(kClasses);
    queue.classBandwidth[static_cast<unsigned>(cls)] = line.real();
  } else if (key == "rate") {
    ComputeRate rate;
    rate.cls = line.oneOf<OpClass>(kClasses);
    rate.type = line.oneOf<DType>(kTypes);
    rate.flops = line.real();
    rate.share = line.curve();
    queue.rates.push_back(std::move(rate));
  } else if (key == "peak") {
    DType type = line.oneOf<DType>(kTypes);
    queue.peaks.push_back({type, line.real()});
  } else if (key == "link") {
    queue.link = line.curve();
  } else {
    line.good = false;
  }
}

bool planning::parseMachine(const std::string &text, Machine &machine, std::string &error) {
  machine = Machine();
  bool hasRoles = false;
  size_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    size_t end = std::min(text.find('\n', at), text.size());
    if (number == 1) {
      if (text.compare(at, end - at, kHeader) != 0) {
        error = "line 1 of the machine is not '" + std::string(kHeader) + "'";
        return false;
      }
    } else {
      Line line(text, at, end);
      readLine(line, machine, hasRoles);
      if (!line.good || !line.empty()) {
        error = "line " + std::to_string(number) + " of the machine is malformed: " + text.substr(at, end - at);
        return false;
      }
    }
    at = end + 1;
  }
  if (!hasRoles) {
    error = "the machine ends before its line 'roles'";
    return false;
  }
  size_t spaces = machine.spaces.size(), queues = machine.queues.size();
  auto sideGood = [&](int32_t queue) { return queue >= -1 && queue < static_cast<int64_t>(queues); };
  if (machine.computeSpace >= spaces || machine.hostSpace >= spaces || machine.computeQueue >= queues || machine.hostQueue >= queues ||
      machine.toCompute >= queues || machine.toHost >= queues || !sideGood(machine.sideQueue) || !sideGood(machine.sideToCompute) || !sideGood(machine.sideToHost)) {
    error = "the machine's line 'roles' names a memory or queue that it does not have";
    return false;
  }
  return true;
}
