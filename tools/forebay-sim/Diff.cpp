//===- Diff.cpp - Two plans beside each other -----------------------------===//

#include "Diff.h"

#include "forebay/Planning/Machine.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdio>
#include <set>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::sim;

namespace {

class Table {
public:
  /// Only rows that differ are shown.
  void row(const std::string &label, const std::string &a, const std::string &b, const std::string &change = "") {
    if (a == b)
      return;
    std::string line = label;
    line.resize(std::max<size_t>(line.size() + 1, 30), ' ');
    for (const std::string *cell : {&a, &b, &change})
      line += std::string(cell->size() < 16 ? 16 - cell->size() : 1, ' ') + *cell;
    text += llvm::StringRef(line).rtrim().str() + "\n";
  }

  void bytes(const std::string &label, uint64_t a, uint64_t b) {
    auto cell = [](uint64_t bytes) { return bytes ? readableSize(bytes) : std::string("-"); };
    if (a != b)
      row(label, cell(a) == cell(b) ? std::to_string(a) : cell(a), cell(a) == cell(b) ? std::to_string(b) : cell(b), (b > a ? "+" : "-") + readableSize(b > a ? b - a : a - b));
  }

  void count(const std::string &label, uint64_t a, uint64_t b) {
    if (a != b)
      row(label, std::to_string(a), std::to_string(b), (b > a ? "+" : "-") + std::to_string(b > a ? b - a : a - b));
  }

  std::string text;
};

std::string percentOf(double a, double b) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f%%", 100 * (b / a - 1));
  return text;
}

/// What `programs` know of a name, in the order of the first, then of the second.
template <typename List> std::vector<std::string> namesOf(const List &a, const List &b) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const List *list : {&a, &b})
    for (const auto &entry : *list)
      if (seen.insert(entry.name).second)
        names.push_back(entry.name);
  return names;
}

template <typename List> const typename List::value_type *find(const List &list, const std::string &name) {
  for (const auto &entry : list)
    if (entry.name == name)
      return &entry;
  return nullptr;
}

std::map<std::string, uint64_t> commandsByQueue(const Program &program) {
  std::map<std::string, uint64_t> result;
  for (const Command &c : program.step)
    ++result[program.queues[c.queue].name];
  return result;
}

/// Where each parameter is kept, what forward reads, and where and when it is updated: "host, copy in hbm; state in host; update cpu (apply)".
std::map<std::string, std::string> placements(const Program &program) {
  static const char *const times[] = {"always", "first", "later", "last", "after the verdict", "speculative", "speculative", "speculative"};
  const std::vector<Tensor> &tensors = program.tensors;
  std::map<int32_t, std::set<std::string>> copies, updates, states;
  std::map<std::string, int32_t> parameters;
  for (size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].role == Role::Parameter)
      parameters[tensors[t].name] = t;
  for (const Tensor &tensor : tensors) {
    if (tensor.role == Role::WeightCopy && tensor.copyOf >= 0)
      copies[tensor.copyOf].insert(program.spaces[tensor.space].name);
    // A moment is called "<parameter>/<state>".
    auto of = tensor.role == Role::Moment ? parameters.find(tensor.name.substr(0, tensor.name.rfind('/'))) : parameters.end();
    if (of != parameters.end())
      states[of->second].insert(program.spaces[tensor.space].name);
  }
  for (const Command &c : program.step)
    if (c.kind == CommandKind::Dispatch && c.tensor >= 0 && c.phase == "update")
      updates[c.tensor].insert(program.queues[c.queue].name + " (" + times[static_cast<unsigned>(c.predicate)] + ")");
  std::map<std::string, std::string> result;
  for (auto &entry : parameters) {
    const std::string &name = entry.first;
    const int32_t parameter = entry.second;
    std::string text = program.spaces[tensors[parameter].space].name;
    auto add = [&](const char *what, const std::map<int32_t, std::set<std::string>> &table) {
      if (auto found = table.find(parameter); found != table.end())
        text += std::string(", ") + what + " " + llvm::join(found->second, " and ");
    };
    add("copy in", copies);
    add("state in", states);
    add("updated by", updates);
    result[name] = text;
  }
  return result;
}

} // namespace

std::string sim::diffText(const Plan &a, const Plan &b) {
  Table table;
  table.row("", a.report.policy, b.report.policy == a.report.policy ? b.report.policy + " (other)" : b.report.policy, "change");
  size_t header = table.text.size();
  table.row("machine", a.report.machine, b.report.machine);
  table.row("fits", a.report.fits ? "yes" : "no", b.report.fits ? "yes" : "no");
  if (a.report.time && b.report.time) {
    const TimeReport &ta = *a.report.time, &tb = *b.report.time;
    if (ta.stepSeconds != tb.stepSeconds)
      table.row("step", readableSeconds(ta.stepSeconds), readableSeconds(tb.stepSeconds), percentOf(ta.stepSeconds, tb.stepSeconds));
    for (const std::string &name : namesOf(ta.queues, tb.queues)) {
      const TimeReport::Queue *qa = find(ta.queues, name), *qb = find(tb.queues, name);
      table.row(name + " busy", qa ? readableSeconds(qa->busy) : "-", qb ? readableSeconds(qb->busy) : "-",
                qa && qb && qa->busy > 0 && qb->busy > 0 ? percentOf(qa->busy, qb->busy) : "");
    }
  } else {
    table.row("step", a.report.time ? readableSeconds(a.report.time->stepSeconds) : "-", b.report.time ? readableSeconds(b.report.time->stepSeconds) : "-");
  }
  for (const std::string &name : namesOf(a.report.spaces, b.report.spaces)) {
    const SpaceReport *sa = find(a.report.spaces, name), *sb = find(b.report.spaces, name);
    static const SpaceReport none;
    sa = sa ? sa : &none;
    sb = sb ? sb : &none;
    table.bytes(name + " capacity", sa->capacity, sb->capacity);
    table.bytes(name + " arena", sa->peak, sb->peak);
    std::map<Role, std::pair<uint64_t, uint64_t>> roles;
    for (auto &[role, bytes] : sa->rolesPeak)
      roles[role].first = bytes;
    for (auto &[role, bytes] : sb->rolesPeak)
      roles[role].second = bytes;
    for (auto &[role, bytes] : roles)
      table.bytes("  " + std::string(forebay::name(role)), bytes.first, bytes.second);
  }
  auto ca = commandsByQueue(a.program), cb = commandsByQueue(b.program);
  std::set<std::string> queues;
  for (auto *counts : {&ca, &cb})
    for (auto &[name, count] : *counts)
      queues.insert(name);
  for (const std::string &name : queues)
    table.count(name + " commands", ca[name], cb[name]);
  table.bytes("copied up in a micro-step", a.report.copied[0], b.report.copied[0]);
  table.bytes("copied down in a micro-step", a.report.copied[1], b.report.copied[1]);

  // Parameters that changed alike are one row.
  auto pa = placements(a.program), pb = placements(b.program);
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> changes;
  for (auto *places : {&pa, &pb})
    for (auto &[name, place] : *places) {
      std::string before = pa.count(name) ? pa[name] : "absent", after = pb.count(name) ? pb[name] : "absent";
      if (before != after && (places == &pa || !pa.count(name)))
        changes[{before, after}].push_back(name);
    }
  std::string out = table.text;
  for (auto &[change, names] : changes) {
    out += std::to_string(names.size()) + (names.size() == 1 ? " parameter" : " parameters") + " differently placed: ";
    for (size_t i = 0; i < names.size() && i < 3; ++i)
      out += (i ? ", " : "") + names[i];
    out += std::string(names.size() > 3 ? ", ..." : "") + "\n  from " + change.first + "\n  to   " + change.second + "\n";
  }
  return out.size() == header ? "no difference\n" : out;
}
