//===- Optimizers.cpp - Choosing and configuring the optimizer ------------===//

#include "forebay/Dialect/Train/Transforms/Optimizers.h"

#include "forebay/Support/Diagnostics.h"
#include "forebay/Support/ParseFile.h"
#include "forebay/Support/Regex.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

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

/// `lr_scale` belongs to a group, not to the optimizer.
constexpr StringLiteral kLrScale = "lr_scale";

/// Reads options into attributes, with the known keys in every complaint.
class HyperParser {
public:
  HyperParser(OptimizerOp optimizer, Diagnostics &diags)
      : optimizer(optimizer), diags(diags), builder(optimizer.getContext()) {}

  /// Adds the attribute of one `KEY=VALUE` to `values`; false after an error.
  bool parse(StringRef where, StringRef text, bool isGroup, llvm::MapVector<StringRef, Attribute> &values) {
    auto [key, value] = text.split('=');
    key = key.trim();
    value = value.trim();
    if (key.size() == text.size()) {
      diags.error(where, "'" + text + "' is not KEY=VALUE").note("known keys: " + knownKeys(isGroup));
      return false;
    }
    Attribute old = optimizer.getHyper().get(key);
    if (!old && !(isGroup && key == kLrScale)) {
      diags.error(where, "optimizer '" + optimizer.getSymName() + "' has no hyper-parameter '" + key + "'")
          .note("known keys: " + knownKeys(isGroup));
      return false;
    }
    Attribute parsed = isa_and_nonnull<BoolAttr>(old) ? parseBool(value) : parseNumber(value);
    if (!parsed) {
      diags.error(where, "'" + value + "' is no value for '" + key + "'")
          .note(isa_and_nonnull<BoolAttr>(old) ? "true or false" : "a finite number such as 0.1 or 1e-3");
      return false;
    }
    if (auto number = dyn_cast<FloatAttr>(parsed))
      if (!checkRange(where, key, value, number.getValueAsDouble()))
        return false;
    values[key] = parsed;
    return true;
  }

private:
  std::string knownKeys(bool isGroup) {
    SmallVector<StringRef> keys;
    for (NamedAttribute entry : optimizer.getHyper())
      keys.push_back(entry.getName());
    if (isGroup)
      keys.push_back(kLrScale);
    return llvm::join(keys, ", ");
  }

  Attribute parseBool(StringRef value) {
    if (value.equals_insensitive("true"))
      return builder.getBoolAttr(true);
    if (value.equals_insensitive("false"))
      return builder.getBoolAttr(false);
    return {};
  }

  Attribute parseNumber(StringRef value) {
    double number;
    if (value.getAsDouble(number) || !std::isfinite(number))
      return {};
    return builder.getF64FloatAttr(number);
  }

  /// Ranges that PyTorch's optimizers enforce for the names they use; keys of a user's own optimizer are free.
  bool checkRange(StringRef where, StringRef key, StringRef text, double value) {
    bool isRate = key == "beta1" || key == "beta2";
    bool isNonNegative = key == "lr" || key == "eps" || key == "weight_decay" || key == "momentum" || key == kLrScale;
    if (isRate && !(value >= 0 && value < 1)) {
      diags.error(where, "'" + key + "' is " + text).note("it must be at least 0 and less than 1");
      return false;
    }
    if (isNonNegative && value < 0) {
      diags.error(where, "'" + key + "' is negative").note("it must be at least 0");
      return false;
    }
    return true;
  }

  OptimizerOp optimizer;
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

/// nesterov without momentum or with dampening is an error, as in PyTorch.
bool checkNesterov(StringRef where, OptimizerOp optimizer, DictionaryAttr overrides, Diagnostics &diags) {
  auto get = [&](StringRef key) {
    Attribute value = overrides ? overrides.get(key) : Attribute();
    return value ? value : optimizer.getHyper().get(key);
  };
  auto nesterov = dyn_cast_or_null<BoolAttr>(get("nesterov"));
  auto momentum = dyn_cast_or_null<FloatAttr>(get("momentum")), dampening = dyn_cast_or_null<FloatAttr>(get("dampening"));
  if (!nesterov || !nesterov.getValue() || !momentum || !dampening ||
      (momentum.getValueAsDouble() > 0 && dampening.getValueAsDouble() == 0))
    return true;
  diags.error(where, "nesterov needs a momentum above 0 and no dampening").note("for example momentum=0.9");
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
    good &= checkNesterov(where, optimizer, hyper, diags);

    bool matchesAny = false;
    SmallVector<std::string> names;
    for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
      auto name = entry.getArgAttrOfType<StringAttr>(i, kNameAttr);
      auto role = entry.getArgAttrOfType<RoleAttr>(i, kRoleAttr);
      if (!name || !role || role.getValue() != Role::Parameter)
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
  good &= checkNesterov("--hyper", optimizer, {}, diags);

  if (func::FuncOp entry = entryFunction(module))
    good &= assignGroups(entry, optimizer, options.groups, diags);
  return success(good);
}
