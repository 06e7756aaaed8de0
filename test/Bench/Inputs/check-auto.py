"""Bars of bench/auto on the rows that it wrote: names, ranges, and that `ok` says what ours and wanted say."""
import json
import sys

rows = json.load(open(sys.argv[1]))
assert len(rows) >= 6, rows
for row in rows:
    assert set(row) == {"name", "ours", "reference", "ratio", "unit", "wanted", "ok"}, row
    sign, bar = row["wanted"].split()
    holds = row["ours"] >= float(bar) if sign == ">=" else row["ours"] <= float(bar)
    assert holds == row["ok"], row
    assert row["ok"], row
