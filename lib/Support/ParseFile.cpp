//===- ParseFile.cpp - Files of IR that a user names ----------------------===//

#include "forebay/Support/ParseFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

OwningOpRef<ModuleOp> forebay::parseFile(llvm::StringRef path, MLIRContext *context, std::string &problem) {
  problem.clear();
  if (llvm::sys::fs::exists(path) && !llvm::sys::fs::is_regular_file(path)) {
    problem = "is not a regular file";
    return {};
  }
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    problem = "cannot be read: " + buffer.getError().message();
    return {};
  }
  llvm::SourceMgr source;
  source.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error || !problem.empty())
      return success();
    if (auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      problem = std::to_string(at.getLine()) + ":" + std::to_string(at.getColumn()) + ": ";
    problem += diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(source, ParserConfig(context));
  assert((module || !problem.empty()) && "the parser reports what is wrong");
  return module;
}
