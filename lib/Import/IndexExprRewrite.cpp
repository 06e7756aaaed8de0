//===- IndexExprRewrite.cpp - Building expressions again from others ------===//

#include "IndexExpr.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace forebay::expr {

Ref Context::rebuild(Ref node, ArrayRef<Ref> v) {
  switch (node->op) {
  case Op::Const:
  case Op::Coord:
    return node;
  case Op::Table:
    return table(node->kind, node->table, v);
  case Op::Load:
    return load(node->kind, node->root, v);
  case Op::Linear: {
    SmallVector<std::pair<int64_t, Ref>, 4> terms;
    for (auto [arg, coef] : llvm::zip_equal(v, node->coefs))
      terms.push_back({coef, arg});
    return linear(terms, node->imm);
  }
  case Op::Mul:
    return mul(v[0], v[1]);
  case Op::FloorDiv:
    return floorDiv(v[0], v[1]);
  case Op::FloorMod:
    return floorMod(v[0], v[1]);
  case Op::TruncDiv:
    return truncDiv(v[0], v[1]);
  case Op::TruncMod:
    return truncMod(v[0], v[1]);
  case Op::Min:
    return min(v[0], v[1]);
  case Op::Max:
    return max(v[0], v[1]);
  case Op::Le0:
    return le0(v[0]);
  case Op::Eq0:
    return eq0(v[0]);
  case Op::And:
  case Op::Or:
    return logic(node->op, v);
  case Op::Not:
    return notOf(v[0]);
  case Op::Select:
    return select(v[0], v[1], v[2]);
  case Op::ToFloat:
  case Op::ToInt:
  case Op::FCast:
    return cast(v[0], node->kind);
  case Op::FBinary:
    return fbinary(node->fop, v[0], v[1]);
  case Op::FUnary:
    return funary(node->fop, v[0]);
  case Op::FCmp:
    return fcmp(node->fop, v[0], v[1]);
  }
  llvm_unreachable("all operations are listed");
}

/// Rebuilds from the operands up: `leaf` gives what stands for a node as a whole (null: nothing), `done` what stands for a node whose
/// operands are replaced.
Ref Context::rewrite(Ref root, function_ref<Ref(Ref)> leaf, function_ref<Ref(Ref)> done) {
  DenseMap<Ref, Ref> results;
  // Depth first with an explicit stack: chains of thousands of operations occur.
  SmallVector<Ref, 16> stack{root};
  while (!stack.empty()) {
    Ref node = stack.back();
    if (results.count(node)) {
      stack.pop_back();
      continue;
    }
    if (Ref whole = leaf(node)) {
      results[node] = whole;
      continue;
    }
    SmallVector<Ref, 4> args;
    for (Ref arg : node->args) {
      auto found = results.find(arg);
      if (found == results.end())
        stack.push_back(arg);
      else
        args.push_back(found->second);
    }
    if (args.size() == node->args.size())
      results[node] = done(rebuild(node, args));
  }
  return results[root];
}

Ref Context::substitute(Ref root, function_ref<Ref(unsigned, int64_t)> map) {
  auto leaf = [&](Ref node) -> Ref {
    if (node->axes == 0)
      return node;
    return node->op == Op::Coord ? map(node->imm, node->size) : nullptr;
  };
  return rewrite(root, leaf, [](Ref node) { return node; });
}

Ref Context::replaceLoads(Ref root, function_ref<Ref(Ref)> map) {
  return rewrite(root, [](Ref node) { return node->hasLoad ? nullptr : node; },
                 [&](Ref node) { return node->op == Op::Load ? map(node) : node; });
}

} // namespace forebay::expr
