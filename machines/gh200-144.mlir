// NVIDIA GH200 with HBM3e: as gh200-96.mlir, which says where the numbers come from, but for
//   hbm.total      144 GB, data sheet
//   hbm.bandwidth  4.9 TB/s by the data sheet, of which the same share is reached as of HBM3: 3.0 / 4.0
// The host memory is that of the 480 GB board. Not measured.
module @"gh200-144" attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "total" = 144000000000, "usable" = 0.92, "bandwidth" = 3.67e12>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "total" = 480000000000, "usable" = 0.95, "bandwidth" = 5.0e11>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "launch" = 3.0e-6, "bandwidth" = 3.67e12,
      "rates" = #dlti.map<
        "matmul" = #dlti.map<
          "bf16" = #dlti.map<"flops" = 400.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f16" = #dlti.map<"flops" = 400.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f32" = #dlti.map<"flops" = 27.1e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>>,
        "attention" = #dlti.map<"bf16" = 346.0e12, "f16" = 346.0e12>>,
      "peaks" = #dlti.map<"bf16" = 990.0e12, "f16" = 990.0e12, "f32" = 67.0e12>>,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host", "launch" = 5.0e-6, "cores" = 72, "bandwidth" = 3.55e11,
      "rates" = #dlti.map<"matmul" = #dlti.map<"f32" = 3.0e12>>>,
    "side" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "stream_of" = "gpu">,
    "h2d_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "stream_of" = "h2d">,
    "d2h_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "stream_of" = "d2h">,
    "h2d" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "launch" = 1.6e-6,
      "link" = [[250000, 97.4e9], [500000, 98.7e9], [1000000, 116.2e9], [2000000, 145.1e9], [4000000, 191.6e9], [8000000, 257.6e9],
                 [16000000, 330.6e9], [32000000, 382.2e9], [64000000, 404.0e9], [128000000, 405.0e9], [256000000, 407.0e9]]>,
    "d2h" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "launch" = 1.6e-6,
      "link" = [[250000, 92.2e9], [500000, 95.3e9], [1000000, 112.0e9], [2000000, 140.1e9], [4000000, 188.2e9], [8000000, 252.1e9],
                 [16000000, 325.2e9], [32000000, 377.0e9], [64000000, 388.7e9], [128000000, 388.7e9], [256000000, 388.9e9]]>>
} {}
