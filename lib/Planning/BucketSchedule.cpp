//===- BucketSchedule.cpp - Gradients, verdict, updates of buckets --------===//

#include "ScheduleBuilder.h"

#include <cassert>

using namespace forebay;
using namespace forebay::planning;

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

void ScheduleBuilder::gradientsComplete(uint32_t index) {
  const Bucket &bucket = placement.buckets[index];
  const BucketPlacement &place = placeOf(index);
  if (problem.accumulate > 1)
    accumulate(index);
  else if (place.gradientSpace != machine.computeSpace && !place.gradientWaits)
    copyGradients(index);
  bool onDevice = normsOnDevice && problem.accumulate == 1;
  uint32_t space = onDevice ? machine.computeSpace : place.gradientSpace;
  for (const Piece &piece : bucket.pieces)
    normPartials(piece, space, queueOf(space));
}

/// After which operation a bucket may speculate: its gradients are there, and nobody reads the weights again that the update brings new ones for.
void ScheduleBuilder::indexSpeculation() {
  speculatesAfter.resize(problem.ops.size());
  std::vector<uint32_t> lastRead(problem.values.size(), 0);
  auto reads = [&](uint32_t op, uint32_t at) {
    for (uint32_t operand : problem.ops[op].operands)
      lastRead[operand] = std::max(lastRead[operand], at);
  };
  for (uint32_t i = 0; i < problem.ops.size(); ++i)
    if (problem.ops[i].kind == OpKind::Compute)
      reads(i, i);
  for (const Recompute &again : placement.recomputes)
    reads(again.op, again.before);
  for (uint32_t b : buckets) {
    if (placeOf(b).time != UpdateTime::Speculative)
      continue;
    uint32_t at = placement.buckets[b].completeAt;
    for (const Piece &piece : placement.buckets[b].pieces)
      at = std::max(at, lastRead[of(piece).weight]);
    speculatesAfter[at].push_back(b);
  }
}

void ScheduleBuilder::speculate(uint32_t index) {
  update(index, Predicate::Speculate);
  waitingUploads.push_back({index, Predicate::Speculate});
  flushUploads(placement.uploadLag);
}

uint32_t ScheduleBuilder::gradientIn(const Piece &piece, uint32_t space) {
  const TrainedParameter &p = of(piece);
  int32_t buffer = where[p.gradient32][space];
  if (buffer < 0)
    buffer = where[p.gradient][space];
  if (buffer < 0 && isArgument.count(p.gradient)) // nothing computes it; it may flow
    return need(p.gradient, space, Predicate::Always, Phase::Backward);
  assert(buffer >= 0 && "the gradient is where its bucket says");
  return buffer;
}

void ScheduleBuilder::copyGradients(uint32_t index) {
  const BucketPlacement &place = placeOf(index);
  uint32_t space = place.gradientSpace;
  std::vector<BufferRange> pairs;
  int32_t staging = -1;
  uint64_t used = 0;
  for (const Piece &piece : placement.buckets[index].pieces) {
    const TrainedParameter &p = of(piece);
    if (isArgument.count(p.gradient)) { // nothing computes it: one copy for all pieces, if it is not there anyway
      need(p.gradient, space, Predicate::Always, Phase::Backward);
      continue;
    }
    if (!firstCopy(p.gradient, piece))
      continue;
    BufferRange from = part(where[p.gradient][machine.computeSpace], piece, Access::Read);
    bool castsHere = place.castOnDevice && p.castGradient >= 0;
    if (castsHere) {
      if (staging < 0)
        staging = ring("gradients in fp32", 2, machine.computeSpace, largestBucket());
      BufferRange wide{static_cast<uint32_t>(staging), used, piece.count * 4, Access::Write};
      used += roundUp(wide.bytes);
      addCast(p.castGradient, piece, sideQueue(), lastMicro, Phase::Backward, from, wide);
      from = {wide.buffer, wide.offset, wide.bytes, Access::Read};
    }
    pairs.push_back(from);
    pairs.push_back(part(define(castsHere ? p.gradient32 : p.gradient, space, Role::Gradient), piece, Access::Write));
  }
  addCopy(machine.toHost, "gradients of " + nameOf(index), place.gradientWaits ? lastMicro : Predicate::Always, Phase::Backward, std::move(pairs));
}

ScheduledOp &ScheduleBuilder::addCast(int32_t op, const Piece &piece, uint32_t queue, Predicate predicate, Phase phase, BufferRange from, BufferRange to) {
  ScheduledOp &cast = addDispatch(op, queue, predicate);
  cast.operands = {from, to};
  cast.phase = phase;
  split(cast, piece, 0);
  return cast;
}

/// First micro-step: the accumulator becomes the gradient. Later: the gradient is added, through staging memory if it is elsewhere.
void ScheduleBuilder::accumulate(uint32_t index) {
  const Bucket &bucket = placement.buckets[index];
  uint32_t space = placeOf(index).gradientSpace, queue = queueOf(space);
  std::vector<BufferRange> first, later;
  std::map<std::pair<uint32_t, uint64_t>, BufferRange> staged;
  bool moves = space != machine.computeSpace;
  std::vector<const Piece *> casted;
  for (const Piece &piece : bucket.pieces) {
    uint32_t gradient = need(of(piece).gradient, machine.computeSpace, Predicate::Always, Phase::Accumulate);
    uint32_t accumulator = accumulatorOf(piece, space);
    if (of(piece).castGradient >= 0) {
      casted.push_back(&piece);
    } else {
      first.push_back(part(gradient, piece, Access::Read));
      first.push_back(part(accumulator, piece, Access::Write));
    }
    if (!moves || staged.count({gradient, piece.first}))
      continue;
    BufferRange from = part(gradient, piece, Access::Read);
    uint32_t staging = addBuffer(schedule.buffers[gradient].label + " staged", Role::Staging, space, from.bytes);
    later.push_back(from);
    later.push_back(whole(staging, Access::Write));
    staged[{gradient, piece.first}] = whole(staging, Access::Read);
  }
  uint32_t copyQueue = moves ? machine.toHost : queue;
  addCopy(copyQueue, "gradients of " + nameOf(index), Predicate::FirstMicro, Phase::Accumulate, std::move(first));
  addCopy(copyQueue, "gradients of " + nameOf(index) + " to be added", casted.empty() ? Predicate::LaterMicro : Predicate::Always, Phase::Accumulate,
          std::move(later));
  auto arrived = [&](const Piece &piece) {
    uint32_t gradient = where[of(piece).gradient][machine.computeSpace];
    return moves ? staged[{gradient, piece.first}] : part(gradient, piece, Access::Read);
  };
  for (const Piece *piece : casted)
    addCast(of(*piece).castGradient, *piece, queue, Predicate::FirstMicro, Phase::Accumulate, arrived(*piece),
            part(accumulatorOf(*piece, space), *piece, Access::Write));
  for (const Piece &piece : bucket.pieces) {
    uint32_t accumulator = accumulatorOf(piece, space);
    ScheduledOp &op = addDispatch(of(piece).accumulate, queue, Predicate::LaterMicro);
    op.operands = {part(accumulator, piece, Access::Read), arrived(piece), part(accumulator, piece, Access::Write)};
    op.phase = Phase::Accumulate;
    split(op, piece, 0);
  }
}

uint32_t ScheduleBuilder::accumulatorOf(const Piece &piece, uint32_t space) {
  const TrainedParameter &p = of(piece);
  int32_t buffer = where[problem.arguments[p.accumulator].value][space];
  assert(buffer >= 0 && "accumulators live where gradients are summed");
  // In place: the sum is the accumulator's new value.
  where[problem.ops[p.accumulate].results[0]][space] = buffer;
  return buffer;
}

/// Norm of what has arrived of a gradient, in whole groups of 16 blocks: kernels take operands that are aligned to 64 bytes, and a group's
/// partial sums are that many.
void ScheduleBuilder::normPartials(const Piece &arrived, uint32_t space, uint32_t queue) {
  constexpr uint64_t kBlock = kNormBlock, kGroup = kBlock * kAlignment / 4;
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
  int32_t gradient = where[norm.operands[0]][space];
  if (gradient < 0)
    gradient = gradientIn(piece, space);
  uint32_t partials = define(norm.results[0], space, Role::Control);
  for (uint32_t other = 0; other < machine.spaces.size(); ++other)
    if (other != space && where[norm.results[0]][other] >= 0)
      return fail("partial norms of '" + norm.label + "' are taken in two memories");
  ScheduledOp &op = addDispatch(i, queue, lastMicro);
  op.operands = {part(gradient, piece, Access::Read),
                 {partials, piece.first / kBlock * 4, (piece.count + kBlock - 1) / kBlock * 4, Access::Write}};
  op.parameter = homeOf(piece);
  op.cost.bytes = op.cost.bytes * schedule.buffers[gradient].bytes / (of(piece).elements * 4);
  split(op, piece, 0);
}

uint32_t ScheduleBuilder::homeOf(const Piece &piece) const {
  uint32_t argument = of(piece).argument;
  return where[problem.arguments[argument].value][placement.arguments[argument].home];
}

void ScheduleBuilder::split(ScheduledOp &op, const Piece &piece, size_t count) {
  if (isWhole(piece))
    return;
  const size_t perTile = 2;
  double share = static_cast<double>(piece.count) / of(piece).elements;
  op.cost.flops *= share;
  op.cost.bytes = static_cast<uint64_t>(op.cost.bytes * share);
  if (op.params.empty()) // a cast, which has no kernel of its own yet
    return;
  assert(op.params.size() > perTile && op.params[perTile] > 0 && "a kernel that can be split says its elements per tile");
  op.params[count] = piece.count;
  op.tiles = {static_cast<int64_t>((piece.count + op.params[perTile] - 1) / op.params[perTile])};
}

//===----------------------------------------------------------------------===//
// Verdict
//===----------------------------------------------------------------------===//

/// Before the verdict: they are evaluated for the step that it may apply.
void ScheduleBuilder::scalars() {
  if (hasScalars)
    return;
  hasScalars = true;
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
}

void ScheduleBuilder::verdict() {
  scalars();
  bool anyOnHost = false, onDevice = normsOnDevice && problem.accumulate == 1;
  for (const BucketPlacement &bucket : placement.bucketPlacements)
    anyOnHost |= bucket.gradientSpace == machine.hostSpace;
  uint32_t space = anyOnHost && !onDevice ? machine.hostSpace : machine.computeSpace;
  for (uint32_t i = 0; i < problem.ops.size(); ++i) {
    const ProblemOp &from = problem.ops[i];
    if (from.kind == OpKind::NormPartials && !emitted[i]) // of something that no update reads
      dispatch(i, queueOf(space), space, lastMicro);
    if (from.kind != OpKind::Verdict)
      continue;
    dispatch(i, queueOf(space), space, lastMicro);
    uint32_t buffer = need(from.results[0], machine.hostSpace, lastMicro, from.phase);
    // The host's queue may still be busy with updates that speculate.
    ScheduledOp &op = addOp(CommandKind::Verdict, onDevice ? machine.toHost : machine.hostQueue, "verdict");
    op.predicate = lastMicro;
    op.phase = Phase::Verdict;
    op.operands = {whole(buffer, Access::Read)};
    schedule.verdict = buffer;
  }
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// What makes good a step that was not applied as assumed. Before any update after the verdict: mostly it is skipped, and a queue that skips late signals late.
void ScheduleBuilder::settleSpeculation() {
  for (uint32_t bucket : buckets)
    if (placeOf(bucket).time == UpdateTime::Speculative) {
      update(bucket, Predicate::Redo);
      upload(bucket, Predicate::Redo, false);
      upload(bucket, Predicate::Restore, true);
      restoreBeside(bucket);
    }
}

/// Weights in the compute type that updates have written on the way become those of the masters again.
void ScheduleBuilder::restoreBeside(uint32_t index) {
  const BucketPlacement &place = placeOf(index);
  for (const Piece &piece : placement.buckets[index].pieces)
    if (const TrainedParameter &p = of(piece); p.castWeight >= 0 && !place.streamed)
      if (int32_t copy = where[p.weight][place.gradientSpace]; copy >= 0 && schedule.buffers[copy].persistent)
        addCast(p.castWeight, piece, place.updateQueue, Predicate::Restore, Phase::Update, part(homeOf(piece), piece, Access::Read), part(copy, piece, Access::Write));
}

void ScheduleBuilder::afterVerdict(uint32_t index) {
  const BucketPlacement &place = placeOf(index);
  if (place.time != UpdateTime::Speculative) {
    if (place.gradientSpace != machine.computeSpace && place.gradientWaits && problem.accumulate == 1)
      copyGradients(index);
    update(index, Predicate::Apply);
    upload(index, Predicate::Apply, false);
  }
  newValues(index);
}

void ScheduleBuilder::newValues(uint32_t index) {
  for (const Piece &piece : placement.buckets[index].pieces) {
    const TrainedParameter &p = of(piece);
    const ProblemOp &from = problem.ops[p.update];
    where[from.results[0]] = where[from.operands[0]];
    for (size_t s = 0; s < p.states.size(); ++s)
      where[from.results[1 + s]] = where[problem.arguments[p.states[s]].value];
  }
}

uint64_t ScheduleBuilder::largestBucket() const {
  uint64_t most = 0;
  for (const Bucket &bucket : placement.buckets)
    most = std::max(most, bucket.bytes + bucket.pieces.size() * kAlignment);
  return most;
}

uint32_t ScheduleBuilder::ring(const std::string &name, uint32_t slots, uint32_t space, uint64_t bytes) {
  Ring &ring = rings[name];
  uint32_t slot = ring.turn++ % std::max(slots, 1u);
  if (slot == ring.slots.size())
    ring.slots.push_back(addBuffer(name + " " + std::to_string(slot), Role::Staging, space, bytes));
  return ring.slots[slot];
}

void ScheduleBuilder::update(uint32_t index, Predicate predicate) {
  scalars();
  const Bucket &bucket = placement.buckets[index];
  if (placeOf(index).streamed)
    return updateStreamed(index, predicate);
  for (const Piece &piece : bucket.pieces)
    updatePiece(piece, index, predicate);
}

/// What the verdict says where speculation is right: {norm, coefficient, finite, no bad gradient}. No update reads the norm.
uint32_t ScheduleBuilder::assumedVerdict(uint32_t verdict, uint32_t space) {
  assumed.resize(machine.spaces.size(), -1);
  if (assumed[space] < 0) {
    assumed[space] = addBuffer("assumed verdict", Role::Control, space, problem.values[verdict].bytes);
    Buffer &buffer = schedule.buffers[assumed[space]];
    buffer.value = verdict;
    buffer.persistent = true;
    buffer.initial = {0, 1, 1, -1};
  }
  return assumed[space];
}

BufferRange ScheduleBuilder::updateScalars(const ProblemOp &update, size_t operand, uint32_t space, Predicate predicate) {
  uint32_t value = update.operands[operand];
  bool assumes = operand + 1 == update.operands.size() && predicate == Predicate::Speculate;
  return whole(assumes ? assumedVerdict(value, space) : need(value, space, lastMicro, Phase::Update), Access::Read);
}

void ScheduleBuilder::updatePiece(const Piece &piece, uint32_t index, Predicate predicate) {
  const BucketPlacement &place = placeOf(index);
  const TrainedParameter &p = of(piece);
  const ProblemOp &from = problem.ops[p.update];
  const ArgumentPlacement &home = placement.arguments[p.argument];
  uint32_t space = place.gradientSpace;
  size_t elementwise = from.operands.size() - 2; // scalars and verdict are not split
  std::vector<BufferRange> ranges;
  for (size_t o = 0; o < from.operands.size(); ++o) {
    if (o >= elementwise) {
      ranges.push_back(updateScalars(from, o, space, predicate));
      continue;
    }
    assert((o == 1 || where[from.operands[o]][space] >= 0) && "state is beside the gradients: see contradiction");
    bool isElsewhere = o == 1 && where[from.operands[o]][space] < 0;
    ranges.push_back(part(isElsewhere ? gradientIn(piece, space) : where[from.operands[o]][space], piece, Access::Read));
  }
  for (size_t r = 0; r < from.results.size(); ++r) {
    // Result 0 is over the parameter, result i over state i.
    int32_t wanted = r == 0 ? 0 : r + 1;
    if (r >= from.inplace.size() || from.inplace[r] != wanted)
      return fail("update '" + from.label + "' does not work in place over its parameter and states");
    BufferRange range = ranges[wanted];
    range.buffer = nextOf(r == 0 ? p.argument : p.states[r - 1], range.buffer);
    range.access = Access::Write;
    ranges.push_back(range);
  }
  uint64_t more = 0;
  // Weights in the compute type are written on the way, unless they are cast after they have moved.
  bool remote = space != machine.computeSpace;
  if (p.castWeight >= 0) {
    uint64_t unit = problem.values[p.weight].bytes / p.elements;
    if (int32_t copy = where[p.weight][space]; copy >= 0 && schedule.buffers[copy].persistent) {
      ranges.push_back(part(copy, piece, Access::Write));
      more = piece.count * unit;
    } else if (remote && !place.castOnDevice && home.source == WeightSource::Copy) {
      uint64_t used = 0;
      auto [it, isNew] = weightStaging.try_emplace(index, 0);
      if (isNew)
        it->second = ring("weights in the compute type", placement.uploadLag + 2, space, largestBucket());
      for (const Piece &other : placement.buckets[index].pieces) {
        if (&other == &piece)
          break;
        if (of(other).castWeight >= 0 && placement.arguments[of(other).argument].source == WeightSource::Copy) // as upload() reads them
          used += roundUp(other.count * unit);
      }
      ranges.push_back({it->second, used, piece.count * unit, Access::Write});
      more = piece.count * unit;
    }
    if (schedule.buffers[ranges[1].buffer].bytes < problem.values[p.gradient32].bytes)
      more -= std::min<uint64_t>(more, piece.count * 2); // it reads the gradient in the compute type
  }
  ScheduledOp &op = addDispatch(p.update, place.updateQueue, predicate);
  op.operands = std::move(ranges);
  op.parameter = homeOf(piece);
  op.phase = Phase::Update;
  split(op, piece, 1);
  op.cost.bytes += more;
}

/// Parameter and moments come up, are updated beside the compute engine, and go back.
void ScheduleBuilder::updateStreamed(uint32_t index, Predicate predicate) {
  const Bucket &bucket = placement.buckets[index];
  uint32_t space = machine.computeSpace;
  std::string name = nameOf(index);
  std::vector<BufferRange> up, down;
  struct Part {
    const Piece *piece;
    std::vector<BufferRange> slots; ///< parameter, states
  };
  std::vector<Part> parts;
  std::vector<uint32_t> slots; // of this bucket, one for each state
  uint64_t used = 0;
  for (const Piece &piece : bucket.pieces) {
    const TrainedParameter &p = of(piece);
    std::vector<uint32_t> arguments{p.argument};
    arguments.insert(arguments.end(), p.states.begin(), p.states.end());
    parts.push_back({&piece, {}});
    for (size_t s = 0; s < arguments.size(); ++s) {
      if (s == slots.size())
        slots.push_back(ring("streamed state " + std::to_string(s), placement.streamSlots, space, largestBucket()));
      uint32_t slot = slots[s];
      BufferRange at{slot, used, piece.count * 4, Access::Write};
      uint32_t home = where[problem.arguments[arguments[s]].value][machine.hostSpace];
      up.push_back(part(home, piece, Access::Read));
      up.push_back(at);
      at.access = Access::Read;
      parts.back().slots.push_back(at);
      uint32_t target = nextOf(arguments[s], home);
      down.push_back(at);
      down.push_back(part(target, piece, Access::Write));
    }
    used += roundUp(piece.count * 4);
  }
  addCopy(machine.toCompute, "state of " + name, predicate, Phase::Update, std::move(up));
  std::vector<BufferRange> fresh;
  for (const Part &entry : parts) {
    const Piece &piece = *entry.piece;
    const TrainedParameter &p = of(piece);
    const ProblemOp &from = problem.ops[p.update];
    std::vector<BufferRange> ranges{entry.slots[0]};
    uint32_t gradient = where[from.operands[1]][space] >= 0 ? where[from.operands[1]][space] : gradientIn(piece, space);
    ranges.push_back(part(gradient, piece, Access::Read));
    ranges.insert(ranges.end(), entry.slots.begin() + 1, entry.slots.end());
    for (size_t o = from.operands.size() - 2; o < from.operands.size(); ++o)
      ranges.push_back(updateScalars(from, o, space, predicate));
    for (const BufferRange &slot : entry.slots)
      ranges.push_back({slot.buffer, slot.offset, slot.bytes, Access::Write});
    uint64_t more = 0;
    if (int32_t copy = where[p.weight][space]; copy >= 0 && schedule.buffers[copy].persistent) {
      BufferRange weight = part(copy, piece, Access::Write);
      if (p.castWeight >= 0) {
        ranges.push_back(weight);
        more = weight.bytes;
      } else { // the same bytes: a copy beside the engine
        fresh.push_back(entry.slots[0]);
        fresh.push_back(weight);
      }
    }
    ScheduledOp &op = addDispatch(p.update, sideQueue(), predicate);
    op.operands = std::move(ranges);
    op.parameter = homeOf(piece);
    op.phase = Phase::Update;
    split(op, piece, 1);
    op.cost.bytes += more;
  }
  addCopy(sideQueue(), "weights of " + name, predicate, Phase::Update, std::move(fresh));
  addCopy(machine.toHost, "new state of " + name, predicate, Phase::Update, std::move(down));
}

void ScheduleBuilder::flushUploads(size_t keep) {
  while (waitingUploads.size() > keep) {
    auto [bucket, predicate] = waitingUploads.front();
    waitingUploads.erase(waitingUploads.begin());
    upload(bucket, predicate, false);
  }
}

void ScheduleBuilder::upload(uint32_t index, Predicate predicate, bool fromHome) {
  const BucketPlacement &place = placeOf(index);
  bool onHost = place.gradientSpace != machine.computeSpace;
  if (!onHost && !(place.streamed && fromHome))
    return; // the update wrote them
  std::vector<BufferRange> pairs, casts;
  std::vector<const Piece *> casted;
  uint64_t used = 0, narrow = 0;
  int32_t staging = -1;
  auto staged = weightStaging.find(index);
  for (const Piece &piece : placement.buckets[index].pieces) {
    const TrainedParameter &p = of(piece);
    const ArgumentPlacement &home = placement.arguments[p.argument];
    if (home.source != WeightSource::Copy || home.home == machine.computeSpace)
      continue;
    BufferRange to = part(where[p.weight][machine.computeSpace], piece, Access::Write);
    BufferRange from = part(fromHome ? homeOf(piece) : nextOf(p.argument, homeOf(piece)), piece, Access::Read);
    if (p.castWeight < 0) {
      pairs.push_back(from);
      pairs.push_back(to);
    } else if (!fromHome && staged != weightStaging.end()) {
      pairs.push_back({staged->second, narrow, to.bytes, Access::Read});
      pairs.push_back(to);
      narrow += roundUp(to.bytes);
    } else {
      if (staging < 0)
        staging = ring("weights in fp32", 2, machine.computeSpace, largestBucket());
      BufferRange wide{static_cast<uint32_t>(staging), used, piece.count * 4, Access::Write};
      used += roundUp(wide.bytes);
      pairs.push_back(from);
      pairs.push_back(wide);
      wide.access = Access::Read;
      casts.push_back(wide);
      casts.push_back(to);
      casted.push_back(&piece);
    }
  }
  addCopy(machine.toCompute, "weights of " + nameOf(index), predicate, Phase::Update, std::move(pairs));
  for (size_t i = 0; i < casted.size(); ++i)
    addCast(of(*casted[i]).castWeight, *casted[i], sideQueue(), predicate, Phase::Update, casts[2 * i], casts[2 * i + 1]);
}
