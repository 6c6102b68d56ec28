"""`make test` many times, every other time beside four busy loops: `make patience RUNS=20`.

Prints a line for each run, and ends with exit code 1 if a run failed. The output of a failed run
is kept in build/patience-RUN.log.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "build"
LOOPS = 4
LONGEST_S = 3600  # of one run; a busy loop ends by itself after it
BUSY = f"import time; end = time.monotonic() + {LONGEST_S}\nwhile time.monotonic() < end: pass"
SUMMARY = re.compile(r"^(?:=+ )?(\d+ (?:passed|failed).* in [\d.]+s.*?)(?: =+)?$", re.MULTILINE)


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


def run(number: int, loops: int) -> bool:
    """Run all tests once, print the line about it, and return True if they passed."""
    began = time.monotonic()
    with busy(loops):
        ended = subprocess.run(
            ["make", "test"], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        load = os.getloadavg()[0]
    taken_s, passed = time.monotonic() - began, ended.returncode == 0
    said = "; ".join(SUMMARY.findall(ended.stdout)) or "no summary"
    verdict = "passed" if passed else "FAILED"
    beside = f"{loops} busy loops" if loops else "no busy loop"
    print(
        f"run {number}, {beside}: {verdict} in {taken_s:.0f} s, load {load:.1f}: {said}", flush=True
    )
    if not passed:
        LOGS.mkdir(exist_ok=True)
        (LOGS / f"patience-{number}.log").write_text(ended.stdout)
    return passed


def main() -> int:
    """Return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    passed = sum(run(number, LOOPS * (number % 2 == 0)) for number in range(1, runs + 1))
    print(f"{passed} of {runs} runs passed")
    return int(passed < runs)


if __name__ == "__main__":
    sys.exit(main())
