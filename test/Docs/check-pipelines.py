"""check-pipelines.py ROOT: docs/pipelines.md names, below the heading of each pipeline, the passes that it runs, in order."""
import pathlib
import re
import subprocess
import sys

text = (pathlib.Path(sys.argv[1]) / "docs/pipelines.md").read_text()
PIPELINES = ["train-raise", "forebay-forward", "forebay-train", "forebay-dispatch", "forebay-lower-kernels"]


def documented(name):
    """The pass names in the first paragraph below the heading; a pipeline in it stands for its passes."""
    section = re.search(rf"^## `{name}\b[^`]*`.*\n\n(.*)\n", text, re.M)
    names = re.findall(r"`([\w-]+)`", section.group(1).split(". ")[0]) if section else []
    return [single for each in names for single in (documented(each) if each in PIPELINES else [each])]


for name in PIPELINES:
    done = subprocess.run(["forebay-opt", "-", f"--{name}", "--dump-pass-pipeline"], input="module {}", capture_output=True, text=True)
    dump = re.search(r"builtin\.module\(.*?^\)", done.stderr, re.S | re.M).group(0)
    runs = [one for one in re.findall(r"([\w-]+)(?=\{|,|\n|\)|\()", re.sub(r"\{[^}]*\}", "", dump)) if one not in ("builtin", "module", "func")]
    if documented(name) != runs:
        sys.exit(f"error: docs/pipelines.md: {name}: says {documented(name)}, runs {runs}")
    print(f"{name}: {len(runs)} passes")
