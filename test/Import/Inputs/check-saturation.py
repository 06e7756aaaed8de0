"""Activations far from 0: their gradients, as a step with learning rate 1 shows them, against PyTorch's.

usage: check-saturation.py model > MODEL.txt      one graph with a parameter for each activation
       check-saturation.py feed X.npy             what it is fed
       check-saturation.py compare WEIGHTS        after the step
"""
import json
import struct
import sys

AT = [-100, -20, -1, 0, 1, 20, 100]
# Gradients of PyTorch 2.15 in double precision, where they are above 1e-8.
GRADIENTS = {
    "Softplus": [0, 0, 0.2689414213699951, 0.5, 0.7310585786300049, 1, 1],
    "Mish": [0, -3.916191874348969e-08, 0.059216755877395014, 0.6, 1.0490362200997922, 1, 1],
    "Elu": [0, 0, 0.36787944117144233, 1, 1, 1, 1],
    "Selu": [0, 0, 0.646768603034814, 1.7580993408473766, 1.0507009873554805, 1.0507009873554805, 1.0507009873554805],
    "Celu": [0, 4.5399929762484854e-05, 0.6065306597126334, 1, 1, 1, 1],
    "HardSwish": [0, 0, 1 / 6, 0.5, 5 / 6, 1, 1],
    "Gelu": [0, 0, -0.08331547058768635, 0.5, 1.0833154705876864, 1, 1],
    "Sigmoid": [0, 0, 0.19661193324148185, 0.25, 0.19661193324148185, 0, 0],
    "Softsign": [9.80296049406925e-05, 0.0022675736961451226, 0.25, 1, 0.25, 0.0022675736961451226, 9.80296049406925e-05],
    "ReduceLogSumExp": [0, 0, 0, 0, 0, 0, 1],
}
ATTRIBUTES = {"Celu": 'attribute { name: "alpha" type: FLOAT f: 2 }'}


def model():
    print('ir_version: 10 opset_import { version: 20 } graph { name: "g"')
    print('input { name: "x" type { tensor_type { elem_type: 1 shape { } } } }')
    for op in GRADIENTS:
        print(f'initializer {{ name: "{op}.w" dims: {len(AT)} data_type: 1 float_data: {AT} }}')
        print(f'node {{ op_type: "{op}" input: "{op}.w" output: "{op}.y" {ATTRIBUTES.get(op, "")} }}')
        print(f'node {{ op_type: "ReduceSum" input: "{op}.y" output: "{op}.sum" attribute {{ name: "keepdims" type: INT i: 0 }} }}')
    print('node { op_type: "Sum" output: "sum" ' + " ".join(f'input: "{op}.sum"' for op in GRADIENTS) + " }")
    print('node { op_type: "Mul" input: "sum" input: "x" output: "loss" }')
    print('output { name: "loss" type { tensor_type { elem_type: 1 shape { } } } } }')


def feed(path):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<f", 1))


def compare(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        body = f.read()
    bad = 0
    for op, gradients in GRADIENTS.items():
        begin, end = header[op + ".w"]["data_offsets"]
        for at, want, after in zip(AT, gradients, struct.unpack(f"<{len(AT)}f", body[begin:end])):
            if not abs(at - after - want) <= 1e-5:
                bad += 1
                print(f"{op} at {at}: gradient {at - after}, not {want}")
    print(f"{bad} of {len(GRADIENTS) * len(AT)} gradients differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit({"model": model, "feed": feed, "compare": compare}[sys.argv[1]](*sys.argv[2:]))
