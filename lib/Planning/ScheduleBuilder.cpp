//===- ScheduleBuilder.cpp - Decisions become operations on buffers -------===//
//
// Walks the step once. Forward and backward stay in their order, with the placement's fetches and offloads between them; what belongs to a bucket (copy of
// its gradients, accumulation, partial norms) follows the operation that completes it; verdict and updates come last, buckets whose weights the next
// forward needs first in front.
//
//===----------------------------------------------------------------------===//

#include "forebay/Planning/Packer.h"
#include "forebay/Planning/Schedule.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

using namespace forebay;
using namespace forebay::planning;

namespace {

class Builder {
public:
  Builder(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
          const Placement &placement, std::string &error)
      : problem(problem), trained(trained), machine(machine), placement(placement), error(error),
        where(problem.values.size(), std::vector<int32_t>(machine.spaces.size(), -1)), emitted(problem.ops.size()),
        buckets(placement.buckets.size()) {
    lastMicro = problem.accumulate > 1 ? Predicate::LastMicro : Predicate::Always;
    for (const TrainedParameter &p : trained)
      isGradient.insert(p.gradient);
    for (const ProblemArgument &argument : problem.arguments)
      isArgument.insert(argument.value);
  }

  Schedule run() {
    makeArguments();
    for (uint32_t i = 0; i < placement.buckets.size(); ++i)
      buckets[i] = i;
    sortBuckets([&](uint32_t b) { return placement.buckets[b].completeAt; });
    size_t ready = 0;
    for (const ProblemOutput &output : problem.outputs)
      outputsOf[output.value].push_back(&output - problem.outputs.data());
    schedule.outputs.resize(problem.outputs.size());
    for (const ProblemArgument &argument : problem.arguments)
      report(argument.value);
    indexMoves();
    size_t fetched = 0;
    for (uint32_t i = 0; i < problem.ops.size(); ++i) {
      for (; fetched < placement.fetches.size() && placement.fetches[fetched].before <= i; ++fetched)
        fetch(placement.fetches[fetched]);
      if (problem.ops[i].kind == OpKind::Compute)
        compute(i);
      for (uint32_t value : offloadsAfter[i])
        offload(value);
      for (uint32_t value : dropsAfter[i])
        where[value][machine.computeSpace] = -1;
      for (; ready < buckets.size() && placement.buckets[buckets[ready]].completeAt <= i; ++ready)
        gradientsComplete(buckets[ready]);
    }
    verdict();
    sortBuckets([&](uint32_t b) { return placement.buckets[b].firstUse; });
    for (uint32_t bucket : buckets)
      update(bucket);
    for (const ProblemArgument &argument : problem.arguments)
      if (argument.donated >= 0 && where[argument.donated] != where[argument.value])
        fail("the new value of '" + problem.values[argument.value].label + "' is not computed in place over it");
    renumber();
    return std::move(schedule);
  }

private:
  template <typename Key> void sortBuckets(Key key) {
    std::sort(buckets.begin(), buckets.end(),
              [&](uint32_t a, uint32_t b) { return std::make_pair(key(a), a) < std::make_pair(key(b), b); });
  }

  //===--------------------------------------------------------------------===//
  // Buffers
  //===--------------------------------------------------------------------===//

  uint32_t addBuffer(std::string label, Role role, uint32_t space, uint64_t bytes) {
    Buffer buffer;
    buffer.label = std::move(label);
    buffer.role = role;
    buffer.space = space;
    buffer.bytes = bytes;
    schedule.buffers.push_back(std::move(buffer));
    return schedule.buffers.size() - 1;
  }

  /// The buffer that `value` gets in `space`; new if it has none.
  uint32_t define(uint32_t value, uint32_t space, Role role) {
    int32_t &at = where[value][space];
    if (at < 0) {
      at = addBuffer(problem.values[value].label, role, space, problem.values[value].bytes);
      schedule.buffers[at].value = value;
    }
    return at;
  }

  void makeArguments() {
    for (uint32_t i = 0; i < problem.arguments.size(); ++i) {
      uint32_t value = problem.arguments[i].value;
      const ArgumentPlacement &place = placement.arguments[i];
      uint32_t home = define(value, place.home, problem.values[value].role);
      schedule.buffers[home].persistent = true;
      schedule.buffers[home].argument = i;
      if (place.source == WeightSource::Copy && place.home != machine.computeSpace) {
        uint32_t copy = define(value, machine.computeSpace, Role::WeightCopy);
        schedule.buffers[copy].persistent = true;
        schedule.buffers[copy].copyOf = home;
      }
    }
    // The compute queue takes the rows: the next iteration's feed must not stand behind weights in a copy queue.
    for (const ProblemArgument &argument : problem.arguments)
      if (problem.values[argument.value].role == Role::Input) {
        uint32_t buffer = anywhere(argument.value);
        ScheduledOp &op = addOp(CommandKind::Feed, machine.computeQueue, "feed " + problem.values[argument.value].label);
        op.index = buffer;
        op.operands = {whole(buffer, Access::Write)};
      }
  }

  uint32_t anywhere(uint32_t value) const {
    for (int32_t buffer : where[value])
      if (buffer >= 0)
        return buffer;
    assert(false && "value without a place");
    return 0;
  }

  BufferRange whole(uint32_t buffer, Access access) const { return {buffer, 0, schedule.buffers[buffer].bytes, access}; }

  /// `value` in `space`, copied there if it is elsewhere.
  uint32_t need(uint32_t value, uint32_t space, Predicate predicate, Phase phase) {
    if (where[value][space] >= 0)
      return where[value][space];
    uint32_t from = anywhere(value);
    uint32_t to = define(value, space, schedule.buffers[from].role);
    ScheduledOp &op = addOp(CommandKind::Copy, copyQueue(schedule.buffers[from].space, space), "copy " + problem.values[value].label);
    op.predicate = predicate;
    op.phase = phase;
    op.operands = {whole(from, Access::Read), whole(to, Access::Write)};
    return to;
  }

  uint32_t copyQueue(uint32_t from, uint32_t to) const {
    if (from == to)
      return to == machine.computeSpace ? machine.computeQueue : machine.hostQueue;
    return to == machine.computeSpace ? machine.toCompute : machine.toHost;
  }

  //===--------------------------------------------------------------------===//
  // Operations
  //===--------------------------------------------------------------------===//

  ScheduledOp &addOp(CommandKind kind, uint32_t queue, std::string label) {
    ScheduledOp op;
    op.kind = kind;
    op.queue = queue;
    op.label = std::move(label);
    schedule.ops.push_back(std::move(op));
    return schedule.ops.back();
  }

  ScheduledOp &addDispatch(uint32_t i, uint32_t queue, Predicate predicate) {
    const ProblemOp &from = problem.ops[i];
    ScheduledOp &op = addOp(CommandKind::Dispatch, queue, from.label);
    op.predicate = predicate;
    op.op = i;
    op.kernel = from.kernel;
    op.params = from.params;
    op.tiles = from.tiles;
    op.scratch = from.scratch;
    op.phase = from.phase;
    op.cost = from.cost;
    emitted[i] = true;
    return op;
  }

  /// A dispatch on whole buffers in one space.
  void dispatch(uint32_t i, uint32_t queue, uint32_t space, Predicate predicate) {
    const ProblemOp &from = problem.ops[i];
    std::vector<BufferRange> operands;
    for (uint32_t operand : from.operands)
      operands.push_back(whole(need(operand, space, predicate, from.phase), Access::Read));
    std::vector<int32_t> inplace(operands.size(), -1);
    for (size_t r = 0; r < from.results.size(); ++r) {
      uint32_t result = from.results[r];
      Role role = isGradient.count(result) ? Role::Gradient : problem.values[result].role;
      operands.push_back(whole(define(result, space, role), Access::Write));
      inplace.push_back(r < from.inplace.size() ? from.inplace[r] : -1);
    }
    if (from.workspace)
      operands.push_back(whole(addBuffer(from.label + " workspace", Role::Workspace, space, from.workspace), Access::Write));
    ScheduledOp &op = addDispatch(i, queue, predicate);
    op.operands = std::move(operands);
    op.inplace = std::move(inplace);
    for (uint32_t result : from.results)
      report(result);
  }

  //===--------------------------------------------------------------------===//
  // What comes and goes
  //===--------------------------------------------------------------------===//

  void indexMoves() {
    offloadsAfter.resize(problem.ops.size());
    dropsAfter.resize(problem.ops.size());
    for (const Offload &offload : placement.offloads)
      offloadsAfter[offload.after].push_back(offload.value);
    for (const Fetch &fetch : placement.fetches)
      for (const Fetch::Part &part : fetch.parts)
        dropsAfter[part.last].push_back(part.value);
  }

  /// A buffer of its own for each stay, so that its bytes are free in between.
  void fetch(const Fetch &fetch) {
    std::vector<BufferRange> pairs;
    for (const Fetch::Part &part : fetch.parts) {
      int32_t from = where[part.value][machine.hostSpace], &to = where[part.value][machine.computeSpace];
      if (to >= 0 && isArgument.count(part.value)) // a gradient that nothing computes may have been needed there already
        continue;
      if (from < 0 || to >= 0)
        return fail("'" + problem.values[part.value].label + "' is fetched while it is " + (from < 0 ? "not on the host" : "there"));
      define(part.value, machine.computeSpace, isArgument.count(part.value) ? Role::WeightCopy : schedule.buffers[from].role);
      pairs.push_back(whole(from, Access::Read));
      pairs.push_back(whole(to, Access::Write));
    }
    if (pairs.empty())
      return;
    std::string label = "fetch " + problem.values[fetch.parts[0].value].label;
    if (fetch.parts.size() > 1)
      label += " and " + std::to_string(fetch.parts.size() - 1) + " more";
    addCopy(machine.toCompute, std::move(label), Predicate::Always, problem.ops[fetch.parts[0].first].phase, std::move(pairs));
  }

  void offload(uint32_t value) {
    int32_t from = where[value][machine.computeSpace];
    if (from < 0 || where[value][machine.hostSpace] >= 0)
      return fail("'" + problem.values[value].label + "' is offloaded while it is not in the compute space only");
    uint32_t to = define(value, machine.hostSpace, schedule.buffers[from].role);
    addCopy(machine.toHost, "offload " + problem.values[value].label, Predicate::Always, Phase::Forward,
            {whole(from, Access::Read), whole(to, Access::Write)});
    where[value][machine.computeSpace] = -1;
  }

  void compute(uint32_t i) { dispatch(i, machine.computeQueue, machine.computeSpace, Predicate::Always); }

  /// Reports `value` if it is an output of the program.
  void report(uint32_t value) {
    auto it = outputsOf.find(value);
    if (it == outputsOf.end())
      return;
    uint32_t buffer = anywhere(value);
    for (uint32_t output : it->second) {
      const ProblemOutput &from = problem.outputs[output];
      schedule.outputs[output] = {from.name, from.role, buffer};
      ScheduledOp &op = addOp(CommandKind::Report, machine.offloads() ? machine.toHost : machine.hostQueue, "report " + from.name);
      op.index = output;
      op.operands = {whole(buffer, Access::Read)};
    }
  }

  //===--------------------------------------------------------------------===//
  // Gradients
  //===--------------------------------------------------------------------===//

  static BufferRange part(uint32_t buffer, const Piece &piece, Access access) {
    return {buffer, piece.first * 4, piece.count * 4, access};
  }
  const TrainedParameter &of(const Piece &piece) const { return trained[piece.parameter]; }

  /// The first time that these elements of `value` are to be copied; equal gradients of two parameters are one value.
  bool firstCopy(uint32_t value, const Piece &piece) { return copied.insert({value, piece.first}).second; }

  void gradientsComplete(uint32_t index) {
    const Bucket &bucket = placement.buckets[index];
    uint32_t space = placement.bucketPlacements[index].gradientSpace, queue = queueOf(space);
    std::string name = "bucket " + std::to_string(index);
    if (problem.accumulate == 1) {
      if (space != machine.computeSpace)
        copyGradients(bucket, space, name);
    } else {
      accumulate(bucket, space, queue, name);
    }
    for (const Piece &piece : bucket.pieces)
      normPartials(piece, space, queue);
  }

  uint32_t queueOf(uint32_t space) const { return space == machine.computeSpace ? machine.computeQueue : machine.hostQueue; }

  void copyGradients(const Bucket &bucket, uint32_t space, const std::string &name) {
    std::vector<BufferRange> pairs;
    for (const Piece &piece : bucket.pieces) {
      uint32_t value = of(piece).gradient;
      if (isArgument.count(value)) { // nothing computes it: one copy for all pieces, if it is not there anyway
        need(value, space, Predicate::Always, Phase::Backward);
        continue;
      }
      if (!firstCopy(value, piece))
        continue;
      pairs.push_back(part(where[value][machine.computeSpace], piece, Access::Read));
      pairs.push_back(part(define(value, space, Role::Gradient), piece, Access::Write));
    }
    addCopy(machine.toHost, "gradients of " + name, Predicate::Always, Phase::Backward, std::move(pairs));
  }

  void addCopy(uint32_t queue, std::string label, Predicate predicate, Phase phase, std::vector<BufferRange> pairs) {
    if (pairs.empty())
      return;
    ScheduledOp &op = addOp(CommandKind::Copy, queue, std::move(label));
    op.predicate = predicate;
    op.phase = phase;
    op.operands = std::move(pairs);
  }

  /// First micro-step: the accumulator becomes the gradient. Later: the gradient is added, through staging memory if it is elsewhere.
  void accumulate(const Bucket &bucket, uint32_t space, uint32_t queue, const std::string &name) {
    std::vector<BufferRange> first, later;
    std::map<std::pair<uint32_t, uint64_t>, BufferRange> staged;
    bool moves = space != machine.computeSpace;
    for (const Piece &piece : bucket.pieces) {
      uint32_t gradient = need(of(piece).gradient, machine.computeSpace, Predicate::Always, Phase::Accumulate);
      uint32_t accumulator = accumulatorOf(piece, space);
      first.push_back(part(gradient, piece, Access::Read));
      first.push_back(part(accumulator, piece, Access::Write));
      if (!moves || staged.count({gradient, piece.first}))
        continue;
      uint32_t staging = addBuffer(schedule.buffers[gradient].label + " staged", Role::Staging, space, piece.count * 4);
      later.push_back(part(gradient, piece, Access::Read));
      later.push_back(whole(staging, Access::Write));
      staged[{gradient, piece.first}] = whole(staging, Access::Read);
    }
    uint32_t copyQueue = moves ? machine.toHost : queue;
    addCopy(copyQueue, "gradients of " + name, Predicate::FirstMicro, Phase::Accumulate, std::move(first));
    addCopy(copyQueue, "gradients of " + name + " to be added", Predicate::LaterMicro, Phase::Accumulate, std::move(later));
    for (const Piece &piece : bucket.pieces) {
      uint32_t i = of(piece).accumulate, gradient = where[of(piece).gradient][machine.computeSpace];
      uint32_t accumulator = accumulatorOf(piece, space);
      ScheduledOp &op = addDispatch(i, queue, Predicate::LaterMicro);
      op.operands = {part(accumulator, piece, Access::Read),
                     moves ? staged[{gradient, piece.first}] : part(gradient, piece, Access::Read),
                     part(accumulator, piece, Access::Write)};
      op.phase = Phase::Accumulate;
      split(op, piece, 0);
    }
  }

  uint32_t accumulatorOf(const Piece &piece, uint32_t space) {
    const TrainedParameter &p = of(piece);
    int32_t buffer = where[problem.arguments[p.accumulator].value][space];
    assert(buffer >= 0 && "accumulators live where gradients are summed");
    // In place: the sum is the accumulator's new value.
    where[problem.ops[p.accumulate].results[0]][space] = buffer;
    return buffer;
  }

  /// Norm of what has arrived of a gradient, in whole groups of 16 blocks: kernels take operands that are aligned to 64 bytes, and a group's
  /// partial sums are that many.
  void normPartials(const Piece &arrived, uint32_t space, uint32_t queue) {
    constexpr uint64_t kBlock = 1024, kGroup = kBlock * kAlignment / 4;
    if (of(arrived).norm < 0)
      return;
    uint32_t i = of(arrived).norm;
    uint64_t &from = normed[i]; // equal gradients of two parameters are one value: the second finds all done
    uint64_t end = arrived.first + arrived.count;
    if (end < of(arrived).elements)
      end -= end % kGroup;
    if (end <= from)
      return;
    Piece piece{arrived.parameter, from, end - from};
    from = end;
    const ProblemOp &norm = problem.ops[i];
    uint32_t gradient = where[norm.operands[0]][space];
    uint32_t partials = define(norm.results[0], space, Role::Control);
    ScheduledOp &op = addDispatch(i, queue, lastMicro);
    op.operands = {part(gradient, piece, Access::Read),
                   {partials, piece.first / kBlock * 4, (piece.count + kBlock - 1) / kBlock * 4, Access::Write}};
    op.parameter = anywhereHome(piece);
    split(op, piece, 0);
  }

  uint32_t anywhereHome(const Piece &piece) const {
    uint32_t argument = of(piece).argument;
    return where[problem.arguments[argument].value][placement.arguments[argument].home];
  }

  bool isWhole(const Piece &piece) const { return piece.count == of(piece).elements; }

  /// Makes the block of a splittable kernel that of `piece`; `count`: where it holds the number of elements.
  void split(ScheduledOp &op, const Piece &piece, size_t count) {
    if (isWhole(piece))
      return;
    const size_t perTile = 2;
    assert(op.params.size() > perTile && op.params[perTile] > 0 && "a kernel that can be split says its elements per tile");
    op.params[count] = piece.count;
    op.tiles = {static_cast<int64_t>((piece.count + op.params[perTile] - 1) / op.params[perTile])};
    double share = static_cast<double>(piece.count) / of(piece).elements;
    op.cost.flops *= share;
    op.cost.bytes = static_cast<uint64_t>(op.cost.bytes * share);
  }

  //===--------------------------------------------------------------------===//
  // Verdict and update
  //===--------------------------------------------------------------------===//

  void verdict() {
    // Before the verdict: they are evaluated for the step that it may apply.
    for (uint32_t i = 0; i < problem.ops.size(); ++i) {
      const ProblemOp &from = problem.ops[i];
      if (from.kind != OpKind::Scalars)
        continue;
      uint32_t buffer = define(from.results[0], machine.hostSpace, Role::Control);
      ScheduledOp &op = addOp(CommandKind::Scalars, machine.hostQueue, from.label);
      op.predicate = lastMicro;
      op.op = i;
      op.index = from.group;
      op.phase = Phase::Update;
      op.operands = {whole(buffer, Access::Write)};
    }
    bool anyOnHost = false;
    for (const BucketPlacement &bucket : placement.bucketPlacements)
      anyOnHost |= bucket.gradientSpace == machine.hostSpace;
    uint32_t space = anyOnHost ? machine.hostSpace : machine.computeSpace;
    for (uint32_t i = 0; i < problem.ops.size(); ++i) {
      const ProblemOp &from = problem.ops[i];
      if (from.kind == OpKind::NormPartials && !emitted[i]) // of something that no update reads
        dispatch(i, queueOf(space), space, lastMicro);
      if (from.kind != OpKind::Verdict)
        continue;
      dispatch(i, queueOf(space), space, lastMicro);
      uint32_t buffer = need(from.results[0], machine.hostSpace, lastMicro, from.phase);
      ScheduledOp &op = addOp(CommandKind::Verdict, machine.hostQueue, "verdict");
      op.predicate = lastMicro;
      op.phase = Phase::Verdict;
      op.operands = {whole(buffer, Access::Read)};
      schedule.verdict = buffer;
    }
  }

  void update(uint32_t index) {
    const Bucket &bucket = placement.buckets[index];
    const BucketPlacement &place = placement.bucketPlacements[index];
    std::vector<BufferRange> fresh;
    for (const Piece &piece : bucket.pieces) {
      const TrainedParameter &p = of(piece);
      updatePiece(piece, place);
      const ArgumentPlacement &home = placement.arguments[p.argument];
      if (home.source != WeightSource::Copy || home.home == machine.computeSpace)
        continue;
      uint32_t value = problem.arguments[p.argument].value;
      fresh.push_back(part(where[value][home.home], piece, Access::Read));
      fresh.push_back(part(where[value][machine.computeSpace], piece, Access::Write));
    }
    addCopy(machine.toCompute, "weights of bucket " + std::to_string(index), Predicate::Apply, Phase::Update, std::move(fresh));
    for (const Piece &piece : bucket.pieces) {
      const TrainedParameter &p = of(piece);
      const ProblemOp &from = problem.ops[p.update];
      where[from.results[0]] = where[from.operands[0]];
      for (size_t s = 0; s < p.states.size(); ++s)
        where[from.results[1 + s]] = where[problem.arguments[p.states[s]].value];
    }
  }

  void updatePiece(const Piece &piece, const BucketPlacement &place) {
    const TrainedParameter &p = of(piece);
    const ProblemOp &from = problem.ops[p.update];
    uint32_t space = place.gradientSpace;
    size_t operands = from.operands.size(), elementwise = operands - 2; // scalars and verdict are not split
    std::vector<BufferRange> ranges;
    for (size_t o = 0; o < operands; ++o) {
      bool isState = o != 1;
      if (o < elementwise && isState && where[from.operands[o]][space] < 0)
        return fail("update '" + from.label + "' runs beside " + machine.spaces[space].name + ", where its parameter or a state is not");
      uint32_t buffer = need(from.operands[o], space, o < elementwise ? Predicate::Always : lastMicro, Phase::Update);
      ranges.push_back(o < elementwise ? part(buffer, piece, Access::Read) : whole(buffer, Access::Read));
    }
    for (size_t r = 0; r < from.results.size(); ++r) {
      // Result 0 is over the parameter, result i over state i.
      int32_t wanted = r == 0 ? 0 : r + 1;
      if (r >= from.inplace.size() || from.inplace[r] != wanted)
        return fail("update '" + from.label + "' does not work in place over its parameter and states");
      BufferRange range = ranges[wanted];
      range.access = Access::Write;
      ranges.push_back(range);
    }
    ScheduledOp &op = addDispatch(p.update, place.updateQueue, Predicate::Apply);
    op.operands = std::move(ranges);
    op.parameter = anywhereHome(piece);
    op.phase = Phase::Update;
    split(op, piece, 1);
  }

  /// Numbers buffers as a reader of level async meets them, so that both lay them out alike: arguments, copies of arguments, then in the order of use.
  void renumber() {
    constexpr uint32_t kNone = ~0u;
    std::vector<uint32_t> order, number(schedule.buffers.size(), kNone);
    for (bool arguments : {true, false})
      for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
        if (schedule.buffers[b].persistent && (schedule.buffers[b].argument >= 0) == arguments)
          order.push_back(b);
    auto key = [&](uint32_t b) { return std::make_pair(static_cast<uint32_t>(schedule.buffers[b].argument), b); };
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (size_t i = 0; i < order.size(); ++i)
      number[order[i]] = i;
    auto meet = [&](uint32_t buffer) {
      if (number[buffer] != kNone)
        return;
      number[buffer] = order.size();
      order.push_back(buffer);
    };
    for (const ScheduledOp &op : schedule.ops)
      for (bool reads : {true, false})
        for (const BufferRange &range : op.operands)
          if ((range.access == Access::Read) == reads)
            meet(range.buffer);
    for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
      meet(b);

    std::vector<Buffer> buffers;
    for (uint32_t b : order)
      buffers.push_back(std::move(schedule.buffers[b]));
    schedule.buffers = std::move(buffers);
    auto change = [&](auto &index) {
      if (static_cast<int64_t>(index) >= 0)
        index = number[index];
    };
    for (Buffer &buffer : schedule.buffers)
      change(buffer.copyOf);
    for (ScheduledOp &op : schedule.ops) {
      for (BufferRange &range : op.operands)
        change(range.buffer);
      change(op.parameter);
      if (op.kind == CommandKind::Feed)
        change(op.index);
    }
    for (ScheduledOutput &output : schedule.outputs)
      change(output.buffer);
    change(schedule.verdict);
  }

  void fail(std::string why) {
    if (error.empty())
      error = std::move(why);
  }

  const Problem &problem;
  const std::vector<TrainedParameter> &trained;
  const Machine &machine;
  const Placement &placement;
  std::string &error;
  Schedule schedule;
  Predicate lastMicro;
  std::vector<std::vector<int32_t>> where; ///< by value and space: buffer, or -1
  std::vector<bool> emitted;
  std::vector<std::vector<uint32_t>> offloadsAfter, dropsAfter; ///< by operation: values
  std::vector<uint32_t> buckets; ///< in the order of the current part of the step
  std::map<uint32_t, std::vector<uint32_t>> outputsOf;
  std::set<uint32_t> isGradient, isArgument; ///< values
  std::set<std::pair<uint32_t, uint64_t>> copied; ///< value, first element of a piece
  std::map<uint32_t, uint64_t> normed;            ///< NormPartials operation: elements that are done
};

} // namespace

Schedule planning::buildSchedule(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
                                 const Placement &placement, std::string &error) {
  assert(placement.arguments.size() == problem.arguments.size());
  assert(placement.buckets.size() == placement.bucketPlacements.size());
  return Builder(problem, trained, machine, placement, error).run();
}
