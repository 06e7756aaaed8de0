//===- Diagnostics.cpp - How tools tell users what is wrong ---------------===//

#include "forebay/Support/Diagnostics.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace forebay {

/// Names in a model are arbitrary bytes: control characters must neither break the line nor reach a terminal.
static void print(llvm::raw_ostream &os, StringRef text) {
  for (unsigned char c : text) {
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      os << "\\x" << llvm::hexdigit(c >> 4, true) << llvm::hexdigit(c & 15, true);
    else
      os << char(c);
  }
}

static void printLine(llvm::raw_ostream &os, StringRef severity, const Twine &where, const Twine &what) {
  SmallString<128> buffer;
  os << severity << ": ";
  StringRef place = where.toStringRef(buffer);
  if (!place.empty()) {
    print(os, place);
    os << ": ";
  }
  buffer.clear();
  print(os, what.toStringRef(buffer));
  os << '\n';
  os.flush();
}

Diagnostics &Diagnostics::error(const Twine &where, const Twine &what) {
  ++numErrors;
  printLine(os, "error", where, what);
  return *this;
}

Diagnostics &Diagnostics::warning(const Twine &where, const Twine &what) {
  printLine(os, "warning", where, what);
  return *this;
}

Diagnostics &Diagnostics::remark(const Twine &where, const Twine &what) {
  printLine(os, "remark", where, what);
  return *this;
}

Diagnostics &Diagnostics::note(const Twine &what) {
  printLine(os, "note", "", what);
  return *this;
}

std::string describeLocation(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    std::string text = "node '" + name.getName().str() + "'";
    if (auto scope = dyn_cast<NameLoc>(name.getChildLoc()))
      text += " in " + scope.getName().str();
    return text;
  }
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    return (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" + Twine(file.getColumn())).str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (!isa<UnknownLoc>(part))
        return describeLocation(part);
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return describeLocation(call.getCallee());
  if (isa<UnknownLoc>(loc))
    return "";
  std::string text;
  llvm::raw_string_ostream(text) << loc;
  return text;
}

MlirDiagnostics::MlirDiagnostics(MLIRContext *context, Diagnostics &diags)
    : ScopedDiagnosticHandler(context, [&diags](Diagnostic &diag) {
        std::string where = describeLocation(diag.getLocation());
        switch (diag.getSeverity()) {
        case DiagnosticSeverity::Error:
          diags.error(where, diag.str());
          break;
        case DiagnosticSeverity::Warning:
          diags.warning(where, diag.str());
          break;
        case DiagnosticSeverity::Note:
          diags.note(diag.str());
          break;
        case DiagnosticSeverity::Remark:
          diags.remark(where, diag.str());
          break;
        }
        for (Diagnostic &note : diag.getNotes())
          diags.note(note.str());
        return success();
      }) {}

} // namespace forebay
