"""`make test` many times, every other time beside four busy loops: `make patience RUNS=20`.

Each run is a line of output and an entry in build/patience.json, with its commit. A later call
goes on where the last one ended, so the runs of an evening and of a night count together as long
as the code is the same: `--runs 5` now, `--runs 5` later. `--show` only says how many runs have
passed in a row. `--publish` also copies the record to docs/results/patience.json, where another
checkout goes on.

The output of a failed run is kept in build/patience-NUMBER.log. Exit code 1 if a run failed.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby, takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
RECORD = BUILD / "patience.json"
PUBLISHED = ROOT / "docs" / "results" / "patience.json"
CODE = ("--", ".", ":!docs/results", ":!docs/reliability.md")  # results, and what is made of them
LOOPS = 4
LONGEST_S = 3600  # of one run; a busy loop ends by itself after it
BUSY = f"import time; end = time.monotonic() + {LONGEST_S}\nwhile time.monotonic() < end: pass"
SUMMARY = re.compile(r"^(?:=+ )?(\d+ (?:passed|failed).* in [\d.]+s.*?)(?: =+)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of `make test`."""

    date: str
    commit: str
    code: str  # a hash of the files of the commit; "" with changes beside it
    loops: int  # that were busy beside it
    seconds: int
    load: float  # average of its last minute
    passed: bool
    said: str


def in_a_row(runs: list[Run]) -> list[Run]:
    """Return the newest runs that passed one after the other, oldest first."""
    return [*takewhile(lambda run: run.passed, reversed(runs))][::-1]


def sentence(runs: list[Run]) -> str:
    """Say how many runs passed in a row, and of which code."""
    row = in_a_row(runs)
    if not row:
        return f"the newest of {len(runs)} runs failed" if runs else "there was no run yet"
    stretches = [[*stretch] for _, stretch in groupby(row, lambda run: run.code or run.date)]
    newest = stretches[-1]
    busy = sum(run.loops > 0 for run in newest)
    text = f"{len(newest)} run{'s' * (len(newest) > 1)} in a row passed at {newest[-1].commit}"
    text += f", {busy} of them beside {LOOPS} busy loops"
    if not newest[-1].code:
        text += ", with changes that are in no commit"
    if len(stretches) > 1:
        before = ", ".join(f"{len(each)} at {each[-1].commit}" for each in stretches[:-1])
        text += f"; the code changed before them ({before} passed)"
    failed = sum(not run.passed for run in runs)
    return f"{text}; of all {len(runs)} runs {failed} failed"


def load(path: Path) -> list[Run]:
    """Return the runs of a record."""
    return [Run(**run) for run in json.loads(path.read_text())["runs"]] if path.exists() else []


def keep(path: Path, runs: list[Run]) -> None:
    """Write a record."""
    path.parent.mkdir(exist_ok=True)
    facts = {
        "command": "make patience",
        "date": runs[-1].date[:10],
        "cores": os.cpu_count(),
        "sentence": sentence(runs),
        "runs": [asdict(run) for run in runs],
    }
    path.write_text(json.dumps(facts, indent=1) + "\n")


def code() -> tuple[str, str]:
    """Return the commit, and a hash of its files; none with changes that are in no commit."""
    commit = _git("rev-parse", "--short", "HEAD").strip()
    if _git("status", "--porcelain", *CODE):
        return commit, ""
    files = _git("ls-files", "--stage", *CODE)
    return commit, hashlib.sha256(files.encode()).hexdigest()[:12]


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep so many processes busy; end them by their own numbers."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test(number: int, loops: int) -> Run:
    """Run all tests once, print the line about it, and return it."""
    date, (commit, files), began = datetime.now(UTC), code(), time.monotonic()
    with busy(loops):
        ended = subprocess.run(
            ["make", "test"], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        load = os.getloadavg()[0]
    said = "; ".join(SUMMARY.findall(ended.stdout)) or "no summary"
    passed, seconds = ended.returncode == 0, round(time.monotonic() - began)
    if not passed:
        BUILD.mkdir(exist_ok=True)
        (BUILD / f"patience-{number}.log").write_text(ended.stdout)
    verdict, beside = "passed" if passed else "FAILED", f"{loops or 'no'} busy loops"
    print(f"run {number}, {beside}: {verdict} in {seconds} s, load {load:.1f}: {said}", flush=True)
    when = date.isoformat(timespec="seconds")
    return Run(when, commit, files, loops, seconds, round(load, 1), passed, said)


def main() -> int:
    """Return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--publish", action="store_true")
    asked = parser.parse_args()
    runs, new = load(RECORD) or load(PUBLISHED), 0 if asked.show else asked.runs
    for _ in range(new):
        loops = LOOPS if runs and not runs[-1].loops else 0
        runs.append(test(len(runs) + 1, loops))
        keep(RECORD, runs)
    print(sentence(runs))
    if asked.publish and runs:
        keep(PUBLISHED, runs)
    return int(not all(run.passed for run in runs[len(runs) - new :]))


if __name__ == "__main__":
    sys.exit(main())
