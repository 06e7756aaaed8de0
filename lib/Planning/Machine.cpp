//===- Machine.cpp - Sizes and memory budgets -----------------------------===//

#include "forebay/Planning/Machine.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

using namespace forebay::planning;

bool forebay::planning::parseSize(const std::string &text, uint64_t &bytes) {
  size_t digits = 0;
  uint64_t value = 0;
  for (; digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])); ++digits)
    if (__builtin_mul_overflow(value, uint64_t(10), &value) || __builtin_add_overflow(value, uint64_t(text[digits] - '0'), &value))
      return false;
  std::string unit = text.substr(digits);
  unsigned shift = unit == "" ? 0 : unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : 64;
  if (digits == 0 || shift == 64 || value > (~uint64_t(0) >> shift))
    return false;
  bytes = value << shift;
  return true;
}

std::string forebay::planning::formatSize(uint64_t bytes) {
  for (auto [shift, unit] : {std::pair(30, "GiB"), std::pair(20, "MiB"), std::pair(10, "KiB")})
    if (bytes && bytes % (uint64_t(1) << shift) == 0)
      return std::to_string(bytes >> shift) + unit;
  return std::to_string(bytes);
}

std::string forebay::planning::readableSize(uint64_t bytes) {
  char text[32];
  double value = bytes;
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit)
    value /= 1024;
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

bool forebay::planning::overrideMemory(Machine &machine, const std::string &spec, std::string &error) {
  size_t at = 0;
  while (at < spec.size()) {
    size_t end = std::min(spec.find(',', at), spec.size());
    std::string part = spec.substr(at, end - at);
    at = end + 1;
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    MachineSpace *space = nullptr;
    std::string known;
    for (MachineSpace &s : machine.spaces) {
      known += (known.empty() ? "" : ", ") + s.name;
      if (s.name == name)
        space = &s;
    }
    if (!space) {
      error = "machine '" + machine.name + "' has no memory '" + name + "' (it has: " + known + ")";
      return false;
    }
    if (equals == std::string::npos || !parseSize(part.substr(equals + 1), space->capacity) || space->capacity == 0) {
      error = "'" + part + "' is not NAME=SIZE, with a size above 0 in bytes, KiB, MiB or GiB";
      return false;
    }
    // A budget beyond what there is: planned for a machine that has as much.
    space->total = std::max(space->total, space->capacity);
  }
  return true;
}
