//===- Hyper.cpp - What hyper-parameters may be set to --------------------===//

#include "forebay/hyper.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

using namespace forebay;

bool forebay::parseNumber(std::string_view text, double &value) {
  const char *begin = text.data(), *end = begin + text.size();
  if (text.size() > 1 && *begin == '+' && begin[1] != '-')
    ++begin;
  auto [at, status] = std::from_chars(begin, end, value);
  return status == std::errc() && at == end && !text.empty() && std::isfinite(value);
}

static bool parseBool(std::string_view text, double &value) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  value = lower == "true";
  return lower == "true" || lower == "false";
}

static std::string_view trim(std::string_view text) {
  auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && blank(text.back()))
    text.remove_suffix(1);
  return text;
}

static std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

bool forebay::readHyper(std::string_view optimizer, const std::vector<HyperDefault> &known, bool group, std::string_view text,
                        std::string_view &key, double &value, HyperError &error) {
  auto fail = [&](std::string what, std::string note) {
    error = {std::move(what), std::move(note)};
    return false;
  };
  std::string keys;
  const HyperDefault *found = nullptr;
  size_t equals = text.find('=');
  key = trim(text.substr(0, equals));
  for (const HyperDefault &hyper : known) {
    keys += (keys.empty() ? "" : ", ") + hyper.name;
    if (hyper.name == key)
      found = &hyper;
  }
  if (group)
    keys += (keys.empty() ? "" : ", ") + std::string("lr_scale");
  std::string keysNote = keys.empty() ? "it has none" : "known keys: " + keys;
  if (equals == std::string_view::npos)
    return fail(quoted(text) + " is not KEY=VALUE", keysNote);
  bool scale = group && key == "lr_scale";
  if (!found && !scale)
    return fail("optimizer " + quoted(optimizer) + " has no hyper-parameter " + quoted(key), keysNote);
  std::string_view right = trim(text.substr(equals + 1));
  bool isBool = found && found->isBool;
  if (!(isBool ? parseBool(right, value) : parseNumber(right, value)))
    return fail(quoted(right) + " is no value for " + quoted(key), isBool ? "true or false" : "a finite number such as 0.1 or 1e-3");
  if (isBool)
    return true;
  if ((key == "beta1" || key == "beta2") && !(value >= 0 && value < 1))
    return fail(quoted(key) + " is " + std::string(right), "it must be at least 0 and less than 1");
  bool notNegative = scale || key == "lr" || key == "eps" || key == "weight_decay" || key == "momentum";
  if (notNegative && value < 0)
    return fail(quoted(key) + " is negative", "it must be at least 0");
  return true;
}

bool forebay::checkHyper(const std::vector<HyperDefault> &known, const std::vector<double> &values, HyperError &error) {
  auto get = [&](const char *name) -> const double * {
    for (size_t i = 0; i < known.size(); ++i)
      if (known[i].name == name)
        return &values[i];
    return nullptr;
  };
  // As in PyTorch.
  const double *nesterov = get("nesterov"), *momentum = get("momentum"), *dampening = get("dampening");
  if (!nesterov || *nesterov == 0 || !momentum || !dampening || (*momentum > 0 && *dampening == 0))
    return true;
  error = {"nesterov needs a momentum above 0 and no dampening", "for example momentum=0.9"};
  return false;
}
