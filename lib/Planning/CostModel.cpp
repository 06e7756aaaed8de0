//===- CostModel.cpp - Seconds of dispatches and copies -------------------===//

#include "forebay/Planning/Machine.h"

#include <algorithm>
#include <cmath>

using namespace forebay;
using namespace forebay::planning;

double Curve::at(double x) const {
  if (points.empty())
    return 0;
  if (x <= points.front().x)
    return points.front().y;
  if (x >= points.back().x)
    return points.back().y;
  auto above = std::upper_bound(points.begin(), points.end(), x, [](double value, const Point &point) { return value < point.x; });
  const Point &a = *(above - 1), &b = *above;
  return a.y + (b.y - a.y) * (std::log(x / a.x) / std::log(b.x / a.x));
}

double Curve::most() const {
  double most = 0;
  for (const Point &point : points)
    most = std::max(most, point.y);
  return most;
}

bool Machine::timed() const {
  const MachineQueue &compute = queues[computeQueue];
  return compute.bandwidth > 0 && !compute.rates.empty() && (!offloads() || (!queues[toCompute].link.points.empty() && !queues[toHost].link.points.empty()));
}

double Machine::peak(DType type) const {
  for (auto &[of, flops] : queues[computeQueue].peaks)
    if (of == type)
      return flops;
  return 0;
}

static double rateOf(const MachineQueue &engine, const Cost &cost) {
  for (OpClass cls : {cost.cls, OpClass::Matmul})
    for (const ComputeRate &rate : engine.rates)
      if (rate.cls == cls && rate.type == cost.type)
        return rate.flops * (cost.width == 0 || rate.share.points.empty() ? 1 : rate.share.at(cost.width));
  return 0;
}

double planning::dispatchSeconds(const Machine &machine, uint32_t queue, const Cost &cost) {
  const MachineQueue &engine = machine.queues[queue];
  double bandwidth = engine.bandwidthOf(cost.cls), rate = rateOf(engine, cost);
  return engine.launch + std::max(rate > 0 ? cost.flops / rate : 0, bandwidth > 0 ? cost.bytes / bandwidth : 0);
}

double planning::copySeconds(const Machine &machine, uint32_t queue, uint64_t bytes) {
  const MachineQueue &engine = machine.queues[queue];
  double rate = engine.link.at(bytes);
  return engine.launch + (rate > 0 ? bytes / rate : 0);
}
