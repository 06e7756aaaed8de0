"""check-pictures.py PAGE.html TRACE.json REPORT.json COMMANDS.json: the pictures of a simulated step hold what the command table demands.

COMMANDS is what `forebay-run --describe=commands` prints of the same program: an account of it that does not come from the simulator.
"""
import json
import re
import sys

page_text = open(sys.argv[1]).read()
trace, report, program = (json.load(open(path)) for path in sys.argv[2:5])
data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page_text, re.S)
page = json.loads(data.group(1))
# Self-contained: nothing is loaded from anywhere.
assert not re.search(r'(?:src|href)\s*=|url\(|@import|fetch\(|XMLHttpRequest|https?://', page_text.replace(data.group(0), "")), "the page loads something"

STEP, K, NEAR = page["step"], page["accumulate"], 3  # nanoseconds; times are rounded to one
spans, table = page["spans"], program["step"]
assert abs(STEP - report["step_s"] * 1e9) <= 1 and K == program["accumulate"]
count = len(spans["start"])
assert all(len(spans[key]) == count for key in spans) and count == len(table) * K
assert all(len(page["commands"][key]) == len(table) for key in page["commands"])

# Each command once in each micro-step, under its name, on its queue.
at = {}
for i in range(count):
    at[spans["task"][i], spans["micro"][i]] = i
assert len(at) == count
start, end = spans["start"], [a + b for a, b in zip(spans["start"], spans["duration"])]
names = [queue["name"] for queue in page["queues"]]
for t, command in enumerate(table):
    assert names[page["commands"]["queue"][t]] == command["queue"]
    assert page["kinds"][page["commands"]["kind"][t]] == command["kind"]
    assert not command["label"] or page["labels"][page["commands"]["label"][t]] == command["label"]

# A queue runs its commands one after another, in the order of the table, also from step to step.
for name in names:
    own = [t for t, command in enumerate(table) if command["queue"] == name]
    order = [at[t, m] for m in range(K) for t in own]
    for a, b in zip(order, order[1:]):
        assert start[b] >= end[a] - NEAR, (name, a, b)
    if order:
        assert start[order[0]] + STEP >= end[order[-1]] - NEAR, name

# Every wait is kept by what is not skipped.
signaller = {command["signal"]: t for t, command in enumerate(table) if command["signal"] >= 0}
waits = 0
for t, command in enumerate(table):
    for m in range(K):
        i = at[t, m]
        if start[i] == end[i]:
            continue
        for wait in command["waits"]:
            other = m - wait["distance"]
            ended = end[at[signaller[wait["event"]], other % K]] - (STEP if other < 0 else 0)
            assert start[i] >= ended - NEAR, (t, m, wait)
            waits += 1
assert waits

# Sums agree with the report.
for name, queue in report["queues"].items():
    busy = sum(end[i] - start[i] for i in range(count) if names[page["commands"]["queue"][spans["task"][i]]] == name)
    assert abs(busy - queue["busy_s"] * 1e9) <= count, name
for space in page["spaces"]:
    assert len(space["bytes"]) == len(space["roles"]) and all(len(row) == len(space["time"]) for row in space["bytes"])
    assert space["time"] == sorted(space["time"]) and 0 <= space["time"][0] and space["time"][-1] < STEP + 1
    most = max(map(sum, zip(*space["bytes"])))
    assert most == space["peak"] <= space["arena"] == report["peak"][space["name"]], space["name"]
    assert space["capacity"] == report["capacity"][space["name"]]

# The trace tells the same: complete events on the queues' tracks, counters for the memories.
events = trace["traceEvents"]
assert {event["ph"] for event in events} == {"M", "X", "C"}
threads = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
slices = [event for event in events if event["ph"] == "X"]
assert len(slices) == sum(a < b for a, b in zip(start, end))
for event in slices:
    i = at[event["args"]["command"], event["args"]["micro"]]
    assert abs(event["ts"] * 1e3 - start[i]) < 1 and abs(event["dur"] * 1e3 - (end[i] - start[i])) < 1 and event["dur"] > 0
    assert threads[event["tid"]] == table[event["args"]["command"]]["queue"] and event["pid"] == 1 and event["name"]
counters = [event for event in events if event["ph"] == "C"]
assert len(counters) == sum(len(space["time"]) for space in page["spaces"])
for space in page["spaces"]:
    points = [event for event in counters if event["name"] == space["name"] + " bytes"]
    assert [sum(event["args"].values()) for event in points] == list(map(sum, zip(*space["bytes"])))
print(f"{count} spans, {waits} waits, {len(counters)} points of memory agree")
