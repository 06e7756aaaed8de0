"""same_row.py TABLE N REPORT: row N of the array of --what-if holds the report that --plan-only alone writes, but what more memory and rates would bring."""
import json
import sys

row = json.load(open(sys.argv[1]))[int(sys.argv[2])]
alone = json.load(open(sys.argv[3]))
if row.pop("error") is not None or row.pop("dims") != {"batch": 2, "seq": 16}:
    sys.exit("another row")
for report in (row, alone):
    report.pop("sensitivity")
if row != alone:
    sys.exit(f"differs: {[key for key in alone if alone[key] != row.get(key)]}")
