"""The glossary and the walk in docs/architecture.md are those of the code."""

import re
import sys
from functools import cache
from pathlib import Path

import pytest
from support.learners import a_config, a_learner
from support.sequential import collectors, play

ROOT = Path(__file__).parents[1]
PACKAGES = ("common", "actor", "learner", "broker")
SPINE = 14  # files that a reader needs for the whole walk, at most


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of the page."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    lines = text.split(f"## {heading}\n")[1].split("\n## ")[0].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    ]
    return cells[2:]


def hops() -> list[tuple[str, str]]:
    """Return file and function of each hop."""
    found = [re.findall("`([^`]+)`", row[1]) for row in rows("The walk")]
    return [(file, function) for file, function in found]


def test_glossary_names_classes_that_exist():
    """Each word has the class that means it, and the page has at most 27 of them."""
    source = "\n".join(
        path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")
    )
    words = rows("Glossary")
    assert 20 <= len(words) <= 27
    for word, _, cell in words:
        assert re.search(rf"^class {cell.strip('`')}\b", source, re.MULTILINE), word


@cache
def ours(file: str) -> str:
    """Return the place of a module in our packages, or nothing for one of others."""
    path = Path(file).resolve()
    place = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
    return place if place.partition("/")[0] in PACKAGES else ""


def named(file: str) -> bool:
    """Return whether the page's section about the walk names a file."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    return f"`{file}`" in text.split("## The walk\n")[1].split("\n## ")[0]


def test_walk_has_a_spine_of_few_files():
    """A newcomer opens few files from an environment's step to the weights."""
    assert len({file for file, _ in hops()}) <= SPINE


@pytest.mark.slow
def test_walk_is_that_of_a_round_in_sequential_mode(tmp_path):
    """A traced round calls the functions of the page in the order of the page.

    The page also names each file of ours that the call of a hop comes through.
    """
    learner = a_learner(a_config(), tmp_path)
    calls: list[tuple[str, str]] = []
    through: list[set[str]] = []  # the files on the stack of each call
    stack: list[str] = []

    def trace(frame, event, argument):
        if event not in ("call", "return") or not (file := ours(frame.f_code.co_filename)):
            return
        if event == "call":
            stack.append(file)
            calls.append((file, frame.f_code.co_qualname))
            through.append({*stack})
        elif stack:
            stack.pop()

    state = learner.core.state
    sys.setprofile(trace)
    try:
        play(learner, collectors(), lambda: state.updates >= 8)
    finally:
        sys.setprofile(None)
    rounds = [place for place, call in enumerate(calls) if call[1] == "ActorLoop.turn"]
    place = rounds[-2]  # of steady state: weights are there, and the replay is warm
    for hop in hops():
        assert hop in calls[place:], hop
        place = calls.index(hop, place)
        unnamed = [file for file in through[place] if not named(file)]
        assert not unnamed, f"{hop} is called through {unnamed}"
