//===- TestProgram.h - Programs built by hand --------------------*- C++ -*-===//
///
/// \file
/// What the tests of the runtime share: programs without a compiler, kernels whose result depends on every byte they read,
/// and a plain sequential execution to compare with.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TEST_RUNTIME_TESTPROGRAM_H
#define FOREBAY_TEST_RUNTIME_TESTPROGRAM_H

#include "forebay/backend.h"

#include <cstring>
#include <functional>
#include <random>

namespace forebay::testing {

/// Hashes the two inputs (whole) and the tile's slice of the result into that slice. params: {bytes of input 0, of input 1,
/// of the result, tiles of phase 0, tiles of phase 1}. Phase 1 goes over the result again.
inline void mixKernel(void *const *operands, const int64_t *params, int32_t phase, int64_t tile, void *scratch) {
  uint64_t hash = 1469598103934665603ull + uint64_t(phase);
  auto feed = [&](const void *data, int64_t bytes) {
    for (int64_t i = 0; i < bytes; ++i)
      hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 1099511628211ull;
  };
  feed(operands[0], params[0]);
  feed(operands[1], params[1]);
  auto *result = static_cast<unsigned char *>(operands[2]);
  int64_t tiles = params[3 + phase], total = params[2];
  int64_t begin = total * tile / tiles, end = total * (tile + 1) / tiles;
  // The scratch memory must be this worker's own while the tile runs.
  auto *own = static_cast<volatile uint64_t *>(scratch);
  uint64_t before = hash;
  own[0] = before;
  feed(result + begin, end - begin);
  if (own[0] != before)
    hash = 0;
  for (int64_t i = begin; i < end; ++i)
    result[i] = static_cast<unsigned char>(hash >> (8 * (i % 8))) + static_cast<unsigned char>(i);
}

inline bool overlap(const Range &a, const Range &b) {
  return a.space == b.space && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

inline bool conflict(const Command &a, const Command &b, const Pairs &pairs) {
  // Each of a pair may be either.
  auto either = [&](const Range &x, const Range &y) {
    auto other = pairs.exchanged(x);
    return overlap(x, y) || (other && overlap(*other, y));
  };
  for (const Range &x : a.operands)
    for (const Range &y : b.operands)
      if (either(x, y) && ((uint8_t(x.access) | uint8_t(y.access)) & uint8_t(Access::Write)))
        return true;
  return false;
}

/// Gives every command an event and makes it wait for every command of another queue that it must not overlap.
inline void addAllWaits(Program &program) {
  std::vector<Command> &step = program.step;
  const Pairs pairs(program);
  program.events = uint32_t(step.size());
  for (size_t i = 0; i < step.size(); ++i)
    step[i].signal = int32_t(i);
  for (size_t i = 0; i < step.size(); ++i)
    for (size_t j = 0; j < step.size(); ++j)
      if (i != j && step[i].queue != step[j].queue && conflict(step[i], step[j], pairs))
        step[i].waits.push_back({uint32_t(j), j < i ? 0u : 1u});
}

/// What the session would do, reduced to pure functions, so that the sequential run and the engine see the same.
struct Host {
  std::vector<std::vector<unsigned char>> reports; ///< by order of arrival
  std::vector<uint64_t> verdicts;
  uint64_t appliedBefore[64] = {}; ///< by step; the entry of step s is written by the verdict of step s - 1
  std::function<bool(uint64_t)> apply = [](uint64_t step) { return step % 3 != 1; };
  std::function<bool(uint64_t)> exact = [](uint64_t step) { return step % 4 != 2; };
  std::function<bool(uint64_t)> speculateNext = [](uint64_t step) { return step % 5 != 3; };

  BackendHooks hooks() {
    BackendHooks result;
    result.user = this;
    result.feed = [](void *, uint64_t micro, uint32_t tensor, void *destination, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i)
        static_cast<unsigned char *>(destination)[i] = static_cast<unsigned char>(micro * 131 + tensor * 17 + i * 7);
    };
    result.scalars = [](void *user, uint64_t step, uint32_t group, float *destination, size_t count) {
      // Depends on the verdicts before this step, as t does.
      for (size_t i = 0; i < count; ++i)
        destination[i] = float(step * 10 + group + i) + 100.0f * float(static_cast<Host *>(user)->appliedBefore[step % 64]);
    };
    result.verdict = [](void *user, uint64_t step, const float *) {
      auto *host = static_cast<Host *>(user);
      host->verdicts.push_back(step);
      bool applied = host->apply(step);
      host->appliedBefore[(step + 1) % 64] = host->appliedBefore[step % 64] + applied;
      return Decision{applied, applied && host->exact(step), host->speculateNext(step)};
    };
    result.report = [](void *user, uint64_t, int32_t, const void *source, size_t bytes) {
      auto *data = static_cast<const unsigned char *>(source);
      static_cast<Host *>(user)->reports.emplace_back(data, data + bytes);
    };
    return result;
  }
};

/// Exchanges the bytes of every shadow and its pair.
inline void exchangePairs(const Program &program, std::vector<std::vector<char>> &arenas) {
  for (const Tensor &shadow : program.tensors)
    if (shadow.role == Role::Shadow) {
      char *arena = arenas[shadow.space].data();
      std::swap_ranges(arena + shadow.offset, arena + shadow.offset + shadow.bytes, arena + program.tensors[shadow.copyOf].offset);
    }
}

/// Runs `steps` steps one command after another; an applied step exchanges bytes where a backend exchanges places. `arenas` holds the bytes.
inline void runSequentially(const Program &program, const std::vector<fb_kernel_fn> &kernels, uint64_t steps, Host &host,
                            std::vector<std::vector<char>> &arenas) {
  BackendHooks hooks = host.hooks();
  std::vector<char> scratch(program.scratchBytes + 64);
  Decision decision;
  bool speculates = true;
  auto run = [&](const Command &command, uint64_t step, uint64_t micro) {
    std::vector<void *> operands;
    for (const Range &range : command.operands)
      operands.push_back(arenas[range.space].data() + range.offset);
    switch (command.kind) {
    case CommandKind::Dispatch:
      for (size_t phase = 0; phase < command.tiles.size(); ++phase)
        for (int64_t tile = 0; tile < command.tiles[phase]; ++tile)
          kernels[command.kernel](operands.data(), command.params.data(), int32_t(phase), tile, scratch.data());
      break;
    case CommandKind::Copy:
      for (size_t i = 0; i < operands.size(); i += 2)
        std::memcpy(operands[i + 1], operands[i], command.operands[i].bytes);
      break;
    case CommandKind::Feed:
      hooks.feed(hooks.user, micro, uint32_t(command.index), operands[0], command.operands[0].bytes);
      break;
    case CommandKind::Scalars:
      hooks.scalars(hooks.user, step, uint32_t(command.index), static_cast<float *>(operands[0]), program.scalarResults);
      break;
    case CommandKind::Verdict:
      decision = hooks.verdict(hooks.user, step, static_cast<float *>(operands[0]));
      break;
    case CommandKind::Report:
      hooks.report(hooks.user, micro, command.index, operands[0], command.operands[0].bytes);
      break;
    }
  };
  for (uint64_t step = 0; step < steps; ++step) {
    for (uint64_t k = 0; k < program.accumulate; ++k)
      for (const Command &command : program.step) {
        bool last = k + 1 == program.accumulate, runs = true;
        switch (command.predicate) {
        case Predicate::Always: break;
        case Predicate::FirstMicro: runs = k == 0; break;
        case Predicate::LaterMicro: runs = k != 0; break;
        case Predicate::LastMicro: runs = last; break;
        case Predicate::Apply: runs = last && decision.applied; break;
        case Predicate::Speculate: runs = last && speculates; break;
        case Predicate::Redo: runs = last && decision.applied && !(speculates && decision.asSpeculated); break;
        case Predicate::Restore: runs = last && !decision.applied && speculates; break;
        }
        if (runs)
          run(command, step, step * program.accumulate + k);
      }
    if (decision.applied)
      exchangePairs(program, arenas);
    speculates = decision.speculateNext;
  }
}

} // namespace forebay::testing

#endif // FOREBAY_TEST_RUNTIME_TESTPROGRAM_H
