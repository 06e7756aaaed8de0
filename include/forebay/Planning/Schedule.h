//===- Schedule.h - Operations on buffers, with engines ---------*- C++ -*-===//
///
/// \file
/// What `offload.async` says, as plain data: buffers in spaces, operations on queues in program order. Buffers have no addresses yet.
/// No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_SCHEDULE_H
#define FOREBAY_PLANNING_SCHEDULE_H

#include "forebay/Planning/Policy.h"

namespace forebay::planning {

struct Buffer {
  std::string label;
  Role role = Role::Activation;
  uint32_t space = 0;
  uint64_t bytes = 0;
  /// Keeps its bytes from one iteration to the next, so it has its place for itself. Others live from their first to their last access.
  bool persistent = false;
  int32_t argument = -1; ///< argument of the problem whose home this is
  int32_t copyOf = -1;   ///< weight copy: buffer of the parameter; shadow: of what it is the next value of
  std::vector<float> initial; ///< content from the start; empty: none of its own
  int32_t value = -1;    ///< value of the problem that it holds whole, for its type
};

struct BufferRange {
  uint32_t buffer = 0;
  uint64_t offset = 0, bytes = 0;
  Access access = Access::Read;
};

struct ScheduledOp {
  CommandKind kind = CommandKind::Dispatch;
  Predicate predicate = Predicate::Always;
  uint32_t queue = 0;
  int32_t op = -1;                   ///< operation of the problem that it stems from
  int32_t kernel = -1;               ///< Dispatch
  int32_t index = -1;                ///< Scalars: group; Feed: buffer; Report: output
  std::vector<BufferRange> operands; ///< Dispatch: inputs, results, workspace; Copy: pairs
  /// Dispatch: for each operand the earlier operand whose bytes it may take over, or -1. May be shorter than `operands`.
  std::vector<int32_t> inplace;
  std::vector<int64_t> params, tiles;
  uint64_t scratch = 0;
  std::string label;
  Phase phase = Phase::Forward;
  Cost cost;                         ///< Dispatch
  int32_t parameter = -1;            ///< NormPartials, Update: buffer of the parameter
  bool recomputed = false;           ///< runs again what forward has run
};

/// Where an output is when it is reported.
struct ScheduledOutput {
  std::string name;
  Role role;
  uint32_t buffer;
};

struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<ScheduledOp> ops;
  std::vector<ScheduledOutput> outputs;
  int32_t verdict = -1; ///< buffer that the runtime reads
  double copyPace = 0;  ///< Placement::copyPace
  uint32_t hold = 1;    ///< Placement::hold
};

/// Realises `placement`: buffers for all values, transfers where a value is needed in another space, predicates for K micro-steps. On a problem that
/// cannot be scheduled (state that is not computed in place) `error` says why.
Schedule buildSchedule(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
                       const Placement &placement, std::string &error);

/// For each operation the earlier ones whose results it reads (read after write within the iteration), ascending; those that
/// another one implies by data flow are kept: they say what is true, not what is enough.
std::vector<std::vector<uint32_t>> trueDependences(const Schedule &schedule);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_SCHEDULE_H
