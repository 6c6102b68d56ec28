"""Use a processor at the lowest priority and do nothing else: `python tests/hostile/spin.py 5`."""

import os
import sys
import time

LOWEST = 19
READY = "ready"


def at_low_priority() -> None:
    """Let all others go first; where sessions have priorities of their own, in that way too.

    In a session of our own then: else it counts for the process that started us and measures.
    """
    os.nice(LOWEST)
    try:
        os.setsid()
    except PermissionError:
        return  # we lead the group of others
    try:
        with open("/proc/self/autogroup", "w") as group:  # noqa: PTH123  # pathlib takes long
            group.write(str(LOWEST))
    except OSError:
        return


def main() -> None:
    """Spin for so many seconds."""
    at_low_priority()
    print(READY, flush=True)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        pass


if __name__ == "__main__":
    main()
