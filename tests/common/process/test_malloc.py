"""Freed memory is used again, not given back and cleared."""

import subprocess
import sys

FAULTS = """
import resource
from farflung.common.process.malloc import keep_freed

if {kept}:
    assert keep_freed()
for turn in range(11):
    if turn == 1:  # the first one is fresh in any case
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [bytearray(b"x") * 69_000 for _ in range(50)]
    del held
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(kept: bool) -> int:
    """Pages that were fetched from the kernel while 50 parcels of 69 kB came and went ten times."""
    command = [sys.executable, "-c", FAULTS.format(kept=kept)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_malloc_reuses_the_memory_of_freed_parcels() -> None:
    """Fifty of them are over 800 pages; by default each turn pays for most of these again."""
    assert faults(kept=False) > 5 * 800
    assert faults(kept=True) < 200


FREED = """
import os, resource
from farflung.common.process.malloc import return_freed, keep_freed

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

keep_freed()
held = [bytearray(2000) for _ in range(30_000)]  # 15,000 pages
pin = bytearray(2000)
before = resident()
del held
kept = resident()
assert return_freed()
print(before - kept, kept - resident())
"""


def test_malloc_returns_freed_memory_when_asked() -> None:
    """After a flood: by itself it would keep all of it."""
    command = [sys.executable, "-c", FREED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before < 1000
    assert after > 10_000
