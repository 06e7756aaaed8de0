// A superchip emulated on the CPU, for tests and demonstrations: two memories, both in this machine's RAM, and four queues with threads of
// their own. Copies run at memcpy speed.
//
// capacity: 2 GiB and 8 GiB, set by the design (docs/algorithms/placement.md, "Machines"); sizes of an emulation, not measured.
//
// The rates are those of one computer: `forebay-run --calibrate --machine=superchip-emu`, rounded, the middle of three runs on a virtual machine with two cores of an AMD EPYC
// (Zen 3, AVX2, 32 MiB of L3) that others were using; one worker for gpu, one for cpu, which are equally fast. docs/machines.md says what was run.
// Both memories are the same RAM: the bandwidth of each is what both workers reach together. Above 64 MiB memcpy writes around the caches.
module @"superchip-emu" attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "capacity" = 2147483648 : i64, "bandwidth" = 3.8e10>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "capacity" = 8589934592 : i64, "bandwidth" = 3.8e10>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "launch" = 2.0e-7, "cores" = 1, "bandwidth" = 2.1e10,
      "class_bandwidth" = #dlti.map<"elementwise" = 2.7e10, "reduction" = 9.6e9, "gather" = 1.15e10, "optimizer" = 2.9e10, "cast" = 1.8e10>,
      "rates" = #dlti.map<
        "matmul" = #dlti.map<"f32" = #dlti.map<"flops" = 8.3e10, "share" = [[16, 0.45], [32, 0.55], [64, 0.75], [128, 0.9], [256, 0.95], [512, 1.0]]>>,
        "attention" = #dlti.map<"f32" = 5.8e10>>>,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host", "launch" = 2.0e-7, "cores" = 1, "bandwidth" = 2.1e10,
      "class_bandwidth" = #dlti.map<"elementwise" = 2.7e10, "reduction" = 9.6e9, "gather" = 1.15e10, "optimizer" = 2.9e10, "cast" = 1.8e10>,
      "rates" = #dlti.map<
        "matmul" = #dlti.map<"f32" = #dlti.map<"flops" = 8.3e10, "share" = [[16, 0.45], [32, 0.55], [64, 0.75], [128, 0.9], [256, 0.95], [512, 1.0]]>>,
        "attention" = #dlti.map<"f32" = 5.8e10>>>,
    "h2d" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "launch" = 2.0e-7,
      "link" = [[4096, 7.2e9], [16384, 8.9e9], [65536, 9.4e9], [67108864, 8.9e9], [268435456, 1.42e10]]>,
    "d2h" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "launch" = 2.0e-7,
      "link" = [[4096, 6.6e9], [16384, 8.9e9], [65536, 9.6e9], [67108864, 9.4e9], [268435456, 1.35e10]]>>
} {}
