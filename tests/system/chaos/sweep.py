"""Crash or fail at every call to the disk of a segment roll, a checkpoint and a recovery: `python tests/system/chaos/sweep.py`.

After each: the next life recovers, everything acknowledged is there once, and the newest complete checkpoint loads. Then the same with
faults planted in the code, each of which must be noticed. Exit code 1 if anything did not hold, or a planted fault was not noticed.
"""

import argparse
import json
import logging
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos.crash import Crashed, Point, counted, disturbed, forked, killed_in_the_middle  # noqa: E402
from chaos.planted import PLANTED, plant  # noqa: E402
from chaos.results import publish  # noqa: E402

MEMORY = next(
    (place for place in ("/dev/shm",) if Path(place).is_dir()), None
)  # a kill does not lose what was not synced
FAULTS = ("signal=SIGKILL", "error=EIO", "error=ENOSPC")


def points(story: Any, folder: Path, faults: Sequence[str]) -> list[Point]:
    """Every place of a story at which something can happen, found by a run in which nothing does."""
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
    """One run of a story."""

    def prepare() -> Any:
        run.mkdir()
        life = story.prepare(run)
        return lambda: story.go(run, life)

    return disturbed(prepare, log, point)


def require_synced(log: Path) -> None:
    """What a recovery found is on disk before a new segment, and so anything that could be acknowledged, is."""
    lines = log.read_text().splitlines()
    begins = next(
        index for index, line in enumerate(lines) if "O_CREAT" in line and "/journal/" in line
    )
    found, synced = (
        set(re.findall(rf"{call}\(.*?(\d+\.log)", "\n".join(lines[:begins])))
        for call in ("openat", "sync")
    )
    if not found or found - synced:
        raise Crashed(
            f"what the recovery found in {', '.join(sorted(found - synced))} is acknowledged without having been synced"
        )


def sweep(
    story: Any, folder: Path, faults: Sequence[str], share: float = 1.0
) -> Iterator[tuple[Point, str, str]]:
    """Each point of a story, or a share of them: how the process ended there, and what did not hold then."""
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
    """Every story; gives what to publish."""
    from chaos.driver import STORIES  # only now: a fault may have been planted in what it imports

    logging.disable()
    points: dict[str, dict[str, int]] = {}
    ends: Counter[str] = Counter()
    broken: list[str] = []
    for story in STORIES:
        tally: Counter[str] = Counter()
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
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
    """Checkpoint after checkpoint, killed at a random moment, again and again; the newest complete one must load each time."""
    from chaos.driver import newest_is_whole, save_on_and_on

    chance, broken, newest = random.Random(seed), [], 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
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
    """Whether the sweep, in a process of its own, notices the planted fault of this name."""
    command = [sys.executable, __file__, "--planted", name]
    return subprocess.run(command, capture_output=True, timeout=600).returncode == 1


def _verify(run: Path, keep: bool) -> None:
    from chaos.driver import verify

    verify(run, keep)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--planted",
        choices=[fault.name for fault in PLANTED],
        help="plant this fault, and only crash",
    )
    parser.add_argument("--share", type=float, default=1.0, help="of all places, those to crash at")
    parser.add_argument("--kills", type=int, default=100, help="while checkpoints are written")
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
    """Whether something does not hold with this fault planted."""
    plant(next(fault for fault in PLANTED if fault.name == name))
    try:
        broken = sweep_all(FAULTS[:1], until_broken=True)["broken"]
    except Crashed as crash:
        broken = [str(crash)]
    print(*(broken or ["everything holds"]))
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
