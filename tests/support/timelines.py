"""Chrome traces as a reader takes them: checked against the format, then by process and thread."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

CLOCK = re.compile(
    r"  actor (\S+): .* clock ([+-][\d.]+) s, within ([\d.]+) ms \((\d+) round trips"
)


class Slice(NamedTuple):
    """A span, in microseconds."""

    name: str
    begin: float
    end: float


class Timeline:
    """The spans of a file by the names of process and thread."""

    def __init__(self, path: Path) -> None:
        found = json.loads(path.read_text())
        assert set(found) == {"traceEvents", "displayTimeUnit", "otherData"}
        self.about: dict[str, Any] = found["otherData"]
        processes, threads = _rows(found["traceEvents"])
        self.rows: dict[tuple[str, str], list[Slice]] = defaultdict(list)
        for event in found["traceEvents"]:
            if event["ph"] == "X":
                one = Slice(event["name"], event["ts"], event["ts"] + event["dur"])
                process = event["pid"]
                self.rows[processes[process], threads[process, event["tid"]]].append(one)

    @property
    def processes(self) -> set[str]:
        """The names of all processes that have spans."""
        return {process for process, _ in self.rows}

    def names(self, process: str) -> set[str]:
        """The names of the spans of a process."""
        return {
            one.name for (whose, _), row in self.rows.items() if whose == process for one in row
        }

    def of(self, process: str, name: str) -> list[Slice]:
        """The spans of a process under one name."""
        return [
            one
            for (whose, _), row in self.rows.items()
            if whose == process
            for one in row
            if one.name == name
        ]

    def require_nested(self) -> None:
        """Require that the spans of a thread follow each other, or lie within each other."""
        for row, slices in self.rows.items():
            around: list[Slice] = []
            assert slices == sorted(slices, key=lambda one: one.begin), row
            for one in slices:
                while around and around[-1].end <= one.begin:
                    around.pop()
                assert not around or one.end <= around[-1].end, (row, around[-1], one)
                around.append(one)


def _rows(events: list[dict[str, Any]]) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """Check each event by the format; return the names of processes and threads."""
    processes, threads = {}, {}
    for event in events:
        assert {type(event[key]) for key in ("pid", "tid")} == {int}, event
        assert isinstance(event["name"], str)
        if event["ph"] == "X":
            assert set(event) == {"ph", "name", "pid", "tid", "ts", "dur"}
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            continue
        assert event["ph"] == "M"
        assert event["name"] in ("process_name", "process_sort_index", "thread_name"), event
        if event["name"] == "process_name":
            processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            threads[event["pid"], event["tid"]] = event["args"]["name"]
    assert len(set(processes.values())) == len(processes)
    return processes, threads


def overlaps(some: list[Slice], others: list[Slice]) -> bool:
    """Return whether a span of the one sort overlaps one of the other."""
    return any(one.begin < other.end and other.begin < one.end for one in some for other in others)
