"""Use a processor at a low priority and do nothing else: `python tests/hostile/spin.py 5`."""

import argparse
import os
import time

LOWEST = 19
READY = "ready"


def at_low_priority(niceness: int = LOWEST) -> None:
    """Let others go first; where sessions have priorities of their own, in that way too.

    In a session of our own then: else it counts for the process that started us and measures.
    """
    os.setpriority(os.PRIO_PROCESS, 0, niceness)
    try:
        os.setsid()
    except PermissionError:
        return  # we lead the group of others
    try:
        with open("/proc/self/autogroup", "w") as group:  # noqa: PTH123  # pathlib takes long
            group.write(str(niceness))
    except OSError:
        return


def main() -> None:
    """Spin for so many seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--nice", type=int, default=LOWEST)
    asked = parser.parse_args()
    at_low_priority(asked.nice)
    print(READY, flush=True)
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        pass


if __name__ == "__main__":
    main()
