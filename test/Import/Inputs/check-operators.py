#!/usr/bin/env python3
"""Imports each graph of operators.json, evaluates the IR and compares with the recorded outputs.

usage: check-operators.py operators.json WORKDIR [NAME-PREFIX...]
Needs forebay-translate and forebay-eval on the PATH, and nothing but Python's standard library.
"""
import base64
import json
import math
import os
import struct
import subprocess
import sys
import zlib

FORMATS = {"f4": "f", "f8": "d", "i8": "q", "i4": "i", "i1": "b", "b1": "?", "u1": "B"}


def write_npy(path, tensor):
    shape = "(" + "".join(f"{n}, " for n in tensor["shape"]) + ")"
    header = f"{{'descr': '{tensor['dtype']}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    values = [float(x) for x in tensor["data"]] if "f" in tensor["dtype"] else tensor["data"]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{len(values)}{FORMATS[tensor['dtype'][1:]]}", *values))


def read_npy(path):
    with open(path, "rb") as f:
        f.seek(8)
        (n,) = struct.unpack("<H", f.read(2))
        header = eval(f.read(n).decode(), {"__builtins__": {}, "False": False, "True": True})  # noqa: S307 - our own file
        body = f.read()
    code = FORMATS[header["descr"][1:]]
    return list(header["shape"]), list(struct.unpack(f"<{len(body) // struct.calcsize(code)}{code}", body))


def same(got, want):
    want = float(want)
    if math.isnan(want) or math.isinf(want):
        return str(float(got)) == str(want)
    return abs(got - want) <= 2e-5 + 1e-4 * abs(want)


def check(case, folder):
    model = os.path.join(folder, "model.onnx")
    with open(model, "wb") as f:
        f.write(zlib.decompress(base64.b64decode(case["model"])))
    run = subprocess.run(["forebay-translate", "--import-onnx", model, "--forward", "-o", folder + "/model.mlir"], capture_output=True, text=True)
    if run.returncode:
        return run.stderr.strip() or f"forebay-translate: exit {run.returncode}"
    command = ["forebay-eval", folder + "/model.mlir", "--output-dir=" + folder]
    for name, tensor in case["inputs"].items():
        write_npy(f"{folder}/in_{name}.npy", tensor)
        command.append(f"--input={name}={folder}/in_{name}.npy")
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        return run.stderr.strip() or f"forebay-eval: exit {run.returncode}"
    for name, want in case["outputs"].items():
        shape, values = read_npy(f"{folder}/{name}.npy")
        if shape != want["shape"]:
            return f"{name}: shape {shape}, not {want['shape']}"
        for i, (a, b) in enumerate(zip(values, want["data"])):
            if not same(a, b):
                return f"{name}: element {i} is {a}, not {b}"
    return None


def main():
    with open(sys.argv[1]) as f:
        cases = json.load(f)
    prefixes = tuple(sys.argv[3:])
    if prefixes:
        cases = [c for c in cases if c["name"].startswith(prefixes)]
    failed = 0
    for case in cases:
        folder = os.path.join(sys.argv[2], case["name"])
        os.makedirs(folder, exist_ok=True)
        problem = check(case, folder)
        if problem:
            failed += 1
            print(f"{case['name']}: {problem}")
    print(f"{len(cases) - failed} of {len(cases)} operator cases agree")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
