"""The processor of an actor at a fixed rate: its step thread comes before all its other threads."""

import gc
import os
import sys

# For a thread of Python that wants to run, until the one that runs must let it: Python's own 5 ms
# are a period at 200 Hz.
SWITCH_S = 0.0005
FREE = 2  # processors, where threads stand aside


def stand_aside() -> str:
    """Let the calling thread run only where a processor is idle; return why it does not, or "".

    A thread that it starts inherits this, such as that of ZeroMQ.
    """
    if not hasattr(os, "SCHED_IDLE"):
        return "this system has no SCHED_IDLE"
    if busy := busyness(os.getloadavg()[0], len(os.sched_getaffinity(0))):
        return busy
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError as error:
        return error.strerror or repr(error)
    return ""


def busyness(load: float, processors: int) -> str:
    """Return why no thread should wait for an idle processor here, or "".

    A thread that does not come to run may hold Python's lock, for which the step thread then waits:
    on two processors with a load of 8, the p99 of its delay was 40 ms instead of 10. So two must be
    free: one for the steps, and one for the threads that stand aside.
    """
    if load + FREE <= processors:
        return ""
    return f"the load is {load:.1f} on {processors} processors"


def keep_pauses_short() -> None:
    """Bound the pauses that Python itself makes in this process."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()  # what is here now stays: later collections look at what is newer
