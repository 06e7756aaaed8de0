"""row_means.py A.safetensors B.safetensors NAME...: the mean of each row of each NAME must be the same in both files, the values must not."""
import json
import struct
import sys


def read(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            body = data[8 + size + begin : 8 + size + end]
            tensors[name] = (entry["shape"], struct.unpack(f"<{len(body) // 4}f", body))
    return tensors


first, second = read(sys.argv[1]), read(sys.argv[2])
for name in sys.argv[3:]:
    (rows, columns), a = first[name]
    b = second[name][1]
    assert a != b, f"{name} was not trained"
    for row in range(rows):
        part = slice(row * columns, (row + 1) * columns)
        moved = max(abs(x - y) for x, y in zip(a[part], b[part]))
        difference = abs(sum(a[part]) - sum(b[part])) / columns
        assert difference <= 1e-3 * moved + 1e-7, f"{name}, row {row}: the mean moved by {difference}, elements by {moved}"
    print(f"{name}: {rows} row means stayed")
