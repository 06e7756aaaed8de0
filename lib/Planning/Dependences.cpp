//===- Dependences.cpp - True dependences of a schedule -------------------===//

#include "forebay/Planning/Schedule.h"

#include <algorithm>
#include <map>

using namespace forebay;
using namespace forebay::planning;

namespace {

/// The last writers of each byte of one buffer: several, where commands that may be skipped came after one that runs always.
class Writers {
public:
  void read(uint64_t begin, uint64_t end, std::vector<uint32_t> &into) const {
    auto it = segments.upper_bound(begin);
    if (it != segments.begin())
      --it;
    for (; it != segments.end() && it->first < end; ++it)
      if (it->second.end > begin)
        into.insert(into.end(), it->second.ops.begin(), it->second.ops.end());
  }

  void write(uint64_t begin, uint64_t end, uint32_t op, bool always) {
    if (begin == end)
      return;
    cut(begin);
    cut(end);
    if (always) {
      segments.erase(segments.lower_bound(begin), segments.lower_bound(end));
      segments[begin] = {end, {op}};
      return;
    }
    for (uint64_t at = begin; at < end;) {
      auto it = segments.lower_bound(at);
      if (it == segments.end() || it->first > at)
        it = segments.emplace_hint(it, at, Segment{it == segments.end() ? end : std::min(end, it->first), {}});
      it->second.ops.push_back(op);
      at = it->second.end;
    }
  }

private:
  struct Segment {
    uint64_t end;
    std::vector<uint32_t> ops;
  };

  void cut(uint64_t at) {
    auto it = segments.lower_bound(at);
    if (it == segments.begin())
      return;
    --it;
    if (it->second.end <= at)
      return;
    Segment tail = it->second;
    it->second.end = at;
    segments.emplace(at, std::move(tail));
  }

  std::map<uint64_t, Segment> segments; ///< by first byte
};

} // namespace

std::vector<std::vector<uint32_t>> planning::trueDependences(const Schedule &schedule) {
  std::vector<Writers> writers(schedule.buffers.size());
  std::vector<std::vector<uint32_t>> result(schedule.ops.size());
  for (uint32_t i = 0; i < schedule.ops.size(); ++i) {
    const ScheduledOp &op = schedule.ops[i];
    for (const BufferRange &r : op.operands)
      if (r.access != Access::Write)
        writers[r.buffer].read(r.offset, r.offset + r.bytes, result[i]);
    for (const BufferRange &r : op.operands)
      if (r.access != Access::Read)
        writers[r.buffer].write(r.offset, r.offset + r.bytes, i, op.predicate == Predicate::Always);
    std::sort(result[i].begin(), result[i].end());
    result[i].erase(std::unique(result[i].begin(), result[i].end()), result[i].end());
  }
  return result;
}
