"""Plans models with budgets from the smallest one to what the policy takes by itself.

    budgets.py BIN FOLDER MODELS...

The smallest budget that the error names is kept, 64 KiB less of hbm is refused, every budget in between is kept, and arenas are at most 5% larger than the
largest live bytes.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

binaries, folder, models = Path(sys.argv[1]), Path(sys.argv[2]), [Path(m) for m in sys.argv[3:]]
plans = 0


def plan(model, options, memory):
    report = folder / "plan.json"
    command = [binaries / "forebay-compile", model / "model.onnx", "--machine=superchip-emu", "--plan-only", f"--json={report}", f"--memory={memory}", *options]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{command}: {done.stderr}")
    global plans
    plans += 1
    return done.returncode == 0, json.loads(report.read_text()), done.stderr


for model in models:
    case = json.loads((model / "case.json").read_text())
    dims = [f"--dim={k}={v}" for k, v in case["dims"].items()]
    for policy, more in (("zero-offload", []), ("weight-flow", []), ("weight-flow", ["--bucket-bytes=16KiB", "--accumulate=4"])):
        options = dims + [f"--policy={policy}"] + more
        where = f"{model.name} {' '.join(options)}"
        _, full, _ = plan(model, options, "hbm=2GiB,host=8GiB")
        fits, report, error = plan(model, options, "hbm=1KiB,host=8GiB")
        note = re.search(r"--memory=hbm=(\d+)KiB,(host=\S+) is the smallest budget", error)
        if fits or not note:
            sys.exit(f"{where}: no smallest budget: {error}")
        least, most = int(note[1]), -(-full["peak"]["hbm"] // 1024)
        budgets = [f"hbm={least}KiB,{note[2]}"] + [f"hbm={least + (most - least) * k // 4}KiB,host=8GiB" for k in (1, 2, 3, 4)]
        for budget in budgets:
            fits, report, error = plan(model, options, budget)
            if not fits:
                sys.exit(f"{where} --memory={budget}: {error}")
            for space, live in report["live"].items():
                if report["peak"][space] > 1.05 * live:
                    sys.exit(f"{where} --memory={budget}: the arena of {space} has {report['peak'][space]} bytes, {live} live")
        if least > 64 and plan(model, options, f"hbm={least - 64}KiB,host=8GiB")[0]:
            sys.exit(f"{where}: 64 KiB less than {least} KiB are enough, too")
print(f"{plans} plans as they should be")
