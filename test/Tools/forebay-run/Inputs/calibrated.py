"""calibrated.py FILE NAME [WORKERS...]: a machine file that forebay-run --calibrate wrote has every rate, each in a range that no computer leaves."""
import pathlib
import re
import sys

path, name, *workers = sys.argv[1:]
text = "\n".join(line for line in pathlib.Path(path).read_text().splitlines() if not line.startswith("//"))
NUMBER = r"[0-9.]+(?:e[+-][0-9]+)?"


def check(holds, what):
    if not holds:
        sys.exit(f"error: {path}: {what}")


def within(what, value, low, high):
    check(low <= float(value) <= high, f"{what} is {value}, not between {low} and {high}")


def curve(of):
    points = [tuple(map(float, pair)) for pair in re.findall(rf"\[({NUMBER}), ({NUMBER})\]", of)]
    check(len(points) >= 3 and all(a[0] < b[0] for a, b in zip(points, points[1:])), f"{of} does not ascend")
    return points


check(f'module @"{name}"' in text, "another name")
devices = dict(re.findall(r'^    "(\w+)" = #dlti.target_device_spec<(.*?)>[,>]?$(?=\n    "|\n})', text, re.M | re.S))
wanted = ["hbm", "host", "gpu", "cpu", "h2d", "d2h"] if name == "superchip-emu" else ["host", "cpu"]
check(list(devices) == wanted, f"has {list(devices)}, not {wanted}")
for device, body in devices.items():
    keys = dict(re.findall(rf'"(\w+)" = ({NUMBER}|"\w+")', body))
    if keys["kind"] == '"memory"':
        within(f"{device} bandwidth", keys["bandwidth"], 1e8, 1e13)
        continue
    within(f"{device} launch", keys["launch"], 1e-9, 1e-2)
    if device in ("h2d", "d2h"):
        check(keys["cores"] == "1", f"{device}: {keys['cores']} threads")
        for size, rate in curve(body):
            within(f"{device} copies of {size}", rate, 1e7, 1e13)
        continue
    for key in ("bandwidth", "elementwise", "reduction", "gather", "optimizer", "cast"):
        within(f"{device} {key}", keys[key], 1e7, 1e13)
    within(f"{device} matmul", keys["flops"], 1e8, 1e15)
    within(f"{device} attention", re.search(rf'"attention" = #dlti.map<"f32" = ({NUMBER})', body).group(1), 1e7, 1e15)
    share = curve(body)
    check([x for x, _ in share] == [4, 8, 16, 32, 64, 128, 256], f"{device}: widths {share}")
    check(max(y for _, y in share) == 1 and min(y for _, y in share) > 0, f"{device}: shares {share}")
    if workers:
        check(keys["cores"] == workers.pop(0), f"{device}: {keys['cores']} workers")
# Every engine that computes was there.
check(not workers, "too few engines")
