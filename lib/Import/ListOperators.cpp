//===- ListOperators.cpp - What can be imported, for the documents --------===//

#include "Emitter.h"

#include "forebay/Import/Import.h"

#include "onnx/defs/schema.h"

#include <set>

using namespace mlir;

namespace forebay {

/// The operator sets that the importer takes (ModelFile.cpp).
static constexpr int kFirstOpset = 18, kLastOpset = 23;

/// Element types that any value of the graph may have, as docs/operators.md writes them.
static std::string typesOf(const onnx::OpSchema::FormalParameter &formal) {
  static const std::pair<const char *, const char *> known[] = {{"tensor(float)", "f32"},  {"tensor(double)", "f64"}, {"tensor(bool)", "bool"},
                                                                {"tensor(int32)", "i32"},  {"tensor(int64)", "i64"},  {"tensor(int8)", "i8"},
                                                                {"tensor(uint8)", "u8"},   {"seq(tensor(float))", "sequence"}};
  std::string text;
  for (auto [type, name] : known)
    for (auto *allowed : formal.GetTypes())
      if (*allowed == type)
        text += (text.empty() ? "" : ",") + std::string(name);
  return text.empty() ? "-" : text;
}

void listOperators(llvm::raw_ostream &os) {
  std::set<std::string> names;
  for (const onnx::OpSchema &schema : onnx::OpSchemaRegistry::get_all_schemas())
    if (schema.domain().empty())
      names.insert(schema.Name());
  for (const std::string &name : names) {
    const onnx::OpSchema *last = nullptr;
    int first = 0;
    for (int opset = kFirstOpset; opset <= kLastOpset; ++opset) {
      const onnx::OpSchema *schema = onnx::OpSchemaRegistry::Schema(name, opset, "");
      if (!schema || schema->Deprecated())
        continue;
      first = first ? first : opset;
      last = schema;
    }
    bool own = import::findOp("", name);
    if (!last || (!own && !last->HasFunction() && !last->HasContextDependentFunction()))
      continue;
    const auto &formals = last->inputs().empty() ? last->outputs() : last->inputs();
    os << name << ' ' << first << ' ' << kLastOpset << ' ' << (own ? "own" : "function") << ' ' << (formals.empty() ? "-" : typesOf(formals.front()))
       << '\n';
  }
}

} // namespace forebay
