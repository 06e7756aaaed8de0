//===- Validate.cpp - What a backend relies on ----------------------------===//

#include "forebay/backend.h"

#include <cstdint>

using namespace forebay;

namespace {

class Validator {
public:
  Validator(const Program &program, std::string &error) : program(program), pairs(program), error(error) {}

  bool run() {
    if (program.accumulate == 0)
      return fail("program", "0 micro-steps in a step");
    if (program.queues.empty())
      return fail("program", "no queues");
    for (const Tensor &tensor : program.tensors)
      if (!checkTensor(tensor))
        return false;
    if (std::string wrong = checkPairs(program); !wrong.empty())
      return fail("program", wrong);
    for (const Value &value : program.values)
      if (value.space >= program.spaces.size() || value.first > value.last)
        return fail("value " + value.label, "space or life is impossible");
    if (program.events > program.step.size() + program.flush.size())
      return fail("program", "more events than commands");
    signaller.assign(program.events, -1);
    if (!collectSignals(program.step, 0) || !collectSignals(program.flush, program.step.size()))
      return false;
    return checkList(program.step, 0) && checkList(program.flush, program.step.size()) && checkVerdict();
  }

private:
  bool fail(const std::string &where, const std::string &what) {
    error = where + ": " + what;
    return false;
  }

  bool insideArena(uint32_t space, uint64_t offset, uint64_t bytes) const {
    if (space >= program.spaces.size())
      return false;
    uint64_t size = program.spaces[space].arenaBytes;
    return offset <= size && bytes <= size - offset;
  }

  bool checkTensor(const Tensor &tensor) {
    uint64_t bytes = byteSize(tensor.type);
    if (bytes == 0)
      return fail(tensor.name, "element type unknown");
    for (int64_t dim : tensor.shape)
      if (dim < 0 || __builtin_mul_overflow(bytes, uint64_t(dim), &bytes))
        return fail(tensor.name, "shape is negative or too large");
    if (bytes != tensor.bytes)
      return fail(tensor.name, "size and shape contradict each other");
    if (!insideArena(tensor.space, tensor.offset, tensor.bytes))
      return fail(tensor.name, "lies outside its arena");
    if (tensor.copyOf >= 0 && (size_t(tensor.copyOf) >= program.tensors.size() || program.tensors[tensor.copyOf].bytes != tensor.bytes))
      return fail(tensor.name, "is a copy of a parameter of another size");
    if (!tensor.initial.empty() && tensor.initial.size() != tensor.bytes)
      return fail(tensor.name, "starts with bytes of another size");
    return true;
  }

  std::string where(const Command &command, size_t index) const {
    return "command " + std::to_string(index) + (command.label.empty() ? "" : " (" + command.label + ")");
  }

  bool collectSignals(const std::vector<Command> &list, size_t base) {
    for (size_t i = 0; i < list.size(); ++i) {
      int32_t event = list[i].signal;
      if (event < 0)
        continue;
      if (uint32_t(event) >= program.events)
        return fail(where(list[i], base + i), "signals an event that does not exist");
      if (signaller[event] >= 0)
        return fail(where(list[i], base + i), "signals an event that has a signaller already");
      signaller[event] = int64_t(base + i);
    }
    return true;
  }

  bool checkList(const std::vector<Command> &list, size_t base) {
    for (size_t i = 0; i < list.size(); ++i) {
      const Command &command = list[i];
      std::string here = where(command, base + i);
      if (command.queue >= program.queues.size())
        return fail(here, "queue does not exist");
      for (const Range &range : command.operands)
        if (!insideArena(range.space, range.offset, range.bytes))
          return fail(here, "an operand lies outside its arena");
      if (base != 0 && hangsOnSpeculation(command.predicate))
        return fail(here, "a flush has no step that it could speculate about");
      for (const Range &range : command.operands)
        if (pairs.touches(range) && (base != 0 || !pairs.exchanged(range)))
          return fail(here, base != 0 ? "a flush has no step whose parameters it could mean" : "an operand has only a part of what a step exchanges");
      for (const Wait &wait : command.waits) {
        if (wait.event >= program.events || signaller[wait.event] < 0)
          return fail(here, "waits for an event that nobody signals");
        if (wait.distance > 1)
          return fail(here, "waits further back than one iteration");
        // Program order must be able to fulfil every wait; otherwise queues would wait for each other for ever.
        bool sameList = (size_t(signaller[wait.event]) >= program.step.size()) == (base != 0);
        if (wait.distance == 0 && sameList && size_t(signaller[wait.event]) >= base + i)
          return fail(here, "waits for a later command of its own iteration");
      }
      if (!checkKind(command, here))
        return false;
    }
    return true;
  }

  bool checkKind(const Command &command, const std::string &here) {
    size_t operands = command.operands.size();
    if (command.kind != CommandKind::Dispatch && command.kernel >= 0)
      return fail(here, "names a kernel but is no dispatch");
    if (command.tensor >= 0 && size_t(command.tensor) >= program.tensors.size())
      return fail(here, "belongs to a parameter that does not exist");
    switch (command.kind) {
    case CommandKind::Dispatch: {
      if (command.kernel < 0 || size_t(command.kernel) >= program.kernels.size())
        return fail(here, "kernel does not exist");
      if (!program.queues[command.queue].compute)
        return fail(here, "dispatch on a copy queue");
      int64_t total = 0;
      for (int64_t tiles : command.tiles)
        if (tiles < 0 || __builtin_add_overflow(total, tiles, &total) || total > INT32_MAX)
          return fail(here, "number of tiles is negative or too large");
      if (command.scratch > program.scratchBytes)
        return fail(here, "needs more scratch memory than the program says");
      for (const Range &range : command.operands)
        if (range.offset % 64 != 0)
          return fail(here, "an operand, byte " + std::to_string(range.offset) + " of " + program.spaces[range.space].name + ", is not aligned to 64 bytes");
      return true;
    }
    case CommandKind::Copy:
      if (operands % 2 != 0)
        return fail(here, "copy with an odd number of operands");
      for (size_t i = 0; i < operands; i += 2)
        if (command.operands[i].bytes != command.operands[i + 1].bytes)
          return fail(here, "copy between ranges of different sizes");
      return true;
    case CommandKind::Feed:
      if (command.index < 0 || size_t(command.index) >= program.tensors.size() ||
          program.tensors[command.index].role != Role::Input)
        return fail(here, "feeds something that is not an input");
      if (operands != 1 || command.operands[0].bytes != program.tensors[command.index].bytes)
        return fail(here, "feeds a range of another size");
      return true;
    case CommandKind::Scalars:
      if (command.index < 0 || size_t(command.index) >= program.groups.size())
        return fail(here, "parameter group does not exist");
      if (operands != 1 || command.operands[0].bytes < program.scalarResults * sizeof(float))
        return fail(here, "scalars do not fit their range");
      return true;
    case CommandKind::Verdict:
      return operands == 1 && command.operands[0].bytes >= 4 * sizeof(float) ? true : fail(here, "verdict without its 4 numbers");
    case CommandKind::Report:
      if (operands != 1)
        return fail(here, "report without one operand");
      if (command.index >= 0 && size_t(command.index) >= program.tensors.size())
        return fail(here, "reports a tensor that does not exist");
      return true;
    }
    return fail(here, "kind unknown");
  }

  /// t and `Apply` hang on the verdict: exactly one for each step, before what asks for it.
  bool checkVerdict() {
    int64_t verdict = -1;
    for (size_t i = 0; i < program.step.size(); ++i) {
      const Command &command = program.step[i];
      if (command.kind == CommandKind::Verdict) {
        if (verdict >= 0)
          return fail(where(command, i), "second verdict");
        bool last = command.predicate == Predicate::LastMicro || (command.predicate == Predicate::Always && program.accumulate == 1);
        if (!last)
          return fail(where(command, i), "verdict that is not at the last micro-step");
        verdict = int64_t(i);
      } else if (afterVerdict(command.predicate) && verdict < 0) {
        return fail(where(command, i), "runs on a verdict that comes later or never");
      }
    }
    if (!pairs.empty() && verdict < 0)
      return fail("program", "shadows in a program without a verdict");
    for (const Command &command : program.step) {
      if (command.kind == CommandKind::Scalars && verdict < 0)
        return fail(command.label, "scalars in a program without a verdict");
      if (command.predicate == Predicate::Speculate && verdict < 0)
        return fail(command.label, "speculates in a program without a verdict");
    }
    for (size_t i = 0; i < program.flush.size(); ++i)
      if (program.flush[i].kind == CommandKind::Verdict)
        return fail(where(program.flush[i], program.step.size() + i), "verdict in the flush list");
    return true;
  }

  const Program &program;
  const Pairs pairs;
  std::string &error;
  std::vector<int64_t> signaller;
};

} // namespace

bool forebay::validateProgram(const Program &program, std::string &error) { return Validator(program, error).run(); }
