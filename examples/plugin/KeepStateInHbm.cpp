//===- KeepStateInHbm.cpp - Chosen parameters are not offloaded -----------===//

#include "Passes.h"

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Support/Regex.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
namespace offload = forebay::offload;
namespace train = forebay::train;
using offload::AsyncDispatchOp;
using offload::AsyncTransferOp;

namespace example {
#define GEN_PASS_DEF_KEEPSTATEINHBM
#include "Passes.h.inc"
} // namespace example

namespace {

offload::Space spaceOf(Value buffer) { return cast<offload::BufferType>(buffer.getType()).getSpace(); }

offload::BufferType inHbm(Value buffer) {
  auto type = cast<offload::BufferType>(buffer.getType());
  return offload::BufferType::get(type.getContext(), offload::Space::HBM, type.getTensor());
}

/// One parameter whose state can stay in HBM: everything that has to change.
struct Candidate {
  StringAttr name;
  BlockArgument parameter;
  BlockArgument copy;       ///< where forward and backward read it today
  AsyncDispatchOp update;   ///< (parameter, gradient, states..., scalars, verdict) to(parameter, states...)
  Value gradient;           ///< in HBM
  AsyncTransferOp refresh;  ///< copies the parameter to `copy`
};

struct KeepStateInHbm : example::impl::KeepStateInHbmBase<KeepStateInHbm> {
  using Base::Base;

  void runOnOperation() override {
    std::string problem;
    auto regex = forebay::Regex::compile(parameters, problem);
    if (!regex) {
      getOperation().emitError() << "parameters=" << parameters << " is not a regular expression: " << problem;
      return signalPassFailure();
    }
    auto phase = getOperation()->getAttrOfType<StringAttr>(offload::kPhaseAttr);
    step = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!step || !phase || phase != "async") {
      getOperation().emitError("is not at level 'async': run this pass at the end of phase async");
      return signalPassFailure();
    }
    SmallVector<BlockArgument> copies;
    for (BlockArgument argument : step.getArguments()) {
      auto name = attribute<StringAttr>(argument, train::kNameAttr);
      if (!name || !attribute<IntegerAttr>(argument, "offload.copy_of") || !regex->search(name.getValue()))
        continue;
      Candidate candidate{name, step.getArgument(attribute<IntegerAttr>(argument, "offload.copy_of").getInt()), argument, {}, {}, {}};
      if (StringRef why = complete(candidate); !why.empty()) {
        emitRemark(step.getLoc()) << "'" << name.getValue() << "' stays offloaded: " << why;
        continue;
      }
      move(candidate);
      copies.push_back(argument);
    }
    for (BlockArgument copy : llvm::reverse(copies))
      (void)step.eraseArgument(copy.getArgNumber());
    if (copies.empty())
      emitRemark(step.getLoc()) << "no parameter was moved";
  }

private:
  template <typename AttrTy> AttrTy attribute(BlockArgument argument, StringRef name) {
    return step.getArgAttrOfType<AttrTy>(argument.getArgNumber(), name);
  }

  /// Finds the operations around a parameter; says why it must stay, or nothing.
  StringRef complete(Candidate &c) {
    for (Operation *user : c.parameter.getUsers()) {
      auto dispatch = dyn_cast<AsyncDispatchOp>(user);
      if (!dispatch || !llvm::is_contained(dispatch.getOutputs(), c.parameter) || dispatch == c.update)
        continue;
      if (c.update || dispatch.getSlices())
        return "it is updated in pieces";
      c.update = dispatch;
    }
    if (!c.update || c.update.getEngine() != offload::Engine::CPU)
      return "its update does not run on the cpu";
    for (Operation *user : c.copy.getUsers())
      if (auto transfer = dyn_cast<AsyncTransferOp>(user); transfer && llvm::is_contained(transfer.getTargets(), c.copy)) {
        if (transfer.getSlices())
          return "its weight is copied in pieces";
        c.refresh = transfer;
      }
    if (!c.refresh)
      return "no transfer refreshes its copy";
    // The gradient on the host came from HBM, unless micro-steps are added up there.
    Value onHost = c.update.getInputs()[1];
    if (isa<BlockArgument>(onHost))
      return "its gradients are added up on the host";
    for (Operation *user : onHost.getUsers())
      if (auto transfer = dyn_cast<AsyncTransferOp>(user); transfer && !transfer.getSlices())
        for (auto [source, target] : llvm::zip(transfer.getSources(), transfer.getTargets()))
          if (target == onHost && spaceOf(source) == offload::Space::HBM)
            c.gradient = source;
    return c.gradient ? "" : "its gradient is copied in pieces";
  }

  void move(Candidate &c) {
    uint64_t bytes = 0;
    auto take = [&](Value value) {
      value.setType(inHbm(value));
      bytes += cast<offload::BufferType>(value.getType()).getBytes();
    };
    SmallVector<Value> inputs(c.update.getInputs());
    for (Value buffer : c.update.getOutputs()) // The parameter and its states.
      take(buffer);
    Value scalars = inputs[inputs.size() - 2], verdict = inputs.back();
    const Control &control = controlInHbm(scalars, verdict, c.update);
    inputs[1] = c.gradient;
    inputs[inputs.size() - 2] = control.scalars;
    inputs.back() = control.verdict;
    SmallVector<Value> after{control.token};
    for (Operation *user : c.gradient.getUsers())
      if (auto writer = dyn_cast<AsyncDispatchOp>(user); writer && llvm::is_contained(writer.getOutputs(), c.gradient))
        after.push_back(writer.getToken());
    for (Operation *user : verdict.getUsers())
      if (auto read = dyn_cast<offload::AsyncVerdictOp>(user))
        after.push_back(read.getToken()); // `apply` is known from here on.
    c.update.setEngine(offload::Engine::GPU);
    c.update.getInputsMutable().assign(inputs);
    c.update.getAfterMutable().assign(after);
    dropRefresh(c);
    c.copy.replaceAllUsesWith(c.parameter);
    SmallVector<Type> types(step.getBody().getArgumentTypes());
    step.setFunctionType(FunctionType::get(&getContext(), types, step.getResultTypes()));
    emitRemark(step.getLoc()) << "'" << c.name.getValue() << "' stays in hbm: " << bytes << " bytes of weight and state";
  }

  /// Removes the pair (parameter, copy) from its transfer.
  void dropRefresh(Candidate &c) {
    SmallVector<Value> sources, targets;
    for (auto [source, target] : llvm::zip(c.refresh.getSources(), c.refresh.getTargets()))
      if (target != c.copy) {
        sources.push_back(source);
        targets.push_back(target);
      }
    if (sources.empty()) {
      c.refresh.getToken().replaceAllUsesWith(c.update.getToken());
      c.refresh.erase();
      return;
    }
    c.refresh.getSourcesMutable().assign(sources);
    c.refresh.getTargetsMutable().assign(targets);
  }

  struct Control {
    Value scalars, verdict, token;
  };

  /// Copies of a group's scalars and of the verdict in HBM, where the gpu reads them.
  const Control &controlInHbm(Value scalars, Value verdict, AsyncDispatchOp update) {
    auto [entry, isNew] = controls.try_emplace({scalars, verdict});
    if (!isNew)
      return entry->second;
    SmallVector<Value> after;
    for (Value buffer : {scalars, verdict})
      for (Operation *user : buffer.getUsers()) {
        if (auto op = dyn_cast<offload::AsyncScalarsOp>(user))
          after.push_back(op.getToken());
        if (auto op = dyn_cast<AsyncDispatchOp>(user); op && llvm::is_contained(op.getOutputs(), buffer))
          after.push_back(op.getToken());
      }
    // Behind what it copies, before the first update.
    Operation *last = after.front().getDefiningOp();
    for (Value token : after)
      if (last->isBeforeInBlock(token.getDefiningOp()))
        last = token.getDefiningOp();
    OpBuilder b(last);
    b.setInsertionPointAfter(last);
    Location loc = update.getLoc();
    Control &control = entry->second;
    auto role = offload::RoleAttr::get(&getContext(), offload::Role::Control);
    control.scalars = offload::AsyncBufferOp::create(b, loc, inHbm(scalars), role, b.getStringAttr("scalars in hbm"));
    control.verdict = offload::AsyncBufferOp::create(b, loc, inHbm(verdict), role, b.getStringAttr("verdict in hbm"));
    auto transfer = AsyncTransferOp::create(b, loc, update.getToken().getType(), offload::Engine::H2D, offload::Predicate::LastMicro, ValueRange{scalars, verdict},
                                            ValueRange{control.scalars, control.verdict}, after, DenseI64ArrayAttr(), b.getStringAttr("scalars and verdict"));
    transfer->setAttr(train::kPhaseAttr, update->getAttr(train::kPhaseAttr));
    control.token = transfer.getToken();
    return control;
  }

  func::FuncOp step;
  llvm::MapVector<std::pair<Value, Value>, Control> controls;
};

} // namespace
