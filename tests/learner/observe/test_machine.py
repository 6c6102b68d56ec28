"""The use of processor and memory, of this process and its machine."""

import os

import psutil

from farflung.learner.observe.machine import Machine, Usage


def test_usage_is_measured_once_a_second() -> None:
    """Nothing is known at first. Memory is that of the process; a busy loop uses a processor."""
    machine = Machine()
    assert machine.usage(10.0) == Usage()
    sum(range(1_000_000))
    assert machine.usage(10.9) == Usage()
    used = machine.usage(11.0)
    assert used.cpu is not None
    assert used.cpu > 0
    assert used.machine_cpu is not None
    assert used.machine_memory is not None
    assert abs(used.memory - psutil.Process(os.getpid()).memory_info().rss) < used.memory / 4
    assert machine.usage(11.5) is used
