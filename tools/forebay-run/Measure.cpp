//===- Measure.cpp - Seconds of commands on this computer -----------------===//

#include "Measure.h"
#include "forebay/kernels.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace forebay;
using namespace forebay::rt;

Measure::Measure(const std::vector<Queue> &queues, const std::vector<Space> &spaces, unsigned threads) : threads(threads) {
  program.queues = queues;
  program.spaces = spaces;
  for (Space &space : program.spaces)
    space.arenaBytes = 0;
}
Measure::~Measure() = default;

Range Measure::range(uint32_t space, uint64_t bytes) {
  uint64_t &size = program.spaces[space].arenaBytes;
  Range range{space, size, bytes, Access::ReadWrite};
  size = (size + bytes + 63) / 64 * 64 + 4096 + 64;
  return range;
}

Range Measure::filled(uint32_t space, uint64_t bytes, int64_t limit) {
  Range result = range(space, bytes);
  fills.push_back({result, limit});
  return result;
}

fb_kernel_fn Measure::builtin(const char *name) {
  const kernels::KernelEntry *entry = kernels::lookupBuiltin(name);
  assert(entry && "a built-in kernel");
  return entry->function;
}

uint32_t Measure::add(Command command) {
  uint32_t index = uint32_t(program.step.size());
  if (ordered && index > 0 && program.step.back().queue != command.queue) {
    program.step.back().signal = int32_t(program.events);
    command.waits.push_back({program.events++, 0});
  }
  program.step.push_back(std::move(command));
  return index;
}

uint32_t Measure::dispatch(uint32_t queue, fb_kernel_fn kernel, const void *params, size_t paramBytes, const kernels::Launch &launch,
                           std::vector<Range> operands) {
  Command command{};
  command.kind = CommandKind::Dispatch;
  command.queue = queue;
  command.kernel = int32_t(functions.size());
  functions.push_back(kernel);
  program.kernels.push_back({"measured", true});
  command.params.resize(paramBytes / sizeof(int64_t));
  std::memcpy(command.params.data(), params, paramBytes);
  command.tiles.assign(launch.tiles, launch.tiles + launch.phases);
  if (launch.workspaceBytes != 0)
    operands.push_back(range(operands[0].space, uint64_t(launch.workspaceBytes)));
  command.operands = std::move(operands);
  command.scratch = uint64_t(launch.scratchBytes);
  program.scratchBytes = std::max(program.scratchBytes, command.scratch);
  return add(std::move(command));
}

uint32_t Measure::copy(uint32_t queue, Range from, Range to) {
  assert(from.bytes == to.bytes);
  Command command{};
  command.kind = CommandKind::Copy;
  command.queue = queue;
  command.operands = {from, to};
  return add(std::move(command));
}

/// A computer that is slow, or busy with something else, repeats less often.
static constexpr unsigned kFewest = 3;
static constexpr int64_t kLongest = 1000000000; // nanoseconds

bool Measure::run(unsigned repetitions, std::string &error) {
  const Backend &backend = hostBackend();
  for (Space &space : program.spaces)
    space.arenaBytes = std::max<uint64_t>(space.arenaBytes, 64);
  BackendConfig config;
  config.program = &program;
  config.kernels = functions;
  config.threads = threads;
  config.startWorker = [](void *) { kernels::warmUpBlas(); };
  Device *device = backend.open(config, error);
  if (!device)
    return false;
  for (const Fill &fill : fills) {
    char *at = static_cast<char *>(backend.map(device, fill.range.space)) + fill.range.offset;
    uint32_t state = 12345;
    auto draw = [&] { return state = state * 1664525 + 1013904223; };
    if (fill.limit != 0)
      for (uint64_t i = 0; i + 8 <= fill.range.bytes; i += 8)
        *reinterpret_cast<int64_t *>(at + i) = int64_t(draw() >> 4) % fill.limit;
    else
      for (uint64_t i = 0; i + 4 <= fill.range.bytes; i += 4)
        *reinterpret_cast<float *>(at + i) = 0.5f + float(draw() >> 8) / float(1 << 24);
  }
  std::vector<int64_t> before(program.step.size(), 0), after;
  int64_t spent = 0;
  for (unsigned i = 0; i <= repetitions && (i <= kFewest || spent < kLongest); ++i) {
    backend.start(device, 1);
    StepTimes step;
    while (!backend.wait(device, i, 1000000000, step)) {
    }
    backend.commandTimes(device, after);
    if (i > 0) { // the first warms up
      walls.push_back(step.end - step.begin);
      times.emplace_back();
      for (size_t c = 0; c < after.size(); ++c)
        times.back().push_back(after[c] - before[c]);
    }
    spent += step.end - step.begin;
    backend.release(device);
    before = after;
  }
  backend.close(device);
  return true;
}

static double median(std::vector<int64_t> nanoseconds) {
  assert(!nanoseconds.empty());
  std::nth_element(nanoseconds.begin(), nanoseconds.begin() + nanoseconds.size() / 2, nanoseconds.end());
  // The clock's step, so that nothing is divided by 0.
  return 1e-9 * double(std::max<int64_t>(nanoseconds[nanoseconds.size() / 2], 1));
}

double Measure::seconds(uint32_t first, uint32_t last) const {
  std::vector<int64_t> sums;
  for (const std::vector<int64_t> &repetition : times) {
    int64_t sum = 0;
    for (uint32_t c = first; c < last; ++c)
      sum += repetition[c];
    sums.push_back(sum);
  }
  return median(std::move(sums));
}

double Measure::wall() const { return median(walls); }
