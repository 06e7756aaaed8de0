//===- forebay-eval.cpp - Evaluates a function with plain loops -----------===//
//
// The reference interpreter as a command, for tests and for a look at values:
//
//     forebay-eval step.mlir --function=step --model-dir=gpt2 --input=input_ids=gpt2/feeds/input_ids.npy --row=0
//
// Arguments are found by `train.name` (or `argN`): from `--input=NAME=FILE.npy`; else, with `--model-dir`, from the bytes that
// `train.source` names; else, with `--random=SEED`, random numbers. `--row=N` takes element N of the leading axis of an input that
// has one axis too many (feeds hold a row for each micro-step).
//
// `--same-as=FILE.mlir` evaluates the function of that name (`--same-as-function`) there on the same arguments too, matched by name and,
// without one, by position; results are compared in order as far as both have them, and a relative distance above
// `--tolerance` is an error: how a pass is shown to keep what a function computes.
//
// One line for each result: name, type, and its value when it has at most 8 elements, else its L2 norm. After that the norm over all
// results with the role gradient. `--output-dir=DIR` writes each result as NAME.npy (`/` as `_`).
//
//===----------------------------------------------------------------------===//

#include "Reference/Reference.h"

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace forebay;
using namespace forebay::reference;
namespace cl = llvm::cl;

static cl::opt<std::string> inputFile(cl::Positional, cl::desc("FILE.mlir"), cl::init("-"));
static cl::opt<std::string> functionName("function", cl::desc("Function to evaluate"), cl::init("forward"));
static cl::list<std::string> inputs("input", cl::desc("NAME=FILE.npy"));
static cl::opt<std::string> modelDir("model-dir", cl::desc("Folder that train.source is relative to"));
static cl::opt<int64_t> row("row", cl::desc("Row of the inputs' leading axis"), cl::init(0));
static cl::opt<int64_t> randomSeed("random", cl::desc("Seed for arguments without a value"), cl::init(-1));
static cl::opt<std::string> outputDir("output-dir", cl::desc("Folder for the results as .npy"));
static cl::opt<bool> roundToType("round", cl::desc("Round each operation's results to their type"));
static cl::opt<int64_t> step("step", cl::desc("Number of the step, for train.scalars"), cl::init(1));

static cl::opt<std::string> sameAs("same-as", cl::desc("Module whose function must give the same results"));
static cl::opt<std::string> sameAsFunction("same-as-function", cl::desc("Its name (default: --function)"));
static cl::opt<double> tolerance("tolerance", cl::desc("Largest relative L2 distance"), cl::init(1e-10));

static int fail(const Twine &what) {
  llvm::errs() << "error: " << what << "\n";
  return 1;
}

static std::string nameOf(Attribute attribute, const Twine &fallback) {
  auto name = dyn_cast_or_null<StringAttr>(attribute);
  return name ? name.str() : fallback.str();
}

/// Row `row` of a feed, or the tensor itself when it has the rank of the argument.
static Tensor takeRow(Tensor tensor, Type type) {
  auto shaped = cast<ShapedType>(type);
  if (tensor.rank() != shaped.getRank() + 1)
    return tensor;
  Tensor part(ArrayRef(tensor.shape).drop_front(), tensor.isFloat);
  for (int64_t i = 0, n = part.size(); i < n; ++i) {
    if (part.isFloat)
      part.floats[i] = tensor.floats[row * n + i];
    else
      part.ints[i] = tensor.ints[row * n + i];
  }
  return part;
}

/// Normally distributed; integers from `train.range`, else from 0 to 3 (0 or 1 for i1).
static Tensor randomTensor(Type type, DictionaryAttr range, std::mt19937_64 &generator) {
  Tensor tensor(type);
  std::normal_distribution<double> normal;
  for (double &value : tensor.floats)
    value = normal(generator);
  Type element = getElementTypeOrSelf(type);
  int64_t low = 0, high = element.isInteger(1) ? 2 : 4;
  if (range) {
    low = cast<IntegerAttr>(range.get("lo")).getInt();
    high = cast<IntegerAttr>(range.get("hi")).getInt();
  }
  for (int64_t &value : tensor.ints)
    value = low + int64_t(generator() % uint64_t(high - low));
  return tensor;
}

/// The difference of two results relative to the first, 0 for equal values (also NaN and infinity at the same places).
static double distance(const Tensor &a, const Tensor &b) {
  if (a.size() != b.size() || a.isFloat != b.isFloat)
    return INFINITY;
  if (!a.isFloat)
    return a.ints == b.ints ? 0.0 : INFINITY;
  double difference = 0.0, norm = 0.0;
  for (auto [x, y] : llvm::zip(a.floats, b.floats)) {
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    difference += (x - y) * (x - y);
  }
  for (double x : a.floats)
    norm += std::isfinite(x) ? x * x : 0.0;
  return difference == 0.0 ? 0.0 : std::sqrt(difference / std::max(norm, 1e-300));
}

/// 0 when `other`'s results are those of `func`.
static int compareWith(MLIRContext &context, func::FuncOp func, ArrayRef<Tensor> arguments, ArrayRef<Tensor> results,
                       const EvaluateOptions &options) {
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sameAs.getValue(), &context);
  if (!module)
    return 1;
  std::string name = sameAsFunction.empty() ? functionName : sameAsFunction;
  auto other = module->lookupSymbol<func::FuncOp>(name);
  if (!other)
    return fail(sameAs + ": no function @" + name);
  llvm::StringMap<unsigned> positions;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    positions[nameOf(func.getArgAttr(i, train::kNameAttr), "arg" + Twine(i))] = i;
  std::vector<Tensor> theirs;
  for (unsigned i = 0; i < other.getNumArguments(); ++i) {
    auto it = positions.find(nameOf(other.getArgAttr(i, train::kNameAttr), "arg" + Twine(i)));
    if (it == positions.end())
      return fail(sameAs + ": argument " + Twine(i) + " is not known here");
    theirs.push_back(arguments[it->second]);
  }
  auto values = evaluate(other, theirs, options);
  if (failed(values))
    return 1;
  double largest = 0.0;
  for (auto [i, pair] : llvm::enumerate(llvm::zip(results, *values))) {
    double d = distance(std::get<0>(pair), std::get<1>(pair));
    largest = std::max(largest, d);
    if (!(d <= tolerance))
      return fail("result " + Twine(i) + " differs by " + llvm::formatv("{0:e}", d));
  }
  llvm::outs() << "same as " << sameAs << " up to " << llvm::format("%.1e", largest) << "\n";
  return 0;
}

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "Evaluates a function of a Forebay module with plain loops in double\n");
  DialectRegistry registry;
  forebay::registerAllDialects(registry);
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  std::string message;
  auto file = openInputFile(inputFile, &message);
  if (!file)
    return fail(message);
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return 1;
  auto func = module->lookupSymbol<func::FuncOp>(functionName);
  if (!func)
    return fail("no function @" + functionName);

  llvm::StringMap<std::string> files;
  for (const std::string &entry : inputs) {
    auto [name, path] = StringRef(entry).split('=');
    files[name] = path.str();
  }
  std::mt19937_64 generator(randomSeed);
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    Type type = func.getArgumentTypes()[i];
    std::string name = nameOf(func.getArgAttr(i, train::kNameAttr), "arg" + Twine(i));
    auto source = func.getArgAttrOfType<train::SourceAttr>(i, train::kSourceAttr);
    if (auto it = files.find(name); it != files.end()) {
      auto tensor = readNpy(it->second);
      if (!tensor)
        return fail(llvm::toString(tensor.takeError()));
      arguments.push_back(takeRow(std::move(*tensor), type));
    } else if (source && !modelDir.empty()) {
      SmallString<128> path(modelDir);
      llvm::sys::path::append(path, source.getFile());
      auto bytes = llvm::MemoryBuffer::getFileSlice(path, source.getBytes(), source.getOffset());
      if (!bytes)
        return fail(path + ": " + bytes.getError().message());
      arguments.push_back(fromBytes(type, (*bytes)->getBuffer()));
    } else if (randomSeed >= 0) {
      arguments.push_back(randomTensor(type, func.getArgAttrOfType<DictionaryAttr>(i, train::kRangeAttr), generator));
    } else {
      return fail("no value for argument '" + name + "'");
    }
  }

  EvaluateOptions options;
  options.roundToType = roundToType;
  options.step = step;
  auto results = evaluate(func, arguments, options);
  if (failed(results))
    return 1;
  double gradientSquares = 0.0;
  bool hasGradient = false;
  for (auto [i, tensor] : llvm::enumerate(*results)) {
    std::string name = nameOf(func.getResultAttr(i, train::kNameAttr), "result" + Twine(i));
    auto role = func.getResultAttrOfType<train::RoleAttr>(i, train::kRoleAttr);
    double squares = 0.0;
    for (double value : tensor.floats)
      squares += value * value;
    if (role && role.getValue() == train::Role::Gradient) {
      hasGradient = true;
      gradientSquares += squares;
      name += " (gradient)";
    }
    llvm::outs() << name << " : " << func.getResultTypes()[i] << " =";
    if (tensor.size() > 8)
      llvm::outs() << " norm " << llvm::format("%.17g", std::sqrt(squares));
    else
      for (int64_t at = 0; at < tensor.size(); ++at)
        if (tensor.isFloat)
          llvm::outs() << llvm::format(" %.17g", tensor.floats[at]);
        else
          llvm::outs() << " " << tensor.ints[at];
    llvm::outs() << "\n";
    if (outputDir.empty())
      continue;
    std::replace(name.begin(), name.end(), '/', '_');
    SmallString<128> path(outputDir.getValue());
    llvm::sys::path::append(path, name + ".npy");
    if (llvm::Error error = writeNpy(path, tensor))
      return fail(llvm::toString(std::move(error)));
  }
  if (hasGradient)
    llvm::outs() << "gradient norm = " << llvm::format("%.17g", std::sqrt(gradientSquares)) << "\n";
  return sameAs.empty() ? 0 : compareWith(context, func, arguments, *results, options);
}
