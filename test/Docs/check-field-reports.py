"""check-field-reports.py ROOT REPORT...: docs/field-reports.md has a row for each REPORT, and every test that a row names exists and names the row's report.

A test file names reports in a comment: `field report A1` or `field reports A1, A2, C4`; of a gtest, anywhere in its file.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
wanted = sys.argv[2:]
faults, tests, rows = [], 0, {}
for line in (root / "docs/field-reports.md").read_text().splitlines():
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    if not re.fullmatch(r"[A-Z]\d+", cells[0].strip("| ")):
        continue
    report = cells[0].strip("| ")
    rows[report] = re.findall(r"`([^`]+)`", cells[-1])
    if not rows[report]:
        faults.append(f"{report}: no test")
for report, names in rows.items():
    for name in names:
        tests += 1
        file, _, case = name.partition(": ")
        path = root / file
        if not path.is_file():
            faults.append(f"{report}: {file} does not exist")
            continue
        text = path.read_text()
        if case:
            suite, test = case.split(".")
            if not re.search(rf"\bTEST(_P|_F)?\({suite}, {test}\)", text):
                faults.append(f"{report}: {file} has no test {case}")
        named = " ".join(re.findall(r"[Ff]ield reports? ((?:[A-Z]\d+(?:, | and )?)+)", text))
        if report not in re.findall(r"[A-Z]\d+", named):
            faults.append(f"{report}: {file} does not name it")
faults += [f"{report}: has no row" for report in wanted if report not in rows]
faults += [f"{report}: is not known" for report in rows if report not in wanted]
if faults:
    sys.exit("\n".join("error: docs/field-reports.md: " + fault for fault in faults))
print(f"{len(rows)} reports, {tests} tests")
