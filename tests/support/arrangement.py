"""The order in which tests are handed out, and the groups that one worker runs.

Each worker makes fixtures of a module or session for itself, and its own cache of acting graphs.
So the tests of a file are a group of one worker (`--dist=loadgroup`, of pytest-xdist). Those with
processes are groups only if they share some; else any worker takes them. Long work comes first, so
that no worker is left alone with it in the end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import pytest

SHARED = ("shared", "run_of")  # costly fixtures of the session
ALONE = "tests/simulation/"  # the longest of those without processes


def arrange(items: list[pytest.Item]) -> None:
    """Group tests and sort them: those with processes, then files with slow ones, then others."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        group = _group(item)
        groups.setdefault(group or item.nodeid, []).append(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    items[:] = chain.from_iterable(sorted(groups.values(), key=_rank))


@contextmanager
def named_by_group(items: list[pytest.Item]) -> Iterator[None]:
    """Have groups in the ids of tests, where the scheduler of pytest-xdist reads them, in a block.

    Version 3.8 of pytest-xdist writes them to an attribute that pytest 9.2 does not have any more.
    """
    ids = {item: item.id for item in items}
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is not None and not item.nodeid.endswith(f"@{mark.args[0]}"):
            item._id = type(item.id).parse(f"{item.nodeid}@{mark.args[0]}")
    try:
        yield
    finally:
        for item, own in ids.items():
            item._id = own


def _group(item: pytest.Item) -> str:
    """Return the name of a test's group; one that any worker may take has none."""
    file = item.nodeid.partition("::")[0]
    for name in SHARED:
        if name in item.fixturenames and not _shares_with_its_module(item, file):
            return name
    single = _has("system", item) or (_has("slow", item) and file.startswith(ALONE))
    if single and not _shares_with_its_module(item, file):
        return ""
    return file.removeprefix("tests/").removesuffix(".py")


def _shares_with_its_module(item: pytest.Item, file: str) -> bool:
    return any(
        fixture.scope == "module" and fixture.baseid == file
        for fixtures in item._fixtureinfo.name2fixturedefs.values()
        for fixture in fixtures
    )


def _rank(group: list[pytest.Item]) -> tuple[bool, bool, int]:
    """Return a key by which the longest work comes first."""
    system, slow = (any(_has(name, item) for item in group) for name in ("system", "slow"))
    return not system, not slow, -len(group)


def _has(mark: str, item: pytest.Item) -> bool:
    return item.get_closest_marker(mark) is not None
