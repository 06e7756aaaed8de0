// The machine at hand as one memory and one compute queue: the embedded default. There is nothing to offload to.
//
// capacity: "physical" is what the operating system says the compiling machine has (sysconf: _SC_PHYS_PAGES * _SC_PAGESIZE);
// --memory=host=SIZE sets another budget.
//
// The rates are those of one computer: `forebay-run --calibrate`, rounded, the best of six runs on a virtual machine with two cores of an AMD EPYC (Zen 3, AVX2, 32 MiB of
// L3) that others were using. docs/machines.md says what was run. Measure your own with --calibrate.
module @cpu attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "host" = #dlti.target_device_spec<"kind" = "memory", "capacity" = "physical", "bandwidth" = 5.2e10>,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host", "launch" = 8.0e-7, "cores" = 2, "bandwidth" = 3.1e10,
      "class_bandwidth" = #dlti.map<"elementwise" = 4.9e10, "reduction" = 1.8e10, "gather" = 2.1e10, "optimizer" = 5.2e10, "cast" = 2.8e10>,
      "rates" = #dlti.map<
        "matmul" = #dlti.map<"f32" = #dlti.map<"flops" = 1.37e11, "share" = [[16, 0.4], [32, 0.5], [64, 0.75], [128, 0.85], [256, 0.95], [512, 1.0]]>>,
        "attention" = #dlti.map<"f32" = 1.2e11>>>>
} {}
