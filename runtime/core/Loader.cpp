//===- Loader.cpp - From step.so to kernels that can be called ------------===//

#include "Loader.h"
#include "Files.h"

#include "forebay/Planning/RaceVerifier.h"
#include "forebay/backend.h"
#include "forebay/kernels.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <dlfcn.h>

using namespace forebay;
using namespace forebay::rt;

LoadedProgram::~LoadedProgram() {
  if (handle)
    dlclose(handle);
}

static const char *const x86Levels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

static int x86Level() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4"))
    return 3;
  if (__builtin_cpu_supports("x86-64-v3"))
    return 2;
  return __builtin_cpu_supports("x86-64-v2") ? 1 : 0;
#else
  return -1;
#endif
}

const char *forebay::rt::machineInstructionSet() {
  if (x86Level() >= 0)
    return x86Levels[x86Level()];
#if defined(__aarch64__)
  return "aarch64";
#else
  return "generic";
#endif
}

bool forebay::rt::runsInstructionSet(const std::string &isa) {
  for (int level = 0; level <= x86Level(); ++level)
    if (isa == x86Levels[level])
      return true;
  return isa.empty() || isa == machineInstructionSet();
}

bool forebay::rt::readProgram(const std::string &path, Program &program, Problems &problems) {
  std::string error;
  if (!readProgramFile(path, program, error) || !validateProgram(program, error) || !verifyProgram(program, error)) {
    // The reader starts its text with the path.
    if (error.rfind(path + ": ", 0) == 0)
      error = error.substr(path.size() + 2);
    problems.error(path, error, "a program is made by: forebay-compile MODEL.onnx -o STEP.so");
    return false;
  }
  return true;
}

/// Fills `kernels` and `scalars`; `find` looks up a compiled symbol.
template <typename Find>
static void resolve(LoadedProgram &loaded, const std::string &where, Find find, Problems &problems) {
  const Program &program = loaded.program;
  std::vector<std::string> missing;
  for (const Kernel &kernel : program.kernels) {
    void *address = nullptr;
    if (kernel.compiled)
      address = find(kernel.name);
    else if (const kernels::KernelEntry *entry = kernels::lookupBuiltin(kernel.name))
      address = reinterpret_cast<void *>(entry->function);
    if (!address)
      missing.push_back(kernel.name);
    loaded.kernels.push_back(reinterpret_cast<fb_kernel_fn>(address));
  }
  bool needsScalars = std::any_of(program.step.begin(), program.step.end(), [](const Command &c) { return c.kind == CommandKind::Scalars; });
  if (needsScalars) {
    loaded.scalars = reinterpret_cast<fb_scalars_fn>(find(program.optimizer + "_scalars"));
    if (!loaded.scalars)
      missing.push_back(program.optimizer + "_scalars");
  }
  if (!missing.empty())
    problems.error(where, "kernels are missing: " + joined(missing), "the program was made by another version; compile it again");
}

std::unique_ptr<LoadedProgram> forebay::rt::loadProgram(const std::string &path, Problems &problems) {
  auto loaded = std::make_unique<LoadedProgram>();
  loaded->path = path;
  Program &program = loaded->program;
  if (!readProgram(path, program, problems))
    return nullptr;
  if (program.kernelAbi != FOREBAY_KERNEL_ABI) {
    problems
        .error(path, "was made for version " + std::to_string(program.kernelAbi) + " of the kernel interface, this runtime has " +
                         std::to_string(FOREBAY_KERNEL_ABI),
               "compile it again with the forebay-compile of this version");
    return nullptr;
  }
  if (!runsInstructionSet(program.isa)) {
    problems.error(path, "its code needs a CPU with " + program.isa + ", this one has " + machineInstructionSet(),
                   "compile it on this machine");
    return nullptr;
  }
  // A name without a slash would be searched in the system's folders.
  char *absolute = realpath(path.c_str(), nullptr);
  std::string file = absolute ? absolute : path;
  std::free(absolute);
  loaded->handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded->handle) {
    problems.error(path, std::string("cannot be loaded: ") + dlerror(), "compile it again on this machine");
    return nullptr;
  }
  struct Entry {
    const char *name;
    void *address;
  };
  std::map<std::string, void *> table;
  if (auto *entry = static_cast<const Entry *>(dlsym(loaded->handle, kKernelTableSymbol)))
    for (; entry->name; ++entry)
      table[entry->name] = entry->address;
  auto find = [&](const std::string &name) {
    auto it = table.find(name);
    return it != table.end() ? it->second : dlsym(loaded->handle, name.c_str());
  };
  unsigned before = problems.errors();
  resolve(*loaded, path, find, problems);
  return problems.errors() == before ? std::move(loaded) : nullptr;
}

std::unique_ptr<LoadedProgram> forebay::rt::makeProgram(Program program, const std::map<std::string, void *> &compiled,
                                                        Problems &problems) {
  auto loaded = std::make_unique<LoadedProgram>();
  loaded->program = std::move(program);
  std::string error;
  if (!validateProgram(loaded->program, error) || !verifyProgram(loaded->program, error)) {
    problems.error("program", error, "it must be as the compiler makes programs: indices in range, ordered by waits");
    return nullptr;
  }
  auto find = [&](const std::string &name) {
    auto it = compiled.find(name);
    return it == compiled.end() ? nullptr : it->second;
  };
  unsigned before = problems.errors();
  resolve(*loaded, "program", find, problems);
  return problems.errors() == before ? std::move(loaded) : nullptr;
}
