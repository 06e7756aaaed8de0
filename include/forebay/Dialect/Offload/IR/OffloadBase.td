//===- OffloadBase.td - offload dialect definition ---------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADBASE_TD
#define FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADBASE_TD

include "mlir/IR/OpBase.td"

def Offload_Dialect : Dialect {
  let name = "offload";
  let summary = "What runs where, what moves when";
  let description = [{
    Three families of operations, one for each phase of the plan; the module attribute `offload.phase`
    records which one a module has reached.

    * `offload.dispatch`: kernels on values, no placement yet (phase `dispatch`).
    * `offload.async.*`: dispatches and transfers with spaces, engines and tokens (phase `async`).
    * `offload.cmd.*`: commands on ranges of arenas, queues, waits and signals (phase `cmd`); one operation is one entry of the
      program's command table.
  }];
  let cppNamespace = "::forebay::offload";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

#endif // FOREBAY_DIALECT_OFFLOAD_IR_OFFLOADBASE_TD
