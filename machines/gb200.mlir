// NVIDIA GB200: one Grace and two Blackwell GPUs. This is the share of one GPU: all of its HBM, half of the Grace. What is not said here is as in gh200-96.mlir. Not measured.
//
// hbm
//   total        186 GB, data sheet of GB200 NVL72 (13.4 TB / 72)
//   bandwidth    8 TB/s by the data sheet, of which the same share is reached as of GH200's HBM3: 3.0 / 4.0
// host
//   total        half of 480 GB
//   bandwidth    half of 500 GB/s
// gpu
//   peaks        data sheet of GB200 NVL72, without sparsity, / 72: 2500 and 80 Tflop/s
//   rates        the share of the peak that is fitted for GH200 (400 / 990); no rate of attention is known, so it counts as a product
// cpu
//   cores, bandwidth, rates   half of GH200's
// h2d, d2h
//   link         the shape of GH200's curve ([SO] Fig. 7) with the ends that were measured on four GB300 at once: 211 and 193 GB/s a GPU
//                (Megatron-LM issue 6491)
module @"gb200" attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "total" = 186000000000, "usable" = 0.92, "bandwidth" = 6.0e12>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "total" = 240000000000, "usable" = 0.95, "bandwidth" = 2.5e11>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "launch" = 3.0e-6, "bandwidth" = 6.0e12,
      "rates" = #dlti.map<
        "matmul" = #dlti.map<
          "bf16" = #dlti.map<"flops" = 1010.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f16" = #dlti.map<"flops" = 1010.0e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>,
          "f32" = #dlti.map<"flops" = 32.3e12, "share" = [[16, 0.125], [32, 0.25], [64, 0.5], [128, 1.0]]>>>,
      "peaks" = #dlti.map<"bf16" = 2500.0e12, "f16" = 2500.0e12, "f32" = 80.0e12>>,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host", "launch" = 5.0e-6, "cores" = 36, "bandwidth" = 1.775e11,
      "rates" = #dlti.map<"matmul" = #dlti.map<"f32" = 1.5e12>>>,
    "side" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "stream_of" = "gpu">,
    "h2d_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "stream_of" = "h2d">,
    "d2h_side" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "stream_of" = "d2h">,
    "h2d" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "host", "copies_to" = "hbm", "launch" = 1.6e-6,
      "link" = [[250000, 39.0e9], [500000, 44.5e9], [1000000, 55.4e9], [2000000, 71.4e9], [4000000, 96.1e9], [8000000, 130.7e9],
                 [16000000, 169.1e9], [32000000, 196.8e9], [64000000, 209.0e9], [128000000, 210.0e9], [256000000, 211.3e9]]>,
    "d2h" = #dlti.target_device_spec<"kind" = "engine", "copies_from" = "hbm", "copies_to" = "host", "launch" = 1.6e-6,
      "link" = [[250000, 35.4e9], [500000, 41.1e9], [1000000, 51.1e9], [2000000, 66.0e9], [4000000, 90.2e9], [8000000, 122.3e9],
                 [16000000, 159.2e9], [32000000, 185.8e9], [64000000, 192.4e9], [128000000, 192.5e9], [256000000, 193.2e9]]>>
} {}
