//===- forebay-translate.cpp - Prints the IR of an ONNX model -------------===//

#include "forebay/Import/Import.h"
#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Support/CommandLine.h"
#include "forebay/Support/Output.h"
#include "forebay/paths.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"

using namespace forebay;

int main(int argc, char **argv) {
  Diagnostics diags;
  ImportOptions options;
  std::string describe, output = "-";
  bool debugInfo = false, list = false;

  CommandLine commandLine("forebay-translate", "--import-onnx MODEL.onnx [--dim=NAME=N ...] [options]",
                          "Prints the IR of an exported model: one function in arith, math, tensor, linalg and train.");
  commandLine.value("import-onnx", "MODEL", options.model, "The exported model");
  commandLine.value("describe", "MODEL", describe, "Instead: list dimensions, inputs, parameters and buffers of a model");
  commandLine.custom(
      "dim", "NAME=N", [&](llvm::StringRef text) { return parseDim(text, options, diags); },
      "Value of a symbolic dimension of the inputs (repeatable)");
  commandLine.value("loss", "NAME", options.loss, "The output to minimise (default: the only scalar floating one)");
  commandLine.list("train", "REGEX", options.train, "Train only parameters whose names match (repeatable)");
  commandLine.list("freeze", "REGEX", options.freeze, "Do not train parameters whose names match (repeatable)");
  commandLine.flag("no-weights", options.noWeights, "Data files may be absent");
  commandLine.flag("allow-external-links", options.allowExternalLinks, "Data files may lie outside the model's folder");
  commandLine.flag("forward", options.forward, "No loss, no training: the graph's outputs");
  commandLine.flag("locations", debugInfo, "Print the location of every operation: ONNX node and module scope");
  commandLine.flag("list-operators", list, "Instead: the ONNX operators that can be imported, with opsets and types (docs/operators.md)");
  commandLine.value("o", "FILE", output, "Where to write (default: standard output)");
  if (std::optional<int> status = commandLine.parse(argc, argv, diags))
    return *status;
  if (list && options.model.empty() && describe.empty()) {
    listOperators(llvm::outs());
    return 0;
  }
  if (options.model.empty() == describe.empty()) {
    diags.error("command line", options.model.empty() ? "no model is given" : "--import-onnx and --describe exclude each other")
        .note("write forebay-translate --import-onnx MODEL.onnx");
    return 1;
  }

  std::string text;
  llvm::raw_string_ostream os(text);
  if (!describe.empty()) {
    options.model = describe;
    if (!describeModel(os, options, diags))
      return 1;
  } else {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    mlir::MLIRContext context(registry);
    mlir::OwningOpRef<mlir::ModuleOp> module = importOnnx(context, options, diags);
    if (!module)
      return 1;
    mlir::OpPrintingFlags flags;
    if (debugInfo)
      flags.enableDebugInfo();
    module->print(os, flags);
  }

  // Only now: after an error there is no output file.
  if (output == "-")
    output.clear();
  if (!output.empty() && llvm::sys::fs::equivalent(output, options.model)) {
    diags.error("-o " + output, "is the model").note("choose another file");
    return 1;
  }
  if (std::string what = irregular(output); !what.empty()) {
    diags.error("-o " + output, what).note("name a file that is new or may be replaced");
    return 1;
  }
  return writeOutput("-o ", output, [&](llvm::raw_ostream &os) { os << text; }, diags) ? 0 : 1;
}
