"""Tests that share something are run by one worker, and long work is handed out first."""

from types import SimpleNamespace

from support.arrangement import arrange


class Item:
    """A test as pytest collects it, as far as its place in the order needs it."""

    def __init__(self, nodeid, *marks, shares=(), own=False):
        file = nodeid.partition("::")[0]
        fixture = SimpleNamespace(scope="module", baseid=file if own else "tests")
        self.nodeid, self.fixturenames = nodeid, shares
        self._fixtureinfo = SimpleNamespace(name2fixturedefs={"made": [fixture]})
        self._marks = dict.fromkeys(marks)

    @property
    def group(self):
        """The group of which it is."""
        mark = self._marks.get("xdist_group")
        return mark and mark.args[0]

    def get_closest_marker(self, name):
        """Return a mark of this name, or None."""
        return (self._marks[name] or name) if name in self._marks else None

    def add_marker(self, decorator):
        """Take a mark."""
        self._marks[decorator.mark.name] = decorator.mark


def test_tests_that_share_are_one_group():
    """Those of a file, and those of a costly fixture of the session.

    One with processes that shares nothing is alone, so that any worker may take it.
    """
    items = [
        Item("tests/a.py::one", "system", own=True),
        Item("tests/a.py::two", "system", own=True),
        Item("tests/a.py::alone", "system"),
        Item("tests/b.py::one", "system", shares=("shared",)),
        Item("tests/c.py::one", "system", shares=("shared",)),
        Item("tests/d/d.py::fast"),
        Item("tests/d/d.py::slow", "slow"),
        Item("tests/simulation/e.py::slow", "slow"),
        Item("tests/simulation/e.py::fast"),
    ]
    arrange(items)
    assert {item.nodeid: item.group for item in items} == {
        "tests/a.py::one": "a",
        "tests/a.py::two": "a",
        "tests/a.py::alone": None,
        "tests/b.py::one": "shared",
        "tests/c.py::one": "shared",
        "tests/d/d.py::fast": "d/d",
        "tests/d/d.py::slow": "d/d",
        "tests/simulation/e.py::slow": None,
        "tests/simulation/e.py::fast": "simulation/e",
    }


def test_long_work_comes_first_and_files_keep_their_order():
    """Groups with processes, single tests with processes, files with slow tests, other files."""
    items = [
        Item("a.py::fast"),
        Item("b.py::fast"),
        Item("b.py::slow", "slow"),
        Item("c.py::alone", "system"),
        Item("d.py::first", "system", own=True),
        Item("d.py::second", "system", own=True),
    ]
    arrange(items)
    names = [item.nodeid.replace(".py::", " ") for item in items]
    assert names == ["d first", "d second", "c alone", "b fast", "b slow", "a fast"]
