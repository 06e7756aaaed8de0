//===- Options.cpp - Command line of forebay-run --------------------------===//

#include "Options.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>

using namespace forebay::rt;

const char *const forebay::rt::kHelp = R"(usage: forebay-run STEP.so [options]
       forebay-run STEP.so --describe
       forebay-run --calibrate -o MACHINE.mlir

Trains (or, for a program made with --forward, evaluates) what forebay-compile made.

Data
  --feed=INPUT=FILE.npy     rows for an input; the leading axis is the micro-step (repeatable)
  --repeat                  start over at the end of a file
  --tokens=FILE             raw little-endian tokens: fills input_ids, labels, attention_mask, position_ids
  --tokens-type=T           u8, u16 (default), i32, i64
  --tokens-input=NAME       input that takes the tokens (default input_ids)
  --tokens-labels=NAME      input that takes the labels (default labels)
  --tokens-shift=N          labels are the tokens N further on (default 0: the graph shifts them itself)
  --batching=MODE           consecutive windows (default) or random ones
  --seed=S                  for random windows
Training
  --steps=N                 attempts, skipped ones count (default: what the shortest feed allows)
  --lr-schedule=S           constant, linear or cosine, with :warmup=N,total=N,min_ratio=X
  --hyper=KEY=VALUE         changes a default of the optimizer (repeatable)
  --threads=N               compute workers (default: the allowed cores)
Weights
  --weights=FILE|DIR        .safetensors, a folder, or the .onnx (default: the model that was compiled)
  --verify                  check the content of external data, too
  --init=SEED               draw weights that are absent
  --save-weights=F          write the weights as .safetensors at the end
  --save-outputs=DIR        write the outputs of a --forward program as .npy
Runs
  --checkpoint-dir=DIR      write a checkpoint at the end, and
  --checkpoint-every=N      every N steps
  --resume                  go on from the newest checkpoint, if there is one
  --metrics=F.jsonl         one JSON object for each step
  --trace=F.json            what ran when, for ui.perfetto.dev
  --profile=F.json          time by kernel and phase
  --describe[=json|commands]  print what the program is and stop (commands: JSON with the command table)
Machines
  --calibrate               measure this computer (under a minute) and write a machine file for forebay-compile
  --machine=NAME            cpu (default) or superchip-emu
  -o FILE                   the machine file
  --quick                   small sizes and few repetitions: seconds instead of a minute, rough numbers
  --help, --version
)";

namespace {

class Parser {
public:
  Parser(RunOptions &options, Problems &problems) : options(options), problems(problems) {
    text("steps", [&](const std::string &v) { return count("steps", v, options.steps) && (options.hasSteps = true); });
    text("feed", [&](const std::string &v) { return feed(v); });
    flag("repeat", [&] { options.feeds.repeat = true; });
    text("tokens", [&](const std::string &v) { return path("tokens", v, options.feeds.tokens); });
    text("tokens-type", [&](const std::string &v) { return choice("tokens-type", v, {"u8", "u16", "i32", "i64"}, options.feeds.tokensType); });
    text("tokens-input", [&](const std::string &v) { return path("tokens-input", v, options.feeds.tokensInput); });
    text("tokens-labels", [&](const std::string &v) { return path("tokens-labels", v, options.feeds.tokensLabels); });
    text("tokens-shift", [&](const std::string &v) { return count("tokens-shift", v, options.feeds.tokensShift); });
    text("batching", [&](const std::string &v) {
      std::string mode;
      if (!choice("batching", v, {"consecutive", "random"}, mode))
        return false;
      options.feeds.randomBatches = mode == "random";
      return true;
    });
    text("seed", [&](const std::string &v) { return count("seed", v, options.feeds.seed, 0, UINT64_MAX); });
    text("lr-schedule", [&](const std::string &v) {
      std::string error, hint;
      options.hasSchedule = true;
      if (Schedule::parse(v, options.session.schedule, error, hint))
        return true;
      problems.error("--lr-schedule=" + v, error, hint);
      return false;
    });
    text("hyper", [&](const std::string &v) {
      options.session.hyper.push_back(v);
      return true;
    });
    text("weights", [&](const std::string &v) { return path("weights", v, options.weights.source); });
    flag("verify", [&] { options.weights.verify = true; });
    text("init", [&](const std::string &v) { return count("init", v, options.weights.initSeed, 0, UINT64_MAX) && (options.weights.hasInit = true); });
    text("save-weights", [&](const std::string &v) { return path("save-weights", v, options.saveWeights); });
    text("save-outputs", [&](const std::string &v) { return path("save-outputs", v, options.saveOutputs); });
    text("metrics", [&](const std::string &v) { return path("metrics", v, options.metrics); });
    text("checkpoint-dir", [&](const std::string &v) { return path("checkpoint-dir", v, options.checkpointDir); });
    text("checkpoint-every", [&](const std::string &v) { return count("checkpoint-every", v, options.checkpointEvery, 1); });
    flag("resume", [&] { options.resume = true; });
    text("threads", [&](const std::string &v) {
      uint64_t threads = 0;
      if (!count("threads", v, threads, 1, 4096))
        return false;
      options.session.threads = unsigned(threads);
      return true;
    });
    text("trace", [&](const std::string &v) { return path("trace", v, options.trace); });
    text("profile", [&](const std::string &v) { return path("profile", v, options.profile); });
    flag("describe", [&] { options.describe = "text"; });
    flag("calibrate", [&] { options.calibrate = true; });
    flag("quick", [&] { options.calibration.quick = true; });
    text("machine", [&](const std::string &v) { return choice("machine", v, {"cpu", "superchip-emu"}, options.calibration.machine); });
    text("output", [&](const std::string &v) { return path("output", v, options.calibration.output); });
    flag("help", [&] { options.help = true; });
    flag("version", [&] { options.version = true; });
  }

  void parse(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
      std::string argument = argv[i];
      if (argument == "-h")
        argument = "--help";
      if (argument == "-o")
        argument = "--output";
      if (argument.size() < 2 || argument.compare(0, 2, "--") != 0) {
        if (argument.size() > 1 && argument[0] == '-')
          unknown(argument);
        else if (options.program.empty() && !argument.empty())
          options.program = argument;
        else
          problems.error(argument.empty() ? "''" : argument, argument.empty() ? "names no program" : "a second program", "forebay-run takes one STEP.so");
        continue;
      }
      size_t equals = argument.find('=');
      std::string name = argument.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
      if (name == "describe" && equals != std::string::npos) {
        choice("describe", argument.substr(equals + 1), {"text", "json", "commands"}, options.describe);
        continue;
      }
      auto known = std::find_if(entries.begin(), entries.end(), [&](const Entry &e) { return e.name == name; });
      if (known == entries.end()) {
        unknown("--" + name);
        continue;
      }
      if (known->flag) {
        if (equals != std::string::npos)
          problems.error(argument, "--" + name + " takes no value", "write --" + name);
        else
          given.insert(name), known->flag();
        continue;
      }
      std::string value;
      if (equals != std::string::npos) {
        value = argument.substr(equals + 1);
      } else if (i + 1 < argc && std::strncmp(argv[i + 1], "--", 2) != 0) {
        value = argv[++i];
      } else {
        problems.error("--" + name, "needs a value", "write --" + name + "=VALUE; --help says which");
        continue;
      }
      given.insert(name);
      known->value(value);
    }
  }

  /// What only makes sense together.
  void finish() {
    if (options.help || options.version)
      return;
    if (options.calibrate) {
      finishCalibrate();
      return;
    }
    if (options.program.empty() && !problems.any())
      problems.error("forebay-run", "no program", "usage: forebay-run STEP.so [options]; see --help");
    // An option without the one that it depends on would be ignored.
    for (const char *name : {"checkpoint-every", "resume"})
      needs(name, given.count("checkpoint-dir"), "--checkpoint-dir=DIR");
    for (const char *name : {"tokens-type", "tokens-input", "tokens-labels", "tokens-shift", "batching"})
      needs(name, given.count("tokens"), "--tokens=FILE");
    needs("seed", options.feeds.randomBatches, "--batching=random");
    needs("repeat", given.count("feed") || given.count("tokens"), "--feed=INPUT=FILE.npy");
    for (const char *name : {"machine", "output", "quick"})
      needs(name, options.calibrate, "--calibrate");
  }

private:
  struct Entry {
    std::string name;
    std::function<bool(const std::string &)> value;
    std::function<void()> flag;
  };

  void text(const char *name, std::function<bool(const std::string &)> value) { entries.push_back({name, std::move(value), nullptr}); }
  void flag(const char *name, std::function<void()> action) { entries.push_back({name, nullptr, std::move(action)}); }

  void unknown(const std::string &argument) {
    std::string known;
    for (const Entry &entry : entries)
      if (entry.name != "output")
        known += " --" + entry.name;
    problems.error(argument, "unknown option", "known options:" + known);
  }

  void finishCalibrate() {
    options.calibration.threads = options.session.threads;
    if (!options.program.empty())
      problems.error(options.program, "--calibrate runs no program", "leave it out");
    for (const std::string &name : given)
      if (name != "calibrate" && name != "machine" && name != "output" && name != "quick" && name != "threads")
        problems.error("--" + name, "means nothing with --calibrate", "leave it out");
    if (options.calibration.output.empty() && !problems.any())
      problems.error("--calibrate", "needs -o FILE", "for example -o this-computer.mlir");
  }

  bool bad(const char *name, const std::string &value, const std::string &what, const std::string &hint) {
    problems.error(std::string("--") + name + "=" + value, what, hint);
    return false;
  }

  void needs(const std::string &name, bool there, const std::string &what) {
    if (given.count(name) && !there)
      problems.error(name == "output" ? "-o" : "--" + name, "needs " + what, "add " + what + ", or leave it out");
  }

  bool count(const char *name, const std::string &value, uint64_t &to, uint64_t least = 0, uint64_t most = 1000000000000) {
    uint64_t parsed;
    if (!parseCount(value, parsed))
      return bad(name, value, "is not a whole number", "for example --" + std::string(name) + "=" + std::to_string(std::max<uint64_t>(least, 8)));
    if (parsed < least || parsed > most)
      return bad(name, value, parsed < least ? "is too small" : "is too large", std::to_string(least) + " to " + std::to_string(most));
    to = parsed;
    return true;
  }

  bool path(const char *name, const std::string &value, std::string &to) {
    if (value.empty())
      return bad(name, value, "is empty", std::string("write --") + name + "=VALUE");
    to = value;
    return true;
  }

  bool choice(const char *name, const std::string &value, const std::vector<std::string> &known, std::string &to) {
    if (std::find(known.begin(), known.end(), value) == known.end())
      return bad(name, value, "is not known", "known: " + joined(known));
    to = value;
    return true;
  }

  bool feed(const std::string &value) {
    // Names of inputs may hold '=', paths may too: the last one that leaves a name is not better than the first.
    size_t equals = value.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == value.size())
      return bad("feed", value, "is not INPUT=FILE.npy", "for example --feed=input_ids=ids.npy");
    options.feeds.arrays.push_back({value.substr(0, equals), value.substr(equals + 1)});
    return true;
  }

  RunOptions &options;
  Problems &problems;
  std::vector<Entry> entries;
  std::set<std::string> given;
};

void readEnvironment(RunOptions &options, Problems &problems) {
  if (const char *seed = std::getenv("FOREBAY_DELAY_SEED"); seed && *seed) {
    options.session.delays = parseCount(seed, options.session.delaySeed);
    if (!options.session.delays)
      problems.error("FOREBAY_DELAY_SEED", std::string("'") + seed + "' is not a whole number", "for example FOREBAY_DELAY_SEED=1");
  }
  if (const char *fault = std::getenv("FOREBAY_FAULT"); fault && *fault) {
    std::string text = fault;
    const std::string begin = "nan@step=", middle = ",param=";
    size_t comma = text.find(middle);
    options.session.fault = text.compare(0, begin.size(), begin) == 0 && comma != std::string::npos &&
                            parseCount(text.substr(begin.size(), comma - begin.size()), options.session.faultStep);
    if (options.session.fault)
      options.session.faultPattern = text.substr(comma + middle.size());
    else
      problems.error("FOREBAY_FAULT", "'" + text + "' names no fault", "write nan@step=7,param=REGEX");
  }
}

} // namespace

bool forebay::rt::parseOptions(int argc, char **argv, RunOptions &options, Problems &problems) {
  Parser parser(options, problems);
  parser.parse(argc, argv);
  parser.finish();
  readEnvironment(options, problems);
  return !problems.any();
}
