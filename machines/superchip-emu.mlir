// A superchip emulated on the CPU, for tests and demonstrations: two memories, both in this machine's RAM, and four queues with threads of
// their own. Copies run at memcpy speed.
//
// capacity: 2 GiB and 8 GiB, set by the design (docs/algorithms/placement.md, "Machines"); sizes of an emulation, not measured.
module @"superchip-emu" attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "capacity" = 2147483648 : i64>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "capacity" = 8589934592 : i64>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm">,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host">,
    "h2d" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm">,
    "d2h" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host">>
} {}
