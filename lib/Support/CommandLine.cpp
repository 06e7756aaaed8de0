//===- CommandLine.cpp - Options of the compiler's tools ------------------===//

#include "forebay/Support/CommandLine.h"

#include "llvm/Config/llvm-config.h"

using namespace llvm;

namespace forebay {

void CommandLine::flag(std::string name, bool &target, std::string help) {
  options.push_back({std::move(name), "", std::move(help), &target, nullptr});
}

void CommandLine::custom(std::string name, std::string meta, std::function<bool(StringRef)> apply, std::string help) {
  options.push_back({std::move(name), std::move(meta), std::move(help), nullptr, std::move(apply)});
}

void CommandLine::value(std::string name, std::string meta, std::string &target, std::string help) {
  auto apply = [&target](StringRef text) {
    target = text.str();
    return true;
  };
  custom(std::move(name), std::move(meta), apply, std::move(help));
}

void CommandLine::list(std::string name, std::string meta, std::vector<std::string> &target, std::string help) {
  auto apply = [&target](StringRef text) {
    target.push_back(text.str());
    return true;
  };
  custom(std::move(name), std::move(meta), apply, std::move(help));
}

const CommandLine::Option *CommandLine::find(StringRef name) const {
  for (const Option &option : options)
    if (option.name == name)
      return &option;
  return nullptr;
}

std::optional<int> CommandLine::parse(int argc, const char *const *argv, Diagnostics &diags) {
  unsigned before = diags.errors();
  bool onlyPositional = false;
  for (int i = 1; i < argc; ++i) {
    StringRef arg = argv[i];
    if (onlyPositional || arg.size() < 2 || !arg.starts_with("-")) {
      if (positionals)
        positionals->push_back(arg.str());
      else
        diags.error(arg, "unexpected argument").note("see " + tool + " --help");
      continue;
    }
    if (arg == "--") {
      onlyPositional = true;
      continue;
    }
    if (arg == "--help" || arg == "-h") {
      printHelp(outs());
      return 0;
    }
    if (arg == "--version") {
      outs() << tool << " " FOREBAY_VERSION " (LLVM " LLVM_VERSION_STRING ")\n";
      return 0;
    }

    StringRef body = arg.drop_front(arg.starts_with("--") ? 2 : 1);
    auto [name, text] = body.split('=');
    bool hasValue = name.size() != body.size();
    const Option *option = find(name);
    if (!option || (!arg.starts_with("--") && name.size() > 1)) {
      const Option *nearest = nullptr;
      unsigned distance = 3;
      for (const Option &candidate : options) {
        unsigned d = StringRef(candidate.name).edit_distance(name, true, distance);
        if (d < distance) {
          distance = d;
          nearest = &candidate;
        }
      }
      diags.error(arg, "unknown option");
      if (nearest)
        diags.note(Twine("did you mean ") + (nearest->name.size() == 1 ? "-" : "--") + nearest->name + "?");
      else
        diags.note("see " + tool + " --help");
      continue;
    }
    seen.insert(name);
    if (option->flag) {
      if (hasValue)
        diags.error(arg, "this option takes no value").note("write --" + option->name);
      *option->flag = true;
      continue;
    }
    if (!hasValue) {
      if (i + 1 == argc) {
        diags.error(arg, "a value is missing").note("write " + arg + "=" + option->meta);
        continue;
      }
      text = argv[++i];
    }
    option->apply(text);
  }
  if (diags.errors() != before)
    return 1;
  return std::nullopt;
}

void CommandLine::printHelp(raw_ostream &os) const {
  os << "Usage: " << tool << " " << usage << "\n\n" << overview << "\n\nOptions:\n";
  auto line = [&](StringRef head, StringRef help) {
    os << "  " << head;
    if (head.size() > 26)
      os << '\n' << std::string(30, ' ');
    else
      os << std::string(28 - head.size(), ' ');
    os << help << '\n';
  };
  for (const Option &option : options) {
    bool isShort = option.name.size() == 1;
    std::string head = (isShort ? "-" : "--") + option.name;
    if (!option.flag)
      head += (isShort ? " " : "=") + option.meta;
    line(head, option.help);
  }
  line("--help", "Print this and exit");
  line("--version", "Print the version and exit");
}

} // namespace forebay
