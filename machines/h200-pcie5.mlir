// NVIDIA H200 NVL (a PCIe 5.0 card) with one Intel Xeon Platinum 8480+ and 512 GB of DDR5-4800 in 8 channels. What is not said here is as in gh200-96.mlir. Not measured.
//
// hbm
//   total        141 GB, data sheet
//   bandwidth    4.8 TB/s by the data sheet, of which the same share is reached as of GH200's HBM3: 3.0 / 4.0
// host
//   total        chosen
//   bandwidth    8 x 38.4 = 307 GB/s by the data sheet, of which 0.8 is taken to be reached
// gpu
//   peaks        data sheet of H200 NVL, without sparsity: 835 and 60 Tflop/s
//   rates        the share of the peak that is fitted for GH200 (400 / 990); attention 35% of the peak, as there
// cpu
//   cores        data sheet
//   bandwidth    the share of host.bandwidth that Adam reaches on Grace: 355 / 500
//   rates        data sheet: 56 cores x 64 flops x 2.0 GHz
// h2d, d2h
//   link         55 of the 63 GB/s of 16 lanes, after their encoding: 52.8 GB/s were measured by kernels on H100 (nvbandwidth issue 24), copy engines do not do worse.
//   launch       by which small copies are slower. Not measured: 5 us, as many as the host takes for a launch
module @"h200-pcie5" attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "total" = 141000000000, "usable" = 0.92, "bandwidth" = 3.6e12>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "total" = 512000000000, "usable" = 0.95, "bandwidth" = 2.46e11>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "launch" = 3.0e-6, "bandwidth" = 3.6e12,
      "rates" = #dlti.map<
        "matmul" = #dlti.map<
          "bf16" = #dlti.map<"flops" = 337.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f16" = #dlti.map<"flops" = 337.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f32" = #dlti.map<"flops" = 24.2e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>>,
        "attention" = #dlti.map<"bf16" = 292.0e12, "f16" = 292.0e12>>,
      "peaks" = #dlti.map<"bf16" = 835.0e12, "f16" = 835.0e12, "f32" = 60.0e12>>,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host", "launch" = 5.0e-6, "cores" = 56, "bandwidth" = 1.75e11,
      "rates" = #dlti.map<"matmul" = #dlti.map<"f32" = 7.2e12>>>,
    "side" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "stream_of" = "gpu">,
    "h2d_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "stream_of" = "h2d">,
    "d2h_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "stream_of" = "d2h">,
    "h2d" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "launch" = 5.0e-6,
      "link" = [[65536, 55.0e9]]>,
    "d2h" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "launch" = 5.0e-6,
      "link" = [[65536, 55.0e9]]>>
} {}
