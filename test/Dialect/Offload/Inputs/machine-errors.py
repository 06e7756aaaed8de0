"""machine-errors.py FOREBAY_OPT MODEL GOOD: each change of the machine file GOOD gives the one error that belongs to it."""
import pathlib
import subprocess
import sys

forebay_opt, model, good = sys.argv[1:]
text = pathlib.Path(good).read_text()
CASES = [
    ('"usable" = 0.9', '"usable" = 1.5', """memory 'hbm': "usable" must be a share above 0, at most 1"""),
    ('"usable" = 0.9', '"usable" = "most"', """memory 'hbm': "usable" must be a share above 0, at most 1"""),
    ('"usable" = 0.9', '"usable" = 0.9, "capacity" = 5', """memory 'hbm': "usable" is a share of "total" and takes the place of "capacity\""""),
    ('"total" = 1000000000', '"capacity" = 1000000000', """memory 'hbm': "usable" is a share of "total" and takes the place of "capacity\""""),
    ('"usable" = 0.9', '"capacity" = 1000000001', """memory 'hbm': "capacity" is above "total\""""),
    ('"total" = 1000000000', '"total" = -5', """memory 'hbm': "total" must be a size in bytes, or "physical\""""),
    ('"total" = 1000000000, "usable" = 0.9, ', '', """memory 'hbm' needs a "capacity" in bytes, or "physical\""""),
    ('"bandwidth" = 3.0e12>', '"bandwidth" = 0>', """memory 'hbm': "bandwidth" must be a number above 0, in bytes/s"""),
    ('"bandwidth" = 3.0e12>', '"bandwith" = 3.0e12>', """memory 'hbm' has no entry "bandwith" (known: kind, capacity, total, usable, bandwidth)"""),
    ('"launch" = 3.0e-6', '"launch" = -1.0', """engine 'gpu': "launch" must be seconds, 0 or more"""),
    ('"launch" = 3.0e-6', '"launch" = "soon"', """engine 'gpu': "launch" must be seconds, 0 or more"""),
    ('"launch" = 3.0e-6', '"launch" = 0x7FF0000000000000 : f64', """engine 'gpu': "launch" must be seconds, 0 or more"""),
    ('"launch" = 3.0e-6', '"link" = [[1, 2]]', """engine 'gpu' has no entry "link" (known: kind, computes_in, launch, cores, bandwidth, class_bandwidth, rates, peaks)"""),
    ('"cores" = 72', '"cores" = 0', """engine 'cpu': "cores" must be a whole number, at least 1"""),
    ('"cores" = 72', '"cores" = 7.5', """engine 'cpu': "cores" must be a whole number, at least 1"""),
    ('#dlti.map<"optimizer" = 3.55e11>', '3.55e11', """engine 'cpu': "class_bandwidth" must be a #dlti.map of bytes/s by class"""),
    ('"optimizer" = 3.55e11', '"adam" = 3.55e11',
     """engine 'cpu': "class_bandwidth": "adam" must be a class (elementwise, matmul, attention, reduction, gather, optimizer, cast) with bytes/s above 0"""),
    ('"optimizer" = 3.55e11', '"optimizer" = 0',
     """engine 'cpu': "class_bandwidth": "optimizer" must be a class (elementwise, matmul, attention, reduction, gather, optimizer, cast) with bytes/s above 0"""),
    ('"rates" = #dlti.map<"matmul" = #dlti.map<"f32" = 3.0e12>>', '"rates" = 3.0e12', """engine 'cpu': "rates" must be a #dlti.map of rates by class"""),
    ('"matmul" = #dlti.map<"f32" = 3.0e12>', '"matmul" = 3.0e12',
     """engine 'cpu': "rates": "matmul" must be a class (elementwise, matmul, attention, reduction, gather, optimizer, cast) with a #dlti.map of flops/s by type"""),
    ('"matmul" = #dlti.map<"f32" = 3.0e12>', '"gemm" = #dlti.map<"f32" = 3.0e12>',
     """engine 'cpu': "rates": "gemm" must be a class (elementwise, matmul, attention, reduction, gather, optimizer, cast) with a #dlti.map of flops/s by type"""),
    ('"f32" = 3.0e12', '"fp32" = 3.0e12', """engine 'cpu': "rates": "matmul": "fp32" must be a type (f32, f64, f16, bf16, i64, i32, i16, i8, u8, bool) with flops/s"""),
    ('"flops" = 390.0e12, ', '', """engine 'gpu': "rates": "matmul": "bf16" must be a type"""),
    ('[[64, 0.5], [128, 1.0]]', '[[64, 0.5], [64, 1.0]]', """engine 'gpu': "rates": "matmul": "bf16" must be a type"""),
    ('"share" = [[64', '"shares" = [[64', """engine 'gpu': "rates": "matmul": "bf16" must be a type"""),
    ('#dlti.map<"bf16" = 990.0e12>', '990.0e12', """engine 'gpu': "peaks" must be a #dlti.map of flops/s by type"""),
    ('"bf16" = 990.0e12', '"bf16" = -1', """engine 'gpu': "peaks": "bf16" must be a type (f32, f64, f16, bf16, i64, i32, i16, i8, u8, bool) with flops/s above 0"""),
    ('[[250000, 100.0e9], [64000000, 400.0e9]]', '[]', """engine 'h2d': "link" must be a list of [bytes, bytes/s] with ascending bytes, all above 0"""),
    ('[250000, 100.0e9], [64000000, 400.0e9]', '[64000000, 400.0e9], [250000, 100.0e9]',
     """engine 'h2d': "link" must be a list of [bytes, bytes/s] with ascending bytes, all above 0"""),
    ('[250000, 100.0e9]', '[250000]', """engine 'h2d': "link" must be a list of [bytes, bytes/s] with ascending bytes, all above 0"""),
    ('[[250000, 100.0e9], [64000000, 400.0e9]]', '400.0e9', """engine 'h2d': "link" must be a list of [bytes, bytes/s] with ascending bytes, all above 0"""),
    ('"copies_to" = "hbm"', '"copies_to" = "hbm", "rates" = 3', """engine 'h2d' has no entry "rates" (known: kind, copies_from, copies_to, launch, cores, link)"""),
    ('"copies_to" = "hbm"', '"copies_to" = "hbm", "cores" = 0', """engine 'h2d': "cores" must be a whole number, at least 1"""),
    ('"copies_from" = "host"', '"copies_from" = "disk"', """engine 'h2d' names no memory of the machine"""),
    ('"stream_of" = "gpu"', '"stream_of" = "cpu"',
     """engine 'side': "stream_of" must be "gpu", the engine that runs forward and backward, in the memory of that, and be there once"""),
    ('"stream_of" = "gpu"', '"stream_of" = "gpu", "launch" = 1.0', """engine 'side' has no entry "launch" (known: kind, computes_in, stream_of)"""),
    ('"computes_in" = "hbm", "stream_of"', '"computes_in" = "host", "stream_of"', """engine 'side': "stream_of" must be "gpu\""""),
]
failures = 0
for number, (old, new, expected) in enumerate(CASES):
    assert text.count(old) >= 1, f"{good} no longer holds {old}"
    path = pathlib.Path(f"wrong-{number}.mlir")
    path.write_text(text.replace(old, new, 1))
    result = subprocess.run([forebay_opt, model, f"-offload-plan=machine={path}"], capture_output=True, text=True)
    wanted = f"error: --machine={path}: {expected}"
    if result.returncode != 1 or wanted not in result.stderr or "note: docs/machines.md says what a machine file holds" not in result.stderr:
        print(f"{old} -> {new}\n  wanted: {wanted}\n  got ({result.returncode}): {result.stderr}")
        failures += 1
print(f"{len(CASES)} changes, {failures} without their error")
sys.exit(failures != 0)
