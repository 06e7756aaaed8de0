//===- Passes.td - offload passes -------------------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_TD
#define FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def OffloadPlan : Pass<"offload-plan", "::mlir::ModuleOp"> {
  let summary = "Decides what lives where and what moves when: level dispatch to async";
  let description = [{
    Before: level `dispatch`: `@step` is a list of `offload.dispatch` and `train.scalars`; state is donated.
    After: level `async`: `@step` names buffers in spaces; operations have engines, predicates and tokens (true dependences). Inputs and
    state are arguments, updated in place; weight copies that live for ever are more arguments (`offload.copy_of`), weights that flow are buffers
    that a transfer fills. `@flush` applies pending updates; it is
    empty, because no policy defers any yet. The module carries the machine (`dlti.target_system_spec`) and `offload.plan`.

    ```mlir
    %1 = offload.dispatch @matmul(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    // becomes
    %b = offload.async.buffer "layer/matmul" activation : !offload.buffer<hbm, tensor<4x4xf32>>
    %t = offload.async.dispatch gpu @matmul(%x, %w_copy) to(%b) after(%t0) : ...
    ```

    Policies: docs/algorithms/placement.md. Each decision is a remark (category `offload-plan`). Nothing is checked against the capacity yet, except
    by policies that search: `auto` takes the fastest plan whose packed schedule fits (without rates of the machine: the first policy that fits).

    Errors: unknown machine, memory or policy; a policy that the machine does not support; a plan of another step; a step that cannot be scheduled.
  }];
  let options = [
    Option<"machine", "machine", "std::string", "\"cpu\"", "Name of a machine, or a file as in machines/">,
    Option<"policy", "policy", "std::string", "\"auto\"", "resident, zero-offload, superoffload, weight-flow, or auto: the fastest plan found">,
    Option<"planFile", "plan", "std::string", "\"\"", "File with a plan of the same step, whose decisions are taken instead of a policy's">,
    Option<"recordPlacement", "record-placement", "bool", "false", "Keep the decisions in offload.plan, so that a plan file can hold them">,
    Option<"memory", "memory", "std::string", "\"\"", "Budgets that replace the machine's, e.g. hbm=64MiB,host=1GiB (separate by ';' on an opt command line)">,
    Option<"bucketBytes", "bucket-bytes", "uint64_t", "67108864", "fp32 gradient bytes of a bucket; at least 4096">
  ];
  let dependentDialects = ["::forebay::offload::OffloadDialect", "::mlir::func::FuncDialect", "::mlir::DLTIDialect"];
}

def OffloadLowerToCmd : Pass<"offload-lower-to-cmd", "::mlir::ModuleOp"> {
  let summary = "Gives every buffer its bytes and every command its waits: level async to cmd";
  let description = [{
    Before: level `async`. After: level `cmd`: `@step` is the command table, one `offload.cmd.*` for each `offload.async.*` operation, in the same
    order; arguments have their place in `offload.home`; `offload.cmd.value` says where the other buffers live and when; the module has
    `offload.arenas`, the bytes of each space.

    * Buffers are packed by their lives (docs/algorithms/packing.md); a result takes over an operand's bytes where the kernel allows it and the operand
      dies.
    * Waits come from all conflicts of ranges, also across iterations, and are as few as possible.

    Errors: a space whose arena is larger than its capacity, with the operation at the peak, the resident bytes by role, and the smallest
    budget that would do. With `keep-over-budget` the module is lowered all the same (for reports); the error is then a remark.
  }];
  let options = [
    Option<"keepOverBudget", "keep-over-budget", "bool", "false", "Lower also what does not fit">
  ];
  let dependentDialects = ["::forebay::offload::OffloadDialect", "::mlir::func::FuncDialect"];
}

def OffloadVerifyRaces : Pass<"offload-verify-races", "::mlir::ModuleOp"> {
  let summary = "Checks the command table with the independent race verifier";
  let description = [{
    At level `cmd`: translates the module to the program that would run and verifies that (docs/algorithms/race-verification.md). Changes nothing.
    Errors: the first fault that the verifier finds.
  }];
}

#endif // FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_TD
