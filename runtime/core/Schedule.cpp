//===- Schedule.cpp - Learning rates --------------------------------------===//

#include "Schedule.h"

#include "forebay/hyper.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

using namespace forebay::rt;

double Schedule::factor(uint64_t t) const {
  if (t <= warmup)
    return double(t) / double(warmup);
  double x = 1;
  if (total > warmup)
    x = std::fmin(1.0, double(t - warmup) / double(total - warmup));
  switch (kind) {
  case Constant:
    return 1;
  case Linear:
    return 1 - (1 - minRatio) * x;
  case Cosine:
    return minRatio + (1 - minRatio) * (1 + std::cos(3.14159265358979323846 * x)) / 2;
  }
  return 1;
}

std::string Schedule::describe() const {
  std::string text = kind == Constant ? "constant" : kind == Linear ? "linear" : "cosine";
  if (warmup != 0)
    text += ", warmup " + std::to_string(warmup);
  if (kind == Constant)
    return text;
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.17g", minRatio);
  return text + ", total " + std::to_string(total) + ", min_ratio " + ratio;
}

bool forebay::rt::parseCount(const std::string &text, uint64_t &value) {
  const char *end = text.data() + text.size();
  auto [at, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && at == end && !text.empty();
}

bool Schedule::parse(const std::string &text, Schedule &schedule, std::string &error, std::string &hint) {
  schedule = Schedule();
  hint = "for example constant, constant:warmup=100, linear:warmup=100,total=1000, cosine:warmup=100,total=1000,min_ratio=0.1";
  size_t colon = text.find(':');
  std::string kind = text.substr(0, colon);
  if (kind == "constant")
    schedule.kind = Constant;
  else if (kind == "linear")
    schedule.kind = Linear;
  else if (kind == "cosine")
    schedule.kind = Cosine;
  else {
    error = "unknown schedule '" + kind + "'";
    return false;
  }
  std::set<std::string> seen;
  std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (colon != std::string::npos && rest.empty()) {
    error = "nothing after ':'";
    return false;
  }
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::string item = rest.substr(0, comma);
    if (comma != std::string::npos && comma + 1 == rest.size()) {
      error = "nothing after ','";
      return false;
    }
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    size_t equals = item.find('=');
    std::string key = item.substr(0, equals), value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (!seen.insert(key).second) {
      error = "'" + key + "' is given twice";
      return false;
    }
    bool ok = false;
    if (key == "warmup") {
      ok = parseCount(value, schedule.warmup);
    } else if (key == "total") {
      ok = parseCount(value, schedule.total);
      schedule.hasTotal = true;
    } else if (key == "min_ratio") {
      ok = parseNumber(value, schedule.minRatio) && schedule.minRatio >= 0 && schedule.minRatio <= 1;
    } else {
      error = "unknown key '" + key + "'; known: warmup, total, min_ratio";
      return false;
    }
    if (!ok) {
      error = "'" + value + "' is no value for " + key + (key == "min_ratio" ? " (0 to 1)" : " (a whole number of steps)");
      return false;
    }
  }
  if (schedule.hasTotal && schedule.total < schedule.warmup) {
    error = "total is smaller than warmup";
    return false;
  }
  return true;
}
