//===- CompileKernels.cpp - Kernels to machine code -----------------------===//
//
// Rounding is part of the program's contract: no fast-math flags, no contraction of products and sums, and no calls into libm or
// libc (the optimizer knows no library functions here, and linking with `-z defs` would reject one).
//
//===----------------------------------------------------------------------===//

#include "forebay/Target/EmitProgram.h"
#include "forebay/program.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;

std::string forebay::hostIsa() {
  llvm::Triple triple(llvm::sys::getProcessTriple());
  if (triple.isAArch64())
    return "aarch64";
  auto features = llvm::sys::getHostCPUFeatures();
  auto has = [&](std::initializer_list<const char *> names) {
    return llvm::all_of(names, [&](const char *name) { return features.lookup(name); });
  };
  if (!has({"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"}))
    return "x86-64";
  return has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) ? "x86-64-v4" : "x86-64-v3";
}

static std::unique_ptr<llvm::TargetMachine> createMachine(StringRef isa, std::string &error) {
  // Once a process; the tables are read-only afterwards.
  static const bool initialized = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    return true;
  }();
  (void)initialized;
  bool arm = isa == "aarch64";
  llvm::Triple triple(arm ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, arm ? "generic" : isa, "", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// The table {name, address} of all kernels, ended by nulls, and the program in a section of its own.
static void addTables(llvm::Module &module, const std::string &program) {
  llvm::LLVMContext &context = module.getContext();
  auto *pointer = llvm::PointerType::getUnqual(context);
  auto *entry = llvm::StructType::get(context, {pointer, pointer});
  auto *null = llvm::ConstantPointerNull::get(pointer);
  SmallVector<llvm::Constant *> entries;
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    auto *text = llvm::ConstantDataArray::getString(context, function.getName());
    auto *name = new llvm::GlobalVariable(module, text->getType(), true, llvm::GlobalValue::PrivateLinkage, text, "name");
    entries.push_back(llvm::ConstantStruct::get(entry, {name, &function}));
  }
  entries.push_back(llvm::ConstantStruct::get(entry, {null, null}));
  auto *type = llvm::ArrayType::get(entry, entries.size());
  new llvm::GlobalVariable(module, type, true, llvm::GlobalValue::ExternalLinkage, llvm::ConstantArray::get(type, entries),
                           forebay::kKernelTableSymbol);
  auto *bytes = llvm::ConstantDataArray::getString(context, program, /*AddNull=*/false);
  auto *blob = new llvm::GlobalVariable(module, bytes->getType(), true, llvm::GlobalValue::ExternalLinkage, bytes,
                                        "forebay_program");
  blob->setSection(forebay::kProgramSection);
  blob->setAlignment(llvm::Align(1));
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl noLibrary(machine.getTargetTriple());
  noLibrary.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(noLibrary); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

LogicalResult forebay::compileKernels(ModuleOp module, const std::string &program, StringRef isa,
                                      SmallVectorImpl<char> &object) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(isa, error);
  if (!machine)
    return module.emitError() << "no code generator for " << isa << ": " << error;

  OwningOpRef<ModuleOp> kernels = module.clone();
  MLIRContext *context = module.getContext();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  PassManager pm(context);
  buildLowerKernelsPipeline(pm);
  if (failed(pm.run(*kernels)))
    return failure();

  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(*kernels, llvmContext, "forebay");
  if (!code)
    return module.emitError() << "kernels do not translate to LLVM IR";
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  code->setSourceFileName("forebay");
  for (llvm::Function &function : *code) {
    function.addFnAttr(llvm::Attribute::NoUnwind);
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    if (isa == "x86-64-v4")
      function.addFnAttr("prefer-vector-width", "512");
  }
  addTables(*code, program);
  optimize(*code, *machine);

  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, os, nullptr, llvm::CodeGenFileType::ObjectFile))
    return module.emitError() << "no object files for " << isa;
  codegen.run(*code);
  return success();
}
