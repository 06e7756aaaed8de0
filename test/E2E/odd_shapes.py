"""Trains one step of a model at odd shapes and compares it with the same step evaluated in double precision.

usage: odd_shapes.py CASE WORKDIR NAME=N[,NAME=N...] [...]

For each list of dimensions: the reference interpreter evaluates the imported, differentiated, not raised graph in fp64; the
compiled program runs on one memory and on two. Loss and gradient norm must agree with the reference, and their bits between the
programs. The feeds are the case's own values, repeated or cut to the shape.
"""
import ast
import json
import math
import pathlib
import re
import struct
import subprocess
import sys

LIMIT = 1e-4

case, work, shapes = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
work.mkdir(parents=True, exist_ok=True)
config = json.loads((case / "case.json").read_text())
model = str(case / "model.onnx")


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def reshape_feed(source, target, dims):
    """Writes one row of `source` with axes 1 and 2 of the sizes batch and seq, where they have the case's sizes."""
    data = source.read_bytes()
    (length,) = struct.unpack("<H", data[8:10])
    header, body = ast.literal_eval(data[10 : 10 + length].decode()), data[10 + length :]
    shape = list(header["shape"])
    width = int(re.search(r"\d+$", header["descr"]).group())
    for axis, name in ((1, "batch"), (2, "seq")):
        if axis < len(shape) and shape[axis] == config["dims"].get(name):
            shape[axis] = dims[name]
    size = math.prod(shape[1:]) * width
    body = (body * (size // len(body) + 1))[:size]
    header["shape"] = (1, *shape[1:])
    text = repr(header).encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    target.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body)


def same(got, want):
    if math.isnan(want):
        return got is None or math.isnan(got)
    return got is not None and abs(got - want) <= LIMIT * max(abs(want), 1e-3)


ok = True
for text in shapes:
    dims = {name: int(size) for name, size in (pair.split("=") for pair in text.split(","))}
    arguments = [f"--dim={name}={size}" for name, size in dims.items()]
    feeds = {}
    for path in sorted((case / "feeds").glob("*.npy")):
        feeds[path.stem] = str(work / path.name)
        reshape_feed(path, work / path.name, dims)
    forward, step, program = str(work / "forward.mlir"), str(work / "step.mlir"), str(work / "step.so")
    run("forebay-translate", "--import-onnx", model, *arguments, "-o", forward)
    run("forebay-opt", forward, "--train-differentiate", "--canonicalize", "--cse", "-o", step)
    output = run("forebay-eval", step, "--function=step", f"--model-dir={case}", *(f"--input={n}={p}" for n, p in feeds.items()))
    want = [float(re.search(rf"^{config['loss']} : .* = (\S+)$", output, re.M).group(1)),
            float(re.search(r"^gradient norm = (\S+)$", output, re.M).group(1))]
    lines = []
    for machine in (["--machine=cpu"], ["--machine=superchip-emu", "--policy=zero-offload", "--bucket-bytes=4KiB"]):
        run("forebay-compile", model, *arguments, *machine, "-o", program)
        metrics = work / "metrics.jsonl"
        run("forebay-run", program, f"--metrics={metrics}", *(f"--feed={n}={p}" for n, p in feeds.items()))
        row = json.loads(metrics.read_text().splitlines()[1])
        lines.append((row["loss"], row["grad_norm"]))
    good = same(lines[0][0], want[0]) and same(lines[0][1], want[1]) and lines[0] == lines[1]
    ok &= good
    print(f"{case.name} {text}: loss, norm {lines[0]} and {lines[1]}, in fp64 {tuple(want)}: {'ok' if good else 'WRONG'}")
sys.exit(0 if ok else 1)
