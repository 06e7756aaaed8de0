"""usage: npy.py write FILE TYPE SHAPE VALUES     such as: write ids.npy i8 1,3 4,5,6
       npy.py read FILE...                    prints the elements of each, one file a line"""
import struct
import sys

CODES = {"f4": "f", "i8": "q", "i4": "i", "b1": "?"}


def write(path, kind, shape, values):
    header = f"{{'descr': '{'|' if kind == 'b1' else '<'}{kind}', 'fortran_order': False, 'shape': ({shape},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    numbers = [float(v) if kind == "f4" else int(v) for v in values.split(",")]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{len(numbers)}{CODES[kind]}", *numbers))


def read(*paths):
    for path in paths:
        with open(path, "rb") as f:
            f.seek(8)
            (size,) = struct.unpack("<H", f.read(2))
            header = f.read(size).decode()
            body = f.read()
        code = CODES[header.split("'descr': '")[1][1:3]]
        print(path.split("/")[-1], *(f"{v:g}" for v in struct.unpack(f"<{len(body) // struct.calcsize(code)}{code}", body)))


{"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
