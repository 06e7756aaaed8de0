//===- Bound.cpp - What no plan can beat ----------------------------------===//

#include "forebay/Planning/Bound.h"
#include "forebay/Planning/Packer.h"

#include <Clp_C_Interface.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <memory>

using namespace forebay;
using namespace forebay::planning;

namespace {

/// min c x, lower <= A x <= upper, 0 <= x <= most; built column by column.
class LinearProgram {
public:
  int addRow(double lower, double upper) {
    rowLower.push_back(lower);
    rowUpper.push_back(upper);
    return rowLower.size() - 1;
  }
  int addColumn(double cost, double most) {
    starts.push_back(rows.size());
    costs.push_back(cost);
    limits.push_back(most);
    return costs.size() - 1;
  }
  /// Of the column added last.
  void entry(int row, double value) {
    if (value == 0)
      return;
    rows.push_back(row);
    values.push_back(value);
  }

  bool solve(std::vector<double> &x) {
    std::unique_ptr<Clp_Simplex, void (*)(Clp_Simplex *)> model(Clp_newModel(), Clp_deleteModel);
    Clp_setLogLevel(model.get(), 0);
    std::vector<CoinBigIndex> begin(starts.begin(), starts.end());
    begin.push_back(rows.size());
    std::vector<double> zero(costs.size(), 0);
    Clp_loadProblem(model.get(), costs.size(), rowLower.size(), begin.data(), rows.data(), values.data(), zero.data(), limits.data(), costs.data(), rowLower.data(),
                    rowUpper.data());
    Clp_initialSolve(model.get());
    if (Clp_status(model.get()) != 0)
      return false;
    const double *solution = Clp_primalColumnSolution(model.get());
    x.assign(solution, solution + costs.size());
    return true;
  }

private:
  std::vector<int> starts, rows;
  std::vector<double> values, costs, limits, rowLower, rowUpper;
};

constexpr double kNoLimit = 1e30;
/// Bytes and seconds in units that keep the matrix well scaled.
constexpr double kByte = 1e-9;

/// Largest bytes that one operation of `phase` touches: they are in the compute space at one time. Weights and what waits for backward are counted elsewhere.
uint64_t workingSet(const Problem &problem, const std::vector<bool> &elsewhere) {
  uint64_t most = 0;
  for (const ProblemOp &op : problem.ops) {
    if (op.kind != OpKind::Compute)
      continue;
    uint64_t bytes = op.workspace;
    for (uint32_t result : op.results)
      if (!elsewhere[result])
        bytes += problem.values[result].bytes;
    most = std::max(most, bytes);
  }
  return most;
}

} // namespace

namespace {

/// Totals of a problem, rows and columns of its program. With `phases` forward and backward have times of their own and what is updated before the verdict needs
/// shadows: that is where a planner begins. Without, everything may run at any time of the step: that is the bound.
class Relaxation {
public:
  Relaxation(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, bool phases, const PlanOptions &options)
      : options(options), problem(problem), trained(trained), machine(machine), phases(phases), two(machine.offloads()), k(problem.accumulate), groups(activationGroups(problem, machine)) {}

  Bound run() {
    count();
    addRows();
    addUpdates();
    addActivations();
    std::vector<double> x;
    Bound bound;
    if (lp.solve(x))
      read(x, bound);
    return bound;
  }

private:
  enum Resource { Gpu, Cpu, Up, Down, HostMemory, kResources };
  enum Phase2 { Forward, Backward };

  void count() {
    for (const TrainedParameter &p : trained) {
      weightBytes += problem.values[p.weight].bytes;
      gradientBytes += problem.values[p.gradient].bytes;
      stateBytes += 4.0 * p.elements * (1 + p.states.size());
      cast |= p.castWeight >= 0;
    }
    // Reads p, g and the moments, writes p and the moments, and the weight in another type.
    updateBytes = 2 * stateBytes + gradientBytes + (cast ? weightBytes : 0);
    std::vector<bool> elsewhere(problem.values.size());
    for (const ProblemArgument &argument : problem.arguments) {
      elsewhere[argument.value] = true;
      if (problem.values[argument.value].role == Role::Input)
        fixedHbm += roundUp(problem.values[argument.value].bytes);
    }
    for (const TrainedParameter &p : trained)
      elsewhere[p.gradient] = true;
    for (const ActivationGroup &group : groups)
      for (const IdleValue &v : group.values)
        elsewhere[v.value] = true;
    fixedHbm += workingSet(problem, elsewhere);
    for (const ProblemOp &op : problem.ops)
      if (op.kind == OpKind::Compute)
        compute[op.phase == Phase::Forward ? Forward : Backward] += k * dispatchSeconds(machine, machine.computeQueue, op.cost);
    updateGpu = updateBytes / machine.queues[machine.computeQueue].bandwidthOf(OpClass::Optimizer);
    castGpu = 3 * weightBytes / machine.queues[machine.computeQueue].bandwidthOf(OpClass::Cast); // twice the bytes are read
    if (!two)
      return;
    updateCpu = updateBytes / machine.queues[machine.hostQueue].bandwidthOf(OpClass::Optimizer);
    up = machine.queues[machine.toCompute].link.most();
    down = machine.queues[machine.toHost].link.most();
    hostBandwidth = machine.spaces[machine.hostSpace].bandwidth;
  }

  int row(Resource resource, Phase2 phase) const { return rows[phases ? phase : Forward][resource]; }

  void addRows() {
    for (int phase = 0; phase < (phases ? 2 : 1); ++phase)
      for (int resource = 0; resource < kResources; ++resource)
        rows[phase][resource] = lp.addRow(-kNoLimit, resource != Gpu ? 0 : phases ? -compute[phase] : -compute[0] - compute[1]);
    // At the end of forward activations wait, at the end of backward gradients.
    double hbmFree = machine.spaces[machine.computeSpace].capacity - fixedHbm, hostFree = machine.spaces[machine.hostSpace].capacity;
    for (int phase = 0; phase < 2; ++phase) {
      hbm[phase] = lp.addRow(-kNoLimit, hbmFree * kByte);
      host[phase] = lp.addRow(-kNoLimit, two ? hostFree * kByte : kNoLimit);
    }
    all = lp.addRow(1, 1);
    flowLimit = lp.addRow(-kNoLimit, 0);
    streamedFlowLimit = lp.addRow(-kNoLimit, 0);
    for (int phase = 0; phase < (phases ? 2 : 1); ++phase) {
      time[phase] = lp.addColumn(1, kNoLimit);
      for (int resource = 0; resource < kResources; ++resource)
        lp.entry(rows[phase][resource], -1);
    }
  }

  /// Of the column added last: seconds and bytes of a phase.
  void use(Phase2 phase, double gpu, double cpu, double bytesUp, double bytesDown, double bytesHost) {
    entries[row(Gpu, phase)] += gpu;
    entries[row(Cpu, phase)] += cpu;
    if (bytesUp > 0)
      entries[row(Up, phase)] += bytesUp / up;
    if (bytesDown > 0)
      entries[row(Down, phase)] += bytesDown / down;
    if (hostBandwidth > 0)
      entries[row(HostMemory, phase)] += (bytesUp + bytesDown + bytesHost) / hostBandwidth;
  }
  void holdHbm(double forward, double backward) {
    entries[hbm[Forward]] += forward * kByte;
    entries[hbm[Backward]] += backward * kByte;
  }
  void holdHost(double forward, double backward) {
    entries[host[Forward]] += forward * kByte;
    entries[host[Backward]] += backward * kByte;
  }
  /// Writes what the functions above have collected.
  void done() {
    for (auto &[at, value] : entries)
      lp.entry(at, value);
    entries.clear();
  }
  int column(bool allowed = true) { return lp.addColumn(0, allowed ? 1 : 0); }

  void addUpdates() {
    // All state beside the compute engine. Without a cast forward reads the master itself.
    device = column(options.onDevice || !two);
    use(Forward, updateGpu, 0, 0, 0, 0);
    double own = stateBytes + (cast ? weightBytes : 0);
    holdHbm(own, own + gradientBytes);
    entries[all] = 1;
    done();
    if (!two)
      return;
    auto onHost = [&](Phase2 when, bool waits) {
      int c = column(when == Backward ? options.speculative : options.deferred);
      use(when, 0, updateCpu, weightBytes, 0, updateBytes);
      use(waits ? Forward : Backward, 0, 0, 0, gradientBytes, 0);
      holdHbm(weightBytes, weightBytes + (waits ? gradientBytes : 0));
      double shadow = phases && when == Backward ? stateBytes : 0;
      holdHost(stateBytes + shadow, stateBytes + shadow + (waits ? 0 : gradientBytes));
      entries[all] = 1;
      entries[flowLimit] = -1;
      done();
      return c;
    };
    auto streamed = [&](Phase2 when) {
      int c = column(options.streamed && (when == Forward || options.speculative));
      use(when, updateGpu, 0, stateBytes, stateBytes, 0);
      holdHbm(weightBytes, weightBytes + gradientBytes);
      double shadow = phases && when == Backward ? stateBytes : 0;
      holdHost(stateBytes + shadow, stateBytes + shadow);
      entries[all] = 1;
      entries[streamedFlowLimit] = -1;
      done();
      return c;
    };
    host1 = onHost(Forward, false);
    hostWaits = onHost(Forward, true);
    hostSpeculative = onHost(Backward, false);
    streamed1 = streamed(Forward);
    streamedSpeculative = streamed(Backward);
    // Weights that come for forward and again for backward instead of staying; with a cast there is a copy of them on the host. Those of streamed updates are written
    // beside the engine.
    flows = column(options.flows);
    use(Forward, 0, 0, (k - 1) * weightBytes, 0, 0);
    use(Backward, 0, 0, k * weightBytes, 0, 0);
    holdHbm(-weightBytes, -weightBytes);
    holdHost(cast ? weightBytes : 0, cast ? weightBytes : 0);
    entries[flowLimit] = 1;
    done();
    // The same from the masters: twice the bytes come, a cast beside the engine for each stay, and nobody writes or keeps the weights otherwise.
    auto fromMasters = [&](bool isHosted) {
      int c = column(options.flows && options.masters && cast);
      double written = isHosted ? weightBytes : 0;
      use(Forward, k * castGpu, 0, 2 * k * weightBytes, 0, 0);
      use(Backward, k * castGpu, 0, 2 * k * weightBytes, 0, 0);
      // What the update need not do.
      entries[row(Cpu, Forward)] -= written / machine.queues[machine.hostQueue].bandwidthOf(OpClass::Optimizer);
      entries[row(Up, Forward)] -= written / up;
      if (hostBandwidth > 0)
        entries[row(HostMemory, Forward)] -= 2 * written / hostBandwidth;
      holdHbm(-weightBytes, -weightBytes);
      entries[isHosted ? flowLimit : streamedFlowLimit] = 1;
      done();
      return c;
    };
    hostedFromMasters = fromMasters(true);
    streamedFromMasters = fromMasters(false);
  }

  /// Groups that are alike in bytes and seconds count together.
  void addActivations() {
    for (std::vector<uint32_t> &members : activationClasses(groups)) {
      double bytes = 0, seconds = 0;
      for (uint32_t g : members) {
        bytes += groups[g].bytes;
        seconds += groups[g].seconds;
      }
      Ways ways{-1, -1, -1, members};
      int one = lp.addRow(1, 1);
      ways.keep = column();
      holdHbm(bytes, 0);
      entries[one] = 1;
      done();
      if (two) {
        ways.offload = column(options.offload);
        use(Forward, 0, 0, 0, k * bytes, 0);
        use(Backward, 0, 0, k * bytes, 0, 0);
        holdHost(bytes, 0);
        entries[one] = 1;
        done();
      }
      ways.recompute = column();
      use(Backward, k * seconds, 0, 0, 0, 0);
      entries[one] = 1;
      done();
      activations.push_back(std::move(ways));
    }
  }

  void read(const std::vector<double> &x, Bound &bound) const {
    auto of = [&](int column) { return column < 0 ? 0 : x[column]; };
    bound.feasible = true;
    bound.seconds = x[time[0]] + (phases ? x[time[1]] : 0);
    bound.onDevice = of(device);
    bound.onHost = of(host1);
    bound.onHostWaiting = of(hostWaits);
    bound.onHostSpeculative = of(hostSpeculative);
    bound.streamed = of(streamed1);
    bound.streamedSpeculative = of(streamedSpeculative);
    bound.flows = of(flows);
    bound.flowsCast = of(hostedFromMasters);
    bound.flowsCastStreamed = of(streamedFromMasters);
    const double fromMasters = bound.flowsCast + bound.flowsCastStreamed;
    bound.keep.resize(groups.size());
    bound.offload.resize(groups.size());
    bound.recompute.resize(groups.size());
    double away = 0, again = 0;
    for (const Ways &ways : activations)
      for (uint32_t g : ways.groups) {
        bound.keep[g] = of(ways.keep);
        bound.offload[g] = of(ways.offload);
        bound.recompute[g] = of(ways.recompute);
        away += bound.offload[g] * groups[g].bytes;
        again += bound.recompute[g] * groups[g].seconds;
      }
    double hosted = of(host1) + of(hostWaits) + of(hostSpeculative), streams = of(streamed1) + of(streamedSpeculative);
    bound.busy = {compute[0] + compute[1] + k * again + (of(device) + streams) * updateGpu + 2 * k * fromMasters * castGpu,
                  hosted * updateCpu - bound.flowsCast * weightBytes / (two ? machine.queues[machine.hostQueue].bandwidthOf(OpClass::Optimizer) : 1)};
    if (!two) {
      bound.binding = machine.queues[machine.computeQueue].name;
      return;
    }
    double bytesUp = hosted * weightBytes + streams * stateBytes + of(flows) * (2 * k - 1) * weightBytes + fromMasters * 4 * k * weightBytes - bound.flowsCast * weightBytes + k * away;
    double bytesDown = hosted * gradientBytes + streams * stateBytes + k * away;
    bound.busy.push_back(bytesUp / up);
    bound.busy.push_back(bytesDown / down);
    bound.busy.push_back(hostBandwidth > 0 ? (bytesUp + bytesDown + hosted * updateBytes - bound.flowsCast * weightBytes) / hostBandwidth : 0);
    const std::string names[] = {machine.queues[machine.computeQueue].name, machine.queues[machine.hostQueue].name, machine.queues[machine.toCompute].name,
                                 machine.queues[machine.toHost].name, machine.spaces[machine.hostSpace].name + " memory bandwidth"};
    bound.binding = names[std::max_element(bound.busy.begin(), bound.busy.end()) - bound.busy.begin()];
  }

  struct Ways {
    int keep, offload, recompute;
    std::vector<uint32_t> groups;
  };

  const PlanOptions options;
  const Problem &problem;
  const std::vector<TrainedParameter> &trained;
  const Machine &machine;
  const bool phases, two;
  const double k;
  std::vector<ActivationGroup> groups;
  double weightBytes = 0, gradientBytes = 0, stateBytes = 0, updateBytes = 0, fixedHbm = 0;
  double compute[2] = {0, 0}, updateGpu = 0, updateCpu = 0, castGpu = 0, up = 0, down = 0, hostBandwidth = 0;
  bool cast = false;
  LinearProgram lp;
  std::map<int, double> entries;
  int rows[2][kResources] = {}, hbm[2] = {}, host[2] = {}, time[2] = {}, all = 0, flowLimit = 0, streamedFlowLimit = 0;
  int device = -1, host1 = -1, hostWaits = -1, hostSpeculative = -1, streamed1 = -1, streamedSpeculative = -1, flows = -1, hostedFromMasters = -1, streamedFromMasters = -1;
  std::vector<Ways> activations;
};

} // namespace

Bound planning::lowerBound(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) {
  return machine.timed() ? Relaxation(problem, trained, machine, false, {}).run() : Bound();
}

Bound planning::relaxedPlan(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const PlanOptions &options) {
  return machine.timed() ? Relaxation(problem, trained, machine, true, options).run() : Bound();
}
