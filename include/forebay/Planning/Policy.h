//===- Policy.h - Decides what lives where ----------------------*- C++ -*-===//
///
/// \file
/// A policy turns a problem and a machine into decisions, `buildSchedule` turns decisions into operations on buffers. A new policy is one
/// class and one call of `registerPolicy`, from a plug-in (docs/extending/policy.md), or one line in Policy.cpp; a new kind of decision is one field here and its realisation in the schedule builder.
/// See docs/algorithms/placement.md. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_POLICY_H
#define FOREBAY_PLANNING_POLICY_H

#include "forebay/Planning/Machine.h"
#include "forebay/Planning/Problem.h"

#include <functional>
#include <memory>

namespace forebay::planning {

/// Elements in one block of partial norms: a piece begins at a multiple of it.
inline constexpr uint64_t kNormBlock = 1024;

/// Elements [first, first + count) of a trained parameter.
struct Piece {
  uint32_t parameter; ///< index into the list of trainedParameters
  uint64_t first, count;
};

/// Consecutive parameters in the order in which their gradients are complete; unit of copies and updates.
struct Bucket {
  std::vector<Piece> pieces;
  uint64_t bytes = 0;      ///< fp32 gradient
  uint32_t completeAt = 0; ///< operation after which all its gradients are there
  uint32_t firstUse = 0;   ///< first operation that reads one of its parameters
};

/// Buckets of at most `limit` bytes. A parameter larger than that has a bucket of its own; one larger than `problem.bucketBytes` is split at multiples of
/// kNormBlock elements into several.
std::vector<Bucket> formBuckets(const Problem &problem, const std::vector<TrainedParameter> &trained, uint64_t limit);
inline std::vector<Bucket> formBuckets(const Problem &problem, const std::vector<TrainedParameter> &trained) {
  return formBuckets(problem, trained, problem.bucketBytes);
}

/// What forward and backward read of an argument.
enum class WeightSource : uint8_t {
  Home, ///< the argument itself
  Copy, ///< a copy in the compute space that lives for ever and is renewed after every update
  Flow, ///< copies that come before use and go after it: Placement::fetches
  InPlace, ///< the home, read across the link
  FlowCast, ///< as Flow, but the fp32 master comes and is cast beside the compute engine: nothing else keeps the weight in the compute type
};

/// Where an argument lives for the whole run.
struct ArgumentPlacement {
  uint32_t home = 0; ///< space
  WeightSource source = WeightSource::Home;
};

/// When a bucket is updated.
enum class UpdateTime : uint8_t {
  AfterVerdict, ///< with the verdict known; runs under the next forward as far as that does not need the weights yet
  Speculative,  ///< as soon as its gradients are there, into shadow buffers that the verdict commits by exchange
};

/// What happens to a bucket once its gradients are there.
struct BucketPlacement {
  uint32_t gradientSpace = 0; ///< where gradients are summed and the update reads them
  uint32_t updateQueue = 0;
  UpdateTime time = UpdateTime::AfterVerdict;
  /// State has its home on the host, but the update runs beside the compute space: parameter and moments come up for it and go back.
  bool streamed = false;
  /// Types change on the compute engine, so what moves between the spaces is fp32; else the host's update reads gradients and writes weights in the compute
  /// type. No difference where the compute type is fp32.
  bool castOnDevice = false;
  bool normOnDevice = false; ///< partial norms are taken where backward made the gradient (one micro-step only)
  /// Gradients that the host needs after the verdict stay in the compute space until then.
  bool gradientWaits = false;
};

/// One copy from the host into the compute space, ahead of use.
struct Fetch {
  /// `value` is there for the operations [first, last] of the problem, the first and the last of which read it; then its bytes are free.
  struct Part {
    uint32_t value, first, last;
  };
  std::vector<Part> parts;
  uint64_t bytes = 0;
  uint32_t before = 0; ///< operation in front of which it is issued; at most the `first` of any part
};

/// A computed value that leaves the compute space after operation `after`; a fetch brings it back.
struct Offload {
  uint32_t value, after;
};

/// An operation of forward that runs again, in front of operation `before` of backward; its results have been dropped after their last reader before that.
struct Recompute {
  uint32_t op, before;
};

/// One answer to "why is this there?", with its numbers; becomes a remark.
struct Decision {
  std::string subject;  ///< "bucket 3", "w.weight"
  std::string name;     ///< "Offloaded", "Kept"
  bool accepted = true; ///< rejected options are told, too
  std::string reason;
  std::vector<std::pair<std::string, int64_t>> numbers;
};

/// What a plan would be without one of its options.
struct OptionWorth {
  std::string name;      ///< "streamed state"
  double seconds = 0;    ///< step without it; 0: it would not fit
};

struct Placement {
  std::vector<ArgumentPlacement> arguments; ///< one for each argument of the problem
  std::vector<Bucket> buckets;
  std::vector<BucketPlacement> bucketPlacements; ///< one for each bucket
  std::vector<Fetch> fetches;   ///< in the order in which they are issued; those of one value do not overlap
  std::vector<Offload> offloads;
  std::vector<Recompute> recomputes; ///< ascending `before`; those of one position in the order in which they run
  /// New weights of speculative updates go up when so many more buckets have been updated, or after backward: the copy queue must not wait for
  /// an update that is late.
  uint32_t uploadLag = 0;
  uint32_t streamSlots = 2; ///< buckets whose state may be beside the compute engine at one time
  /// Speculative updates write in place and are undone by inverse arithmetic, as the paper does: no shadows, not exact. For comparing plans only: no policy that a
  /// program can be made with sets it.
  bool undoInPlace = false;
  /// While there is room, sources of copies keep their bytes for so many further copies of their queue (see Layout.h).
  uint32_t hold = 1;
  /// Forward of the next step waits for all updates of this one, as systems do that step between backward and forward.
  bool updatesBlock = false;
  /// Bytes/s at which copies from and to the compute space run at most, so that they leave the host's memory to the host; 0: as fast as they can.
  double copyPace = 0;
  std::vector<Decision> decisions;
  std::vector<OptionWorth> worth; ///< of the options that are used
  std::string note; ///< a line for people about how the plan was chosen, or empty
};

/// The decisions of `placement` as text, for the same problem again. Without their reasons.
std::string toText(const Placement &placement, const Problem &problem);
/// Reads what toText wrote. False, and why in words that follow "the plan cannot be used: ", if it is damaged or belongs to another problem.
bool parsePlacement(const std::string &text, const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, Placement &placement,
                    std::string &error);

/// Placement::worth, as toText wrote it.
std::vector<OptionWorth> optionWorths(const std::string &text);
/// Placement::note, as toText wrote it.
std::string placementNote(const std::string &text);

class PlacementPolicy {
public:
  virtual ~PlacementPolicy() = default;
  virtual const char *name() const = 0;
  /// False if the policy makes no sense on `machine`; `why` ends the sentence "policy 'x' needs ...".
  virtual bool supports(const Machine &machine, std::string &why) const = 0;
  virtual Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const = 0;
};

/// The policy called `name`, or null.
std::unique_ptr<PlacementPolicy> findPolicy(const std::string &name);

using PolicyFactory = std::function<std::unique_ptr<PlacementPolicy>()>;

/// Makes a policy known by `name` from now on, for the whole process; `auto` does not try it. False, and nothing changes, if a policy has that name or it is empty.
/// To be called while nothing is planned: from what `--load-pass-plugin` runs.
bool registerPolicy(const std::string &name, PolicyFactory make);

/// All names that findPolicy knows: "auto", those of policyNames, registered ones in alphabetical order.
std::vector<std::string> knownPolicies();

/// Policy "superoffload"; with `undoInPlace` as in the paper, which needs no memory for shadows and is not exact: a peer for benchmarks.
std::unique_ptr<PlacementPolicy> makeSuperOffload(bool undoInPlace = false);

/// Names of the policies of the compiler itself but "auto", in the order in which that tries them.
std::vector<std::string> policyNames();

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_POLICY_H
