// NVIDIA GH200: Grace (72 cores, 480 GB LPDDR5X) and Hopper (96 GB HBM3) joined by NVLink-C2C. GB are 10^9 bytes.
//
// [SO] is Lian et al., "SuperOffload", arXiv 2509.21271v1. "Fitted" numbers are fitted to the five rows of its ablation (Table 2) and to nothing else, in our
// simulator, with 24 T h^2 + 4 T s h flops a layer and 36 h + 9 heads s bytes a token and layer: products of 400 Tflop/s get those rows within 3.9% (bench/paper,
// docs/benchmarks/paper.md).
//
// hbm
//   total        data sheet
//   usable       0.92: context, library workspace and fragments take the rest (with [SO]'s 0.95 of host memory the published model sizes come out)
//   bandwidth    3.0 TB/s reached of the data sheet's 4.0; [SO] Fig. 2 prints "up to 3000 GB/s"
// host
//   total, bandwidth   [SO] 5.1 and Table 1 (500 GB/s, shared by the CPU and both directions of the link; data sheet: up to 512). NVIDIA's Grace tuning guide ties the
//                bandwidth to the capacity, so a 480 GB part may reach less
//   usable       0.95
// gpu
//   launch       between 0.9 us, what a launch adds in a stream that is kept full (NVIDIA, "Getting Started with CUDA Graphs"), and the 4 to 6 us that the
//                host takes for one
//   bandwidth    that of hbm: one kernel can use all of it
//   rates        matmul bf16 and f16: fitted, 400 Tflop/s; f32 without TF32: the same share (0.40) of its peak, not measured;
//                attention: 35% of the peak, FlashAttention-2 on H100 as measured in Shah et al., "FlashAttention-3", arXiv 2407.08608
//   rates.share: cuBLAS computes tiles of at least 128 rows or columns, so a narrower product takes as long as one of 128 (NVIDIA, "Matrix Multiplication
//                Background User's Guide", tile quantization). Nothing more is needed for small hidden sizes: with a constant rate and counted memory traffic
//                the model above gets all seven widths of Fig. 10.
//   peaks        [SO] Table 1: 990; data sheet: 67 for f32
// cpu
//   cores        data sheet
//   bandwidth    28 bytes a parameter in 0.076 to 0.082 ns ([SO] Table 3, its Adam on all cores): 341 to 368 GB/s. Nothing else was published, so casts and
//                sums stream as fast
//   launch       not published for Grace, not measured: 5 us. Our own runtime takes 0.8 us to give a dispatch to two workers (cpu.mlir)
//   rates        [SO] Table 1, "CPU TFLOPS" 3.0
// h2d, d2h
//   link         [SO] Fig. 7 (0.25 to 256 MB; 60 to 406 and 58 to 388 GB/s), read from its vector paths within 1%. The figure's times include
//                the launch of the copy; below 0.5 MB they are 1.6 us + bytes / 97 GB/s, so the curve here is the figure's less a launch of 1.6 us
module @"gh200-96" attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "hbm" = #dlti.target_device_spec<"kind" = "memory", "total" = 96000000000, "usable" = 0.92, "bandwidth" = 3.0e12>,
    "host" = #dlti.target_device_spec<"kind" = "memory", "total" = 480000000000, "usable" = 0.95, "bandwidth" = 5.0e11>,
    "gpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "hbm", "launch" = 3.0e-6, "bandwidth" = 3.0e12,
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
