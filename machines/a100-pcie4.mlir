// NVIDIA A100 80 GB (a PCIe 4.0 card) with one 64-core AMD Rome and 512 GB of DDR4. What is not said here is as in gh200-96.mlir. Not measured.
//
// hbm
//   total        80 GB, data sheet
//   bandwidth    1.935 TB/s by the data sheet, of which the same share is reached as of GH200's HBM3: 3.0 / 4.0
// host
//   total        chosen
//   bandwidth    150 GB/s, [SO] Table 1, DGX-A100
// gpu
//   peaks        data sheet: 312 and 19.5 Tflop/s
//   rates        163 Tflop/s, 52% of the peak, is what Megatron-LM sustains (Narayanan et al., arXiv 2104.04473); f32 the same share; no rate of
//                attention of its own
// cpu
//   cores, rates [SO] Table 1: 64 cores, 2.3 Tflop/s
//   bandwidth    the share of host.bandwidth that Adam reaches on Grace: 355 / 500
// h2d, d2h
//   link         25.1 GB/s (nvbandwidth issue 42, A100-SXM4-40GB)
//   launch       by which small copies are slower. Not measured: 5 us, as many as the host takes for a launch
module @"a100-pcie4" attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "total" = 80000000000, "usable" = 0.92, "bandwidth" = 1.45e12>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "total" = 512000000000, "usable" = 0.95, "bandwidth" = 1.5e11>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "launch" = 3.0e-6, "bandwidth" = 1.45e12,
      "rates" = #dlti.map<
        "matmul" = #dlti.map<
          "bf16" = #dlti.map<"flops" = 163.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f16" = #dlti.map<"flops" = 163.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f32" = #dlti.map<"flops" = 10.1e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>>>,
      "peaks" = #dlti.map<"bf16" = 312.0e12, "f16" = 312.0e12, "f32" = 19.5e12>>,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host", "launch" = 5.0e-6, "cores" = 64, "bandwidth" = 1.065e11,
      "rates" = #dlti.map<"matmul" = #dlti.map<"f32" = 2.3e12>>>,
    "side" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "stream_of" = "gpu">,
    "h2d_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "stream_of" = "h2d">,
    "d2h_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "stream_of" = "d2h">,
    "h2d" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "launch" = 5.0e-6,
      "link" = [[65536, 25.1e9]]>,
    "d2h" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "launch" = 5.0e-6,
      "link" = [[65536, 25.1e9]]>>
} {}
