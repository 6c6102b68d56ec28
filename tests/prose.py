"""Counts of what makes code and prose hard to read, in one line; `make check` runs it.

A count above its ceiling fails, with the first places. Lower a ceiling as soon as its count falls.
"""

import ast
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGES = ("actor", "broker", "common", "farflung", "learner")
COLUMNS = 100
OPENING = re.compile(r"(What|Whether|Who|Whom|Whose|How|Where|Which|That)\b")
VAGUE = re.compile(
    r"\b(nobody|somebody|anybody|everybody|whoever|whatever|whom|whose|anew|gives?)\b",
    re.IGNORECASE,
)
CEILINGS = {
    "docstring openings": 0,
    "vague words": 0,
    "long lines": 0,
    "functions over 50 lines": 0,
    "modules over 300 lines": 0,
    "openings in tests": 0,
    "vague docstrings in tests": 0,
}
SHOWN = 10  # places of a count that is too high

Finding = tuple[str, str]  # a key of CEILINGS, and the place


def in_text(path: Path) -> Iterator[Finding]:
    """Find vague words and long lines in a module or a document."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"{path.relative_to(ROOT)}:{number}"
        yield from (("vague words", f"{place} {word}") for word in VAGUE.findall(line))
        if len(line) > COLUMNS:
            yield "long lines", f"{place} {len(line)} columns"


def in_code(path: Path) -> Iterator[Finding]:
    """Find docstring openings, long functions and long modules."""
    text, name = path.read_text(), path.relative_to(ROOT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{name}:{getattr(node, 'lineno', 1)}"
            if opening := OPENING.match(ast.get_docstring(node) or ""):
                yield "docstring openings", f"{place} {opening[0]}"
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 50:
                yield "functions over 50 lines", f"{place} {node.name}"
    if (lines := text.count("\n")) > 300:
        yield "modules over 300 lines", f"{name} {lines} lines"


def in_tests(path: Path) -> Iterator[Finding]:
    """Find openings and vague words in the docstrings of a module of tests."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
            if opening := OPENING.match(docstring):
                yield "openings in tests", f"{place} {opening[0]}"
            if word := VAGUE.search(docstring):
                yield "vague docstrings in tests", f"{place} {word[0]}"


def main() -> int:
    """Print the counts; return 1 if one is above its ceiling."""
    modules = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    documents = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
    found = [each for path in [*modules, *documents] for each in in_text(path)]
    found += [each for path in modules for each in in_code(path)]
    found += [each for path in sorted(TESTS.rglob("*.py")) for each in in_tests(path)]
    places = {name: [place for what, place in found if what == name] for name in CEILINGS}
    print("prose: " + ", ".join(f"{len(places[name])} {name}" for name in CEILINGS))
    over = [name for name, ceiling in CEILINGS.items() if len(places[name]) > ceiling]
    for name in over:
        print(f"prose: {len(places[name])} {name}, {CEILINGS[name]} allowed:")
        print(*(f"  {place}" for place in islice(places[name], SHOWN)), sep="\n")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
