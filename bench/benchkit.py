"""What the benchmarks that run programs share: compile, train, compare bits, forced plans, rows of results. Python's standard library is all it needs."""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Failure(Exception):
    pass


class Rows:
    """Rows of a benchmark's JSON file; each is printed as soon as it is known."""

    def __init__(self):
        self.rows = []

    def add(self, name, ours, reference, unit, wanted, ok, **more):
        ratio = ours / reference if reference else None
        self.rows.append({"name": name, "ours": ours, "reference": reference, "ratio": ratio, "unit": unit, "wanted": wanted, "ok": bool(ok), **more})
        text = "" if ratio is None else f"ratio {ratio:.3f}"
        print(f"{name:58} {ours:12.6g} {reference if reference is not None else 0:12.6g}  {text}  wanted {wanted}  {'ok' if ok else 'MISSED'}  [{unit}]"
              + (f"  {more['note']}" if more.get("note") else ""), flush=True)

    def finish(self, json_file):
        """Writes the file; the exit status."""
        if json_file:
            json_file.write_text(json.dumps(self.rows, indent=1) + "\n")
        missed = [r["name"] for r in self.rows if not r["ok"]]
        print(f"{len(self.rows)} rows, {len(missed)} missed" + "".join(f"\n  {name}" for name in missed))
        return 0 if self.rows and not missed else 1


def parser(doc):
    result = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--bin", type=lambda text: Path(text).resolve(), default=ROOT / "build/bin", help="folder of the tools")
    result.add_argument("--json", type=Path, help="write the rows to this file")
    return result


def call(command, env=None):
    """Exit status and output of a command."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout


def must(command, env=None):
    status, text = call(command, env)
    if status:
        raise Failure(f"{Path(str(command[0])).name} ended with {status}: {text[-1500:]}\n  {' '.join(str(c) for c in command)}")
    return text


def train(bin, program, work, options, env=None):
    """Rows of the metrics and the bytes of the weights at the end."""
    metrics, weights = work / "metrics.jsonl", work / "weights.safetensors"
    must([bin / "forebay-run", program, f"--metrics={metrics}", f"--save-weights={weights}", *options], env)
    return steps_of(metrics), weights.read_bytes()


def steps_of(metrics):
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [row for row in rows if "step" in row]


BITS = ("step", "loss", "grad_norm", "lr", "applied", "clipped", "nonfinite")


def bits_of(steps, weights):
    """What must not change by a bit: what each step reports, and the weights at the end."""
    bits = {f"{key} of step {row['step']}": repr(row[key]) for row in steps for key in BITS}
    bits["weights"] = hashlib.sha256(weights).hexdigest()
    return bits


def difference(ours, reference):
    """The first thing that differs, or an empty string."""
    for key, value in reference.items():
        if ours.get(key) != value:
            return f"{key} is {ours.get(key)}, not {value}"
    return "" if len(ours) == len(reference) else "more steps than the reference"


# Decisions of plans (lib/Planning/PlacementText.cpp writes them).

HOME, COPY, FLOW, IN_PLACE = range(4)
DECISION = re.compile(rb"(forebay-placement|step|argument|bucket|fetch|offload|recompute|without) [^\n]*\n")


BUCKET_FIELDS = ("space", "queue", "speculative", "streamed", "cast_on_device", "norm_on_device", "waits")


class Placement:
    """The decisions in a plan or program, to be looked at and changed."""

    def __init__(self, path):
        data = path.read_bytes()
        at = data.rindex(b"forebay-placement ")
        self.lines = []
        while match := DECISION.match(data, at):
            self.lines.append(match[0].decode().split())
            at = match.end()

    def of(self, kind):
        return [line[1:] for line in self.lines if line[0] == kind]

    def buckets(self):
        """For each bucket what its line says, by name; `pieces` are (parameter, first, count)."""
        result = []
        for line in self.of("bucket"):
            numbers = [int(word) for word in line]
            bucket = dict(zip(BUCKET_FIELDS, numbers))
            bucket["pieces"] = list(zip(*(iter(numbers[len(BUCKET_FIELDS):]),) * 3))
            result.append(bucket)
        return result

    def sources(self):
        return Counter(int(line[2]) for line in self.of("argument"))

    def change_buckets(self, **values):
        """Sets fields of all buckets, by their place in the line."""
        for line in self.lines:
            if line[0] == "bucket":
                for name, value in values.items():
                    line[1 + BUCKET_FIELDS.index(name)] = str(value)

    def change_first_piece(self, first, less):
        """Lets the first piece of the first bucket begin at element `first`, with `less` elements fewer."""
        line = next(line for line in self.lines if line[0] == "bucket")
        at = 1 + len(BUCKET_FIELDS)
        line[at + 1], line[at + 2] = str(first), str(int(line[at + 2]) - less)

    def repeat_first_bucket(self):
        self.lines.append(next(line for line in self.lines if line[0] == "bucket"))

    def reverse_buckets(self):
        places = [i for i, line in enumerate(self.lines) if line[0] == "bucket"]
        for i, line in zip(places, [self.lines[i] for i in reversed(places)]):
            self.lines[i] = line

    def change_source(self, old, new):
        for line in self.lines:
            if line[0] == "argument" and line[3] == str(old):
                line[3] = str(new)

    def write(self, plan, path):
        """`plan` with these decisions instead of its own."""
        data = plan.read_bytes()
        end = data.index(b"\n\n")
        text = "".join(" ".join(line) + "\n" for line in self.lines).encode()
        path.write_bytes(data[:end] + f"\nsection placement {len(text)}".encode() + data[end:] + text)
