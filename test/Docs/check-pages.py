"""check-pages.py ROOT: rules for all pages that need no run of their commands.

* Commands stand in ```sh blocks; every block is of a known language; what is not run says why (pages.py).
* A page with something to run is run by a test: `%run_page PAGE --work %t` or `run-commands.py ... PAGE` in a test file.
* Links lead to files and headings that exist, and every page is linked from another one. So do the names of pages in the sources.
* Long options in the text exist: they stand in the --help of a tool.
"""
import pathlib
import re
import subprocess
import sys

import pages

root = pathlib.Path(sys.argv[1]).resolve()
faults, reasons = [], []
names = pages.all_pages(root)
tests = "\n".join(path.read_text() for path in sorted((root / "test").rglob("*.test")))


def anchor(heading):
    """GitHub's name of a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"`|\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip().lower().replace(" ", "-")


linked = {"README.md"}
for name in names:
    page = pages.Page(root, name)
    faults += page.faults
    runs = [block for block in page.blocks if block.language in ("sh", "python", "mlir") and "not run" not in block.notes]
    if runs and not page.generated and not re.search(rf"(%run_page|run-commands\.py).* {re.escape(name)}\b", tests):
        faults.append(f"{name}: no test has `%run_page {name}`")
    reasons += [f"{block.where()}: not run: {block.notes['not run']}" for block in page.blocks if "not run" in block.notes]
    text = re.sub(r"^( *)```.*?^\1```", "", page.text, flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        file = ((root / name).parent / path).resolve() if path else (root / name).resolve()
        if not file.exists():
            faults.append(f"{name}: {target} does not exist")
        elif heading and heading not in [anchor(line.lstrip("#")) for line in file.read_text().splitlines() if line.startswith("#")] and \
                f'name="{heading}"' not in file.read_text():
            faults.append(f"{name}: {target}: no such heading")
        elif path:
            linked.add(str(file.relative_to(root)))
faults += [f"{name}: no page links here" for name in names if name not in linked]

known = set()
for tool in ("forebay-compile", "forebay-run", "forebay-opt", "forebay-sim", "forebay-translate", "forebay-eval"):
    known |= set(re.findall(r"--([a-z][\w-]*)", subprocess.run([tool, "--help"], capture_output=True, text=True).stdout))
for script in ("tools/check", "tools/quickstart", "tools/plot-metrics", "tools/generate-docs", "bench/step", "bench/kernels", "bench/Kernels.cpp", "bench/paper", "bench/planning/Auto.cpp", "bench/benchkit.py", "bench/exactness", "bench/predict", "bench/overlap"):
    if (root / script).exists():
        known |= set(re.findall(r"--([a-z][\w-]*)", (root / script).read_text()))
# What other programs understand.
known |= {"help", "version", "target", "build", "install", "prefix", "preset", "test-dir", "output-on-failure", "load-dialect-plugin", "depth"}
for name in names:
    page = pages.Page(root, name)
    if page.generated:
        continue
    # Options in blocks are run.
    text = re.sub(r"^( *)```.*?^\1```", "", page.text, flags=re.S | re.M)
    for option in sorted(set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])(?![\w>-])", text)) - known):
        faults.append(f"{name}: --{option} is no option of a tool")

# Pages that the sources name.
for folder in ("lib", "include", "runtime", "tools", "examples", "machines", "bench"):
    for path in sorted((root / folder).rglob("*")):
        if path.is_file() and path.suffix in (".cpp", ".h", ".td", ".mlir", ".md", ".txt", ".c"):
            for page in re.findall(r"(?<![\w/])docs/[\w/-]+\.md", path.read_text(errors="replace")):
                if not (root / page).exists():
                    faults.append(f"{path.relative_to(root)}: {page} does not exist")

print("\n".join(reasons))
if faults:
    sys.exit("\n".join("error: " + fault for fault in faults))
print(f"{len(names)} pages")
