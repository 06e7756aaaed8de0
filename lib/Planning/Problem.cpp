//===- Problem.cpp - A step to be planned ---------------------------------===//

#include "forebay/Planning/Problem.h"

#include <algorithm>

using namespace forebay;
using namespace forebay::planning;

const char *planning::name(Phase phase) {
  static const char *const names[] = {"forward", "backward", "accumulate", "verdict", "update"};
  return names[static_cast<unsigned>(phase)];
}

std::vector<TrainedParameter> planning::trainedParameters(const Problem &problem, std::string &error) {
  constexpr int32_t kNone = -1;
  size_t values = problem.values.size();
  std::vector<int32_t> argumentOf(values, kNone), producer(values, kNone), firstUse(values, kNone), normOf(values, kNone), castOf(values, kNone);
  for (size_t i = 0; i < problem.arguments.size(); ++i)
    argumentOf[problem.arguments[i].value] = i;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const ProblemOp &op = problem.ops[i];
    for (uint32_t result : op.results)
      producer[result] = i;
    for (uint32_t operand : op.operands)
      if (firstUse[operand] == kNone && op.kind == OpKind::Compute)
        firstUse[operand] = i;
    if (op.kind == OpKind::NormPartials && !op.operands.empty())
      normOf[op.operands[0]] = i;
    if (op.kind == OpKind::CastWeight)
      castOf[op.operands[0]] = i;
  }

  std::vector<int32_t> updateOf(values, kNone);
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const ProblemOp &op = problem.ops[i];
    if (op.kind != OpKind::Update)
      continue;
    if (op.operands.size() < 4 || op.results.size() + 3 != op.operands.size() || argumentOf[op.operands[0]] == kNone) {
      error = "update '" + op.label + "' does not have the operands parameter, gradient, states, scalars, verdict";
      return {};
    }
    updateOf[op.operands[0]] = i;
  }

  std::vector<TrainedParameter> trained;
  for (size_t i = 0; i < problem.arguments.size(); ++i) {
    uint32_t value = problem.arguments[i].value;
    if (updateOf[value] == kNone)
      continue;
    TrainedParameter p{};
    p.argument = i;
    p.update = updateOf[value];
    p.elements = problem.values[value].bytes / 4;
    p.castWeight = castOf[value];
    p.weight = p.castWeight == kNone ? value : problem.ops[p.castWeight].results[0];
    p.firstUse = firstUse[p.weight] == kNone ? problem.ops.size() : firstUse[p.weight];
    const ProblemOp &update = problem.ops[p.update];
    for (size_t s = 2; s + 2 < update.operands.size(); ++s) {
      int32_t state = argumentOf[update.operands[s]];
      if (state == kNone) {
        error = "a state of update '" + update.label + "' is no argument of the step";
        return {};
      }
      p.states.push_back(state);
    }
    p.gradient = update.operands[1];
    p.norm = normOf[p.gradient];
    if (int32_t by = producer[p.gradient]; by != kNone && problem.ops[by].kind == OpKind::Accumulate) {
      p.accumulate = by;
      p.accumulator = argumentOf[problem.ops[by].operands[0]];
      p.gradient = problem.ops[by].operands[1];
      if (p.accumulator == kNone) {
        error = "the accumulator of '" + problem.ops[by].label + "' is no argument of the step";
        return {};
      }
    }
    p.gradient32 = p.gradient;
    if (int32_t by = producer[p.gradient]; by != kNone && problem.ops[by].kind == OpKind::CastGradient) {
      p.castGradient = by;
      p.gradient = problem.ops[by].operands[0];
    }
    if (problem.values[p.gradient32].bytes != problem.values[value].bytes) {
      error = "the gradient of update '" + update.label + "' has another size than its parameter";
      return {};
    }
    // A gradient may be an argument itself (a loss that is linear in the parameter), unless that changes during the step.
    int32_t argument = argumentOf[p.gradient];
    if (producer[p.gradient] == kNone && (argument == kNone || problem.arguments[argument].donated >= 0)) {
      error = "the gradient of update '" + update.label + "' is not computed by the step";
      return {};
    }
    p.completeAt = std::max(producer[p.gradient], 0);
    trained.push_back(std::move(p));
  }
  return trained;
}
