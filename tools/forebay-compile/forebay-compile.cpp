//===- forebay-compile.cpp - Compiles an exported model to a program ------===//

#include "forebay/Pipelines/Compile.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Planning/Machine.h"
#include "forebay/Support/CommandLine.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/InitLLVM.h"

#include <cmath>
#include <csignal>

using namespace forebay;
using llvm::StringRef;

namespace {

/// The command line, and its checks that need no model.
class Driver {
public:
  Driver() { declare(); }

  int run(int argc, char **argv) {
    if (std::optional<int> status = line.parse(argc, argv, diags))
      return *status;
    check();
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    registerAllPasses();
    loadPlugins();
    if (diags.hasErrors())
      return 1;
    if (!dims.empty())
      return compileWhatIf(registry, options, dims, diags) ? 0 : 1;
    mlir::MLIRContext context(registry);
    return compile(context, options, diags) ? 0 : 1;
  }

private:
  void declare() {
    ImportOptions &import = options.import;
    line.positional(models);
    line.custom("dim", "NAME=N", [&](StringRef text) { return parseDim(text, import, diags); },
                "bind a symbolic dimension of the inputs; outside the exported range: a warning");
    line.value("loss", "NAME", import.loss, "output to minimise (default: the only scalar floating output)");
    line.list("train", "REGEX", import.train, "train only parameters whose name matches (ECMAScript, searched)");
    line.list("freeze", "REGEX", import.freeze, "do not train parameters whose name matches");
    line.flag("forward", import.forward, "no loss, no training: a program that computes the graph's outputs");
    line.flag("no-weights", import.noWeights, "data files may be absent; the run then needs --weights or --init");
    line.flag("allow-external-links", import.allowExternalLinks, "accept data files outside the model's folder");

    line.value("optimizer", "NAME|FILE.mlir", options.optimizer.optimizer,
               "adamw (default), adam, sgd, lion, or a definition of one's own (docs/optimizers.md)");
    line.list("hyper", "KEY=VALUE", options.optimizer.hyper, "default of the optimizer, e.g. lr=3e-4");
    line.list("group", "REGEX:KEY=VALUE,...", options.optimizer.groups,
              "values for parameters whose name matches (weight_decay, lr_scale, any hyper); the first match wins");
    line.custom("clip-norm", "X", [&](StringRef text) { return readClipNorm(text); },
                "limit of the global gradient norm (default: no clipping)");
    line.custom("accumulate", "K", [&](StringRef text) { return readAccumulate(text); },
                "micro-steps of a step, whose gradients are averaged (default 1)");
    line.value("precision", "fp32|bf16|fp16", options.precision, "type of compute; masters stay fp32 (default fp32; the others can be planned, with --plan-only, not run yet)");

    line.value("machine", "NAME|FILE", options.machine, "cpu (default), superchip-emu, gh200-96, ..., or a machine file");
    line.value("policy", "NAME", options.policy,
               "resident, zero-offload, superoffload, weight-flow, or auto (default): the fastest plan found");
    line.value("memory", "SPACE=SIZE,...", options.memory, "usable bytes of each memory, e.g. hbm=64MiB,host=1GiB");
    line.custom("bucket-bytes", "SIZE", [&](StringRef text) { return readBucketBytes(text); },
                "size of the gradient buckets that move at once (default 64MiB, at least 4KiB)");
    line.value("plan", "FILE", options.plan, "take the decisions of a plan that --plan-only -o wrote");
    line.flag("plan-only", options.planOnly, "plan and report memory and time; no weights needed; -o gets the plan");
    line.value("json", "FILE", options.json, "with --plan-only: the report as JSON");
    line.value("what-if", "DIMS", whatIf, "with --plan-only: a table over dimensions, e.g. \"batch=1,2,4 seq=4096,16384\"");

    line.value("o", "FILE", options.output, "program to write; with --plan-only the plan; with --emit that level (default: stdout)");
    line.value("emit", "LEVEL", emit, "stop at train (the step), async, cmd, llvm, plan or so (default)");
    line.flag("remarks", options.remarks, "print why each decision was taken, and which patterns nearly matched");
    line.list("load-pass-plugin", "FILE", plugins, "load passes from a shared library");
    line.list("add-pass", "train|async|cmd:PIPELINE", addedPasses, "run a pass pipeline at the end of that phase");
  }

  bool readClipNorm(StringRef text) {
    double value;
    if (!text.getAsDouble(value) && std::isfinite(value) && value > 0) {
      options.clipNorm = value;
      return true;
    }
    diags.error("--clip-norm=" + text, "is not a number above 0").note("leave the option out for no clipping");
    return false;
  }

  bool readAccumulate(StringRef text) {
    if (!text.getAsInteger(10, options.accumulate) && options.accumulate >= 1 && options.accumulate <= (1 << 20))
      return true;
    diags.error("--accumulate=" + text, "is not a number of micro-steps").note("1 to 1048576");
    return false;
  }

  bool readBucketBytes(StringRef text) {
    uint64_t bytes;
    if (planning::parseSize(text.str(), bytes) && bytes >= 4096 && bytes <= (uint64_t(1) << 60)) {
      options.bucketBytes = int64_t(bytes);
      return true;
    }
    diags.error("--bucket-bytes=" + text, "is not a size of at least 4KiB").note("for example 64MiB");
    return false;
  }

  /// Problems of options taken together, all at once.
  void check() {
    if (models.size() == 1)
      options.import.model = models.front();
    else if (models.empty())
      diags.error("command line", "no model given").note("forebay-compile MODEL.onnx -o STEP.so");
    else
      diags.error("command line", "more than one model given: " + llvm::join(models, ", ")).note("compile one at a time");

    if (!options.plan.empty() && line.given("policy"))
      diags.error("--policy=" + options.policy, "--plan already decides").note("leave one of them out");
    checkWhatIf();
    if (!options.json.empty() && !options.planOnly)
      diags.error("--json=" + options.json, "needs --plan-only").note("the report is about a plan");
    options.import.noWeights |= options.planOnly;
    for (StringRef name : {"loss", "optimizer", "machine", "policy", "json", "o", "memory"})
      if (line.given(name) && *texts.lookup(name) == "")
        diags.error(name == "o" ? "-o" : "--" + name.str() + "=", "the value is empty").note("leave the option out for its default");
    for (StringRef name : {"loss", "train", "freeze", "optimizer", "hyper", "group", "clip-norm", "accumulate"})
      if (options.import.forward && line.given(name))
        diags.error("--" + name, "means nothing with --forward, which trains nothing").note("leave one of the two out");

    static const std::pair<StringRef, EmitLevel> levels[] = {{"train", EmitLevel::Train}, {"async", EmitLevel::Async},
                                                             {"cmd", EmitLevel::Cmd},     {"llvm", EmitLevel::Llvm},
                                                             {"plan", EmitLevel::Plan},   {"so", EmitLevel::So}};
    const auto *found = llvm::find_if(levels, [&](auto &entry) { return entry.first == emit; });
    if (found == std::end(levels))
      diags.error("--emit=" + emit, "there is no such level").note("known: train, async, cmd, llvm, plan, so");
    else
      options.emit = found->second;
    if (options.precision != "fp32" && options.precision != "bf16" && options.precision != "fp16")
      diags.error("--precision=" + options.precision, "there is no such precision").note("known: fp32, bf16, fp16");
    else if (options.precision != "fp32" && !options.planOnly && (options.emit == EmitLevel::So || options.emit == EmitLevel::Llvm))
      diags.error("--precision=" + options.precision, "mixed precision has no kernels yet: it can be planned today, not run")
          .note("add --plan-only, or use --precision=fp32 for a program");
    if (options.emit == EmitLevel::So && !options.planOnly && options.output.empty())
      diags.error("command line", "no output given").note("add -o STEP.so");

    for (StringRef added : addedPasses) {
      auto [phase, pipeline] = added.split(':');
      if (pipeline.empty() || (phase != "train" && phase != "async" && phase != "cmd"))
        diags.error("--add-pass=" + added, "is not train|async|cmd:PIPELINE").note("for example --add-pass=train:canonicalize");
      else
        options.addedPasses.emplace_back(phase, pipeline);
    }
  }

  void checkWhatIf() {
    if (!line.given("what-if"))
      return;
    std::string where = "--what-if=" + whatIf;
    if (!options.planOnly)
      diags.error(where, "needs --plan-only").note("the table is about plans");
    if (!options.output.empty())
      diags.error("-o " + options.output, "means nothing with --what-if, which makes many plans").note("leave one of the two out");
    if (!options.plan.empty())
      diags.error("--plan=" + options.plan, "means nothing with --what-if: a plan is for one set of dimensions").note("leave one of the two out");
    parseWhatIf(whatIf, options.import, dims, diags);
  }

  void loadPlugins() {
    options.plugins = plugins;
    for (const std::string &file : plugins) {
      llvm::Expected<mlir::PassPlugin> plugin = mlir::PassPlugin::load(file);
      if (plugin)
        plugin->registerPassRegistryCallbacks();
      else
        diags.error("--load-pass-plugin=" + file, llvm::toString(plugin.takeError())).note("it must be a shared library with mlirGetPassPluginInfo");
    }
  }

  Diagnostics diags;
  CompileOptions options;
  CommandLine line{"forebay-compile", "[options] MODEL.onnx -o STEP.so",
                   "Compiles an exported training graph (ONNX) to a program for forebay-run."};
  std::vector<std::string> models, plugins, addedPasses;
  std::string emit = "so", whatIf;
  std::vector<DimValues> dims; ///< of --what-if
  /// Options whose value cannot be empty.
  const llvm::StringMap<const std::string *> texts = {{"loss", &options.import.loss}, {"optimizer", &options.optimizer.optimizer},
                                                      {"machine", &options.machine},  {"policy", &options.policy},
                                                      {"json", &options.json},        {"o", &options.output},
                                                      {"memory", &options.memory}};
};

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // A limit on file sizes is an error of the write that meets it, which leaves nothing behind, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return Driver().run(argc, argv);
}
