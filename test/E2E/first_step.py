"""Compares the first step of a model, evaluated in double precision by the reference interpreter, with PyTorch's.

usage: first_step.py CASE WORKDIR [forebay-opt options before train-differentiate]

Imports CASE/model.onnx, differentiates it (after the given options, such as --train-raise) and evaluates @step with the case's
weights and first feeds. The loss and the gradient norm must be expected.json's fp64 values: nothing but the front end, the
gradients and the definitions of the operations is in between, so the distance is what f32 constants in the graph make of it.
"""
import json
import pathlib
import re
import subprocess
import sys

LIMIT = 1e-8

case, work, options = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
work.mkdir(parents=True, exist_ok=True)
config = json.loads((case / "case.json").read_text())
expected = json.loads((case / "expected.json").read_text())
assert config["accumulate"] == 1, "the norm of a step is that of one micro-step"


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


forward, step = str(work / "forward.mlir"), str(work / "step.mlir")
frozen = [f"--freeze={pattern}" for pattern in config.get("frozen", [])]
dims = [f"--dim={name}={size}" for name, size in config["dims"].items()]
run("forebay-translate", "--import-onnx", str(case / "model.onnx"), *dims, *frozen, "-o", forward)
run("forebay-opt", forward, *options, "--train-differentiate", "--canonicalize", "--cse", "-o", step)
feeds = [f"--input={path.stem}={path}" for path in sorted((case / "feeds").glob("*.npy"))]
output = run("forebay-eval", step, "--function=step", f"--model-dir={case}", *feeds)
loss = float(re.search(rf"^{config['loss']} : .* = (\S+)$", output, re.M).group(1))
norm = float(re.search(r"^gradient norm = (\S+)$", output, re.M).group(1))

ok = True
for name, got, want in (("loss", loss, expected["loss_fp64"][0]), ("grad_norm", norm, expected["grad_norm_fp64"][0])):
    distance = abs(got - want) / abs(want)
    ok &= distance <= LIMIT
    print(f"{case.name}: {name} {got!r}, PyTorch {want!r}, distance {distance:.1e}")
sys.exit(0 if ok else 1)
