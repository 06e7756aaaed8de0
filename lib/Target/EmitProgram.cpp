//===- EmitProgram.cpp - Writing step.so ----------------------------------===//

#include "forebay/Target/EmitProgram.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <mutex>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace mlir;

namespace {

/// A file that is removed unless it is kept.
class TemporaryFile {
public:
  ~TemporaryFile() {
    if (!path.empty())
      llvm::sys::fs::remove(path);
  }
  std::error_code create(const llvm::Twine &model, int &fd) { return llvm::sys::fs::createUniqueFile(model, fd, path); }
  StringRef name() const { return path; }
  void keep() { path.clear(); }

private:
  SmallString<128> path;
};

} // namespace

/// Runs LLD in this process; it keeps global state, so one at a time.
static bool link(StringRef object, StringRef output, std::string &messages) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::string in = object.str(), out = output.str();
  // A missing helper is an error here, not at load.
  const char *arguments[] = {"ld.lld", "-shared", "--build-id=none", "-z", "defs", "--hash-style=gnu", "-o", out.c_str(),
                             in.c_str()};
  llvm::raw_string_ostream os(messages);
  lld::Result result = lld::lldMain(arguments, os, os, {{lld::Gnu, &lld::elf::link}});
  return result.retCode == 0;
}

LogicalResult forebay::emitProgramFile(ModuleOp module, const std::string &program, const std::string &path, StringRef isa) {
  SmallVector<char, 0> object;
  if (failed(compileKernels(module, program, isa, object)))
    return failure();
  auto cannotWrite = [&](StringRef why) -> LogicalResult {
    InFlightDiagnostic error = emitError(UnknownLoc::get(module.getContext())) << "-o " << path << ": cannot be written: " << why;
    error.attachNote() << "make room, or choose another folder; nothing was left there";
    return error;
  };

  // Both files lie beside the result: linking then needs no space elsewhere, and renaming is atomic.
  TemporaryFile objectFile, output;
  int fd;
  if (std::error_code error = objectFile.create(path + ".%%%%%%%%.o", fd))
    return cannotWrite(error.message());
  {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
    os.write(object.data(), object.size());
    os.close();
    if (os.has_error()) {
      std::string why = os.error().message();
      os.clear_error();
      return cannotWrite(why);
    }
  }
  if (std::error_code error = output.create(path + ".%%%%%%%%.tmp", fd))
    return cannotWrite(error.message());
  close(fd);
  std::string messages;
  if (!link(objectFile.name(), output.name(), messages))
    return cannotWrite(StringRef(messages).trim());
  if (std::error_code error = llvm::sys::fs::openFileForRead(output.name(), fd))
    return cannotWrite(error.message());
  bool synced = fsync(fd) == 0;
  std::error_code syncError(errno, std::generic_category());
  close(fd);
  if (!synced)
    return cannotWrite(syncError.message());
  llvm::sys::fs::setPermissions(output.name(), llvm::sys::fs::all_read | llvm::sys::fs::owner_write | llvm::sys::fs::all_exe);
  if (std::error_code error = llvm::sys::fs::rename(output.name(), path))
    return cannotWrite(error.message());
  output.keep();
  return success();
}
