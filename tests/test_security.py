"""SECURITY.md is true: each promise names a test, and each bound names a constant or a setting."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text()
PACKAGES = ("common", "actor", "learner", "broker")
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "s": 1}
CONSTANT = re.compile(r"`([a-z_]+)\.([A-Z][A-Z_0-9]+)`(?: = ([\d,.^]+)(?: (KiB|MiB|GiB|s)\b)?)?")


@cache
def known_tests() -> frozenset[str]:
    """Return the names of all tests."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    return frozenset(found)


@cache
def constants() -> dict[tuple[str, str], str]:
    """Return every constant of ours by module and name, with its package's path."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                targets = (
                    node.targets
                    if isinstance(node, ast.Assign)
                    else [getattr(node, "target", None)]
                )
                for target in targets:
                    for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                        if isinstance(each, ast.Name):
                            module = ".".join(
                                ["farflung", *path.relative_to(ROOT).with_suffix("").parts]
                            )
                            found[path.stem, each.id] = module
    return found


def promises(page: str) -> list[str]:
    """Return every sentence under a "cannot:" of the threat model."""
    model = page.partition("## Threat model")[2].partition("\n## ")[0]
    found = []
    for block in re.split(r"\n\n", model):
        if re.search(r"cannot:\n", f"\n{block}"):
            lines = re.sub(r"\n  +", " ", block.partition("cannot:\n")[2])
            found += re.findall(r"^- (.*)$", lines, re.MULTILINE)
    return found


def rows(page: str) -> list[list[str]]:
    """Return the rows of the table of bounds."""
    table = page.partition("## Bounds")[2].partition("\n## ")[0]
    found = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in found if row[0].strip() != "what grows"]


def value(number: str, unit: str) -> float:
    """Return a number of the page: 4,096 or 2^53 or 64 MiB."""
    base, _, power = number.replace(",", "").partition("^")
    return (int(base) ** int(power) if power else float(base)) * UNITS[unit]


def test_every_test_that_the_page_names_exists() -> None:
    """A test that was renamed is renamed on the page too."""
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 20
    assert sorted(named - known_tests()) == []
    modules = set(re.findall(r"`(test_\w+\.py)`", PAGE))
    assert sorted(modules - {path.name for path in (ROOT / "tests").rglob("test_*.py")}) == []


@pytest.mark.parametrize("promise", promises(PAGE), ids=lambda text: text[:40])
def test_every_promise_names_its_test(promise: str) -> None:
    """A "cannot" without a test is a hope."""
    assert re.search(r"`test_\w+`", promise)


def test_promises_are_found() -> None:
    """The check above sees the sentences."""
    page = (
        "## Threat model\n### One\nIt cannot:\n- read\n  it (`test_a`);\n- write.\n\n## Other\n- no"
    )
    assert promises(page) == ["read it (`test_a`);", "write."]
    assert len(promises(PAGE)) > 15


@pytest.mark.parametrize("found", CONSTANT.findall(PAGE), ids=lambda found: ".".join(found[:2]))
def test_every_constant_that_the_page_names_exists_with_its_value(
    found: tuple[str, str, str, str],
) -> None:
    """The number on the page is that of the code."""
    module, name, number, unit = found
    assert (module, name) in constants()
    if number:
        held = getattr(importlib.import_module(constants()[module, name]), name)
        assert held == value(number, unit)


@pytest.mark.parametrize("row", rows(PAGE), ids=lambda row: row[0][:40])
def test_every_bound_has_a_place_in_the_code_and_says_what_happens(row: list[str]) -> None:
    """A constant or a setting, and the consequence."""
    assert len(row) == 3
    assert all(row)
    assert re.search(r"`[a-z_]+\.[A-Z][A-Z_0-9]+`|`--[a-z-]+`", row[1])


def test_the_table_of_bounds_is_found() -> None:
    """The check above sees the rows."""
    assert len(rows(PAGE)) > 10
