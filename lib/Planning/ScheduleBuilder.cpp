//===- ScheduleBuilder.cpp - The walk: buffers, compute, what comes and goes -===//

#include "ScheduleBuilder.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace forebay;
using namespace forebay::planning;

ScheduleBuilder::ScheduleBuilder(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement,
                                 std::string &error)
    : problem(problem), trained(trained), machine(machine), placement(placement), error(error),
      where(problem.values.size(), std::vector<int32_t>(machine.spaces.size(), -1)), emitted(problem.ops.size()), inPlace(problem.values.size()),
      buckets(placement.buckets.size()), shadowOf(problem.arguments.size(), -1) {
  lastMicro = problem.accumulate > 1 ? Predicate::LastMicro : Predicate::Always;
  for (const TrainedParameter &p : trained) {
    isGradient.insert(p.gradient);
    isGradient.insert(p.gradient32);
  }
  for (const ProblemArgument &argument : problem.arguments)
    isArgument.insert(argument.value);
  isWeight = isArgument;
  for (const ProblemOp &op : problem.ops)
    if (op.kind == OpKind::CastWeight)
      isWeight.insert(op.results[0]);
  for (const BucketPlacement &bucket : placement.bucketPlacements)
    normsOnDevice |= bucket.normOnDevice;
  schedule.copyPace = placement.copyPace;
  schedule.hold = placement.hold;
  weightOf.resize(problem.values.size());
  for (uint32_t v = 0; v < weightOf.size(); ++v)
    weightOf[v] = v;
  for (const ProblemOp &op : problem.ops)
    if (op.kind == OpKind::CastWeight)
      weightOf[op.operands[0]] = op.results[0];
  masterOf.assign(problem.values.size(), -1);
  for (uint32_t p = 0; p < trained.size(); ++p)
    if (trained[p].castWeight >= 0 && placement.arguments[trained[p].argument].source == WeightSource::FlowCast)
      masterOf[trained[p].weight] = p;
}

Schedule ScheduleBuilder::run() {
  makeArguments();
  makeShadows();
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
  indexSpeculation();
  size_t fetched = 0, recomputed = 0;
  for (uint32_t i = 0; i < problem.ops.size(); ++i) {
    for (; fetched < placement.fetches.size() && placement.fetches[fetched].before <= i; ++fetched)
      fetch(placement.fetches[fetched]);
    for (; recomputed < placement.recomputes.size() && placement.recomputes[recomputed].before <= i; ++recomputed)
      recompute(placement.recomputes[recomputed].op);
    if (problem.ops[i].kind == OpKind::Compute)
      compute(i);
    for (uint32_t value : offloadsAfter[i])
      offload(value);
    for (uint32_t value : dropsAfter[i])
      where[value][machine.computeSpace] = -1;
    for (; ready < buckets.size() && placement.buckets[buckets[ready]].completeAt <= i; ++ready)
      gradientsComplete(buckets[ready]);
    for (uint32_t bucket : speculatesAfter[i])
      speculate(bucket);
  }
  // Behind the verdict they would wait for it, and with them the weights that forward needs first.
  auto firstUse = [&](const auto &entry) { return std::make_pair(placement.buckets[entry.first].firstUse, entry.first); };
  std::sort(waitingUploads.begin(), waitingUploads.end(), [&](const auto &a, const auto &b) { return firstUse(a) < firstUse(b); });
  flushUploads(0);
  verdict();
  sortBuckets([&](uint32_t b) { return placement.buckets[b].firstUse; });
  settleSpeculation();
  for (uint32_t bucket : buckets)
    afterVerdict(bucket);
  for (const ProblemArgument &argument : problem.arguments)
    if (argument.donated >= 0 && where[argument.donated] != where[argument.value])
      fail("the new value of '" + problem.values[argument.value].label + "' is not computed in place over it");
  if (placement.updatesBlock)
    block();
  renumber();
  return std::move(schedule);
}

uint32_t ScheduleBuilder::addBuffer(std::string label, Role role, uint32_t space, uint64_t bytes) {
  Buffer buffer;
  buffer.label = std::move(label);
  buffer.role = role;
  buffer.space = space;
  buffer.bytes = bytes;
  schedule.buffers.push_back(std::move(buffer));
  return schedule.buffers.size() - 1;
}

uint32_t ScheduleBuilder::define(uint32_t value, uint32_t space, Role role) {
  int32_t &at = where[value][space];
  if (at < 0) {
    at = addBuffer(problem.values[value].label, role, space, problem.values[value].bytes);
    schedule.buffers[at].value = value;
  }
  return at;
}

void ScheduleBuilder::makeArguments() {
  for (uint32_t i = 0; i < problem.arguments.size(); ++i) {
    uint32_t value = problem.arguments[i].value;
    const ArgumentPlacement &place = placement.arguments[i];
    uint32_t home = define(value, place.home, problem.values[value].role);
    schedule.buffers[home].persistent = true;
    schedule.buffers[home].argument = i;
    uint32_t weight = weightOf[value];
    bool cast = weight != value, remote = place.home != machine.computeSpace;
    inPlace[weight] = remote && place.source == WeightSource::InPlace;
    // Forward and backward read the parameter itself, or a copy: because it is elsewhere, or because they compute in another type.
    bool below = place.source == WeightSource::Copy || place.source == WeightSource::Home;
    if (below && (cast || (remote && place.source == WeightSource::Copy)))
      makeCopy(weight, machine.computeSpace, home);
    else if (cast && masterOf[weight] < 0)
      makeCopy(weight, machine.hostSpace, home);
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

void ScheduleBuilder::makeCopy(uint32_t value, uint32_t space, uint32_t of) {
  uint32_t copy = define(value, space, Role::WeightCopy);
  schedule.buffers[copy].persistent = true;
  schedule.buffers[copy].copyOf = of;
}

/// Next values of what is updated before the verdict.
void ScheduleBuilder::makeShadows() {
  for (uint32_t b = 0; b < placement.buckets.size(); ++b) {
    if (placeOf(b).time != UpdateTime::Speculative)
      continue;
    for (const Piece &piece : placement.buckets[b].pieces) {
      std::vector<uint32_t> arguments = of(piece).states;
      arguments.push_back(of(piece).argument);
      for (uint32_t argument : arguments) {
        if (shadowOf[argument] >= 0)
          continue;
        uint32_t home = where[problem.arguments[argument].value][placement.arguments[argument].home];
        if (placement.undoInPlace) {
          shadowOf[argument] = home;
          continue;
        }
        uint32_t shadow = addBuffer(schedule.buffers[home].label + " next", Role::Shadow, schedule.buffers[home].space, schedule.buffers[home].bytes);
        schedule.buffers[shadow].persistent = true;
        schedule.buffers[shadow].copyOf = home;
        schedule.buffers[shadow].value = problem.arguments[argument].value;
        shadowOf[argument] = shadow;
      }
    }
  }
}

uint32_t ScheduleBuilder::anywhere(uint32_t value) const {
  for (int32_t buffer : where[value])
    if (buffer >= 0)
      return buffer;
  assert(false && "value without a place");
  return 0;
}

uint32_t ScheduleBuilder::need(uint32_t value, uint32_t space, Predicate predicate, Phase phase) {
  if (where[value][space] >= 0)
    return where[value][space];
  if (masterOf[value] >= 0) {
    fail("'" + problem.values[value].label + "' is cast from its master where a fetch brings it, and none does before it is read");
    return define(value, space, Role::WeightCopy);
  }
  uint32_t from = anywhere(value);
  uint32_t to = define(value, space, schedule.buffers[from].role);
  ScheduledOp &op = addOp(CommandKind::Copy, copyQueue(schedule.buffers[from].space, space), "copy " + problem.values[value].label);
  op.predicate = predicate;
  op.phase = phase;
  op.operands = {whole(from, Access::Read), whole(to, Access::Write)};
  return to;
}

uint32_t ScheduleBuilder::copyQueue(uint32_t from, uint32_t to) const {
  if (from == to)
    return to == machine.computeSpace ? machine.computeQueue : machine.hostQueue;
  return to == machine.computeSpace ? machine.toCompute : machine.toHost;
}

//===--------------------------------------------------------------------===//
// Operations
//===--------------------------------------------------------------------===//

ScheduledOp &ScheduleBuilder::addOp(CommandKind kind, uint32_t queue, std::string label) {
  ScheduledOp op;
  op.kind = kind;
  op.queue = queue;
  op.label = std::move(label);
  schedule.ops.push_back(std::move(op));
  return schedule.ops.back();
}

ScheduledOp &ScheduleBuilder::addDispatch(uint32_t i, uint32_t queue, Predicate predicate) {
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

void ScheduleBuilder::dispatch(uint32_t i, uint32_t queue, uint32_t space, Predicate predicate, bool again) {
  const ProblemOp &from = problem.ops[i];
  std::vector<BufferRange> operands;
  for (uint32_t operand : from.operands)
    operands.push_back(whole(inPlace[operand] ? where[operand][machine.hostSpace] : need(operand, space, predicate, from.phase), Access::Read));
  std::vector<int32_t> inplace(operands.size(), -1);
  for (size_t r = 0; r < from.results.size(); ++r) {
    uint32_t result = from.results[r];
    Role role = isGradient.count(result) ? Role::Gradient : problem.values[result].role;
    if (again) // the first one's bytes are free since its last reader
      where[result][space] = -1;
    operands.push_back(whole(define(result, space, role), Access::Write));
    inplace.push_back(r < from.inplace.size() ? from.inplace[r] : -1);
  }
  if (from.workspace)
    operands.push_back(whole(addBuffer(from.label + " workspace", Role::Workspace, space, from.workspace), Access::Write));
  ScheduledOp &op = addDispatch(i, queue, predicate);
  op.operands = std::move(operands);
  op.inplace = std::move(inplace);
  for (uint32_t result : from.results)
    if (!again)
      report(result);
}

//===--------------------------------------------------------------------===//
// What comes and goes
//===--------------------------------------------------------------------===//

void ScheduleBuilder::indexMoves() {
  offloadsAfter.resize(problem.ops.size());
  dropsAfter.resize(problem.ops.size());
  for (const Offload &offload : placement.offloads)
    offloadsAfter[offload.after].push_back(offload.value);
  for (const Fetch &fetch : placement.fetches)
    for (const Fetch::Part &part : fetch.parts)
      dropsAfter[part.last].push_back(part.value);
}

void ScheduleBuilder::fetch(const Fetch &fetch) {
  std::vector<BufferRange> pairs;
  std::vector<uint32_t> masters;
  std::string label = "fetch " + problem.values[fetch.parts[0].value].label;
  if (fetch.parts.size() > 1)
    label += " and " + std::to_string(fetch.parts.size() - 1) + " more";
  const Phase phase = problem.ops[fetch.parts[0].first].phase;
  for (const Fetch::Part &part : fetch.parts) {
    if (masterOf[part.value] >= 0) {
      if (where[part.value][machine.computeSpace] < 0)
        masters.push_back(masterOf[part.value]);
      continue;
    }
    int32_t from = where[part.value][machine.hostSpace], &to = where[part.value][machine.computeSpace];
    if (to >= 0 && isWeight.count(part.value)) // a gradient that nothing computes may have been needed there already
      continue;
    if (from < 0 || to >= 0)
      return fail("'" + problem.values[part.value].label + "' is fetched while it is " + (from < 0 ? "not on the host" : "there"));
    define(part.value, machine.computeSpace, isWeight.count(part.value) ? Role::WeightCopy : schedule.buffers[from].role);
    pairs.push_back(whole(from, Access::Read));
    pairs.push_back(whole(to, Access::Write));
  }
  addCopy(machine.fetchQueue(), label, Predicate::Always, phase, std::move(pairs));
  fetchMasters(masters, label, phase);
}

void ScheduleBuilder::fetchMasters(const std::vector<uint32_t> &parameters, const std::string &label, Phase phase) {
  constexpr uint64_t kPortion = 128ull << 20; // a link is as fast with less, and more would only take room
  uint64_t largest = 0;
  for (int32_t p : masterOf)
    largest = std::max(largest, p < 0 ? 0 : trained[p].elements * 4);
  const uint64_t portion = std::min(roundUp(largest), kPortion);
  struct Cast {
    Piece piece;
    BufferRange from;
  };
  std::vector<BufferRange> pairs;
  std::vector<Cast> casts;
  uint64_t used = 0;
  uint32_t slot = 0;
  auto send = [&] {
    addCopy(machine.fetchQueue(), label, Predicate::Always, phase, std::move(pairs));
    for (const Cast &cast : casts) {
      uint32_t weight = where[of(cast.piece).weight][machine.computeSpace];
      addCast(of(cast.piece).castWeight, cast.piece, sideQueue(), Predicate::Always, phase, cast.from, part(weight, cast.piece, Access::Write));
    }
    pairs.clear();
    casts.clear();
    used = 0;
  };
  for (uint32_t p : parameters) {
    define(trained[p].weight, machine.computeSpace, Role::WeightCopy);
    Piece piece{p, 0, 0};
    for (; piece.first < trained[p].elements; piece.first += piece.count) {
      // Casts begin at 64 bytes, also of the narrow weight.
      const uint64_t rest = trained[p].elements - piece.first, least = kAlignment / 2;
      if (used > 0 && (portion - used) / 4 < std::min(rest, least))
        send();
      if (used == 0)
        slot = ring("masters", 2, machine.computeSpace, portion);
      const uint64_t room = (portion - used) / 4;
      piece.count = rest <= room ? rest : room / least * least;
      BufferRange wide{slot, used, piece.count * 4, Access::Write};
      used += roundUp(wide.bytes);
      pairs.push_back(part(homeOf(piece), piece, Access::Read));
      pairs.push_back(wide);
      wide.access = Access::Read;
      casts.push_back({piece, wide});
    }
  }
  send();
}

void ScheduleBuilder::offload(uint32_t value) {
  int32_t from = where[value][machine.computeSpace];
  if (from < 0 || where[value][machine.hostSpace] >= 0)
    return fail("'" + problem.values[value].label + "' is offloaded while it is not in the compute space only");
  uint32_t to = define(value, machine.hostSpace, schedule.buffers[from].role);
  addCopy(machine.offloadQueue(), "offload " + problem.values[value].label, Predicate::Always, Phase::Forward,
          {whole(from, Access::Read), whole(to, Access::Write)});
  where[value][machine.computeSpace] = -1;
}

void ScheduleBuilder::compute(uint32_t i) { dispatch(i, machine.computeQueue, machine.computeSpace, Predicate::Always); }

void ScheduleBuilder::recompute(uint32_t op) {
  assert(problem.ops[op].kind == OpKind::Compute);
  dispatch(op, machine.computeQueue, machine.computeSpace, Predicate::Always, true);
  schedule.ops.back().recomputed = true;
  schedule.ops.back().phase = Phase::Backward;
}

void ScheduleBuilder::addCopy(uint32_t queue, std::string label, Predicate predicate, Phase phase, std::vector<BufferRange> pairs) {
  if (pairs.empty())
    return;
  ScheduledOp &op = addOp(CommandKind::Copy, queue, std::move(label));
  op.predicate = predicate;
  op.phase = phase;
  op.operands = std::move(pairs);
}

/// Systems that step between backward and forward: nothing of the next step begins before all weights are new.
void ScheduleBuilder::block() {
  ScheduledOp &op = addOp(CommandKind::Dispatch, machine.computeQueue, "all weights are there");
  op.phase = Phase::Update;
  for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
    if (schedule.buffers[b].persistent && (schedule.buffers[b].role == Role::WeightCopy || schedule.buffers[b].role == Role::Parameter))
      op.operands.push_back(whole(b, Access::Read));
}

void ScheduleBuilder::report(uint32_t value) {
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

void ScheduleBuilder::renumber() {
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

/// What is wrong with the pieces of all buckets, which are to be each element of each trained parameter once, or nothing.
static std::string unevenPieces(const Problem &problem, const std::vector<TrainedParameter> &trained, const Placement &placement) {
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> ranges(trained.size());
  auto nameOf = [&](uint32_t parameter) { return "'" + problem.values[problem.arguments[trained[parameter].argument].value].label + "'"; };
  auto elements = [](uint64_t from, uint64_t to) { return "elements [" + std::to_string(from) + ", " + std::to_string(to) + ") of "; };
  for (size_t b = 0; b < placement.buckets.size(); ++b)
    for (const Piece &piece : placement.buckets[b].pieces) {
      uint64_t end = piece.first + piece.count;
      if (piece.count == 0 && trained[piece.parameter].elements > 0)
        return "bucket " + std::to_string(b) + " has no elements of " + nameOf(piece.parameter);
      if (piece.first % kNormBlock)
        return "bucket " + std::to_string(b) + " has " + elements(piece.first, end) + nameOf(piece.parameter) + ", which do not begin at a multiple of " + std::to_string(kNormBlock);
      ranges[piece.parameter].push_back({piece.first, end});
    }
  for (uint32_t p = 0; p < trained.size(); ++p) {
    ranges[p].push_back({trained[p].elements, trained[p].elements});
    std::sort(ranges[p].begin(), ranges[p].end());
    uint64_t done = 0;
    for (auto [from, to] : ranges[p]) {
      if (from != done)
        return elements(std::min(from, done), std::max(from, done)) + nameOf(p) + (from > done ? " are in no bucket" : " are in two buckets");
      done = to;
    }
  }
  // Norms are taken of what is complete so far.
  std::vector<uint32_t> order(placement.buckets.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return placement.buckets[a].completeAt < placement.buckets[b].completeAt; });
  std::vector<uint64_t> next(trained.size());
  for (uint32_t b : order)
    for (const Piece &piece : placement.buckets[b].pieces) {
      if (piece.first != next[piece.parameter])
        return "bucket " + std::to_string(b) + " has " + elements(piece.first, piece.first + piece.count) + nameOf(piece.parameter) + ", and those in front of them are in a later one";
      next[piece.parameter] = piece.first + piece.count;
    }
  return "";
}

/// Decisions that contradict each other: a policy from elsewhere or a plan that somebody has changed may hold them. What is then wrong, or nothing.
static std::string contradiction(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement) {
  for (size_t b = 0; b < placement.buckets.size(); ++b) {
    const BucketPlacement &place = placement.bucketPlacements[b];
    std::string bucket = "bucket " + std::to_string(b);
    bool beside = place.gradientSpace == machine.computeSpace;
    uint32_t queue = place.updateQueue;
    if (queue != machine.hostQueue && !machine.onComputeEngine(queue))
      return bucket + " is updated on " + machine.queues[queue].name + ", which computes nothing";
    if (machine.offloads() && beside == (queue == machine.hostQueue))
      return bucket + " is updated on " + machine.queues[queue].name + ", and its gradients are in " + machine.spaces[place.gradientSpace].name;
    if (place.time == UpdateTime::Speculative && place.gradientWaits && !beside && problem.accumulate == 1)
      return bucket + " is updated before the verdict with gradients that wait for it";
    if (place.streamed && (!beside || problem.accumulate > 1))
      return bucket + " streams its state, but its gradients are " + (beside ? "summed over micro-steps beside it" : "on the host");
    for (const Piece &piece : placement.buckets[b].pieces) {
      const TrainedParameter &p = trained[piece.parameter];
      std::vector<uint32_t> arguments = p.states;
      arguments.push_back(p.argument);
      for (uint32_t argument : arguments)
        if (placement.arguments[argument].home != (place.streamed ? machine.hostSpace : place.gradientSpace))
          return bucket + (place.streamed ? " streams '" : " updates '") + problem.values[problem.arguments[argument].value].label + "', whose home is " +
                 machine.spaces[placement.arguments[argument].home].name + (place.streamed ? "" : ", beside its gradients in " + machine.spaces[place.gradientSpace].name);
      // Copies in the compute type, other than those of updates: nobody would renew them.
      const ArgumentPlacement &home = placement.arguments[p.argument];
      bool away = home.home != machine.computeSpace, read = p.firstUse < problem.ops.size();
      if (p.castWeight >= 0 && read && away && (home.source == WeightSource::Home || (place.streamed && home.source != WeightSource::Copy && home.source != WeightSource::FlowCast)))
        return bucket + (place.streamed ? " streams '" : " updates '") + problem.values[problem.arguments[p.argument].value].label + "' on " + machine.queues[queue].name +
               ", which leaves the copy that forward reads in " + machine.spaces[home.source == WeightSource::Home ? machine.computeSpace : machine.hostSpace].name + " as it was";
      if (problem.accumulate > 1 && p.accumulator >= 0 && placement.arguments[p.accumulator].home != place.gradientSpace)
        return bucket + " sums gradients in " + machine.spaces[place.gradientSpace].name + ", and the sums have their home elsewhere";
    }
  }
  return unevenPieces(problem, trained, placement);
}

Schedule planning::buildSchedule(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement,
                                 std::string &error) {
  assert(placement.arguments.size() == problem.arguments.size());
  assert(placement.buckets.size() == placement.bucketPlacements.size());
  if (error = contradiction(problem, trained, machine, placement); !error.empty())
    return {};
  return ScheduleBuilder(problem, trained, machine, placement, error).run();
}
