"""check-troubleshooting.py ROOT: every error message of the sources (messages.py) stands in docs/troubleshooting.md."""
import pathlib
import re
import sys

import messages

# Not for users, and why.
INTERNAL = {
    "runtime/core/Validate.cpp": "rules of the program format that the compiler always keeps; the page says so in one sentence",
    "runtime/core/ProgramArchive.h": "what follows 'the program is damaged:'",
}
# Nothing of them is fixed text.
EMPTY = {"--machine=...:", "has ..."}


def normal(text):
    return re.sub(r"\s+", " ", text.replace("\\|", "|").replace("`", ""))


root = pathlib.Path(sys.argv[1])
page = normal((root / "docs/troubleshooting.md").read_text())
found, missing = set(), {}
for file, line, message in messages.messages(root):
    if file in INTERNAL or message in EMPTY:
        continue
    found.add(message)
    # A name at the end may be quoted or not.
    if re.sub(r"('?\.\.\.'?)+$", "", normal(message)) not in page:
        missing.setdefault(message, f"{file}:{line}")
for message, place in sorted(missing.items(), key=lambda entry: entry[1]):
    print(f"error: {place}: docs/troubleshooting.md has no row for: {message}")
print(f"{len(found)} messages, {len(missing)} without a cure")
sys.exit(1 if missing else 0)
