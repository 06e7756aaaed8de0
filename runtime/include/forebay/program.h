//===- program.h - What step.so says: arenas, tensors, commands -*- C++ -*-===//
///
/// \file
/// The program that the compiler writes and the runtime walks: data only, no generated control code.
/// The simulator, the trace, `--describe` and the race verifier read the same structure. No MLIR here.
///
/// **Order.** `Program::step` lists the commands of one micro-step in an order in which running them one after
/// another would be right ("program order"). Each queue runs its own commands in that order, one at a time; commands of
/// different queues run concurrently unless ordered by waits. One training step runs the list `accumulate` times;
/// predicates select what runs at the first and the last micro-step. Iterations overlap: a queue goes on to the next
/// iteration as soon as it has finished the last, and waits with `distance` 1 order it against the previous iteration.
///
/// **Race freedom.** Two commands that touch overlapping bytes, at least one of them writing, must be ordered by queue order and waits,
/// in program order, also across iterations. The planner emits the waits; an independent verifier re-derives them.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PROGRAM_H
#define FOREBAY_PROGRAM_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forebay {

/// Bumped when the meaning of any field changes; a runtime refuses other versions.
inline constexpr uint32_t kProgramAbi = 4;

/// Program::rejectLimit of a program in which speculation is always off.
inline constexpr double kNeverSpeculate = -1;

enum class DType : uint8_t { F32, F64, F16, BF16, I64, I32, I16, I8, U8, Bool };
/// Bytes of one element (bool: 1).
unsigned byteSize(DType type);
const char *name(DType type);

/// One memory space; one arena in it.
struct Space {
  std::string name;       ///< "hbm", "host"
  uint64_t arenaBytes;    ///< planned peak: the runtime maps exactly this
  uint64_t capacity;      ///< budget it was planned for, bytes
};

struct Queue {
  std::string name;  ///< "gpu", "cpu", "h2d", "d2h"
  bool compute;      ///< served by compute workers; otherwise by one copy thread
};

enum class Access : uint8_t { Read = 1, Write = 2, ReadWrite = 3 };

/// Bytes [offset, offset + bytes) of the arena of `space`.
struct Range {
  uint32_t space;
  uint64_t offset;
  uint64_t bytes;
  Access access;
};

enum class Role : uint8_t {
  Input, Parameter, WeightCopy, Buffer, Moment, Accumulator, Output, Loss, Gradient, Activation, Control, Staging, Workspace,
  Shadow ///< next values of a parameter or moment, until the verdict commits them by exchange: see Tensor::copyOf
};
const char *name(Role role);

/// A named tensor with a home in an arena for the whole run: inputs, parameters (masters), weight copies, buffers,
/// moments, outputs, loss, verdict. Activations are not listed here; see Program::values.
struct Tensor {
  std::string name;  ///< ONNX name; a moment is "<parameter>/<state>", e.g. "w/exp_avg"
  Role role;
  DType type;
  std::vector<int64_t> shape;
  uint32_t space;
  uint64_t offset, bytes;
  /// Initial bytes (parameters, buffers): file relative to the model's folder, empty if none are known.
  std::string file;
  uint64_t fileOffset = 0;
  bool trainable = false;
  bool noGradient = false;      ///< trainable, but no differentiable path joins it to the loss
  /// WeightCopy: index of the parameter whose bytes it starts with. Shadow: index of the parameter or moment with which it is a pair of
  /// equal size. Commands name the two as they are in a step that follows an even number of applied ones; after an odd number each stands for the other,
  /// so that to apply a step is to exchange them, and to drop it is to do nothing.
  int32_t copyOf = -1;
  std::string initial;          ///< initial bytes that are in the program itself (Control); empty: none
  int32_t group = -1;           ///< parameter group, see Program::groups
  bool hasRange = false, hasIgnore = false;  ///< inputs: legal values are [lo, hi), and `ignore`
  int64_t lo = 0, hi = 0, ignore = 0;
};

enum class CommandKind : uint8_t {
  Dispatch,  ///< run `kernel` over its tiles; operands as in kernel_abi.h
  Copy,      ///< operands in pairs: source, destination, of equal size
  Feed,      ///< write the next row of input `index` (into Program::tensors) to operand 0
  Scalars,   ///< evaluate the scalar function for group `index` into operand 0, for step t + 1 (they precede the Verdict command)
  Verdict,   ///< after operand 0 (verdict, 4 f32) is final: the runtime reads it, decides applied or not, advances t if applied
  Report,    ///< read operand 0 (loss of this micro-step) into the metrics; other outputs by `index` (into Program::tensors)
};

/// When a command runs; otherwise it is skipped. A skipped command does not wait: it signals as soon as its queue reaches it.
/// The exceptions are Apply, Speculate, Redo and Restore at a last micro-step: they wait first, then are run or skipped. Scalars, Verdict and commands that hang on
/// the verdict are ordered among each other as if Verdict wrote one variable that the others read; whatever touches one of a pair (Role::Shadow) comes after the
/// verdict of the step before, which says which is which.
enum class Predicate : uint8_t {
  Always,
  FirstMicro,   ///< first micro-step of a step
  LaterMicro,   ///< every other micro-step
  LastMicro,    ///< last micro-step
  Apply,        ///< last micro-step, and the verdict of this step is finite
  Speculate,    ///< last micro-step, while speculation is on: before the verdict, into shadows, as if nothing were clipped
  Redo,         ///< last micro-step, and the verdict applies the step, but speculation was off or the step is clipped: into the same shadows
  Restore,      ///< last micro-step, speculation was on, and the verdict does not apply the step: weight copies follow the old weights again
};

/// True of predicates that depend on the verdict of the step.
inline bool afterVerdict(Predicate predicate) {
  return predicate == Predicate::Apply || predicate == Predicate::Redo || predicate == Predicate::Restore;
}

/// True of predicates of commands that run before the verdict, or make good what has.
inline bool hangsOnSpeculation(Predicate predicate) {
  return predicate == Predicate::Speculate || predicate == Predicate::Redo || predicate == Predicate::Restore;
}

struct Wait {
  uint32_t event;     ///< event that must have been signalled ...
  uint32_t distance;  ///< ... by the command of this iteration (0) or of the previous one (1; satisfied in the first)
};

/// What a dispatch does most; machines have rates by class.
enum class OpClass : uint8_t {
  Elementwise, ///< limited by memory traffic, whatever it computes
  Matmul,      ///< products of matrices
  Attention,   ///< scores, softmax and values in one kernel
  Reduction,   ///< norms, softmax, sums: traffic, and a tree
  Gather,      ///< rows by index
  Optimizer,   ///< update of parameters and moments
  Cast,        ///< between types only
};
const char *name(OpClass value);

/// What a dispatch costs, for the simulator. Seconds on an engine: max(flops / rate(class, type, width), bytes / bandwidth(class)) plus its launch.
struct Cost {
  OpClass cls = OpClass::Elementwise;
  DType type = DType::F32; ///< of the operands of products
  double flops = 0;
  uint64_t bytes = 0;      ///< read and written in memory
  uint64_t width = 0;      ///< smallest of m, n, k of a product; 0: none
};

struct Command {
  CommandKind kind;
  Predicate predicate = Predicate::Always;
  uint32_t queue = 0;
  int32_t kernel = -1;              ///< Dispatch: index into Program::kernels
  int32_t index = -1;               ///< Feed, Scalars, Report: see CommandKind
  std::vector<Range> operands;
  std::vector<int64_t> params;      ///< constants of a Dispatch
  std::vector<int64_t> tiles;       ///< Dispatch: tiles of each phase
  uint64_t scratch = 0;             ///< bytes that each worker needs
  std::vector<Wait> waits;
  int32_t signal = -1;              ///< event that it signals when done; each event has one signaller
  std::string label;                ///< name for people: module scope and operation
  std::string phase;                ///< forward, backward, accumulate, verdict, update
  Cost cost;                        ///< Dispatch
  int32_t tensor = -1;              ///< norm_partials, update: parameter it belongs to (index into tensors)
};

struct Kernel {
  std::string name;  ///< built-in: name in builtin_kernels.h; compiled: symbol in step.so
  bool compiled;
};

/// Life of a planned buffer, for reports and the simulator: live in [first, last] of the command list.
struct Value {
  std::string label;
  Role role;
  uint32_t space;
  uint64_t offset, bytes;
  uint32_t first, last;   ///< commands; [0, size - 1] for persistent ones
  bool persistent;
};

struct HyperDefault {
  std::string name;
  double value;
  bool isBool = false;
};

/// Parameters that share hyper-parameters. `values` has the order of Program::hyper.
struct Group {
  std::vector<double> values;
  std::vector<bool> fixed;  ///< value set by --group: not changed by forebay-run --hyper
  double lrScale = 1.0;
};

struct Program {
  uint32_t abi = kProgramAbi;
  uint32_t kernelAbi = 0;
  std::string producer;             ///< "forebay-compile 0.1.0"
  std::string machine, policy, precision;
  std::string machineModel;         ///< rates of the machine it was planned for, as planning::toText writes them; the runtime does not read it
  std::string isa;                  ///< instruction set the compiled kernels need: "x86-64-v3", "x86-64-v4", "aarch64", ...
  std::string entry;                ///< "train" or "forward"

  std::string modelPath;            ///< absolute path of the .onnx at compile time
  std::string modelRelative;        ///< the same relative to the folder of step.so
  uint64_t modelBytes = 0, modelHash = 0;             ///< size and XXH3-64 of the .onnx
  struct DataFile { std::string name; uint64_t bytes; uint64_t hash; bool hashed; };
  std::vector<DataFile> dataFiles;  ///< external data files, relative to the model's folder

  std::vector<Space> spaces;
  std::vector<Queue> queues;
  std::vector<Tensor> tensors;      ///< parameters in initializer order
  std::vector<Kernel> kernels;
  std::vector<Value> values;
  std::vector<Command> step;        ///< one micro-step
  std::vector<Command> flush;       ///< applies pending updates; empty if the policy defers none
  uint32_t events = 0;
  uint64_t scratchBytes = 0;        ///< per compute worker: maximum over commands
  uint64_t workspaceBytes = 0;      ///< library workspace, listed separately

  std::string optimizer;            ///< symbol of the scalar function is "<optimizer>_scalars"
  uint32_t scalarResults = 0;
  std::vector<HyperDefault> hyper;
  std::vector<Group> groups;
  uint32_t accumulate = 1;
  bool hasClip = false;
  double clipNorm = 0;
  uint64_t bucketBytes = 0;
  std::string placement;            ///< the plan's decisions, as planning::toText writes them, for `--plan`; the runtime does not read it
  double boundSeconds = 0;          ///< no plan of this step is faster on the machine (docs/algorithms/bound.md); 0: not known
  std::string binding;              ///< the resource that the bound fills
  /// Speculation is off while more than this share of the recent steps was clipped or dropped: then it costs more than it gains (docs/algorithms/speculation.md).
  /// kNeverSpeculate: it gains nothing even where no step is.
  double rejectLimit = 1;
  double copyPace = 0;              ///< bytes/s at which copies between spaces run at most; 0: as fast as they can
  std::vector<std::pair<std::string, int64_t>> dims;
  double flopsPerToken = 0;         ///< forward, 2mnk of products, attention over the full square
  int64_t tokensPerMicroStep = 0;   ///< elements of the first integer input, else rows
  int64_t batch = 0, sequence = 0;  ///< shape of the first integer input; sequence 0 if it has rank 1 or none
};

/// Little-endian bytes with a header (magic, version, length) and a trailing XXH3-64 of the content.
std::string serialize(const Program &program);

/// Reads what `serialize` wrote; indices are checked by verifyProgram (include/forebay/Planning/RaceVerifier.h). On error returns false and says why in one line; never reads out of bounds.
bool deserialize(std::string_view bytes, Program &program, std::string &error);

/// What an applied step exchanges: each Shadow with the parameter or moment that it is a copy of.
class Pairs {
public:
  explicit Pairs(const Program &program);
  bool empty() const { return parts.empty(); }
  /// Whether `range` has a byte of a pair.
  bool touches(const Range &range) const;
  /// Where `range` is after an odd number of applied steps; none if it is not wholly one part of a pair.
  std::optional<Range> exchanged(const Range &range) const;

private:
  struct Part {
    uint32_t space;
    uint64_t offset, bytes, other;
  };
  const Part *lastBefore(const Range &range) const;
  std::vector<Part> parts; ///< by space and offset
};

/// What is wrong with the shadows of a program whose tensors lie inside their arenas, in one line, or nothing: each is beside a parameter or moment of its size that has no other,
/// both begin on 64 bytes, and no tensor has bytes of either but an output.
std::string checkPairs(const Program &program);

/// How many updates of `program` run before the verdict, and when, in one line; empty if none do.
std::string describeSpeculation(const Program &program);

/// Program::values for sums of live bytes: one whose bytes another takes over in place, at its last command, lives to the command before.
std::vector<Value> livesForSums(const Program &program);

/// Name of the ELF section of step.so that holds the serialized program.
inline constexpr const char *kProgramSection = ".forebay.program";
/// Symbol of an array of {const char *name; void *address}, ended by a null name: the compiled kernels.
inline constexpr const char *kKernelTableSymbol = "forebay_kernels";

/// Reads the program out of a step.so without loading its code; checks that the file is a whole ELF file.
bool readProgramFile(const std::string &path, Program &program, std::string &error);

} // namespace forebay

#endif // FOREBAY_PROGRAM_H
