//===- Optimizers.cpp - Choosing and configuring the optimizer ------------===//

#include "forebay/Dialect/Train/Transforms/Optimizers.h"

#include "forebay/Support/Diagnostics.h"
#include "forebay/Support/ParseFile.h"
#include "forebay/Support/Regex.h"
#include "forebay/hyper.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace forebay;
using namespace forebay::train;

namespace {

struct Builtin {
  StringRef name, text;
};

const Builtin builtins[] = {
    {"adamw",
#include "adamw.mlir.inc"
    },
    {"adam",
#include "adam.mlir.inc"
    },
    {"sgd",
#include "sgd.mlir.inc"
    },
    {"lion",
#include "lion.mlir.inc"
    },
};

/// Names and numbers of the optimizer's hyper-parameters; booleans are 0 and 1.
std::vector<HyperDefault> hyperOf(OptimizerOp optimizer) {
  std::vector<HyperDefault> result;
  for (NamedAttribute entry : optimizer.getHyper()) {
    auto flag = dyn_cast<BoolAttr>(entry.getValue());
    auto number = dyn_cast<FloatAttr>(entry.getValue());
    result.push_back({entry.getName().str(), flag ? double(flag.getValue()) : number ? number.getValueAsDouble() : 0.0, bool(flag)});
  }
  return result;
}

/// Reads options into attributes. The rules are shared with the runtime.
class HyperParser {
public:
  HyperParser(OptimizerOp optimizer, Diagnostics &diags)
      : optimizer(optimizer), known(hyperOf(optimizer)), diags(diags), builder(optimizer.getContext()) {}

  /// Adds the attribute of one `KEY=VALUE` to `values`; false after an error.
  bool parse(StringRef where, StringRef text, bool isGroup, llvm::MapVector<StringRef, Attribute> &values) {
    std::string_view key;
    double value;
    HyperError error;
    if (!readHyper(optimizer.getSymName(), known, isGroup, text, key, value, error)) {
      diags.error(where, error.what).note(error.note);
      return false;
    }
    bool isBool = isa_and_nonnull<BoolAttr>(optimizer.getHyper().get(key));
    values[key] = isBool ? Attribute(builder.getBoolAttr(value != 0)) : Attribute(builder.getF64FloatAttr(value));
    return true;
  }

private:
  OptimizerOp optimizer;
  std::vector<HyperDefault> known;
  Diagnostics &diags;
  Builder builder;
};

/// The one train.optimizer of `source`, moved into `module`; null after an error.
OptimizerOp takeOptimizer(ModuleOp module, ModuleOp source, StringRef where, Diagnostics &diags) {
  auto found = llvm::to_vector(source.getOps<OptimizerOp>());
  if (found.size() != 1) {
    diags.error(where, "holds " + llvm::Twine(found.size()) + " train.optimizer operations")
        .note("write one; docs/optimizers.md has an example");
    return {};
  }
  found.front()->moveBefore(module.getBody(), module.getBody()->end());
  return found.front();
}

OptimizerOp loadOptimizer(ModuleOp module, StringRef name, Diagnostics &diags) {
  MLIRContext *context = module.getContext();
  ParserConfig config(context);
  for (const Builtin &builtin : builtins)
    if (builtin.name == name) {
      OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(builtin.text, config, (name + ".mlir").str());
      assert(parsed && "built-in optimizers parse");
      return takeOptimizer(module, *parsed, name, diags);
    }
  if (name.ends_with(".mlir")) {
    std::string problem;
    OwningOpRef<ModuleOp> parsed = parseFile(name, context, problem);
    if (!parsed) {
      diags.error("--optimizer=" + name, problem).note("docs/optimizers.md says how to write one");
      return {};
    }
    return takeOptimizer(module, *parsed, ("--optimizer=" + name).str(), diags);
  }
  diags.error("--optimizer=" + name, "there is no such optimizer")
      .note("known: " + llvm::join(builtinOptimizers(), ", ") + ", or a FILE.mlir");
  return {};
}

/// The operations that give the same bits on every engine; an update function may use nothing else.
bool isAllowedInUpdate(Operation &op) {
  static constexpr StringLiteral allowed[] = {
      "arith.addf",  "arith.subf",     "arith.mulf", "arith.divf", "arith.negf", "arith.cmpf",       "arith.select", "arith.constant",
      "arith.andi",  "arith.ori",      "arith.xori", "math.sqrt",  "math.fma",   "arith.maximumf", "arith.minimumf", "math.absf",
      "func.return", "math.copysign"};
  return llvm::is_contained(allowed, op.getName().getStringRef());
}

bool checkUpdate(OptimizerOp optimizer, Diagnostics &diags) {
  bool good = true;
  auto update = cast<func::FuncOp>(SymbolTable::lookupSymbolIn(optimizer, "update"));
  update.walk([&](Operation *op) {
    if (op == update || isAllowedInUpdate(*op))
      return;
    diags.error(describeLocation(op->getLoc()), "'" + op->getName().getStringRef() + "' is not allowed in @update")
        .note("only + - * / sqrt fma abs min max compare select and constants give the same bits everywhere; write anything else as a "
              "polynomial");
    good = false;
  });
  return good;
}

func::FuncOp entryFunction(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function.getSymName() == "forward" || function.getSymName() == "step")
      return function;
  return {};
}

/// Values that do not go together; `overrides` are a group's.
bool checkTogether(StringRef where, OptimizerOp optimizer, DictionaryAttr overrides, Diagnostics &diags) {
  std::vector<HyperDefault> known = hyperOf(optimizer);
  std::vector<double> values;
  for (const HyperDefault &hyper : known) {
    Attribute own = overrides ? overrides.get(hyper.name) : Attribute();
    if (auto flag = dyn_cast_or_null<BoolAttr>(own))
      values.push_back(flag.getValue());
    else if (auto number = dyn_cast_or_null<FloatAttr>(own))
      values.push_back(number.getValueAsDouble());
    else
      values.push_back(hyper.value);
  }
  HyperError error;
  if (checkHyper(known, values, error))
    return true;
  diags.error(where, error.what).note(error.note);
  return false;
}

} // namespace

ArrayRef<StringRef> forebay::builtinOptimizers() {
  static const SmallVector<StringRef> names =
      llvm::map_to_vector(builtins, [](const Builtin &builtin) { return builtin.name; });
  return names;
}

/// Applies `--group` texts to the parameters of `entry`.
static bool assignGroups(func::FuncOp entry, OptimizerOp optimizer, ArrayRef<std::string> groups, Diagnostics &diags) {
  Builder builder(entry.getContext());
  HyperParser parser(optimizer, diags);
  SmallVector<bool> taken(entry.getNumArguments(), false);
  bool good = true;
  for (const std::string &text : groups) {
    std::string where = "--group=" + text, problem;
    auto [pattern, settings] = StringRef(text).rsplit(':');
    if (pattern.size() == text.size()) {
      diags.error(where, "is not REGEX:KEY=VALUE,...").note("for example --group='bias|norm:weight_decay=0'");
      good = false;
      continue;
    }
    std::optional<Regex> regex = Regex::compile(pattern, problem);
    if (!regex) {
      diags.error(where, "'" + pattern + "' is not a regular expression: " + problem).note("ECMAScript syntax, searched in the name");
      good = false;
      continue;
    }
    llvm::MapVector<StringRef, Attribute> values;
    bool parsed = true;
    for (StringRef setting : llvm::split(settings, ',')) {
      StringRef key = setting.split('=').first;
      if (values.count(key)) {
        diags.error(where, "gives '" + key + "' twice").note("keep one of them");
        parsed = false;
      }
      parsed &= parser.parse(where, setting, /*isGroup=*/true, values);
    }
    if (!parsed) {
      good = false;
      continue;
    }
    SmallVector<NamedAttribute> entries;
    for (auto &[key, value] : values)
      entries.emplace_back(builder.getStringAttr(key), value);
    DictionaryAttr hyper = builder.getDictionaryAttr(entries);
    good &= checkTogether(where, optimizer, hyper, diags);

    bool matchesAny = false;
    SmallVector<std::string> names;
    for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
      auto name = entry.getArgAttrOfType<StringAttr>(i, kNameAttr);
      auto role = entry.getArgAttrOfType<RoleAttr>(i, kRoleAttr);
      if (!name || !role || role.getValue() != train::Role::Parameter)
        continue;
      if (names.size() < 6)
        names.push_back(name.str());
      if (!regex->search(name, &problem))
        continue;
      matchesAny = true;
      if (taken[i] || !entry.getArgAttr(i, kTrainableAttr))
        continue;
      taken[i] = true;
      entry.setArgAttr(i, kHyperAttr, hyper);
    }
    if (!problem.empty()) {
      diags.error(where, problem).note("write each repetition once, for example (a)+ for (a+)+");
      good = false;
    } else if (!matchesAny) {
      diags.error(where, "'" + pattern + "' matches no parameter").note("parameters: " + llvm::join(names, ", ") + ", ...");
      good = false;
    }
  }
  return good;
}

LogicalResult forebay::configureOptimizer(ModuleOp module, const OptimizerOptions &options, Diagnostics &diags) {
  OptimizerOp optimizer = loadOptimizer(module, options.optimizer, diags);
  if (!optimizer || !checkUpdate(optimizer, diags))
    return failure();

  HyperParser parser(optimizer, diags);
  llvm::MapVector<StringRef, Attribute> defaults;
  for (NamedAttribute entry : optimizer.getHyper())
    defaults[entry.getName()] = entry.getValue();
  bool good = true;
  for (const std::string &text : options.hyper)
    good &= parser.parse("--hyper=" + text, text, /*isGroup=*/false, defaults);
  SmallVector<NamedAttribute> entries;
  Builder builder(module.getContext());
  for (auto &[key, value] : defaults)
    entries.emplace_back(builder.getStringAttr(key), value);
  optimizer.setHyperAttr(builder.getDictionaryAttr(entries));
  good &= checkTogether("--hyper", optimizer, {}, diags);

  if (func::FuncOp entry = entryFunction(module))
    good &= assignGroups(entry, optimizer, options.groups, diags);
  return success(good);
}
