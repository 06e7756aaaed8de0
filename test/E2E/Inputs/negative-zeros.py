"""negative-zeros.py make IN OUT NAME: a copy of a safetensors file in which tensor NAME is all -0.0.
negative-zeros.py check FILE NAME: that it still is."""
import json
import struct
import sys


def read(path):
    data = bytearray(open(path, "rb").read())
    (size,) = struct.unpack("<Q", data[:8])
    return data, 8 + size, json.loads(data[8 : 8 + size])


mode, path, name = sys.argv[1], sys.argv[2], sys.argv[-1]
data, base, header = read(path)
begin, end = (base + offset for offset in header[name]["data_offsets"])
zeros = struct.pack("<f", -0.0) * ((end - begin) // 4)
if mode == "make":
    data[begin:end] = zeros
    open(sys.argv[3], "wb").write(data)
elif data[begin:end] != zeros:
    sys.exit(f"{name} has changed: {struct.unpack(f'<{(end - begin) // 4}f', data[begin:end])}")
