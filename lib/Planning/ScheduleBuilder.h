//===- ScheduleBuilder.h - Decisions become operations on buffers -*- C++ -*-===//
//
// Walks the step once. Forward and backward stay in their order, with the placement's fetches, offloads and recomputations between them (ScheduleBuilder.cpp);
// what belongs to a bucket (copy of its gradients, accumulation, partial norms, speculative update) follows the operation that completes it; verdict and the other
// updates come last, buckets whose weights the next forward needs first in front (BucketSchedule.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_PLANNING_SCHEDULEBUILDER_H
#define FOREBAY_LIB_PLANNING_SCHEDULEBUILDER_H

#include "forebay/Planning/Packer.h"
#include "forebay/Planning/Schedule.h"

#include <algorithm>
#include <map>
#include <set>

namespace forebay::planning {

class ScheduleBuilder {
public:
  ScheduleBuilder(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement, std::string &error);

  Schedule run();

private:
  //===--------------------------------------------------------------------===//
  // Buffers
  //===--------------------------------------------------------------------===//

  uint32_t addBuffer(std::string label, Role role, uint32_t space, uint64_t bytes);
  /// The buffer that `value` gets in `space`; new if it has none.
  uint32_t define(uint32_t value, uint32_t space, Role role);
  uint32_t anywhere(uint32_t value) const;
  BufferRange whole(uint32_t buffer, Access access) const { return {buffer, 0, schedule.buffers[buffer].bytes, access}; }
  /// The elements of `piece` in a buffer that holds a whole value of its parameter's shape, of whatever type.
  BufferRange part(uint32_t buffer, const Piece &piece, Access access) const {
    uint64_t unit = schedule.buffers[buffer].bytes / of(piece).elements;
    return {buffer, piece.first * unit, piece.count * unit, access};
  }
  /// `value` in `space`, copied there if it is elsewhere.
  uint32_t need(uint32_t value, uint32_t space, Predicate predicate, Phase phase);
  uint32_t copyQueue(uint32_t from, uint32_t to) const;
  void makeArguments();
  void makeCopy(uint32_t value, uint32_t space, uint32_t of);
  void makeShadows();

  //===--------------------------------------------------------------------===//
  // Operations
  //===--------------------------------------------------------------------===//

  ScheduledOp &addOp(CommandKind kind, uint32_t queue, std::string label);
  ScheduledOp &addDispatch(uint32_t i, uint32_t queue, Predicate predicate);
  /// A dispatch on whole buffers in one space.
  void dispatch(uint32_t i, uint32_t queue, uint32_t space, Predicate predicate, bool again = false);
  void addCopy(uint32_t queue, std::string label, Predicate predicate, Phase phase, std::vector<BufferRange> pairs);
  void compute(uint32_t i);
  /// Reports `value` if it is an output of the program.
  void report(uint32_t value);

  void indexMoves();
  /// A buffer of its own for each stay, so that its bytes are free in between.
  void fetch(const Fetch &fetch);
  /// Masters of `parameters` come in portions, each cast into the weight's buffer as soon as it is there.
  void fetchMasters(const std::vector<uint32_t> &parameters, const std::string &label, Phase phase);
  void offload(uint32_t value);
  void recompute(uint32_t op);
  void block();

  //===--------------------------------------------------------------------===//
  // Buckets
  //===--------------------------------------------------------------------===//

  const TrainedParameter &of(const Piece &piece) const { return trained[piece.parameter]; }
  const BucketPlacement &placeOf(uint32_t bucket) const { return placement.bucketPlacements[bucket]; }
  static std::string nameOf(uint32_t bucket) { return "bucket " + std::to_string(bucket); }
  template <typename Key> void sortBuckets(Key key) {
    std::sort(buckets.begin(), buckets.end(), [&](uint32_t a, uint32_t b) { return std::make_pair(key(a), a) < std::make_pair(key(b), b); });
  }
  uint32_t queueOf(uint32_t space) const { return space == machine.computeSpace ? machine.computeQueue : machine.hostQueue; }
  /// For casts and updates beside the compute space.
  uint32_t sideQueue() const { return machine.sideQueue >= 0 ? machine.sideQueue : machine.computeQueue; }

  void gradientsComplete(uint32_t bucket);
  void indexSpeculation();
  void speculate(uint32_t bucket);
  uint32_t assumedVerdict(uint32_t verdict, uint32_t space);
  /// What an update reads as its `operand`, one of the last two: scalars, verdict.
  BufferRange updateScalars(const ProblemOp &update, size_t operand, uint32_t space, Predicate predicate);
  /// Where an update writes the new value of an argument: its shadow, if it has one.
  uint32_t nextOf(uint32_t argument, uint32_t home) const { return shadowOf[argument] >= 0 ? static_cast<uint32_t>(shadowOf[argument]) : home; }
  void copyGradients(uint32_t bucket);
  void accumulate(uint32_t bucket);
  uint32_t accumulatorOf(const Piece &piece, uint32_t space);
  void normPartials(const Piece &arrived, uint32_t space, uint32_t queue);
  /// Where the gradient of `piece` lies in `space`, as fp32 or in the compute type.
  uint32_t gradientIn(const Piece &piece, uint32_t space);
  /// The first time that these elements of `value` are to be copied; equal gradients of two parameters are one value.
  bool firstCopy(uint32_t value, const Piece &piece) { return copied.insert({value, piece.first}).second; }
  uint32_t homeOf(const Piece &piece) const;
  bool isWhole(const Piece &piece) const { return piece.count == of(piece).elements; }
  /// Makes the block of a splittable kernel that of `piece`; `count`: where it holds the number of elements.
  void split(ScheduledOp &op, const Piece &piece, size_t count);
  ScheduledOp &addCast(int32_t op, const Piece &piece, uint32_t queue, Predicate predicate, Phase phase, BufferRange from, BufferRange to);

  void scalars();
  void verdict();
  void settleSpeculation();
  void restoreBeside(uint32_t bucket);
  void afterVerdict(uint32_t bucket);
  /// The update of a bucket and the way of its weights to forward. `predicate`: Apply, Speculate or Redo.
  void update(uint32_t bucket, Predicate predicate);
  void updatePiece(const Piece &piece, uint32_t bucket, Predicate predicate);
  void updateStreamed(uint32_t bucket, Predicate predicate);
  /// New weights to where forward reads them. `fromHome`: from the committed masters.
  void upload(uint32_t bucket, Predicate predicate, bool fromHome);
  void flushUploads(size_t keep);
  void newValues(uint32_t bucket);
  /// Slot of a ring of buffers that buckets share in turn.
  uint32_t ring(const std::string &name, uint32_t slots, uint32_t space, uint64_t bytes);
  uint64_t largestBucket() const;

  /// Numbers buffers as a reader of level async meets them, so that both lay them out alike: arguments, copies of arguments, then in the order of use.
  void renumber();
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
  std::vector<int32_t> masterOf;  ///< by value: of a weight that is cast on its way, the trained parameter; else -1
  std::vector<uint32_t> weightOf; ///< by value: of a parameter, what forward and backward read
  std::vector<bool> inPlace; ///< by value: compute operations read it across the link
  std::vector<std::vector<uint32_t>> offloadsAfter, dropsAfter; ///< by operation: values
  std::vector<uint32_t> buckets; ///< in the order of the current part of the step
  std::map<uint32_t, std::vector<uint32_t>> outputsOf;
  std::set<uint32_t> isGradient, isArgument, isWeight; ///< values
  std::set<std::pair<uint32_t, uint64_t>> copied; ///< value, first element of a piece
  std::map<uint32_t, uint64_t> normed;            ///< NormPartials operation: elements that are done
  std::vector<int32_t> shadowOf;                  ///< by argument: buffer of its next value, or -1
  struct Ring {
    std::vector<uint32_t> slots; ///< buffers
    uint32_t turn = 0;
  };
  std::map<std::string, Ring> rings;
  std::vector<std::pair<uint32_t, Predicate>> waitingUploads; ///< buckets whose weights go up later
  std::map<uint32_t, uint32_t> weightStaging;     ///< bucket: host buffer with its weights in the compute type
  std::vector<int32_t> assumed;                   ///< by space: verdict that speculation assumes, or -1
  std::vector<std::vector<uint32_t>> speculatesAfter; ///< by operation: buckets
  bool normsOnDevice = false, hasScalars = false;
};

} // namespace forebay::planning

#endif // FOREBAY_LIB_PLANNING_SCHEDULEBUILDER_H
