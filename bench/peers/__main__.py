"""Farflung beside other libraries: each in its own environment, arms in turns, order reversed.

`python -m bench.peers` (`make peers`) makes an environment for each library under build/peers, runs
every row, and prints a table and one JSON line. An arm's figure is the median of its rounds.

- `--publish` writes docs/results/peers.json, of which docs/write.py makes docs/performance.md.
- `--only ROW ...` and `--peers NAME ...` run some rows, or ours beside some libraries; what they
  measure replaces the same arms in docs/results/peers.json. Without a word behind: none.
- `--rounds N` runs so many rounds of each row. `--short` shows that every row works: its figures
  measure little, and the page says so.
- `--own FIGURE ...` names some figures of ours beside our own limits; without it, all.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

from bench import _measure
from bench.peers import results, turns
from bench.peers.own import OWN, Lines
from bench.peers.rows import OURS, PEERS, ROWS


def main() -> None:
    """Measure the rows that are asked for."""
    asked = arguments()
    where = {
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "machine": machine(),
        "short": asked.short,
        "command": command(asked),
    }
    found: dict[str, object] = {}
    for name in asked.only:
        row = ROWS[name]
        arms = [arm for arm in row.arms if arm.peer in (OURS, *asked.peers)]
        _measure.progress(f"{name}: {row.work}")
        load = os.getloadavg()[0]
        measured = turns.measure(row, arms, asked.rounds or row.rounds, asked.short)
        loads = [round(load, 1), round(os.getloadavg()[0], 1)]
        found[name] = results.of_row(row, measured, where | {"load": loads})
        print(results.table(name, found[name]), file=sys.stderr, flush=True)
        if asked.publish:
            results.merge(_measure.RESULTS / "peers.json", {"rows": {name: found[name]}})
    lines = Lines(asked.short)
    for name in asked.own:
        _measure.progress(f"{name}: {OWN[name].work}")
        one = {name: where | lines.figure(OWN[name])}
        found |= one
        print(f"{name}: {results.line(one[name])}", file=sys.stderr, flush=True)
        if asked.publish:
            results.merge(_measure.RESULTS / "peers.json", {"own": one})
    print(json.dumps({"bench": "peers", **found}))


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--own", nargs="*", choices=list(OWN), default=list(OWN))
    parser.add_argument("--publish", action="store_true")
    return parser.parse_args()


def command(asked: argparse.Namespace) -> str:
    """Return the command, without what says only which part of a page it measured."""
    words = ["python -m bench.peers"]
    words += ["--short"] if asked.short else []
    words += [f"--rounds {asked.rounds}"] if asked.rounds else []
    return " ".join(words)


def machine() -> str:
    """Return processor, memory and Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{models[0] if models else platform.machine()}, {gigabytes:.0f} GB, " + (
        f"Linux, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()
