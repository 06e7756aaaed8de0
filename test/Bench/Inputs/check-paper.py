"""check-paper.py FILE.json: the bars on bench/paper, from its single rows."""
import json
import sys

rows = {row["name"]: row for row in json.load(open(sys.argv[1]))}
faults = []


def want(condition, text):
    if not condition:
        faults.append(text)


def errors(names):
    return [abs(rows[name]["ours"] / rows[name]["reference"] - 1) for name in names]


for row in rows.values():
    want(set(row) >= {"name", "ours", "reference", "ratio", "unit", "wanted", "ok"}, f"{row['name']}: fields")
    want(abs(row["ratio"] - row["ours"] / row["reference"]) < 1e-3, f"{row['name']}: ratio")
    want(row["ok"], f"{row['name']}: not ok")
want(rows["Table 2 baseline"]["reference"] == 116.2 and rows["Table 2 + repartitioning"]["reference"] == 238.92, "the ends of Table 2")
ablation = errors(["Table 2 " + name for name in ("baseline", "+ GraceAdam", "+ casting", "+ STV", "+ repartitioning")])
want(max(ablation) <= 0.07, f"Table 2: {ablation}")
superoffload = ["Fig. 10 superoffload " + size for size in ("2B", "3B", "5B", "10B", "15B", "20B", "25B")]
offload = ["Fig. 10 zero-offload " + size for size in ("2B", "3B", "5B", "10B", "15B")]
large = errors(superoffload[2:] + offload[2:])
want(len(large) == 8 and sum(error <= 0.15 for error in large) >= 7, f"Fig. 10 from 5B: {large}")
want(sum(large) / 8 <= 0.07, f"Fig. 10 from 5B, mean: {large}")
want(max(errors(superoffload[2:])) <= 0.10, f"SuperOffload rows: {errors(superoffload[2:])}")
everything = errors(superoffload + offload)
want(len(everything) == 12 and sum(error <= 0.15 for error in everything) >= 10, f"Fig. 10: {everything}")
for policy, size in (("zero-offload", 15), ("weight-flow", 25), ("superoffload", 25)):
    want(rows[f"Fig. 13 largest of {policy}"]["ours"] == size, f"Fig. 13: {policy}")
for name, error in zip(rows, errors(rows)):
    if name.startswith(("Table 3", "Fig. 6", "Fig. 7")):
        want(error <= 0.06, f"{name}: {error}")
want(sum(name.startswith("Fig. 7") for name in rows) == 22 and sum(name.startswith("Table 3") for name in rows) == 8, "Fig. 7 and Table 3 are whole")
if faults:
    sys.exit("\n".join("error: " + fault for fault in faults))
