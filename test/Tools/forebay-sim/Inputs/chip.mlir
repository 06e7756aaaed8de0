// Memories and engines of superchip-emu with round rates, so that what the tests expect does not move with a preset.
module @chip attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "total" = 4000000000, "usable" = 0.5, "bandwidth" = 4.0e10>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "total" = 8000000000, "usable" = 1.0, "bandwidth" = 1.0e10>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "launch" = 2.0e-6, "bandwidth" = 3.0e10,
      "rates" = #dlti.map<"matmul" = #dlti.map<"f32" = 1.0e12>>,
      "peaks" = #dlti.map<"f32" = 2.0e12>>,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host", "launch" = 1.0e-6, "cores" = 4, "bandwidth" = 8.0e9,
      "rates" = #dlti.map<"matmul" = #dlti.map<"f32" = 5.0e10>>>,
    "h2d" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "launch" = 1.0e-6,
      "link" = [[4096, 1.0e9], [1048576, 4.0e9]]>,
    "d2h" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "launch" = 1.0e-6,
      "link" = [[4096, 1.0e9], [1048576, 4.0e9]]>>
} {}
