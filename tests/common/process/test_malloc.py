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
