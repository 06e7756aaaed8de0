//===- Machine.cpp - Machine descriptions in dlti -------------------------===//

#include "Machine.h"

#include "forebay/Support/ParseFile.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <cmath>
#include <limits>
#include <optional>
#include <unistd.h>

using namespace mlir;
namespace offload = forebay::offload;
namespace planning = forebay::planning;
using planning::Machine;

static constexpr StringLiteral kSpecAttr = "dlti.target_system_spec";
static constexpr StringLiteral kMachineAttr = "offload.machine";

namespace {
struct Embedded {
  const char *name;
  const char *text;
};
} // namespace

// One entry for each file in machines/.
static const Embedded kEmbedded[] = {
#include "Machines.inc"
};

/// An error about the machine that the user named.
static InFlightDiagnostic complain(StringRef nameOrFile, Location loc) {
  InFlightDiagnostic error = emitError(loc) << "--machine=" << nameOrFile << ": ";
  error.attachNote() << "docs/machines.md says what a machine file holds; the presets in machines/ are examples";
  return error;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

template <typename Enum> static std::optional<Enum> parseName(StringRef text, Enum last) {
  for (unsigned i = 0; i <= static_cast<unsigned>(last); ++i)
    if (text == forebay::name(static_cast<Enum>(i)))
      return static_cast<Enum>(i);
  return std::nullopt;
}
template <typename Enum> static std::string allNames(Enum last) {
  std::string names;
  for (unsigned i = 0; i <= static_cast<unsigned>(last); ++i)
    names += std::string(i ? ", " : "") + forebay::name(static_cast<Enum>(i));
  return names;
}
static constexpr forebay::OpClass kLastClass = forebay::OpClass::Cast;
static constexpr forebay::DType kLastType = forebay::DType::Bool;

namespace {

/// Reads a specification; the first thing that is wrong with it is an error that names the entry.
class SpecReader {
public:
  SpecReader(StringRef nameOrFile, Location loc) : nameOrFile(nameOrFile), loc(loc) {}

  FailureOr<Machine> run(StringRef name, TargetSystemSpecInterface spec) {
    machine.name = name.str();
    if (failed(sortEntries(spec)))
      return failure();
    for (const Device &memory : memories)
      if (failed(readMemory(memory)))
        return failure();
    for (const Device &engine : engines)
      if (failed(readEngine(engine)))
        return failure();
    if (failed(assignRoles()))
      return failure();
    return std::move(machine);
  }

private:
  using Entries = ArrayRef<DataLayoutEntryInterface>;
  struct Device {
    StringRef id;
    std::string where; ///< "memory 'hbm'"
    Entries entries;

    Attribute find(StringRef key) const {
      for (DataLayoutEntryInterface entry : entries)
        if (auto name = dyn_cast<StringAttr>(entry.getKey()); name && name == key)
          return entry.getValue();
      return {};
    }
    StringRef text(StringRef key) const {
      auto value = dyn_cast_or_null<StringAttr>(find(key));
      return value ? value.getValue() : StringRef();
    }
  };

  LogicalResult fail(const Twine &what) { return complain(nameOrFile, loc) << what; }
  LogicalResult failEntry(const Twine &where, StringRef key, const Twine &what) { return fail(where + ": \"" + key + "\" must be " + what); }

  LogicalResult sortEntries(TargetSystemSpecInterface spec) {
    for (DataLayoutEntryInterface entry : spec.getEntries()) {
      auto id = dyn_cast<StringAttr>(entry.getKey());
      auto device = dyn_cast<TargetDeviceSpecInterface>(entry.getValue());
      if (!id || !device)
        return fail("each entry must be a named #dlti.target_device_spec");
      Device read{id.getValue(), "", device.getEntries()};
      StringRef kind = read.text("kind");
      if (kind != "memory" && kind != "engine")
        return fail("'" + id.getValue() + "' must have \"kind\" = \"memory\" or \"engine\"");
      read.where = (kind + " '" + id.getValue() + "'").str();
      (kind == "memory" ? memories : engines).push_back(std::move(read));
    }
    return success();
  }

  LogicalResult expectKeys(const Device &device, ArrayRef<StringRef> known) {
    for (DataLayoutEntryInterface entry : device.entries) {
      auto key = dyn_cast<StringAttr>(entry.getKey());
      if (!key || !llvm::is_contained(known, key.getValue()))
        return fail(device.where + " has no entry \"" + keyOf(entry) + "\" (known: " + llvm::join(known, ", ") + ")");
    }
    return success();
  }

  static std::optional<double> number(Attribute value) {
    double real = 0;
    if (auto text = dyn_cast_or_null<FloatAttr>(value))
      real = text.getValueAsDouble();
    else if (auto text = dyn_cast_or_null<IntegerAttr>(value))
      real = static_cast<double>(text.getInt());
    else
      return std::nullopt;
    return std::isfinite(real) ? std::optional(real) : std::nullopt;
  }
  static bool above0(Attribute value, double &to) {
    std::optional<double> real = number(value);
    to = real.value_or(0);
    return real && *real > 0;
  }
  /// The entry may be absent: then `to` stays.
  LogicalResult readAbove0(const Device &device, StringRef key, double &to, StringRef unit) {
    Attribute value = device.find(key);
    if (value && !above0(value, to))
      return failEntry(device.where, key, "a number above 0, in " + unit);
    return success();
  }

  /// [[x, y], ...]
  static bool readCurve(Attribute value, planning::Curve &curve) {
    auto list = dyn_cast<ArrayAttr>(value);
    if (!list)
      return false;
    for (Attribute entry : list) {
      auto pair = dyn_cast<ArrayAttr>(entry);
      planning::Curve::Point point;
      if (!pair || pair.size() != 2 || !above0(pair[0], point.x) || !above0(pair[1], point.y) ||
          (!curve.points.empty() && point.x <= curve.points.back().x))
        return false;
      curve.points.push_back(point);
    }
    return !curve.points.empty();
  }

  static Entries mapEntries(Attribute value) {
    auto map = dyn_cast_or_null<MapAttr>(value);
    return map ? map.getEntries() : Entries();
  }
  static StringRef keyOf(DataLayoutEntryInterface entry) {
    auto key = dyn_cast<StringAttr>(entry.getKey());
    return key ? key.getValue() : StringRef();
  }

  //===--- Memories -------------------------------------------------------===//

  static uint64_t readBytes(const Device &memory, StringRef key) {
    if (auto bytes = dyn_cast_or_null<IntegerAttr>(memory.find(key)); bytes && bytes.getInt() > 0)
      return bytes.getInt();
    if (memory.text(key) == "physical")
      return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    return 0;
  }

  LogicalResult readMemory(const Device &memory) {
    if (failed(expectKeys(memory, {"kind", "capacity", "total", "usable", "bandwidth"})))
      return failure();
    planning::MachineSpace space;
    space.name = memory.id.str();
    space.capacity = readBytes(memory, "capacity");
    space.total = readBytes(memory, "total");
    bool hasTotal = bool(memory.find("total")), hasUsable = bool(memory.find("usable"));
    if (hasTotal && space.total == 0)
      return failEntry(memory.where, "total", "a size in bytes, or \"physical\"");
    if (hasUsable) {
      double share = 0;
      if (!above0(memory.find("usable"), share) || share > 1)
        return failEntry(memory.where, "usable", "a share above 0, at most 1");
      if (!hasTotal || memory.find("capacity"))
        return fail(memory.where + ": \"usable\" is a share of \"total\" and takes the place of \"capacity\"");
      space.capacity = static_cast<uint64_t>(static_cast<double>(space.total) * share);
    } else if (space.capacity == 0 && (memory.find("capacity") || !hasTotal)) {
      return fail("memory '" + memory.id + "' needs a \"capacity\" in bytes, or \"physical\"");
    } else if (space.capacity == 0) {
      space.capacity = space.total;
    }
    if (!hasTotal)
      space.total = space.capacity;
    if (space.capacity == 0 || space.capacity > space.total)
      return fail(memory.where + ": \"capacity\" is above \"total\"");
    if (failed(readAbove0(memory, "bandwidth", space.bandwidth, "bytes/s")))
      return failure();
    machine.spaces.push_back(std::move(space));
    return success();
  }

  //===--- Engines --------------------------------------------------------===//

  int spaceOf(StringRef id) const {
    for (auto [i, space] : llvm::enumerate(machine.spaces))
      if (space.name == id)
        return i;
    return -1;
  }

  LogicalResult readEngine(const Device &engine) {
    planning::MachineQueue queue;
    queue.name = engine.id.str();
    queue.compute = bool(engine.find("computes_in"));
    if (spaceOf(engine.text(queue.compute ? "computes_in" : "copies_to")) < 0 || (!queue.compute && spaceOf(engine.text("copies_from")) < 0))
      return fail("engine '" + engine.id + "' names no memory of the machine");
    if (engine.find("stream_of")) {
      if (failed(queue.compute ? expectKeys(engine, {"kind", "computes_in", "stream_of"}) : expectKeys(engine, {"kind", "copies_from", "copies_to", "stream_of"})))
        return failure();
      machine.queues.push_back(std::move(queue));
      return success();
    }
    if (Attribute value = engine.find("launch")) {
      std::optional<double> seconds = number(value);
      if (!seconds || *seconds < 0)
        return failEntry(engine.where, "launch", "seconds, 0 or more");
      queue.launch = *seconds;
    }
    if (failed(queue.compute ? readCompute(engine, queue) : readLink(engine, queue)))
      return failure();
    machine.queues.push_back(std::move(queue));
    return success();
  }

  LogicalResult readLink(const Device &engine, planning::MachineQueue &queue) {
    if (failed(expectKeys(engine, {"kind", "copies_from", "copies_to", "launch", "cores", "link"})) || failed(readCores(engine, queue)))
      return failure();
    if (Attribute link = engine.find("link"); link && !readCurve(link, queue.link))
      return failEntry(engine.where, "link", "a list of [bytes, bytes/s] with ascending bytes, all above 0");
    return success();
  }

  LogicalResult readCores(const Device &engine, planning::MachineQueue &queue) {
    Attribute value = engine.find("cores");
    if (!value)
      return success();
    auto cores = dyn_cast<IntegerAttr>(value);
    if (!cores || cores.getInt() < 1 || cores.getInt() > std::numeric_limits<int32_t>::max())
      return failEntry(engine.where, "cores", "a whole number, at least 1");
    queue.cores = cores.getInt();
    return success();
  }

  LogicalResult readCompute(const Device &engine, planning::MachineQueue &queue) {
    if (failed(expectKeys(engine, {"kind", "computes_in", "launch", "cores", "bandwidth", "class_bandwidth", "rates", "peaks"})) ||
        failed(readAbove0(engine, "bandwidth", queue.bandwidth, "bytes/s")) || failed(readCores(engine, queue)))
      return failure();
    if (Attribute map = engine.find("class_bandwidth")) {
      if (!isa<MapAttr>(map))
        return failEntry(engine.where, "class_bandwidth", "a #dlti.map of bytes/s by class");
      for (DataLayoutEntryInterface entry : mapEntries(map)) {
        auto cls = parseName(keyOf(entry), kLastClass);
        if (!cls || !above0(entry.getValue(), queue.classBandwidth[static_cast<unsigned>(*cls)]))
          return failEntry(engine.where + ": \"class_bandwidth\"", keyOf(entry), "a class (" + allNames(kLastClass) + ") with bytes/s above 0");
      }
    }
    if (Attribute map = engine.find("rates")) {
      if (!isa<MapAttr>(map))
        return failEntry(engine.where, "rates", "a #dlti.map of rates by class");
      for (DataLayoutEntryInterface entry : mapEntries(map))
        if (failed(readRates(engine, entry, queue)))
          return failure();
    }
    if (Attribute map = engine.find("peaks")) {
      if (!isa<MapAttr>(map))
        return failEntry(engine.where, "peaks", "a #dlti.map of flops/s by type");
      for (DataLayoutEntryInterface entry : mapEntries(map)) {
        auto type = parseName(keyOf(entry), kLastType);
        double flops = 0;
        if (!type || !above0(entry.getValue(), flops))
          return failEntry(engine.where + ": \"peaks\"", keyOf(entry), "a type (" + allNames(kLastType) + ") with flops/s above 0");
        queue.peaks.push_back({*type, flops});
      }
    }
    return success();
  }

  /// One class: a map of flops/s by type, each a number or {flops, share}.
  LogicalResult readRates(const Device &engine, DataLayoutEntryInterface entry, planning::MachineQueue &queue) {
    auto cls = parseName(keyOf(entry), kLastClass);
    if (!cls || !isa<MapAttr>(entry.getValue()))
      return failEntry(engine.where + ": \"rates\"", keyOf(entry), "a class (" + allNames(kLastClass) + ") with a #dlti.map of flops/s by type");
    for (DataLayoutEntryInterface inner : mapEntries(entry.getValue())) {
      auto type = parseName(keyOf(inner), kLastType);
      planning::ComputeRate rate;
      rate.cls = *cls;
      bool good = bool(type);
      if (auto map = dyn_cast<MapAttr>(inner.getValue())) {
        Device parts{"", "", map.getEntries()};
        Attribute share = parts.find("share");
        good &= above0(parts.find("flops"), rate.flops) && (!share || readCurve(share, rate.share)) && parts.entries.size() == (share ? 2 : 1);
      } else {
        good &= above0(inner.getValue(), rate.flops);
      }
      if (!good)
        return failEntry(engine.where + ": \"rates\": \"" + keyOf(entry) + "\"", keyOf(inner),
                         "a type (" + allNames(kLastType) + ") with flops/s above 0, or #dlti.map<\"flops\" = N, \"share\" = [[width, share], ...]>");
      rate.type = *type;
      queue.rates.push_back(std::move(rate));
    }
    return success();
  }

  //===--- Roles ----------------------------------------------------------===//

  LogicalResult assignRoles() {
    int compute = -1, host = -1, up = -1, down = -1;
    for (auto [i, engine] : llvm::enumerate(engines)) {
      if (!machine.queues[i].compute || engine.find("stream_of"))
        continue;
      StringRef in = engine.text("computes_in");
      if (compute < 0) {
        compute = i;
        machine.computeSpace = spaceOf(in);
      }
      if (in == "host") {
        host = i;
        machine.hostSpace = spaceOf(in);
      }
    }
    if (host < 0)
      return fail("an engine must compute in the memory 'host'");
    for (auto [i, engine] : llvm::enumerate(engines)) {
      if (machine.queues[i].compute || engine.find("stream_of"))
        continue;
      int from = spaceOf(engine.text("copies_from")), to = spaceOf(engine.text("copies_to"));
      if (from == static_cast<int>(machine.hostSpace) && to == static_cast<int>(machine.computeSpace))
        up = i;
      if (to == static_cast<int>(machine.hostSpace) && from == static_cast<int>(machine.computeSpace))
        down = i;
    }
    machine.computeQueue = compute;
    machine.hostQueue = host;
    if (machine.offloads() && (up < 0 || down < 0))
      return fail("two memories need an engine that copies each way between them");
    machine.toCompute = up < 0 ? host : up;
    machine.toHost = down < 0 ? host : down;
    for (auto [i, engine] : llvm::enumerate(engines))
      if (engine.find("stream_of") && failed(addSide(i)))
        return failure();
    return success();
  }

  /// A second stream has the rates of the engine that it belongs to.
  LogicalResult addSide(uint32_t i) {
    const Device &engine = engines[i];
    bool computes = machine.queues[i].compute, up = spaceOf(engine.text("copies_from")) == static_cast<int>(machine.hostSpace);
    const planning::MachineQueue &of = machine.queues[computes ? machine.computeQueue : up ? machine.toCompute : machine.toHost];
    int32_t &place = computes ? machine.sideQueue : up ? machine.sideToCompute : machine.sideToHost;
    if (engine.text("stream_of") != of.name || place >= 0 ||
        (computes ? spaceOf(engine.text("computes_in")) != static_cast<int>(machine.computeSpace)
                  : spaceOf(engine.text(up ? "copies_to" : "copies_from")) != static_cast<int>(machine.computeSpace)))
      return failEntry(engine.where, "stream_of",
                       computes ? "\"" + of.name + "\", the engine that runs forward and backward, in the memory of that, and be there once"
                                : "\"" + of.name + "\", the engine that copies the same way, and be there once");
    planning::MachineQueue side = of;
    side.name = engine.id.str();
    machine.queues[i] = std::move(side);
    place = i;
    return success();
  }

  StringRef nameOrFile;
  Location loc;
  Machine machine;
  SmallVector<Device> memories, engines;
};

} // namespace

FailureOr<Machine> offload::loadMachine(StringRef nameOrFile, Location loc) {
  MLIRContext *context = loc.getContext();
  context->getOrLoadDialect<DLTIDialect>();
  OwningOpRef<ModuleOp> module;
  std::string known;
  for (const Embedded &embedded : kEmbedded) {
    known += (known.empty() ? "" : ", ") + std::string(embedded.name);
    if (nameOrFile == embedded.name)
      module = parseSourceString<ModuleOp>(embedded.text, ParserConfig(context), embedded.name);
  }
  if (!module) {
    if (!llvm::sys::fs::exists(nameOrFile) || llvm::sys::fs::is_directory(nameOrFile))
      return (emitError(loc) << "--machine=" << nameOrFile << ": there is no such machine").attachNote()
             << "known: " << known << ", or a machine file";
    std::string problem;
    module = parseFile(nameOrFile, context, problem);
    if (!module)
      return complain(nameOrFile, loc) << problem;
  }
  auto spec = (*module)->getAttrOfType<TargetSystemSpecInterface>(kSpecAttr);
  if (!spec)
    return complain(nameOrFile, loc) << "has no " << kSpecAttr;
  return SpecReader(nameOrFile, loc).run(module->getName().value_or(nameOrFile), spec);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

class SpecWriter {
public:
  SpecWriter(MLIRContext *context, const Machine &machine) : b(context), machine(machine) {}

  Attribute run() {
    SmallVector<DataLayoutEntryInterface> devices;
    for (const planning::MachineSpace &space : machine.spaces)
      devices.push_back(entry(space.name, TargetDeviceSpecAttr::get(b.getContext(), memory(space))));
    for (uint32_t i = 0; i < machine.queues.size(); ++i)
      devices.push_back(entry(machine.queues[i].name, TargetDeviceSpecAttr::get(b.getContext(), engine(i))));
    return TargetSystemSpecAttr::get(b.getContext(), devices);
  }

private:
  using Entries = SmallVector<DataLayoutEntryInterface>;

  DataLayoutEntryInterface entry(StringRef key, Attribute value) { return DataLayoutEntryAttr::get(b.getStringAttr(key), value); }
  DataLayoutEntryInterface entry(StringRef key, StringRef value) { return entry(key, Attribute(b.getStringAttr(value))); }
  DataLayoutEntryInterface entry(StringRef key, double value) { return entry(key, Attribute(b.getF64FloatAttr(value))); }
  DataLayoutEntryInterface entry(StringRef key, int64_t value) { return entry(key, Attribute(b.getI64IntegerAttr(value))); }
  Attribute map(const Entries &entries) { return MapAttr::get(b.getContext(), entries); }

  Attribute curve(const planning::Curve &curve) {
    SmallVector<Attribute> points;
    for (const planning::Curve::Point &point : curve.points)
      points.push_back(b.getArrayAttr({b.getF64FloatAttr(point.x), b.getF64FloatAttr(point.y)}));
    return b.getArrayAttr(points);
  }

  Entries memory(const planning::MachineSpace &space) {
    Entries entries{entry("kind", "memory"), entry("capacity", static_cast<int64_t>(space.capacity)), entry("total", static_cast<int64_t>(space.total))};
    if (space.bandwidth > 0)
      entries.push_back(entry("bandwidth", space.bandwidth));
    return entries;
  }

  Entries engine(uint32_t i) {
    const planning::MachineQueue &queue = machine.queues[i];
    auto at = static_cast<int32_t>(i);
    bool side = at == machine.sideQueue || at == machine.sideToCompute || at == machine.sideToHost;
    StringRef compute = machine.spaces[machine.computeSpace].name, host = machine.spaces[machine.hostSpace].name;
    Entries entries{entry("kind", "engine")};
    if (queue.compute) {
      entries.push_back(entry("computes_in", side || i == machine.computeQueue ? compute : host));
    } else {
      bool up = i == machine.toCompute || at == machine.sideToCompute;
      entries.push_back(entry("copies_from", up ? host : compute));
      entries.push_back(entry("copies_to", up ? compute : host));
    }
    if (side) {
      uint32_t of = queue.compute ? machine.computeQueue : at == machine.sideToCompute ? machine.toCompute : machine.toHost;
      entries.push_back(entry("stream_of", machine.queues[of].name));
      return entries;
    }
    if (queue.launch > 0)
      entries.push_back(entry("launch", queue.launch));
    if (queue.cores > 0)
      entries.push_back(entry("cores", static_cast<int64_t>(queue.cores)));
    if (queue.bandwidth > 0)
      entries.push_back(entry("bandwidth", queue.bandwidth));
    Entries bandwidths, peaks;
    for (auto [cls, bandwidth] : llvm::enumerate(queue.classBandwidth))
      if (bandwidth > 0)
        bandwidths.push_back(entry(forebay::name(static_cast<forebay::OpClass>(cls)), bandwidth));
    for (auto &[type, flops] : queue.peaks)
      peaks.push_back(entry(forebay::name(type), flops));
    if (!bandwidths.empty())
      entries.push_back(entry("class_bandwidth", map(bandwidths)));
    if (!queue.rates.empty())
      entries.push_back(entry("rates", rates(queue)));
    if (!peaks.empty())
      entries.push_back(entry("peaks", map(peaks)));
    if (!queue.link.points.empty())
      entries.push_back(entry("link", curve(queue.link)));
    return entries;
  }

  /// By class, in the order in which the classes first appear: a file keeps those of a class together.
  Attribute rates(const planning::MachineQueue &queue) {
    Entries classes;
    SmallVector<forebay::OpClass> seen;
    for (const planning::ComputeRate &first : queue.rates) {
      if (llvm::is_contained(seen, first.cls))
        continue;
      seen.push_back(first.cls);
      Entries types;
      for (const planning::ComputeRate &rate : queue.rates) {
        if (rate.cls != first.cls)
          continue;
        DataLayoutEntryInterface flops = entry("flops", rate.flops);
        types.push_back(rate.share.points.empty() ? entry(forebay::name(rate.type), rate.flops)
                                                  : entry(forebay::name(rate.type), map({flops, entry("share", curve(rate.share))})));
      }
      classes.push_back(entry(forebay::name(first.cls), map(types)));
    }
    return map(classes);
  }

  Builder b;
  const Machine &machine;
};

} // namespace

void offload::setMachine(ModuleOp module, const Machine &machine) {
  module->setAttr(kSpecAttr, SpecWriter(module.getContext(), machine).run());
  module->setAttr(kMachineAttr, StringAttr::get(module.getContext(), machine.name));
}

FailureOr<Machine> offload::getMachine(ModuleOp module) {
  auto spec = module->getAttrOfType<TargetSystemSpecInterface>(kSpecAttr);
  auto name = module->getAttrOfType<StringAttr>(kMachineAttr);
  if (!spec || !name)
    return module.emitError("has no machine (offload.machine, dlti.target_system_spec): run offload-plan first");
  return SpecReader(name, module.getLoc()).run(name, spec);
}
