//===- EmitProgramTest.cpp - Files of compiled kernels --------------------===//

#include "forebay/Pipelines/Pipelines.h"
#include "forebay/Target/EmitProgram.h"
#include "forebay/program.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <csignal>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

using namespace mlir;

namespace {

// Every elementary function, so that a call into libm would show; a copy loop, which could become memcpy.
constexpr const char *kModule = R"(
func.func @step(%a: tensor<1000xf32>, %i: tensor<1000xi64>) -> (tensor<1000xf32>, tensor<1000xi64>, tensor<2000xf32>) {
  %0 = offload.dispatch @all(%a) : (tensor<1000xf32>) -> tensor<1000xf32>
  %1 = offload.dispatch @ints(%i) : (tensor<1000xi64>) -> tensor<1000xi64>
  %2 = offload.dispatch @concat(%a) : (tensor<1000xf32>) -> tensor<2000xf32>
  %s = train.scalars @o {hyper = {}, group = 0 : i64} : tensor<1xf32>
  return %0, %1, %2 : tensor<1000xf32>, tensor<1000xi64>, tensor<2000xf32>
}
func.func private @all(%a: tensor<1000xf32>) -> tensor<1000xf32> attributes {offload.kernel = #offload.kernel<"all", compiled, tiles = [1]>} {
  %0 = math.exp %a : tensor<1000xf32>
  %1 = math.log %0 : tensor<1000xf32>
  %2 = math.tanh %1 : tensor<1000xf32>
  %3 = math.erf %2 : tensor<1000xf32>
  %4 = math.sin %3 : tensor<1000xf32>
  %5 = math.cos %4 : tensor<1000xf32>
  %6 = math.powf %5, %a : tensor<1000xf32>
  %7 = math.sqrt %6 : tensor<1000xf32>
  %8 = math.floor %7 : tensor<1000xf32>
  %9 = math.ceil %8 : tensor<1000xf32>
  %10 = math.roundeven %9 : tensor<1000xf32>
  %11 = math.round %10 : tensor<1000xf32>
  %12 = arith.maximumf %11, %a : tensor<1000xf32>
  %13 = arith.minnumf %12, %a : tensor<1000xf32>
  %14 = math.absf %13 : tensor<1000xf32>
  return %14 : tensor<1000xf32>
}
func.func private @ints(%a: tensor<1000xi64>) -> tensor<1000xi64> attributes {offload.kernel = #offload.kernel<"ints", compiled, tiles = [1]>} {
  %c = arith.constant dense<7> : tensor<1000xi64>
  %0 = arith.divsi %a, %c : tensor<1000xi64>
  %1 = arith.remsi %0, %c : tensor<1000xi64>
  %2 = arith.floordivsi %1, %c : tensor<1000xi64>
  %3 = arith.maxsi %2, %a : tensor<1000xi64>
  return %3 : tensor<1000xi64>
}
func.func private @concat(%a: tensor<1000xf32>) -> tensor<2000xf32> attributes {offload.kernel = #offload.kernel<"concat", compiled, tiles = [2]>} {
  %0 = tensor.concat dim(0) %a, %a : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<2000xf32>
  return %0 : tensor<2000xf32>
}
train.optimizer @o hyper {lr = 1.0e-3} state [] {
  func.func @scalars(%t: i64, %lr: f64) -> f32 {
    %p = math.fpowi %lr, %t : f64, i64
    %0 = arith.truncf %p : f64 to f32
    return %0 : f32
  }
  func.func @update(%p: f32, %g: f32, %lr: f32) -> f32 {
    return %p : f32
  }
}
)";

class Emit : public testing::Test {
protected:
  Emit() {
    DialectRegistry registry;
    forebay::registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(kModule, &context);
    EXPECT_TRUE(bool(module));
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("emit", folder));
  }
  ~Emit() override { llvm::sys::fs::remove_directories(folder); }

  std::string path(StringRef name) {
    SmallString<128> result(folder);
    llvm::sys::path::append(result, name);
    return result.str().str();
  }
  std::string read(const std::string &path) {
    auto file = llvm::MemoryBuffer::getFile(path);
    return file ? (*file)->getBuffer().str() : "";
  }
  unsigned filesInFolder() {
    unsigned count = 0;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end && !error; it.increment(error))
      ++count;
    return count;
  }
  std::string errorOf(llvm::function_ref<LogicalResult()> body) {
    std::string text;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      text += diagnostic.str();
      return success();
    });
    EXPECT_TRUE(failed(body()));
    return text;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  SmallString<128> folder;
};

} // namespace

TEST_F(Emit, SameBytesEveryTime) {
  std::string program(100000, 'x');
  ASSERT_TRUE(succeeded(forebay::emitProgramFile(*module, program, path("a.so"), forebay::hostIsa())));
  ASSERT_TRUE(succeeded(forebay::emitProgramFile(*module, program, path("b.so"), forebay::hostIsa())));
  EXPECT_FALSE(read(path("a.so")).empty());
  EXPECT_EQ(read(path("a.so")), read(path("b.so")));
  EXPECT_EQ(filesInFolder(), 2u) << "temporary files stay behind";
}

TEST_F(Emit, TableAndSection) {
  std::string program = std::string("bytes\0with zeros\n", 17);
  ASSERT_TRUE(succeeded(forebay::emitProgramFile(*module, program, path("a.so"), forebay::hostIsa())));
  auto file = llvm::object::ObjectFile::createObjectFile(path("a.so"));
  ASSERT_TRUE(bool(file));
  bool found = false;
  for (const auto &section : file->getBinary()->sections())
    if (llvm::cantFail(section.getName()) == forebay::kProgramSection) {
      found = true;
      EXPECT_EQ(llvm::cantFail(section.getContents()), program);
    }
  EXPECT_TRUE(found);
  void *library = dlopen(path("a.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  struct Entry {
    const char *name;
    void *address;
  };
  auto *table = static_cast<Entry *>(dlsym(library, forebay::kKernelTableSymbol));
  ASSERT_TRUE(table);
  std::vector<std::string> names;
  for (; table->name; ++table) {
    names.push_back(table->name);
    EXPECT_TRUE(table->address);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"all", "ints", "concat", "o_scalars"}));
  dlclose(library);
}

TEST_F(Emit, EveryInstructionSet) {
  // Nothing is missing at link time on any of them: no call into a library.
  for (StringRef isa : {"x86-64-v3", "x86-64-v4", "aarch64"})
    EXPECT_TRUE(succeeded(forebay::emitProgramFile(*module, "p", path("cross.so"), isa))) << isa.str();
}

TEST_F(Emit, ErrorsLeaveNoFile) {
  std::string text = errorOf([&] { return forebay::emitProgramFile(*module, "p", path("missing/a.so"), forebay::hostIsa()); });
  EXPECT_NE(text.find("missing/a.so: cannot be written: No such file or directory"), std::string::npos) << text;

  // A file size limit stands for a full disk.
  rlimit old, small{4096, 4096};
  getrlimit(RLIMIT_FSIZE, &old);
  small.rlim_max = old.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  text = errorOf([&] { return forebay::emitProgramFile(*module, std::string(1 << 20, 'x'), path("a.so"), forebay::hostIsa()); });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_NE(text.find("a.so: cannot be written: File too large"), std::string::npos) << text;
  EXPECT_EQ(filesInFolder(), 0u);

  // An existing file stays as it was.
  { std::ofstream(path("old.so")) << "old"; }
  setrlimit(RLIMIT_FSIZE, &small);
  errorOf([&] { return forebay::emitProgramFile(*module, std::string(1 << 20, 'x'), path("old.so"), forebay::hostIsa()); });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(read(path("old.so")), "old");
}
