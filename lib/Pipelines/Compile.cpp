//===- Compile.cpp - The whole way from a model to a program --------------===//

#include "forebay/Pipelines/Compile.h"

#include "forebay/Conversion/Passes.h"
#include "forebay/Dialect/Offload/Transforms/Passes.h"
#include "forebay/Dialect/Offload/Transforms/ToProgram.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Planning/PlanFile.h"
#include "forebay/Planning/PlanReport.h"
#include "forebay/Support/Diagnostics.h"
#include "forebay/Support/Output.h"
#include "forebay/Target/EmitProgram.h"
#include "forebay/paths.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <tuple>

using namespace mlir;
using namespace forebay;

namespace {

/// Keeps the planner's decisions for the plan's file, a line each: '+' or '-' (taken or rejected) and its name, subject, reason, numbers, between tabs.
class DecisionKeeper : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit DecisionKeeper(std::shared_ptr<std::string> text) : text(std::move(text)) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    if (remark.getCategoryName() != "offload-plan")
      return;
    std::string subject, reason, numbers;
    for (const auto &arg : remark.getArgs()) {
      if (arg.key == "Reason")
        std::tie(subject, reason) = split(arg.val);
      else
        numbers += "\t" + plain(arg.key) + "=" + plain(arg.val);
    }
    *text += (remark.getRemarkType() == llvm::remarks::Type::Passed ? "+" : "-") + plain(remark.getRemarkName()) + "\t" + plain(subject) + "\t" + plain(reason) + numbers + "\n";
  }

private:
  /// "SUBJECT: REASON"
  static std::pair<std::string, std::string> split(StringRef text) {
    auto [subject, reason] = text.split(": ");
    return {subject.str(), reason.str()};
  }
  /// Names in a model are arbitrary bytes.
  static std::string plain(StringRef text) {
    std::string result = text.str();
    std::replace_if(result.begin(), result.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    return result;
  }

  std::shared_ptr<std::string> text; ///< the context, and with it this object, may outlive the compiler
};

class Compiler {
public:
  Compiler(MLIRContext &context, const CompileOptions &options, Diagnostics &diags)
      : context(context), options(options), diags(diags), mlirDiagnostics(&context, diags) {}

  bool run() {
    context.printOpOnDiagnostic(false); // a user has no use for the whole operation
    if (!checkOutputs())
      return false;
    if (options.remarks || options.planOnly || options.emit == EmitLevel::Plan)
      enableRemarks();
    if (!makeStep())
      return false;
    if (options.emit == EmitLevel::Train)
      return writeModule(*module);
    if (!runPasses(buildDispatchPipeline))
      return false;
    if (options.planOnly)
      unplanned = OwningOpRef<ModuleOp>(module->clone());
    std::clock_t start = std::clock(); // of this process: how busy the computer is does not matter
    if (!plan(options.memory))
      return false;
    planSeconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (!runAddedPasses("async"))
      return false;
    if (options.emit == EmitLevel::Async)
      return writeModule(*module);
    if (!lowerToCommands() || !runAddedPasses("cmd"))
      return false;
    // Also after passes from outside: what runs is what was verified. A plan over budget never runs, and its arenas are no
    // valid program.
    if (!options.planOnly && !runPasses([](OpPassManager &manager) { manager.addPass(createOffloadVerifyRaces()); }))
      return false;
    if (options.emit == EmitLevel::Cmd)
      return writeModule(*module);
    if (options.emit == EmitLevel::Llvm)
      return runPasses(buildLowerKernelsPipeline) && writeModule(*module);
    return finish();
  }

  /// The report of the plan alone.
  std::optional<planning::PlanReport> report() {
    context.printOpOnDiagnostic(false);
    if (!makeStep() || !runPasses(buildDispatchPipeline))
      return std::nullopt;
    std::optional<Program> program = planAgain(options.memory);
    if (!program)
      return std::nullopt;
    return planning::makeReport(*program);
  }

  /// A program that cannot be written should be known before minutes of work.
  bool checkOutputs() {
    bool good = checkOutput("-o ", options.output);
    good &= checkOutput("--json=", options.json);
    if (!good || options.output.empty() || options.json.empty() || !sameFile(options.output, options.json))
      return good;
    diags.error("--json=" + options.json, "is the file of -o").note("choose another");
    return false;
  }

private:
  /// Also of files that do not exist yet.
  static bool sameFile(const std::string &a, const std::string &b) {
    std::error_code error;
    auto canonical = [&](const std::string &path) { return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error); };
    return canonical(a) == canonical(b);
  }

  bool checkOutput(StringRef option, StringRef path) {
    if (path.empty())
      return true;
    std::string folder = folderOf(throughLinks(path.str()));
    // The file is written beside and renamed: that would put a regular file in the place of a device or a pipe.
    if (llvm::sys::fs::is_directory(path))
      diags.error(option + path, "is a folder").note("name a file in it");
    else if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path))
      diags.error(option + path, "is not a regular file").note("name a file that is new or may be replaced");
    else if (StringRef what = inputAt(path); !what.empty())
      diags.error(option + path, "is " + what).note("choose another file");
    else if (!llvm::sys::fs::is_directory(folder))
      diags.error(option + path, "there is no folder '" + folder + "'").note("make it first");
    else if (llvm::sys::fs::access(folder, llvm::sys::fs::AccessMode::Write))
      diags.error(option + path, "the folder '" + folder + "' cannot be written").note("choose another");
    else
      return true;
    return false;
  }

  /// Which input `path` is, or nothing.
  StringRef inputAt(StringRef path) const {
    if (llvm::sys::fs::equivalent(path, options.import.model))
      return "the model";
    if (llvm::sys::fs::equivalent(path, options.optimizer.optimizer))
      return "the optimizer's file";
    if (llvm::sys::fs::equivalent(path, options.machine))
      return "the machine's file";
    if (llvm::any_of(options.plugins, [&](const std::string &plugin) { return llvm::sys::fs::equivalent(path, plugin); }))
      return "a plug-in";
    return {};
  }

  /// Nor may an output be one of the model's data files, which are known after import.
  bool checkDataFiles() {
    auto files = (*module)->getAttrOfType<ArrayAttr>("train.data_files");
    if (!files)
      return true;
    std::filesystem::path folder = std::filesystem::path(options.import.model).parent_path();
    bool good = true;
    for (DictionaryAttr file : files.getAsRange<DictionaryAttr>())
      for (auto [option, path] : {std::pair<StringRef, StringRef>("-o ", options.output), {"--json=", options.json}})
        if (!path.empty() && llvm::sys::fs::equivalent(path, (folder / file.getAs<StringAttr>("name").str()).string())) {
          diags.error(option + path, "holds weights of the model").note("choose another file");
          good = false;
        }
    return good;
  }

  /// With --remarks they go to stderr as they are made; near misses too. A plan's file gets those of the planner.
  void enableRemarks() {
    remark::RemarkCategories categories;
    categories.all = categories.passed = categories.missed = categories.analysis = categories.failed = options.remarks ? ".*" : "offload-plan";
    (void)remark::enableOptimizationRemarks(context, std::make_unique<DecisionKeeper>(decisions), std::make_unique<remark::RemarkEmittingPolicyAll>(), categories,
                                            /*printAsEmitRemarks=*/options.remarks);
  }

  bool runPasses(llvm::function_ref<void(OpPassManager &)> build) {
    PassManager manager(&context, ModuleOp::getOperationName());
    build(manager);
    return succeeded(manager.run(*module)) && !diags.hasErrors();
  }

  bool runAddedPasses(StringRef phase) {
    for (auto &[when, pipeline] : options.addedPasses) {
      if (when != phase)
        continue;
      PassManager manager(&context, ModuleOp::getOperationName());
      std::string problem;
      llvm::raw_string_ostream os(problem);
      if (failed(parsePassPipeline(pipeline, manager, os))) {
        diags.error("--add-pass=" + phase + ":" + pipeline, StringRef(problem).split('\n').first).note("forebay-opt --help lists the passes");
        return false;
      }
      if (failed(manager.run(*module)) || diags.hasErrors())
        return false;
    }
    return true;
  }

  /// The training step, or the forward function under the name that the next levels know.
  bool buildStep() {
    if (options.import.forward) {
      if (!runPasses([&](OpPassManager &manager) { buildForwardPipeline(manager, options.precision); }))
        return false;
      module->lookupSymbol<func::FuncOp>("forward").setSymName("step");
      return true;
    }
    if (failed(configureOptimizer(*module, options.optimizer, diags)))
      return false;
    TrainPipelineOptions train;
    train.accumulate = options.accumulate;
    train.clipNorm = options.clipNorm.value_or(0.0);
    train.precision = options.precision;
    return runPasses([&](OpPassManager &manager) { buildTrainPipeline(manager, train); });
  }

  bool makeStep() {
    module = importOnnx(context, options.import, diags);
    return module && checkDataFiles() && buildStep() && runAddedPasses("train");
  }

  /// From level "dispatch" on, with other budgets; no plan is too large.
  std::optional<Program> planAgain(const std::string &memory) {
    if (!plan(memory) || !runAddedPasses("async") || !lowerToCommands() || !runAddedPasses("cmd"))
      return std::nullopt;
    return makeProgram();
  }

  bool plan(const std::string &memory) {
    OffloadPlanOptions plan;
    plan.machine = options.machine;
    plan.policy = options.policy;
    plan.memory = memory;
    plan.bucketBytes = options.bucketBytes;
    plan.planFile = options.plan;
    plan.recordPlacement = options.emit == EmitLevel::Plan || options.emit == EmitLevel::So;
    return runPasses([&](OpPassManager &manager) { manager.addPass(createOffloadPlan(plan)); });
  }

  /// With --plan-only a plan over budget is a result, not the end.
  bool lowerToCommands() {
    OffloadLowerToCmdOptions lower;
    lower.keepOverBudget = options.planOnly;
    return runPasses([&](OpPassManager &manager) { manager.addPass(createOffloadLowerToCmd(lower)); });
  }

  bool writeModule(ModuleOp printed) {
    return writeOutput("-o ", options.output, [&](llvm::raw_ostream &os) {
      printed->print(os, OpPrintingFlags().useLocalScope());
      os << "\n";
    }, diags);
  }

  /// The model's path relative to the program's folder, so that both can be moved together.
  std::string relativeModelPath(const std::string &modelPath) const {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::path folder = fs::weakly_canonical(fs::absolute(options.output, error), error).parent_path();
    fs::path relative = fs::path(modelPath).lexically_relative(folder);
    return relative.empty() ? std::string() : relative.string();
  }

  bool writePlan(const Program &program, const planning::PlanReport &report) {
    return writeOutput("-o ", options.output, [&](llvm::raw_ostream &os) { os << planning::writePlan({program, {{"decisions", *decisions}}}, report); }, diags);
  }

  std::optional<Program> makeProgram() {
    FailureOr<Program> program = offload::toProgram(*module);
    if (failed(program) || diags.hasErrors())
      return std::nullopt;
    program->producer = std::string("forebay-compile ") + FOREBAY_VERSION;
    program->precision = options.precision;
    program->isa = hostIsa();
    program->entry = options.import.forward ? "forward" : "train";
    return std::move(*program);
  }

  /// How fast the step is where each memory is 16 GB larger: another plan, so it is only tried where planning is quick.
  bool addMemorySensitivities(planning::PlanReport &report, const planning::Machine &machine) {
    constexpr uint64_t kMore = 16'000'000'000;
    constexpr double kPatience = 5;
    if (!report.fits || !options.plan.empty())
      return true;
    if (planSeconds > kPatience) {
      report.sensitivityNote = "more memory: not tried, a plan takes " + planning::readableSeconds(planSeconds);
      return true;
    }
    context.setRemarkEngine(nullptr); // the decisions of the plan have been told
    for (const planning::MachineSpace &more : machine.spaces) {
      std::string memory;
      for (const planning::MachineSpace &space : machine.spaces)
        memory += (memory.empty() ? "" : ",") + space.name + "=" + std::to_string(space.capacity + (&space == &more ? kMore : 0));
      module = OwningOpRef<ModuleOp>(unplanned->clone());
      std::optional<Program> program = planAgain(memory);
      if (!program)
        return false;
      if (planning::PlanReport other = planning::makeReport(*program); other.time)
        report.sensitivities.push_back({more.name + " +16 GB", other.time->stepSeconds});
    }
    llvm::stable_sort(report.sensitivities, [](auto &a, auto &b) { return a.stepSeconds < b.stepSeconds; });
    return true;
  }

  /// The plan's report, then the program.
  bool finish() {
    std::optional<Program> program = makeProgram();
    if (!program)
      return false;
    planning::PlanReport report = planning::makeReport(*program);
    // Nothing else may stand on standard output where a plan goes there.
    if (options.emit == EmitLevel::Plan && !options.planOnly)
      return writePlan(*program, report);
    if (std::string why; options.planOnly && report.time) {
      planning::Machine machine = *planning::machineOf(*program, why);
      report.sensitivities = planning::findSensitivities(*program, machine);
      if (!addMemorySensitivities(report, machine))
        return false;
    }
    llvm::outs() << planning::toText(report);
    if (!flushStdout(diags))
      return false;
    if (!options.json.empty() &&
        !writeOutput("--json=", options.json, [&](llvm::raw_ostream &os) { os << planning::toJson(report); }, diags))
      return false;
    if (options.planOnly) {
      if (!options.output.empty() && !writePlan(*program, report))
        return false;
      if (!report.fits)
        diags.error("--machine=" + options.machine, "the plan does not fit")
            .note("--memory=" + planning::smallestBudget(report) + " is the smallest budget that would do");
      return report.fits;
    }
    program->modelRelative = relativeModelPath(program->modelPath);
    return succeeded(emitProgramFile(*module, serialize(*program), throughLinks(options.output), program->isa)) && !diags.hasErrors();
  }

  MLIRContext &context;
  const CompileOptions &options;
  Diagnostics &diags;
  MlirDiagnostics mlirDiagnostics;
  OwningOpRef<ModuleOp> module;
  std::shared_ptr<std::string> decisions = std::make_shared<std::string>();
  OwningOpRef<ModuleOp> unplanned; ///< with --plan-only: the module at level "dispatch"
  double planSeconds = 0;
};

} // namespace

bool forebay::compile(MLIRContext &context, const CompileOptions &options, Diagnostics &diags) {
  return Compiler(context, options, diags).run();
}

std::optional<planning::PlanReport> forebay::reportPlan(MLIRContext &context, const CompileOptions &options, Diagnostics &diags) {
  return Compiler(context, options, diags).report();
}

bool forebay::checkOutputs(MLIRContext &context, const CompileOptions &options, Diagnostics &diags) { return Compiler(context, options, diags).checkOutputs(); }
