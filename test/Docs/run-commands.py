"""run-commands.py --source ROOT --build BUILD --work DIR PAGE: does what a page says, in order, in an empty folder.

The folder holds links to the entries of the source folder and, as `build`, to the build folder; Forebay's tools are on the PATH, HOME
is the folder. All blocks of a page run in one shell, so `cd` and variables stay. A ```text block after commands is what they
print: its lines must appear in that order; `...` stands for anything, within a line or as a line, and the width of spaces is free.
Modules in ```mlir blocks are parsed by forebay-opt, ```python blocks run, or are only compiled where the page says `not run`.
"""
import argparse
import ast
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pages


def expect(shown, output):
    """The first line of `shown` that `output` lacks, or None."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    at = 0
    for line in shown.splitlines():
        wanted = " ".join(line.split())
        if wanted in ("", "..."):
            continue
        pattern = re.compile(".*".join(re.escape(part.strip()) if part.strip() else "" for part in wanted.split("...")).replace(".*", " ?.* ?"))
        while at < len(lines) and not pattern.fullmatch(lines[at]):
            at += 1
        if at == len(lines):
            return line
        at += 1
    return None


def script(page, work, python):
    """The session of a page as a shell script; each block writes to a file of its own."""
    lines = ["set -eo pipefail"]
    for number, block in enumerate(page.blocks):
        if block.language == "test":
            body = block.text
        elif block.language == "sh":
            body = block.text
            if "steps" in block.notes:
                before, after = block.notes["steps"].split(" as ")
                body, changes = re.subn(rf"--steps={before}(?!\d)", f"--steps={after}", body)
                if not changes:
                    sys.exit(f"error: {block.where()}: no --steps={before}")
        elif block.language == "python":
            body = f"{shlex.quote(python)} - <<'END_OF_PYTHON'\n{block.text}END_OF_PYTHON\n"
        elif block.language == "mlir":
            body = f"forebay-opt - -o - <<'END_OF_MLIR'\n{block.text}END_OF_MLIR\n"
        else:
            continue
        if "not run" in block.notes or "fragment" in block.notes or (block.language == "mlir" and "..." in block.text):
            continue
        output = shlex.quote(str(work / "log" / f"{number}.out"))
        lines.append(f"echo {number} > {shlex.quote(str(work / 'log' / 'current'))}")
        status = int(block.notes.get("exits", 0))
        if status:
            # The block may end the shell's patience only in the way that the page says.
            lines.append(f"set +e\n{{\n{body}\n}} > {output} 2>&1\n[ $? -eq {status} ] || exit 99\nset -e")
        else:
            lines.append(f"{{\n{body}\n}} > {output} 2>&1")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    for option in ("--source", "--build", "--work"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    parser.add_argument("page")
    args = parser.parse_args()
    page = pages.Page(args.source, args.page)
    if page.faults:
        sys.exit("\n".join("error: " + fault for fault in page.faults))

    work = args.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    folder = work / "folder"
    folder.mkdir(parents=True)
    (work / "log").mkdir()
    for entry in sorted(args.source.resolve().iterdir()):
        if entry.name != ".git" and not entry.name.startswith("build"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(args.build.resolve())

    for block in page.blocks:
        for kind in ("not run", "fragment", "steps"):
            if kind in block.notes:
                print(f"{block.where()}: {kind}: {block.notes[kind]}")
        if block.language == "python":
            ast.parse(block.text, block.where())

    environment = dict(os.environ, HOME=str(folder), PATH=f"{args.build.resolve() / 'bin'}:{os.environ['PATH']}")
    environment.pop("TMPDIR", None)
    done = subprocess.run(["bash", "-c", script(page, work, sys.executable)], cwd=folder, env=environment, stdin=subprocess.DEVNULL)
    if done.returncode:
        number = int((work / "log" / "current").read_text())
        output = (work / "log" / f"{number}.out").read_text(errors="replace")
        sys.exit(f"{output[-4000:]}error: {page.blocks[number].where()}: status {done.returncode}")

    runs, shown = 0, 0
    last = ""
    for number, block in enumerate(page.blocks):
        path = work / "log" / f"{number}.out"
        if path.exists() and block.language in ("sh", "python", "mlir"):
            runs += 1
            last = path.read_text(errors="replace")
        elif block.language == "text" and "not run" not in block.notes:
            shown += 1
            missing = expect(block.text, last)
            if missing is not None:
                sys.exit(f"{last[-4000:]}error: {block.where()}: not printed: {missing}")
    print(f"{args.page}: {runs} blocks ran, {shown} outputs compared")


main()
