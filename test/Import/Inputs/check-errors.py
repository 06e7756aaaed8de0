#!/usr/bin/env python3
"""What the importer says about nodes that it cannot import.

usage: check-errors.py errors.txt WORKDIR PROTOC-COMMAND...

A line of errors.txt is `inputs | nodes | message`, or `inputs | nodes | message // note`:

    x:f[2,3] | Reshape(x, {5}) | reshapes 6 elements to 5

Inputs are `name:type[shape]` (f, d, h, i, i32, b); nodes are separated by `;`, the last one is at fault; operands are names, `_` (absent),
`{1,2}` (int64 vector), `{:1}` (int64 scalar), `{f:1.5}` (float scalar); attributes follow the operands: `axis=1 mode="edge"`. A node may
name its results: `a, b = Split(x)`.
"""
import os
import re
import shlex
import subprocess
import sys

UNSUPPORTED = "change the model so that it exports without this form"
INVALID = "no such model comes from an exporter with these dimensions: check --dim and the tool that made the file"
TYPES = {"f": 1, "d": 11, "h": 10, "i": 7, "i32": 6, "b": 9}


def tensor_type(code, shape):
    dims = "".join(f" dim {{ dim_value: {n} }}" for n in shape.split(",") if n.strip())
    return f"type {{ tensor_type {{ elem_type: {TYPES[code]} shape {{{dims} }} }} }}"


def attribute(text):
    key, value = text.split("=", 1)
    if value.startswith('"'):
        return f"attribute {{ name: \"{key}\" type: STRING s: {value} }}"
    if value.startswith("["):
        return f"attribute {{ name: \"{key}\" type: INTS {' '.join('ints: ' + v for v in value[1:-1].split(',') if v)} }}"
    if "." in value:
        return f"attribute {{ name: \"{key}\" type: FLOAT f: {value} }}"
    return f"attribute {{ name: \"{key}\" type: INT i: {value} }}"


def graph(inputs, nodes):
    text, made = [], 0
    for name, code, shape in re.findall(r"(\w+):(\w+)\[([\d,]*)\]", inputs):
        text.append(f'input {{ name: "{name}" {tensor_type(code, shape)} }}')
    parts = [n.strip() for n in nodes.split(";")]
    for i, part in enumerate(parts):
        results, op, operands, attributes = re.fullmatch(r"(?:([\w, ]+?) *= *)?(\w+)\((.*?)\)(.*)", part).groups()
        results = [r.strip() for r in results.split(",")] if results else ["y"]
        names = []
        for operand in re.findall(r"\{[^}]*\}|\w+", operands):
            if operand.startswith("{"):
                made += 1
                body, name = operand[1:-1], f"c{made}"
                if body.startswith("f:"):
                    value = f"type: FLOAT f: {body[2:]}"
                    key = "value_float"
                elif body.startswith(":"):
                    value, key = f"type: INT i: {body[1:]}", "value_int"
                else:
                    value, key = "type: INTS " + " ".join("ints: " + v for v in body.split(",") if v), "value_ints"
                text.append(f'node {{ op_type: "Constant" name: "{name}" output: "{name}" attribute {{ name: "{key}" {value} }} }}')
                names.append(name)
            else:
                names.append("" if operand == "_" else operand)
        text.append(f'node {{ op_type: "{op}" name: "{"bad" if i == len(parts) - 1 else "n" + str(i)}" '
                    + " ".join(f'input: "{n}"' for n in names) + " " + " ".join(f'output: "{"" if r == "_" else r}"' for r in results) + " "
                    + " ".join(attribute(a) for a in shlex.split(attributes, posix=False)) + " }")
    text.append(f'output {{ name: "{results[0]}" }}')
    return "ir_version: 10 opset_import { version: 23 } graph { name: \"g\" " + "\n".join(text) + " }", op


def main():
    table, work, protoc = sys.argv[1], sys.argv[2], sys.argv[3:]
    failed = count = 0
    for number, line in enumerate(open(table), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        count += 1
        inputs, nodes, message = (p.strip() for p in line.split(" | "))
        message, _, note = (p.strip() for p in message.partition(" // "))
        text, op = graph(inputs, nodes)
        model = os.path.join(work, f"{number}.onnx")
        encoded = subprocess.run(protoc, input=text.encode(), capture_output=True)
        if encoded.returncode:
            sys.exit(f"line {number}: {encoded.stderr.decode()}\n{text}")
        with open(model, "wb") as f:
            f.write(encoded.stdout)
        run = subprocess.run(["forebay-translate", "--import-onnx", model, "--forward"], capture_output=True, text=True)
        note = note or (UNSUPPORTED if "not supported" in message else INVALID)
        want = f"error: node 'bad' ({op}): {message}\nnote: {note}\n"
        if run.returncode != 1 or run.stdout or run.stderr != want:
            failed += 1
            print(f"line {number}: exit {run.returncode}\n  wanted: {want.strip()}\n  got:    {run.stderr.strip() or run.stdout.strip()[:300]}")
    print(f"{count - failed} of {count} errors as expected")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
