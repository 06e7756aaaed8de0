//===- SymbolicRun.h - What values a schedule computes ----------*- C++ -*-===//
///
/// \file
/// Runs a problem as it stands, and a schedule's commands on their addresses in program order, with hashes in the place of numbers: every 4 bytes
/// hold what they were computed from. Both must report and leave the same.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TEST_UNIT_PLANNING_SYMBOLICRUN_H
#define FOREBAY_TEST_UNIT_PLANNING_SYMBOLICRUN_H

#include "forebay/Planning/Layout.h"

#include <map>

namespace forebay::planning::test {

using Cells = std::vector<uint64_t>;

/// What runs of a problem and of its schedule are compared by.
struct SymbolicResult {
  std::vector<std::pair<uint32_t, uint64_t>> reports; ///< output, content; in the order of the outputs within a micro-step
  std::map<uint32_t, uint64_t> state;                 ///< argument: content after the last step
  bool operator==(const SymbolicResult &other) const { return reports == other.reports && state == other.state; }
};

class Symbolic {
public:
  /// Parameters of problems with casts have a multiple of 1024 elements.
  Symbolic(const Problem &problem, unsigned steps) : problem(problem), steps(steps) {
    for (const ProblemOp &op : problem.ops)
      hasCasts |= op.kind == OpKind::CastGradient;
  }

  static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15ull + b + 0x632BE59BD9B4E019ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    return x ^ (x >> 29);
  }
  static uint64_t all(const Cells &cells) {
    uint64_t h = cells.size();
    for (uint64_t c : cells)
      h = mix(h, c);
    return h;
  }
  static Cells fill(uint64_t seed, uint64_t bytes) {
    Cells cells(bytes / 4);
    for (size_t c = 0; c < cells.size(); ++c)
      cells[c] = mix(seed, c);
    return cells;
  }
  Cells initial(uint32_t argument) const { return fill(mix(1, argument), problem.values[problem.arguments[argument].value].bytes); }
  Cells row(uint32_t value, unsigned micro) const { return fill(mix(mix(2, value), micro), problem.values[value].bytes); }
  Cells scalars(int32_t group, unsigned step, uint64_t bytes) const { return fill(mix(mix(3, group), step), bytes); }
  static bool applies(const Cells &verdict) { return all(verdict) % 3 != 0; }
  /// The verdict that speculation assumes, and whether one means the same to updates.
  static Cells assumed() { return fill(7, 16); }
  static bool exact(const Cells &verdict) { return verdict == assumed() || all(verdict) % 2 == 0; }

  /// From 4 to 2 bytes an element and back, element by element, as far as cells can show it.
  static Cells narrowed(const Cells &cells) {
    Cells result;
    for (size_t c = 0; c + 1 < cells.size(); c += 2)
      result.push_back(mix(mix(9, cells[c]), cells[c + 1]));
    return result;
  }
  static Cells widened(const Cells &cells) {
    Cells result;
    for (uint64_t cell : cells) {
      result.push_back(mix(10, cell));
      result.push_back(mix(11, cell));
    }
    return result;
  }

  /// Results of operation `i`, of those elements that `operands` hold.
  std::vector<Cells> run(uint32_t i, std::vector<Cells> operands, const std::vector<uint64_t> &resultBytes) const {
    const ProblemOp &op = problem.ops[i];
    // What reads a gradient in the compute type casts it on the way.
    if ((op.kind == OpKind::Accumulate || op.kind == OpKind::Update) && operands[1].size() * 2 == operands[0].size())
      operands[1] = widened(operands[1]);
    if (op.kind == OpKind::NormPartials && hasCasts && operands[0].size() < resultBytes[0] / 4 * 1024)
      operands[0] = widened(operands[0]);
    std::vector<Cells> results;
    uint64_t seed = mix(4, i);
    switch (op.kind) {
    case OpKind::Accumulate:
      results.emplace_back();
      for (size_t c = 0; c < operands[0].size(); ++c)
        results[0].push_back(mix(operands[0][c], operands[1][c]));
      return results;
    case OpKind::NormPartials:
      results.emplace_back();
      for (size_t c = 0; c < operands[0].size(); c += 1024)
        results[0].push_back(all(Cells(operands[0].begin() + c, operands[0].begin() + std::min(c + 1024, operands[0].size()))));
      return results;
    case OpKind::CastWeight:
      return {narrowed(operands[0])};
    case OpKind::CastGradient:
      return {widened(operands[0])};
    case OpKind::Update:
      for (size_t r = 0; r < resultBytes.size(); ++r) {
        uint64_t common = mix(mix(mix(5, r), all(operands[operands.size() - 2])), exact(operands.back()) ? 0 : all(operands.back()));
        results.emplace_back();
        for (size_t c = 0; c < operands[0].size(); ++c) {
          uint64_t h = common;
          for (size_t o = 0; o + 2 < operands.size(); ++o)
            h = mix(h, operands[o][c]);
          results.back().push_back(h);
        }
      }
      return results;
    default:
      for (const Cells &operand : operands)
        seed = mix(seed, all(operand));
      for (size_t r = 0; r < resultBytes.size(); ++r)
        results.push_back(fill(mix(seed, r), resultBytes[r]));
      return results;
    }
  }

  SymbolicResult reference() const {
    SymbolicResult result;
    std::vector<Cells> state(problem.arguments.size());
    for (uint32_t a = 0; a < state.size(); ++a)
      state[a] = initial(a);
    for (unsigned round = 0; round < steps * problem.accumulate; ++round) {
      bool first = round % problem.accumulate == 0, last = (round + 1) % problem.accumulate == 0, applied = false;
      std::vector<Cells> values(problem.values.size());
      for (uint32_t a = 0; a < state.size(); ++a) {
        uint32_t value = problem.arguments[a].value;
        values[value] = problem.values[value].role == Role::Input ? row(value, round) : state[a];
      }
      for (uint32_t i = 0; i < problem.ops.size(); ++i) {
        const ProblemOp &op = problem.ops[i];
        if ((op.phase == Phase::Verdict || op.phase == Phase::Update) && !last)
          continue;
        std::vector<Cells> operands;
        std::vector<uint64_t> bytes;
        for (uint32_t operand : op.operands)
          operands.push_back(values[operand]);
        for (uint32_t r : op.results)
          bytes.push_back(problem.values[r].bytes);
        if (op.kind == OpKind::Scalars) {
          values[op.results[0]] = scalars(op.group, round / problem.accumulate, bytes[0]);
          continue;
        }
        if (op.kind == OpKind::Accumulate && first) {
          values[op.results[0]] = operands[1];
          continue;
        }
        std::vector<Cells> results = run(i, operands, bytes);
        for (size_t r = 0; r < op.results.size(); ++r)
          values[op.results[r]] = results[r];
        if (op.kind == OpKind::Verdict)
          applied = applies(results[0]);
      }
      for (uint32_t o = 0; o < problem.outputs.size(); ++o)
        result.reports.push_back({o, all(values[problem.outputs[o].value])});
      for (uint32_t a = 0; a < state.size(); ++a) {
        const ProblemArgument &argument = problem.arguments[a];
        bool accumulator = problem.values[argument.value].role == Role::Accumulator;
        if (argument.donated >= 0 && (accumulator || (last && applied)))
          state[a] = values[argument.donated];
      }
    }
    for (uint32_t a = 0; a < state.size(); ++a)
      if (problem.values[problem.arguments[a].value].role != Role::Input)
        result.state[a] = all(state[a]);
    return result;
  }

  SymbolicResult scheduled(const Schedule &schedule, const Layout &layout, const std::vector<Command> &commands) const {
    SymbolicResult result;
    std::vector<Cells> memory;
    for (const SpaceLayout &space : layout.spaces)
      memory.emplace_back(space.arenaBytes / 4 + 1, 0);
    auto read = [&](const Range &r) {
      auto begin = memory[r.space].begin() + r.offset / 4;
      return Cells(begin, begin + r.bytes / 4);
    };
    auto write = [&](const Range &r, const Cells &cells) { std::copy(cells.begin(), cells.end(), memory[r.space].begin() + r.offset / 4); };
    auto home = [&](uint32_t b) { return Range{schedule.buffers[b].space, layout.buffers[b].offset, schedule.buffers[b].bytes, Access::Read}; };
    for (uint32_t b = 0; b < schedule.buffers.size(); ++b) {
      const Buffer &buffer = schedule.buffers[b];
      if (buffer.argument >= 0)
        write(home(b), initial(buffer.argument));
      else if (!buffer.initial.empty())
        write(home(b), assumed());
      else if (buffer.role == Role::Shadow)
        write(home(b), fill(8, buffer.bytes));
      else if (buffer.copyOf >= 0) {
        Cells master = initial(schedule.buffers[buffer.copyOf].argument);
        write(home(b), master.size() * 4 > buffer.bytes ? narrowed(master) : master);
      }
    }
    for (unsigned round = 0; round < steps * problem.accumulate; ++round) {
      bool first = round % problem.accumulate == 0, last = (round + 1) % problem.accumulate == 0, applied = false, committed = false;
      bool speculates = round / problem.accumulate % 5 != 3;
      std::map<uint32_t, uint64_t> reports;
      for (size_t k = 0; k < commands.size(); ++k) {
        const Command &c = commands[k];
        if ((c.predicate == Predicate::FirstMicro && !first) || (c.predicate == Predicate::LaterMicro && first) ||
            (c.predicate == Predicate::LastMicro && !last) || (c.predicate == Predicate::Apply && !(last && applied)) ||
            (c.predicate == Predicate::Speculate && !(last && speculates)) || (c.predicate == Predicate::Redo && !(last && applied && !committed)) ||
            (c.predicate == Predicate::Restore && !(last && !applied && speculates)))
          continue;
        switch (c.kind) {
        case CommandKind::Dispatch: {
          std::vector<Cells> operands;
          std::vector<uint64_t> bytes;
          std::vector<Range> targets;
          const ProblemOp &op = problem.ops[schedule.ops[k].op];
          const bool updates = op.kind == OpKind::Update; // and writes the weight in the compute type
          for (const Range &r : c.operands)
            if (r.access == Access::Read)
              operands.push_back(read(r));
            else if (updates || targets.size() < op.results.size()) { // the rest is workspace
              targets.push_back(r);
              bytes.push_back(r.bytes);
            }
          if (updates)
            bytes.resize(op.results.size());
          std::vector<Cells> results = run(schedule.ops[k].op, operands, bytes);
          if (updates && targets.size() > results.size())
            results.push_back(narrowed(results[0]));
          for (size_t r = 0; r < results.size(); ++r)
            write(targets[r], results[r]);
          break;
        }
        case CommandKind::Copy:
          for (size_t p = 0; p < c.operands.size(); p += 2)
            write(c.operands[p + 1], read(c.operands[p]));
          break;
        case CommandKind::Feed:
          write(c.operands[0], row(problem.arguments[schedule.buffers[schedule.ops[k].index].argument].value, round));
          break;
        case CommandKind::Scalars:
          write(c.operands[0], scalars(c.index, round / problem.accumulate, c.operands[0].bytes));
          break;
        case CommandKind::Verdict:
          applied = applies(read(c.operands[0]));
          committed = applied && speculates && exact(read(c.operands[0]));
          break;
        case CommandKind::Report:
          reports[schedule.ops[k].index] = all(read(c.operands[0]));
          break;
        }
      }
      result.reports.insert(result.reports.end(), reports.begin(), reports.end());
      for (uint32_t b = 0; b < schedule.buffers.size(); ++b) // an applied step exchanges
        if (applied && schedule.buffers[b].role == Role::Shadow) {
          Cells next = read(home(b));
          write(home(b), read(home(schedule.buffers[b].copyOf)));
          write(home(schedule.buffers[b].copyOf), next);
        }
    }
    for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
      if (int32_t a = schedule.buffers[b].argument; a >= 0 && problem.values[problem.arguments[a].value].role != Role::Input)
        result.state[a] = all(read(home(b)));
    return result;
  }

private:
  const Problem &problem;
  unsigned steps;
  bool hasCasts = false;
};

} // namespace forebay::planning::test

#endif
