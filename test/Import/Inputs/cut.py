"""usage: cut.py MODEL SCRATCH TRANSLATE: every prefix of a model must be refused in words, and without a crash.

Prefixes that end between two fields of the graph's last part are whole models with less in them; those may pass.
"""
import subprocess
import sys

model, scratch, tool = sys.argv[1:]
data = open(model, "rb").read()


def describe(content):
    with open(scratch, "wb") as f:
        f.write(content)
    args = [tool, "--describe", scratch, "--dim=batch=2"]
    return subprocess.run(args, capture_output=True, text=True, errors="replace")


lengths = sorted(set(range(1, 40)) | {len(data) * i // 50 for i in range(1, 50)} | set(range(len(data) - 20, len(data))))
refused = 0
for length in lengths:
    result = describe(data[:length])
    if result.returncode == 1 and result.stderr.startswith("error: ") and "\nnote: " in result.stderr:
        refused += 1
    else:
        print(f"length {length}: exit {result.returncode}\n{result.stderr}")
result = describe(data)
whole = "accepted" if result.returncode == 0 and not result.stderr else "REFUSED: " + result.stderr
if refused != len(lengths):
    sys.exit(f"refused only {refused} of {len(lengths)} lengths")
print(f"refused {refused} of {len(lengths)} lengths, whole model {whole}")
