"""Crashes and errors at every disk call of a segment roll, a checkpoint and a recovery.

`python tests/system/chaos/sweep.py`. After each, the next epoch recovers, all that was acknowledged
is there once, and the newest complete checkpoint loads. Then the same with faults planted in the
code. Exit code 1 if a promise was broken, or a planted fault was not noticed.
"""

import argparse
import json
import logging
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos.crash import (  # noqa: E402
    Crashed,
    Point,
    counted,
    disturbed,
    forked,
    killed_in_the_middle,
)
from chaos.planted import PLANTED, plant  # noqa: E402
from chaos.results import publish  # noqa: E402
from support.family import children_end  # noqa: E402
from support.waiting import run_to_end  # noqa: E402

from farflung.common.process import atomic_file  # noqa: E402

# A kill loses nothing there, not even bytes that were not synced.
MEMORY = next((place for place in ("/dev/shm",) if Path(place).is_dir()), None)
FAULTS = ("signal=SIGKILL", "error=EIO", "error=ENOSPC")


def points(story: Any, folder: Path, faults: Sequence[str]) -> list[Point]:
    """Return every point of a story at which a fault can happen, found by an undisturbed run."""
    run, log = folder / "undisturbed", folder / "log"
    how, threads = play(story, run, log, None)
    if how != "ended":
        raise Crashed(f"{story.name}, undisturbed: {how}")
    if story.name == "recovery":
        require_synced(log)
    forked(lambda: _verify(run, story.keep))
    found = sorted(counted(log, threads))
    return [
        Point(thread, call, number, fault)
        for fault in faults
        for thread, call, often in found
        for number in range(1, often + 1)
    ]


def play(story: Any, run: Path, log: Path, point: Point | None) -> tuple[str, list[int]]:
    """Play a story once, with a fault at a point; return how it ended, and its threads."""

    def prepare() -> Any:
        run.mkdir()
        epoch = story.prepare(run)
        return lambda: story.go(run, epoch)

    return disturbed(prepare, log, point)


def require_synced(log: Path) -> None:
    """Require that a recovery syncs the segments it read before it opens a new one."""
    lines = log.read_text().splitlines()
    begins = next(
        index
        for index, line in enumerate(lines)
        if "O_CREAT" in line and "/journal/" in line and atomic_file.DRAFT not in line
    )
    found, synced = (
        set(re.findall(rf"{call}\(.*?(\d+\.log)", "\n".join(lines[:begins])))
        for call in ("openat", "sync")
    )
    if not found or found - synced:
        raise Crashed(
            f"the recovery acknowledges the contents of {', '.join(sorted(found - synced))} "
            "without a sync"
        )


def sweep(
    story: Any, folder: Path, faults: Sequence[str], share: float = 1.0
) -> Iterator[tuple[Point, str, str]]:
    """Yield points of a story, how the process ended there, and the promise that broke."""
    every = points(story, folder, faults)
    chosen = (
        every if share >= 1 else random.Random(1).sample(every, max(1, int(len(every) * share)))
    )
    for number, point in enumerate(chosen):
        run = folder / f"{number:04}"
        how, _ = play(story, run, folder / "log", point)
        broken = ""
        try:
            forked(lambda run=run: _verify(run, story.keep))  # type: ignore[misc]
        except Crashed as crash:
            broken = str(crash)
        shutil.rmtree(run)
        yield point, how, broken


def sweep_all(
    faults: Sequence[str] = FAULTS, share: float = 1.0, *, until_broken: bool = False
) -> dict[str, Any]:
    """Sweep every story; return the figures to publish."""
    from chaos.driver import STORIES  # after a fault was planted

    logging.disable()
    points: dict[str, dict[str, int]] = {}
    ends: Counter[str] = Counter()
    broken: list[str] = []
    for story in STORIES:
        tally: Counter[str] = Counter()
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder, children_end():
            for point, how, wrong in sweep(story, Path(folder), faults, share):
                reached = how == "killed by SIGKILL" or not point.fault.startswith("signal")
                tally[point.fault if reached else f"{point.fault}, not reached"] += 1
                ends[f"{point.fault}: {how.split(':')[0].rpartition('.')[2]}"] += 1
                broken += [f"{story.name}, {point} ({how}): {wrong}"] if wrong else []
                if broken and until_broken:
                    break
        points[story.name] = dict(tally)
    total = sum(sum(tally.values()) for tally in points.values())
    return {
        "points": points,
        "total": total,
        "survived": total - len(broken),
        "ends": dict(ends),
        "broken": broken,
    }


def kills_while_saving(kills: int, seed: int = 1) -> dict[str, Any]:
    """Kill a process that writes checkpoints, again and again; the newest must load each time."""
    from chaos.driver import newest_is_whole, save_on_and_on

    chance, broken, newest = random.Random(seed), [], 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, children_end():
        for number in range(kills):
            killed_in_the_middle(lambda: save_on_and_on(Path(folder)), 0.05 + 0.3 * chance.random())
            try:
                forked(lambda: newest_is_whole(Path(folder)))
            except Crashed as crash:
                broken.append(f"kill {number}: {crash}")
        promises = Path(folder) / "promises"
        newest = len(promises.read_text().split()) if promises.exists() else 0
    return {"kills": kills, "checkpoints": newest, "loaded": kills - len(broken), "broken": broken}


def notices(name: str) -> bool:
    """Return whether the sweep, in a process of its own, notices this planted fault."""
    command = [sys.executable, __file__, "--planted", name]
    with children_end():
        return run_to_end(command, within_s=600).returncode == 1


def _verify(run: Path, keep: bool) -> None:
    from chaos.driver import verify

    verify(run, keep)


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--planted",
        choices=[fault.name for fault in PLANTED],
        help="plant this fault, and only crash",
    )
    parser.add_argument("--share", type=float, default=1.0, help="share of the points to crash at")
    parser.add_argument(
        "--kills", type=int, default=100, help="kills while checkpoints are written"
    )
    parser.add_argument("--quick", action="store_true", help="only crash, and plant nothing")
    parser.add_argument("--publish", action="store_true", help="write docs/results/sweep.json")
    asked = parser.parse_args()
    began = time.monotonic()
    if asked.planted:
        return int(planted(asked.planted))
    found = sweep_all(FAULTS[:1] if asked.quick else FAULTS, asked.share)
    found["saving"] = kills_while_saving(asked.kills)
    names = [] if asked.quick else [fault.name for fault in PLANTED]
    found |= {
        "planted": names,
        "missed": [name for name in names if not notices(name)],
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("sweep", found)
    return int(bool(found["broken"] or found["saving"]["broken"] or found["missed"]))


def planted(name: str) -> bool:
    """Plant a fault and sweep; return whether it was noticed."""
    plant(next(fault for fault in PLANTED if fault.name == name))
    try:
        broken = sweep_all(FAULTS[:1], until_broken=True)["broken"]
    except Crashed as crash:
        broken = [str(crash)]
    print(*(broken or ["everything holds"]))
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
