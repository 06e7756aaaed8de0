//===- forebay-sim.cpp - How long a plan takes, and why -------------------===//

#include "Dialect/Offload/Transforms/Machine.h"
#include "Diff.h"
#include "Pictures.h"

#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Planning/PlanFile.h"
#include "forebay/Support/CommandLine.h"
#include "forebay/Support/Output.h"
#include "forebay/paths.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <csignal>

using namespace forebay;
using namespace forebay::sim;
using llvm::StringRef;

namespace {

class Simulator {
public:
  int run(int argc, char **argv) {
    declare();
    if (std::optional<int> status = line.parse(argc, argv, diags))
      return *status;
    if (!check() || !load())
      return 1;
    planning::PlanReport report = reportOf(plan.program);
    if (!pictures(report))
      return 1;
    llvm::outs() << planning::toText(report);
    if (!diff.empty()) {
      planning::PlanReport others = reportOf(other.program);
      llvm::outs() << "\n" << diffText({plan.program, report}, {other.program, others});
    }
    if (!flushStdout(diags))
      return 1;
    if (!json.empty() && !writeOutput("--json=", json, [&](llvm::raw_ostream &os) { os << planning::toJson(report); }, diags))
      return 1;
    return 0;
  }

private:
  void declare() {
    line.positional(files);
    line.value("timeline", "F.html", timeline, "write a page that shows queues and memory over a step; any browser, no network");
    line.value("trace", "F.json", trace, "write the step for ui.perfetto.dev or chrome://tracing");
    line.value("diff", "PLAN", diff, "print what differs in another plan or program");
    line.value("machine", "NAME|FILE", machineName, "simulate on this machine (default: the one it was planned for)");
    line.value("json", "F.json", json, "write the report as JSON");
  }

  /// Everything that is wrong with the command line, at once.
  bool check() {
    if (files.empty())
      diags.error("command line", "no plan given").note("forebay-sim STEP.so, or a plan that forebay-compile --plan-only -o PLAN wrote");
    else if (files.size() > 1)
      diags.error("command line", "more than one plan given: " + llvm::join(files, ", ")).note("compare two with --diff=PLAN");
    for (auto &[name, value] : values)
      if (line.given(name) && value->empty())
        diags.error("--" + name + "=", "the value is empty").note("leave the option out for its default");
    std::pair<const char *, const std::string *> outputs[] = {{"--timeline=", &timeline}, {"--trace=", &trace}, {"--json=", &json}};
    for (size_t i = 0; i < std::size(outputs); ++i) {
      auto [option, path] = outputs[i];
      checkOutput(option, *path);
      for (size_t k = 0; k < i && !path->empty(); ++k)
        if (!outputs[k].second->empty() && canonicalPath(throughLinks(*path)) == canonicalPath(throughLinks(*outputs[k].second)))
          diags.error(option + *path, "is the file of " + StringRef(outputs[k].first).drop_back()).note("choose another");
    }
    return !diags.hasErrors();
  }

  void checkOutput(StringRef option, const std::string &path) {
    if (path.empty())
      return;
    std::string folder = folderOf(throughLinks(path));
    if (std::string what = irregular(path); !what.empty())
      diags.error(option + path, what).note("name a file that is new or may be replaced");
    else if (!files.empty() && llvm::sys::fs::equivalent(path, files.front()))
      diags.error(option + path, "is the plan").note("choose another file");
    else if (!diff.empty() && llvm::sys::fs::equivalent(path, diff))
      diags.error(option + path, "is the plan of --diff").note("choose another file");
    else if (!machineName.empty() && llvm::sys::fs::equivalent(path, machineName))
      diags.error(option + path, "is the machine's file").note("choose another file");
    else if (!llvm::sys::fs::is_directory(folder))
      diags.error(option + path, "there is no folder '" + folder + "'").note("make it first");
    else if (llvm::sys::fs::access(folder, llvm::sys::fs::AccessMode::Write))
      diags.error(option + path, "the folder '" + folder + "' cannot be written").note("choose another");
  }

  bool load() {
    auto read = [&](const std::string &where, const std::string &path, planning::PlanFile &into) {
      std::string error;
      if (planning::readPlan(path, into, error))
        return;
      diags.error(where, error).note("name a STEP.so that forebay-compile wrote, or a plan that forebay-compile --plan-only -o PLAN wrote");
    };
    read(files.front(), files.front(), plan);
    if (!diff.empty())
      read("--diff=" + diff, diff, other);
    if (!machineName.empty())
      loadMachine();
    return !diags.hasErrors();
  }

  void loadMachine() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    mlir::MLIRContext context(registry);
    MlirDiagnostics handler(&context, diags);
    if (auto loaded = offload::loadMachine(machineName, mlir::UnknownLoc::get(&context)); mlir::succeeded(loaded))
      machine = *loaded;
    // The question is whether the plan fits and runs there.
    for (Program *program : {&plan.program, &other.program}) {
      if (!machine)
        break;
      std::string why;
      if (!program->step.empty() && !planning::canSimulate(*program, *machine, why)) {
        diags.error("--machine=" + machineName, why).note("name a machine with the memories and engines of the plan");
        break;
      }
      program->machine = machine->name;
      for (Space &space : program->spaces)
        for (const planning::MachineSpace &theirs : machine->spaces)
          if (theirs.name == space.name)
            space.capacity = theirs.capacity;
    }
  }

  /// The machine that `program` is simulated on; without one `why` says so.
  std::optional<planning::Machine> machineFor(const Program &program, std::string &why) {
    return machine ? machine : planning::machineOf(program, why);
  }

  planning::PlanReport reportOf(const Program &program) {
    std::string why;
    std::optional<planning::Machine> its = machineFor(program, why);
    planning::PlanReport report = its ? planning::makeReport(program, *its) : planning::makeReport(program);
    if (report.time)
      report.sensitivities = planning::findSensitivities(program, *its);
    return report;
  }

  bool pictures(const planning::PlanReport &report) {
    if (timeline.empty() && trace.empty())
      return true;
    if (!report.time) {
      diags.error(timeline.empty() ? "--trace=" + trace : "--timeline=" + timeline, "there is no time to show: " + report.noTime)
          .note("name a machine with rates: --machine=gh200-96");
      return false;
    }
    std::string why;
    SimulatedStep step(plan.program, report, *machineFor(plan.program, why), plan.sections["decisions"]);
    return (timeline.empty() || writeOutput("--timeline=", timeline, [&](llvm::raw_ostream &os) { writePage(os, step); }, diags)) &&
           (trace.empty() || writeOutput("--trace=", trace, [&](llvm::raw_ostream &os) { writeTrace(os, step); }, diags));
  }

  Diagnostics diags;
  CommandLine line{"forebay-sim", "[options] STEP.so|PLAN", "Simulates a step of a program or plan: time, what binds, memory over time."};
  std::vector<std::string> files;
  std::string timeline, trace, diff, machineName, json;
  const std::vector<std::pair<std::string, const std::string *>> values = {
      {"timeline", &timeline}, {"trace", &trace}, {"diff", &diff}, {"machine", &machineName}, {"json", &json}};
  planning::PlanFile plan, other;
  std::optional<planning::Machine> machine;
};

} // namespace

int main(int argc, char **argv) {
  // A limit on file sizes is an error of the write that meets it, which leaves nothing behind, not the end of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  return Simulator().run(argc, argv);
}
