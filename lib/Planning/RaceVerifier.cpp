//===- RaceVerifier.cpp - Is a command table safe to run? -----------------===//
//
// Vector clocks over the queues, swept through a few unrolled micro-steps in program order. For every byte the last write and the
// reads since are remembered; a new access must be ordered after those it conflicts with.
//
//===----------------------------------------------------------------------===//

#include "forebay/Planning/RaceVerifier.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace forebay;

namespace {

std::string quoted(const std::string &text) { return "'" + text + "'"; }

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

/// Bytes of some tensors.
class Bytes {
public:
  void add(const Tensor &tensor) {
    uint64_t begin = tensor.offset, end = begin + tensor.bytes;
    if (begin >= end) // empty, or found to lie outside its arena
      return;
    for (auto it = firstThatEndsAfter(tensor.space, begin); it != parts.end() && it->first <= std::make_pair(tensor.space, end); it = parts.erase(it)) {
      begin = std::min(begin, it->first.second);
      end = std::max(end, it->second);
    }
    parts[{tensor.space, begin}] = end;
  }

  bool touches(const Range &range) {
    auto it = firstThatEndsAfter(range.space, range.offset);
    return range.bytes && it != parts.end() && it->first < std::make_pair(range.space, range.offset + range.bytes);
  }

private:
  std::map<std::pair<uint32_t, uint64_t>, uint64_t>::iterator firstThatEndsAfter(uint32_t space, uint64_t offset) {
    auto it = parts.upper_bound({space, offset});
    if (it != parts.begin() && std::prev(it)->first.first == space && std::prev(it)->second > offset)
      --it;
    return it;
  }

  std::map<std::pair<uint32_t, uint64_t>, uint64_t> parts; ///< apart from each other; space and first byte: end
};

class StructureCheck {
public:
  StructureCheck(const Program &program, std::string &error) : program(program), pairs(program), error(error) {
    for (const Tensor &t : program.tensors) {
      if (!t.initial.empty())
        constants.add(t);
      if (t.role == Role::Parameter || t.role == Role::Moment || t.role == Role::Accumulator || t.role == Role::Buffer)
        kept.add(t);
    }
  }

  bool run() {
    if (program.accumulate < 1)
      return fail("accumulate is 0");
    if (program.queues.empty() || program.spaces.empty())
      return fail("no queue or no memory space");
    if (program.events > program.step.size() + program.flush.size())
      return fail("more events than commands");
    for (const Space &space : program.spaces)
      if (space.arenaBytes > space.capacity)
        return fail("the arena of " + space.name + " is larger than its capacity");
    for (const Tensor &tensor : program.tensors)
      if (!check(tensor))
        return false;
    if (error = checkPairs(program); !error.empty())
      return false;
    for (const Value &value : program.values) {
      if (!inside(value.space, value.offset, value.bytes))
        return fail("value " + quoted(value.label) + " lies outside its arena");
      if (!program.step.empty() && (value.first > value.last || value.last >= program.step.size()))
        return fail("value " + quoted(value.label) + " lives outside the step");
    }
    for (const Group &group : program.groups)
      if (group.values.size() != program.hyper.size() || group.fixed.size() != program.hyper.size())
        return fail("a parameter group has not one value for each hyper-parameter");
    return checkList(program.step, "command ") && checkList(program.flush, "flush command ");
  }

private:
  bool fail(std::string why) { return error = std::move(why), false; }

  bool inside(uint32_t space, uint64_t offset, uint64_t bytes) const {
    return space < program.spaces.size() && offset <= program.spaces[space].arenaBytes &&
           bytes <= program.spaces[space].arenaBytes - offset;
  }

  bool check(const Tensor &tensor) {
    std::string where = "tensor " + quoted(tensor.name);
    if (!inside(tensor.space, tensor.offset, tensor.bytes))
      return fail(where + " lies outside its arena");
    uint64_t bytes = byteSize(tensor.type);
    for (int64_t size : tensor.shape)
      if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
        return fail(where + " has an impossible shape");
    if (bytes != tensor.bytes)
      return fail(where + " has another size than its shape");
    if (tensor.copyOf >= static_cast<int64_t>(program.tensors.size()) ||
        (tensor.copyOf >= 0 && tensor.role != Role::Shadow && program.tensors[tensor.copyOf].role != Role::Parameter))
      return fail(where + " is a copy of no parameter");
    if (!tensor.initial.empty() && tensor.initial.size() != tensor.bytes)
      return fail(where + " begins with another number of bytes than it has");
    if (tensor.group >= static_cast<int64_t>(program.groups.size()))
      return fail(where + " is in no known group");
    return true;
  }

  bool checkList(const std::vector<Command> &list, const std::string &prefix) {
    std::vector<int64_t> signaller(program.events, -1);
    bool verdict = false;
    for (size_t i = 0; i < list.size(); ++i) {
      const Command &c = list[i];
      std::string where = prefix + std::to_string(i) + " " + quoted(c.label);
      if (!check(c, where))
        return false;
      if (c.signal >= static_cast<int64_t>(program.events))
        return fail(where + " signals an event that does not exist");
      if (c.signal >= 0 && signaller[c.signal] >= 0)
        return fail(where + " signals event " + std::to_string(c.signal) + ", which command " +
                    std::to_string(signaller[c.signal]) + " signals too");
      if (c.signal >= 0)
        signaller[c.signal] = i;
      if (&list == &program.flush && (hangsOnSpeculation(c.predicate) || std::any_of(c.operands.begin(), c.operands.end(), [&](const Range &r) { return pairs.touches(r); })))
        return fail(where + " hangs on which step was applied, and a flush comes after no step");
      if (c.kind == CommandKind::Scalars && verdict)
        return fail(where + " comes after the verdict: it would see the wrong step number");
      verdict |= c.kind == CommandKind::Verdict;
    }
    for (size_t i = 0; i < list.size(); ++i)
      for (const Wait &wait : list[i].waits) {
        std::string where = prefix + std::to_string(i) + " " + quoted(list[i].label);
        if (wait.event >= program.events || signaller[wait.event] < 0)
          return fail(where + " waits for an event that nobody signals");
        if (wait.distance > 1)
          return fail(where + " waits across more than one iteration");
        // Program order is one in which the commands could run one after another: nobody waits for a later one.
        if (wait.distance == 0 && signaller[wait.event] >= static_cast<int64_t>(i))
          return fail(where + " waits for command " + std::to_string(signaller[wait.event]) +
                      ", which is not before it: a deadlock");
      }
    return true;
  }

  bool check(const Command &c, const std::string &where) {
    if (c.queue >= program.queues.size())
      return fail(where + " is on no queue");
    for (const Range &range : c.operands)
      if (!inside(range.space, range.offset, range.bytes))
        return fail(where + ": an operand lies outside its arena");
    for (const Range &range : c.operands)
      if (pairs.touches(range) && !pairs.exchanged(range))
        return fail(where + ": an operand is partly inside what steps exchange");
    for (const Range &range : c.operands)
      if (range.access != Access::Read && constants.touches(range))
        return fail(where + " writes a tensor that keeps the bytes it begins with");
    for (const Range &range : c.operands)
      if (c.predicate == Predicate::Speculate && range.access != Access::Read && kept.touches(range))
        return fail(where + " runs before the verdict and writes what only an applied step may change: " + program.spaces[range.space].name + " [" + std::to_string(range.offset) +
                    ", " + std::to_string(range.offset + range.bytes) + ")");
    size_t operands = c.operands.size();
    auto tensorIndex = [&] { return c.index >= 0 && c.index < static_cast<int64_t>(program.tensors.size()); };
    auto one = [&](Access access) { return operands == 1 && c.operands[0].access == access; };
    switch (c.kind) {
    case CommandKind::Dispatch:
      if (c.kernel < 0 || c.kernel >= static_cast<int64_t>(program.kernels.size()))
        return fail(where + " names no kernel");
      if (!program.queues[c.queue].compute)
        return fail(where + " is a dispatch on a copy queue");
      if (c.scratch > program.scratchBytes)
        return fail(where + " needs more scratch than the program has");
      for (int64_t tiles : c.tiles)
        if (tiles < 0)
          return fail(where + " has a negative number of tiles");
      break;
    case CommandKind::Copy:
      if (operands % 2)
        return fail(where + ": a copy without destination");
      for (size_t i = 0; i < operands; i += 2)
        if (c.operands[i].access != Access::Read || c.operands[i + 1].access != Access::Write ||
            c.operands[i].bytes != c.operands[i + 1].bytes)
          return fail(where + ": source and destination of a copy do not fit");
      break;
    case CommandKind::Feed:
      if (!one(Access::Write) || !tensorIndex() || program.tensors[c.index].bytes != c.operands[0].bytes)
        return fail(where + ": a feed that does not fit its input");
      break;
    case CommandKind::Scalars:
      if (!one(Access::Write) || c.index < 0 || c.index >= static_cast<int64_t>(program.groups.size()) ||
          c.operands[0].bytes != 4ull * program.scalarResults)
        return fail(where + ": scalars that do not fit their group");
      break;
    case CommandKind::Verdict:
      if (!one(Access::Read) || c.operands[0].bytes != 16)
        return fail(where + ": a verdict has 16 bytes");
      break;
    case CommandKind::Report:
      if (!one(Access::Read) || !tensorIndex() || program.tensors[c.index].bytes != c.operands[0].bytes)
        return fail(where + ": a report that does not fit its tensor");
      break;
    }
    return checkOverlap(c, where);
  }

  /// Two operands of one command may share bytes if both only read, or (dispatch, in place) are the same range and only one writes.
  bool checkOverlap(const Command &c, const std::string &where) {
    std::vector<const Range *> sorted;
    for (const Range &range : c.operands)
      if (range.bytes)
        sorted.push_back(&range);
    std::sort(sorted.begin(), sorted.end(), [](const Range *a, const Range *b) {
      return std::tie(a->space, a->offset, a->bytes) < std::tie(b->space, b->offset, b->bytes);
    });
    for (size_t i = 0; i < sorted.size(); ++i)
      for (size_t j = i + 1; j < sorted.size(); ++j) {
        const Range &a = *sorted[i], &b = *sorted[j];
        if (a.space != b.space || b.offset >= a.offset + a.bytes)
          break;
        unsigned writes = (a.access != Access::Read) + (b.access != Access::Read);
        bool inPlace = c.kind == CommandKind::Dispatch && writes == 1 && a.offset == b.offset && a.bytes == b.bytes;
        if (writes && !inPlace)
          return fail(where + ": two of its operands overlap");
      }
    return true;
  }

  const Program &program;
  const Pairs pairs;
  Bytes constants, kept; ///< initial bytes that stay; what only an applied step changes
  std::string &error;
};

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// What happened before a moment: for each queue, how many of its commands (counted over all iterations) have ended.
using Clock = std::vector<uint64_t>;

void join(Clock &into, const Clock &other) {
  for (size_t q = 0; q < into.size(); ++q)
    into[q] = std::max(into[q], other[q]);
}

/// One access, by the position of its command in its queue.
struct Seen {
  uint32_t queue = 0;
  uint64_t ended = 0; ///< entry of its queue in the clock of those that come after it; 0: none
  uint32_t command = 0;
  int32_t iteration = -1;
};

/// Bytes with one history.
struct Segment {
  uint64_t end = 0;
  bool persistent = false;
  Seen write;
  std::vector<Seen> reads; ///< since `write`; the latest of each queue
  /// Iterations of the last writes: one that runs however the step ends, and those of commands that speculate, redo and restore.
  int32_t written = -1, perhaps[3] = {-1, -1, -1};
  bool redone = false; ///< the last write is by one that redoes, and just before it was one that speculates

  bool sameBut(const Segment &other) const {
    return persistent == other.persistent && redone == other.redone && written == other.written && std::equal(perhaps, perhaps + 3, other.perhaps);
  }
};

/// Number of a predicate of which it hangs on speculation whether the command runs, or -1.
int speculative(Predicate predicate) {
  return predicate == Predicate::Speculate ? 0 : predicate == Predicate::Redo ? 1 : predicate == Predicate::Restore ? 2 : -1;
}

struct Iteration {
  bool first, last;
  bool applied;   ///< its step is
  bool exchanged; ///< an odd number of steps before its own was applied
};

/// Where an access is, for messages: the first byte of a segment.
struct Place {
  uint32_t space;
  uint64_t begin;
};
constexpr Place kVerdict{~0u, 0}; ///< the runtime's step number and decision

class Sweep {
public:
  Sweep(const Program &program, const std::vector<Command> &list, std::string &error)
      : program(program), pairs(program), list(list), error(error), bytes(program.spaces.size()),
        queues(program.queues.size(), Clock(program.queues.size())) {
    signals[0].resize(program.events, Clock(queues.size()));
    signals[1] = signals[0];
  }

  /// A list that starts when all queues are idle: whatever is in memory counts as written.
  void startIdle() {
    verdict.persistent = true;
    for (uint32_t space = 0; space < program.spaces.size(); ++space)
      markPersistent(space, 0, program.spaces[space].arenaBytes);
  }

  /// What the load leaves in memory, or keeps from one step to the next.
  void markPersistent() {
    for (const Tensor &t : program.tensors)
      if (t.role == Role::Parameter || t.role == Role::WeightCopy || t.role == Role::Buffer || t.role == Role::Moment || t.role == Role::Shadow ||
          t.role == Role::Accumulator || !t.initial.empty())
        markPersistent(t.space, t.offset, t.bytes);
  }

  bool run(const std::vector<Iteration> &iterations) {
    for (iteration = 0; iteration < static_cast<int32_t>(iterations.size()); ++iteration) {
      for (uint32_t c = 0; c < list.size(); ++c)
        if (!step(c, iterations[iteration]))
          return false;
      if (&list == &program.step && iterations[iteration].last && !settled(iterations[iteration]))
        return false;
    }
    return true;
  }

private:
  /// At the end of a step. If it is applied, all that it exchanges is new, whether speculation was on, right, or off; if it is dropped, what lasts is as it was.
  bool settled(Iteration kind) {
    Bytes next; // what an applied step brings, and a dropped one forgets
    for (const Tensor &shadow : program.tensors) {
      if (shadow.role != Role::Shadow)
        continue;
      const Tensor &at = kind.exchanged ? program.tensors[shadow.copyOf] : shadow;
      next.add(at);
      auto isNew = [&](uint64_t begin, Segment &segment) {
        if (segment.written == iteration || (segment.perhaps[0] == iteration && segment.perhaps[1] == iteration))
          return true;
        error = "a step that is applied exchanges " + quoted(shadow.name) + ", and " + text({at.space, begin}, segment) + " of it may not have been written";
        return false;
      };
      if (kind.applied && !forEach(at.space, at.offset, at.bytes, isNew))
        return false;
    }
    for (uint32_t space = 0; space < bytes.size(); ++space)
      for (const auto &[begin, segment] : bytes[space]) {
        if (!segment.persistent || segment.write.ended == 0 || segment.write.iteration != iteration)
          continue;
        Predicate by = list[segment.write.command].predicate;
        bool forgotten = !kind.applied && next.touches({space, begin, segment.end - begin, Access::Read});
        if (by == Predicate::Speculate && !forgotten)
          return error = name(segment.write) + " runs before the verdict, and nothing after it makes good " + text({space, begin}, segment) + " of a step that is " +
                         (kind.applied ? "clipped" : "dropped"),
                 false;
        if (by == Predicate::Redo && !segment.redone)
          return error = name(segment.write) + " makes good " + text({space, begin}, segment) + ", but what writes it last before does not run before the verdict", false;
      }
    return true;
  }

  void markPersistent(uint32_t space, uint64_t offset, uint64_t size) {
    forEach(space, offset, size, [](uint64_t, Segment &segment) { return segment.persistent = true; });
  }

  bool step(uint32_t index, Iteration kind) {
    const Command &c = list[index];
    bool runs = true, waits = true;
    switch (c.predicate) {
    case Predicate::Always:
      break;
    case Predicate::FirstMicro:
      runs = waits = kind.first;
      break;
    case Predicate::LaterMicro:
      runs = waits = !kind.first;
      break;
    case Predicate::LastMicro:
    case Predicate::Speculate:
      runs = waits = kind.last;
      break;
    case Predicate::Apply:
    case Predicate::Redo:
      waits = kind.last;
      runs = kind.last && kind.applied;
      break;
    case Predicate::Restore:
      waits = kind.last;
      runs = kind.last && !kind.applied;
      break;
    }
    now = queues[c.queue];
    if (waits)
      for (const Wait &wait : c.waits)
        join(now, signals[(iteration - wait.distance) & 1][wait.event]);
    self = {c.queue, queues[c.queue][c.queue] + 1, index, iteration};
    predicate = c.predicate;
    // A command that depends on the verdict looks at the verdict even where that tells it to do nothing.
    if (waits && afterVerdict(c.predicate) && !readVerdict(true))
      return false;
    if (runs && !access(c, kind))
      return false;
    now[c.queue] = self.ended;
    queues[c.queue] = now;
    if (c.signal >= 0)
      signals[iteration & 1][c.signal] = now;
    return true;
  }

  bool access(const Command &c, Iteration kind) {
    if (c.kind == CommandKind::Scalars && !readVerdict(false))
      return false;
    if (c.kind == CommandKind::Verdict) {
      verdictBefore = verdict.write;
      if (!write(verdict, kVerdict))
        return false;
    }
    std::vector<Range> operands = c.operands;
    for (Range &range : operands)
      if (auto other = pairs.exchanged(range)) {
        if (!knowsExchange(range))
          return false;
        range = kind.exchanged ? *other : range;
      }
    // Reads come first: in place, a command reads what it is about to overwrite.
    for (const Range &range : operands)
      if (range.access != Access::Write && !forEach(range.space, range.offset, range.bytes, [&](uint64_t at, Segment &segment) {
            return read(segment, segment.persistent, {range.space, at});
          }))
        return false;
    for (const Range &range : operands)
      if (range.access != Access::Read && range.bytes && !writeRange(range))
        return false;
    return true;
  }

  /// Which of a pair is which, the verdict of the step before says: that has been read.
  bool knowsExchange(const Range &range) {
    const Seen &said = verdict.write.iteration == iteration ? verdictBefore : verdict.write;
    if (ordered(said))
      return true;
    return race("touches", program.spaces[range.space].name + " [" + std::to_string(range.offset) + ", " + std::to_string(range.offset + range.bytes) + ")",
                "exchange", said);
  }

  bool readVerdict(bool mustBeWritten) { return read(verdict, verdict.persistent || !mustBeWritten, kVerdict); }

  bool ordered(const Seen &before) const {
    return before.ended == 0 || before.queue == self.queue || now[before.queue] >= before.ended;
  }

  /// In this iteration, whenever the current command runs. What a dropped step restores has been speculated.
  bool isWritten(const Segment &segment) const {
    int kind = speculative(predicate);
    return segment.written == self.iteration || (kind >= 0 && segment.perhaps[kind] == self.iteration) ||
           (predicate == Predicate::Restore && segment.perhaps[0] == self.iteration);
  }

  bool read(Segment &segment, bool persistent, Place what) {
    if (!persistent && !isWritten(segment))
      return error = name(self) + " reads " + text(what, segment) + ", which nothing has written in this iteration", false;
    if (!ordered(segment.write))
      return race("reads", text(what, segment), "write", segment.write);
    // It would see whether the step was speculated.
    if (persistent && predicate != Predicate::Speculate && segment.write.ended && segment.write.iteration == self.iteration &&
        list[segment.write.command].predicate == Predicate::Speculate)
      return error = name(self) + " reads " + text(what, segment) + ", which " + name(segment.write) + " has only written if the step is speculated", false;
    for (Seen &read : segment.reads)
      if (read.queue == self.queue)
        return read = self, true;
    segment.reads.push_back(self);
    return true;
  }

  bool write(Segment &segment, Place what) {
    if (!ordered(segment.write))
      return race("writes", text(what, segment), "write", segment.write);
    for (const Seen &read : segment.reads)
      if (!ordered(read))
        return race("writes", text(what, segment), "read", read);
    int kind = speculative(predicate);
    auto by = [&](Predicate other) { return segment.write.ended && segment.write.iteration == self.iteration && list[segment.write.command].predicate == other; };
    segment.redone = predicate == Predicate::Redo && (by(Predicate::Speculate) || (by(Predicate::Redo) && segment.redone));
    segment.write = self;
    segment.reads.clear();
    (kind < 0 ? segment.written : segment.perhaps[kind]) = self.iteration;
    return true;
  }

  bool writeRange(const Range &range) {
    if (!forEach(range.space, range.offset, range.bytes,
                 [&](uint64_t at, Segment &segment) { return write(segment, {range.space, at}); }))
      return false;
    // All of it has one history now: join what need not be told apart.
    auto &map = bytes[range.space];
    for (auto it = map.find(range.offset), next = std::next(it); it->second.end < range.offset + range.bytes; next = std::next(it)) {
      if (!next->second.sameBut(it->second)) {
        it = next;
        continue;
      }
      it->second.end = next->second.end;
      map.erase(next);
    }
    return true;
  }

  /// Calls `visit` for the segments that make up [offset, offset + size), after cutting them to fit.
  template <typename F> bool forEach(uint32_t space, uint64_t offset, uint64_t size, F visit) {
    if (size == 0)
      return true;
    auto &map = bytes[space];
    cut(map, offset);
    cut(map, offset + size);
    for (uint64_t at = offset, end = offset + size; at < end;) {
      auto it = map.lower_bound(at);
      if (it == map.end() || it->first > at) { // never touched so far
        Segment fresh;
        fresh.end = it == map.end() ? end : std::min(end, it->first);
        it = map.emplace_hint(it, at, fresh);
      }
      if (!visit(at, it->second))
        return false;
      at = it->second.end;
    }
    return true;
  }

  static void cut(std::map<uint64_t, Segment> &map, uint64_t at) {
    auto it = map.lower_bound(at);
    if (it == map.begin())
      return;
    --it;
    if (it->first >= at || it->second.end <= at)
      return;
    Segment tail = it->second;
    it->second.end = at;
    map.emplace(at, tail);
  }

  std::string name(const Seen &seen) const {
    return "command " + std::to_string(seen.command) + " " + quoted(list[seen.command].label) + " (" +
           program.queues[seen.queue].name + ")";
  }
  std::string text(Place what, const Segment &segment) const {
    if (what.space == kVerdict.space)
      return "the verdict";
    return program.spaces[what.space].name + " [" + std::to_string(what.begin) + ", " + std::to_string(segment.end) + ")";
  }
  bool race(const char *does, const std::string &what, const char *did, const Seen &other) {
    int32_t distance = self.iteration - other.iteration;
    error = "race: " + name(self) + " " + does + " " + what + " while " + name(other) +
            (distance == 0   ? " of the same iteration"
             : distance == 1 ? " of the previous iteration"
                             : " of " + std::to_string(distance) + " iterations before") +
            " may still " + did + " it";
    return false;
  }

  const Program &program;
  const Pairs pairs;
  const std::vector<Command> &list;
  std::string &error;

  std::vector<std::map<uint64_t, Segment>> bytes; ///< by space; key: first byte
  Segment verdict;
  Seen verdictBefore;                             ///< the write of the step before that of `verdict`
  std::vector<Clock> queues;                      ///< after the last command of each queue
  std::vector<Clock> signals[2];                  ///< by iteration modulo 2 and event
  Clock now;                                      ///< what has ended when the current command starts
  Seen self;
  Predicate predicate = Predicate::Always;        ///< of the current command
  int32_t iteration = 0;
};

} // namespace

bool forebay::verifyProgram(const Program &program, std::string &error) {
  if (!StructureCheck(program, error).run())
    return false;
  // Micro-steps beyond four add nothing: any path of waits through one middle micro-step exists through more of them.
  // Two steps and one micro-step more show every pair across the boundary.
  // A command that speculates counts as running, and so does what makes it good: more accesses under the same waits.
  uint32_t micro = std::min(program.accumulate, 4u);
  bool exchanges = !Pairs(program).empty();
  for (bool first : {true, false})
    for (bool second : {true, false}) {
      if (first != second && !exchanges) // what an applied step leaves is then where a dropped one leaves it
        continue;
      std::vector<Iteration> iterations;
      const bool applied[] = {first, second, first}, exchanged[] = {false, first, first != second};
      for (uint32_t i = 0; i < 2 * micro + 1; ++i)
        iterations.push_back({i % micro == 0, i % micro == micro - 1, applied[i / micro], exchanged[i / micro]});
      Sweep sweep(program, program.step, error);
      sweep.markPersistent();
      if (!sweep.run(iterations))
        return false;
    }
  // A flush starts when all queues are idle, on whatever the last step left.
  Sweep flush(program, program.flush, error);
  flush.startIdle();
  return flush.run({{true, true, true, false}});
}
