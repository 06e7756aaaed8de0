//===- Machine.cpp - Machine descriptions in dlti -------------------------===//

#include "Machine.h"

#include "forebay/Support/ParseFile.h"

#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"

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

/// Entry `key` of a device, or null.
static Attribute find(TargetDeviceSpecInterface device, StringRef key) {
  for (DataLayoutEntryInterface entry : device.getEntries())
    if (auto name = dyn_cast<StringAttr>(entry.getKey()); name && name == key)
      return entry.getValue();
  return {};
}
static StringRef text(TargetDeviceSpecInterface device, StringRef key) {
  auto value = dyn_cast_or_null<StringAttr>(find(device, key));
  return value ? value.getValue() : StringRef();
}

/// An error about the machine that the user named.
static InFlightDiagnostic complain(StringRef nameOrFile, Location loc) {
  InFlightDiagnostic error = emitError(loc) << "--machine=" << nameOrFile << ": ";
  error.attachNote() << "docs/machines.md says what a machine file holds; the presets in machines/ are examples";
  return error;
}

static FailureOr<Machine> fromSpec(StringRef nameOrFile, StringRef name, TargetSystemSpecInterface spec, Location loc) {
  auto fail = [&](const Twine &what) -> LogicalResult { return complain(nameOrFile, loc) << what; };
  Machine machine;
  machine.name = name.str();
  struct Device {
    StringRef id;
    TargetDeviceSpecInterface spec;
  };
  SmallVector<Device> memories, engines;
  for (DataLayoutEntryInterface entry : spec.getEntries()) {
    auto id = dyn_cast<StringAttr>(entry.getKey());
    auto device = dyn_cast<TargetDeviceSpecInterface>(entry.getValue());
    if (!id || !device)
      return fail("each entry must be a named #dlti.target_device_spec");
    StringRef kind = text(device, "kind");
    if (kind != "memory" && kind != "engine")
      return fail("'" + id.getValue() + "' must have \"kind\" = \"memory\" or \"engine\"");
    (kind == "memory" ? memories : engines).push_back({id.getValue(), device});
  }
  for (const Device &memory : memories) {
    planning::MachineSpace space{memory.id.str(), 0};
    Attribute capacity = find(memory.spec, "capacity");
    if (auto bytes = dyn_cast_or_null<IntegerAttr>(capacity); bytes && bytes.getInt() > 0)
      space.capacity = bytes.getInt();
    else if (text(memory.spec, "capacity") == "physical")
      space.capacity = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    else
      return fail("memory '" + memory.id + "' needs a \"capacity\" in bytes, or \"physical\"");
    machine.spaces.push_back(std::move(space));
  }
  auto spaceOf = [&](StringRef id) -> int {
    for (auto [i, space] : llvm::enumerate(machine.spaces))
      if (space.name == id)
        return i;
    return -1;
  };
  int compute = -1, host = -1, up = -1, down = -1;
  for (auto [i, engine] : llvm::enumerate(engines)) {
    StringRef in = text(engine.spec, "computes_in");
    machine.queues.push_back({engine.id.str(), !in.empty()});
    if (spaceOf(in.empty() ? text(engine.spec, "copies_to") : in) < 0)
      return fail("engine '" + engine.id + "' names no memory of the machine");
    if (!in.empty() && compute < 0) {
      compute = i;
      machine.computeSpace = spaceOf(in);
    }
    if (!in.empty() && in == "host") {
      host = i;
      machine.hostSpace = spaceOf(in);
    }
  }
  if (host < 0)
    return fail("an engine must compute in the memory 'host'");
  for (auto [i, engine] : llvm::enumerate(engines)) {
    int from = spaceOf(text(engine.spec, "copies_from")), to = spaceOf(text(engine.spec, "copies_to"));
    if (machine.queues[i].compute)
      continue;
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
  return machine;
}

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
  return fromSpec(nameOrFile, module->getName().value_or(nameOrFile), spec, loc);
}

void offload::setMachine(ModuleOp module, const Machine &machine) {
  Builder b(module.getContext());
  auto entry = [&](StringRef key, Attribute value) -> DataLayoutEntryInterface { return DataLayoutEntryAttr::get(b.getStringAttr(key), value); };
  auto device = [&](StringRef id, ArrayRef<DataLayoutEntryInterface> entries) {
    return entry(id, TargetDeviceSpecAttr::get(b.getContext(), entries));
  };
  SmallVector<DataLayoutEntryInterface> devices;
  for (const planning::MachineSpace &space : machine.spaces)
    devices.push_back(device(space.name, {entry("kind", b.getStringAttr("memory")), entry("capacity", b.getI64IntegerAttr(space.capacity))}));
  for (auto [i, queue] : llvm::enumerate(machine.queues)) {
    SmallVector<DataLayoutEntryInterface> entries{entry("kind", b.getStringAttr("engine"))};
    auto space = [&](uint32_t s) { return b.getStringAttr(machine.spaces[s].name); };
    if (queue.compute) {
      entries.push_back(entry("computes_in", space(i == machine.computeQueue ? machine.computeSpace : machine.hostSpace)));
    } else {
      bool up = i == machine.toCompute;
      entries.push_back(entry("copies_from", space(up ? machine.hostSpace : machine.computeSpace)));
      entries.push_back(entry("copies_to", space(up ? machine.computeSpace : machine.hostSpace)));
    }
    devices.push_back(device(queue.name, entries));
  }
  module->setAttr(kSpecAttr, TargetSystemSpecAttr::get(b.getContext(), devices));
  module->setAttr(kMachineAttr, b.getStringAttr(machine.name));
}

FailureOr<Machine> offload::getMachine(ModuleOp module) {
  auto spec = module->getAttrOfType<TargetSystemSpecInterface>(kSpecAttr);
  auto name = module->getAttrOfType<StringAttr>(kMachineAttr);
  if (!spec || !name)
    return module.emitError("has no machine (offload.machine, dlti.target_system_spec): run offload-plan first");
  return fromSpec(name, name, spec, module.getLoc());
}
