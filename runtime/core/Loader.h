//===- Loader.h - From step.so to kernels that can be called ----*- C++ -*-===//

#ifndef FOREBAY_RUNTIME_LOADER_H
#define FOREBAY_RUNTIME_LOADER_H

#include "Problems.h"
#include "forebay/kernel_abi.h"
#include "forebay/program.h"

#include <map>
#include <memory>

namespace forebay::rt {

/// A program with its code. Owns the shared object.
struct LoadedProgram {
  LoadedProgram() = default;
  LoadedProgram(const LoadedProgram &) = delete;
  ~LoadedProgram();

  std::string path; ///< of step.so; empty for a program made in memory
  Program program;
  std::vector<fb_kernel_fn> kernels; ///< one for each Program::kernels
  fb_scalars_fn scalars = nullptr;
  void *handle = nullptr;
};

/// Reads, checks and verifies the program without loading code, then loads its code and finds every kernel. Null with problems.
std::unique_ptr<LoadedProgram> loadProgram(const std::string &path, Problems &problems);
/// The first half alone: for descriptions, which need no code and no particular machine.
bool readProgram(const std::string &path, Program &program, Problems &problems);

/// A program made in memory; `compiled` holds its compiled kernels and "<optimizer>_scalars" by name.
std::unique_ptr<LoadedProgram> makeProgram(Program program, const std::map<std::string, void *> &compiled, Problems &problems);

/// The largest instruction set level of this machine: "x86-64-v3", "aarch64", ...
const char *machineInstructionSet();
/// Whether code for `isa` runs on this machine.
bool runsInstructionSet(const std::string &isa);

} // namespace forebay::rt

#endif // FOREBAY_RUNTIME_LOADER_H
