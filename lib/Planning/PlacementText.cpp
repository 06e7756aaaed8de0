//===- PlacementText.cpp - Decisions as text, to force them again ---------===//
//
// One line for each decision that is not the default, numbers as in the problem. The first line has a fingerprint of the problem: the numbers mean nothing in another.
//
//===----------------------------------------------------------------------===//

#include "forebay/Planning/Policy.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

using namespace forebay;
using namespace forebay::planning;

/// FNV-1a over what gives the numbers their meaning.
static uint64_t fingerprint(const Problem &problem) {
  uint64_t hash = 14695981039346656037ull;
  auto add = [&](uint64_t number) {
    for (int i = 0; i < 8; ++i)
      hash = (hash ^ (number >> (8 * i) & 255)) * 1099511628211ull;
  };
  add(problem.accumulate);
  for (const ProblemValue &value : problem.values)
    add(value.bytes * 16 + static_cast<uint64_t>(value.role));
  for (const ProblemArgument &argument : problem.arguments)
    add(argument.value);
  for (const ProblemOp &op : problem.ops) {
    add(static_cast<uint64_t>(op.kind) * 8 + static_cast<uint64_t>(op.phase));
    for (uint32_t operand : op.operands)
      add(operand);
    for (uint32_t result : op.results)
      add(result);
  }
  return hash;
}

static std::string hex(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

std::string planning::toText(const Placement &placement, const Problem &problem) {
  std::ostringstream out;
  out << "forebay-placement 1 " << hex(fingerprint(problem)) << "\n";
  uint64_t pace;
  static_assert(sizeof pace == sizeof placement.copyPace);
  std::memcpy(&pace, &placement.copyPace, sizeof pace);
  out << "step " << hex(pace) << " " << placement.uploadLag << " " << placement.streamSlots << " " << placement.hold << "\n";
  for (size_t i = 0; i < placement.arguments.size(); ++i)
    out << "argument " << i << " " << placement.arguments[i].home << " " << static_cast<unsigned>(placement.arguments[i].source) << "\n";
  for (size_t i = 0; i < placement.buckets.size(); ++i) {
    const BucketPlacement &b = placement.bucketPlacements[i];
    out << "bucket " << b.gradientSpace << " " << b.updateQueue << " " << static_cast<unsigned>(b.time) << " " << b.streamed << " " << b.castOnDevice << " "
        << b.normOnDevice << " " << b.gradientWaits;
    for (const Piece &piece : placement.buckets[i].pieces)
      out << " " << piece.parameter << " " << piece.first << " " << piece.count;
    out << "\n";
  }
  for (const Fetch &fetch : placement.fetches) {
    out << "fetch " << fetch.before;
    for (const Fetch::Part &part : fetch.parts)
      out << " " << part.value << " " << part.first << " " << part.last;
    out << "\n";
  }
  for (const Offload &offload : placement.offloads)
    out << "offload " << offload.value << " " << offload.after << "\n";
  for (const Recompute &again : placement.recomputes)
    out << "recompute " << again.op << " " << again.before << "\n";
  for (const OptionWorth &option : placement.worth) {
    uint64_t seconds;
    std::memcpy(&seconds, &option.seconds, sizeof seconds);
    out << "without " << hex(seconds) << " " << option.name << "\n";
  }
  if (!placement.note.empty())
    out << "note " << placement.note << "\n";
  return out.str();
}

std::string planning::placementNote(const std::string &text) {
  std::istringstream in(text);
  const std::string begin = "note ";
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, begin.size(), begin) == 0)
      return line.substr(begin.size());
  return "";
}

std::vector<OptionWorth> planning::optionWorths(const std::string &text) {
  std::vector<OptionWorth> result;
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string what, seconds;
    if (!(words >> what >> seconds) || what != "without")
      continue;
    OptionWorth option;
    uint64_t bits = std::strtoull(seconds.c_str(), nullptr, 16);
    std::memcpy(&option.seconds, &bits, sizeof bits);
    std::getline(words >> std::ws, option.name);
    result.push_back(std::move(option));
  }
  return result;
}

bool planning::parsePlacement(const std::string &text, const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
                              Placement &placement, std::string &error) {
  std::istringstream in(text);
  std::string line, header, version, print;
  auto fail = [&](const std::string &why) {
    error = why;
    return false;
  };
  in >> header >> version >> print;
  if (header != "forebay-placement" || version != "1")
    return fail("it holds no decisions that this version reads");
  if (print != hex(fingerprint(problem)))
    return fail("it was made for another model, other dimensions or other options of training");
  std::getline(in, line);
  placement = Placement();
  placement.arguments.resize(problem.arguments.size());
  const uint32_t ops = problem.ops.size(), values = problem.values.size(), spaces = machine.spaces.size(), queues = machine.queues.size();
  size_t arguments = 0;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    bool good = true;
    auto number = [&](uint64_t limit) -> uint64_t {
      uint64_t value = 0;
      if (!(words >> value) || value >= limit)
        good = false;
      return good ? value : 0;
    };
    auto more = [&] { return good && (words >> std::ws, words.peek() != EOF); };
    if (what == "step") {
      std::string pace;
      words >> pace;
      uint64_t bits = std::strtoull(pace.c_str(), nullptr, 16);
      std::memcpy(&placement.copyPace, &bits, sizeof bits);
      placement.uploadLag = number(UINT32_MAX);
      placement.streamSlots = number(UINT32_MAX);
      placement.hold = number(UINT64_C(1) << 32);
      good &= placement.copyPace >= 0;
    } else if (what == "argument") {
      size_t i = number(problem.arguments.size());
      ++arguments;
      if (good) {
        placement.arguments[i].home = number(spaces);
        placement.arguments[i].source = static_cast<WeightSource>(number(5));
      }
    } else if (what == "bucket") {
      BucketPlacement b;
      b.gradientSpace = number(spaces);
      b.updateQueue = number(queues);
      b.time = static_cast<UpdateTime>(number(2));
      for (bool *flag : {&b.streamed, &b.castOnDevice, &b.normOnDevice, &b.gradientWaits})
        *flag = number(2);
      Bucket bucket;
      bucket.firstUse = ops;
      while (more()) {
        Piece piece{static_cast<uint32_t>(number(trained.size())), 0, 0};
        if (!good)
          break;
        const TrainedParameter &p = trained[piece.parameter];
        piece.first = number(p.elements);
        piece.count = number(p.elements - piece.first + 1);
        bucket.pieces.push_back(piece);
        bucket.bytes += piece.count * 4;
        bucket.completeAt = std::max(bucket.completeAt, p.completeAt);
        bucket.firstUse = std::min(bucket.firstUse, p.firstUse);
      }
      good &= !bucket.pieces.empty();
      placement.buckets.push_back(std::move(bucket));
      placement.bucketPlacements.push_back(b);
    } else if (what == "fetch") {
      Fetch fetch;
      fetch.before = number(ops);
      while (more()) {
        Fetch::Part part{static_cast<uint32_t>(number(values)), 0, 0};
        part.first = number(ops);
        part.last = number(ops);
        if (good)
          fetch.bytes += problem.values[part.value].bytes;
        fetch.parts.push_back(part);
      }
      good &= !fetch.parts.empty();
      placement.fetches.push_back(std::move(fetch));
    } else if (what == "offload") {
      uint32_t value = number(values), after = number(ops);
      placement.offloads.push_back({value, after});
    } else if (what == "recompute") {
      uint32_t op = number(ops), before = number(ops);
      good &= good && problem.ops[op].kind == OpKind::Compute;
      placement.recomputes.push_back({op, before});
    } else if (what != "without" && what != "note") { // reports about the plan
      good = false;
    }
    if (!good)
      return fail("it is damaged: '" + line + "'");
  }
  if (arguments != problem.arguments.size())
    return fail("it is cut");
  return true;
}
