#!/usr/bin/env python3
"""Evaluates @forward of an imported case with plain loops in double and compares the loss with PyTorch's in float64.

usage: check-loss.py CASE-FOLDER MODULE.mlir
"""
import json
import re
import subprocess
import sys

folder, module = sys.argv[1:3]
with open(folder + "/case.json") as f:
    feeds = json.load(f)["feeds"]
with open(folder + "/expected.json") as f:
    want = json.load(f)["loss_fp64"][0]
command = ["forebay-eval", module, "--model-dir=" + folder] + [f"--input={n}={folder}/feeds/{n}.npy" for n in feeds]
out = subprocess.run(command, capture_output=True, text=True)
found = re.search(r"^loss : tensor<f32> = (\S+)$", out.stdout, re.M)
if not found:
    sys.exit(f"no loss: {out.stdout}{out.stderr}")
# What is left: constants that the graph rounds to fp32, such as eps.
error = abs(float(found[1]) - want) / want
print(f"loss {found[1]}, PyTorch {want}, relative difference {error:.1e}")
sys.exit(error > 1e-9)
