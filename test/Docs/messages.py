"""The error messages of the tools, read from their sources: what stands in calls of error(), fail(), reportList() and their like.

Each message is what is fixed in it, with `...` for what is not: "has ... bytes, it had ... when the model was compiled".
"""
import pathlib
import re
import sys

FOLDERS = ["tools", "runtime", "lib/Import", "lib/Pipelines", "lib/Support"]
FILES = ["lib/Planning/Machine.cpp", "lib/Dialect/Train/Transforms/Differentiate.cpp", "lib/Dialect/Train/Transforms/BuildStep.cpp",
         "lib/Dialect/Train/Transforms/Optimizers.cpp", "lib/Dialect/Train/Transforms/SetOptimizer.cpp", "lib/Dialect/Offload/Transforms/Machine.cpp",
         "lib/Dialect/Offload/Transforms/Plan.cpp", "lib/Dialect/Offload/Transforms/LowerToCmd.cpp"]
# Which argument holds the message: error(WHERE, WHAT, HINT), fail(WHAT, HINT), reportList(DIAGS, WHERE, WHAT, ITEMS, HINTS).
CALLS = {"error": 1, "warning": 1, "reportList": 2, "fail": 0, "report": 0, "bad": 2, "emitError": None, "emitOpError": None, "complain": None}
CALL = re.compile(rf"\b({'|'.join(CALLS)})\(")
# `error = "...";` where files are read.
ASSIGNMENT = re.compile(r"\b(?:error|problem|why)\s*=(?=[^=;]*\")")


def skip_string(text, at):
    """The position behind the literal that begins at `at`."""
    quote = text[at]
    at += 1
    while text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def split(text, separator):
    """Splits at top level."""
    parts, depth, begin, at = [], 0, 0, 0
    while at < len(text):
        c = text[at]
        if c == '"' or (c == "'" and not text[at - 1].isalnum()):
            at = skip_string(text, at)
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 and text.startswith(separator, at):
            parts.append(text[begin:at])
            at += len(separator)
            begin = at
            continue
        at += 1
    return parts + [text[begin:at]]


def closing(text, at):
    """The position of the parenthesis that closes the one at `at`."""
    depth = 0
    while True:
        c = text[at]
        if c == '"' or (c == "'" and not text[at - 1].isalnum()):
            at = skip_string(text, at)
            continue
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            return at
        at += 1


def statement_end(text, at):
    """The position of the `;` (or closing bracket) that ends the statement, not one in a literal or in a lambda."""
    depth = 0
    while at < len(text):
        c = text[at]
        if c == '"' or (c == "'" and not text[at - 1].isalnum()):
            at = skip_string(text, at)
            continue
        depth += (c in "([{") - (c in ")]}")
        if depth < 0 or (depth == 0 and c == ";"):
            return at
        at += 1
    return at


def literal(text):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).replace('\\"', '"').replace("\\n", " ")


def templates(expression):
    """All fixed forms of a message: both branches of a choice, `...` for what is computed."""
    expression = expression.strip()
    choice = split(expression, " ? ")
    if len(choice) > 1:
        branches = split(" ? ".join(choice[1:]), " : ")
        return templates(branches[0]) + templates(" : ".join(branches[1:]))
    forms = [""]
    for term in split(expression, " + ") if " + " in expression else [expression]:
        term = term.strip()
        inner = re.fullmatch(r"(?:llvm::)?(?:Twine|std::string|StringRef)?\((.*)\)", term, re.S)
        if inner and '"' in term and closing(term, term.index("(")) == len(term) - 1:
            ends = templates(inner.group(1))
        elif re.fullmatch(r'(?:"(?:[^"\\]|\\.)*"\s*)+', term):
            ends = [literal(term)]
        else:
            ends = ["..."]
        forms = [form + end for form in forms for end in ends]
    return forms


def clean(template):
    template = re.sub(r"(?:\.\.\.)+", "...", template)
    return re.sub(r"\s+", " ", template).strip()


def messages(root):
    """(file, line, message) of every call."""
    root = pathlib.Path(root)
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in (".cpp", ".h")]
    for path in files + [root / name for name in FILES]:
        # Comments may hold unpaired quotes.
        text = re.sub(r"//[^\n]*", "", path.read_text())
        found = []
        for match in CALL.finditer(text):
            open_at = match.end() - 1
            end = closing(text, open_at)
            arguments = split(text[open_at + 1 : end], ",")
            index = CALLS[match.group(1)]
            if index is None:
                # emitError(...) << "..." << ...: the streamed parts up to the end of the statement.
                tail = text[end + 1 : statement_end(text, end + 1)]
                tail = split(tail.split(".attachNote")[0], "<<")
                parts = [part for part in tail[1:]]
                forms = [""]
                direct = [form for argument in arguments for form in templates(argument) if '"' in argument]
                forms = direct or [""]
                for part in parts:
                    forms = [form + more for form in forms for more in templates(part.rstrip(") "))]
            elif index < len(arguments):
                forms = templates(arguments[index])
            else: # a helper of a file that knows where it is
                forms = templates(arguments[-1]) if '"' in arguments[-1] else []
            found += [(match.start(), form) for form in forms]
        for match in ASSIGNMENT.finditer(text):
            value = text[match.end() : statement_end(text, match.end())]
            parts = split(value.strip().removeprefix("{").removesuffix("}"), ",")
            found += [(match.start(), form) for form in templates(parts[0])]
        for at, form in sorted(found):
            form = clean(form)
            if re.search(r"[a-z]{3}", form.replace("...", "")):
                yield str(path.relative_to(root)), text[:at].count("\n") + 1, form


if __name__ == "__main__":
    for file, line, message in messages(sys.argv[1]):
        print(f"{file}:{line}: {message}")
