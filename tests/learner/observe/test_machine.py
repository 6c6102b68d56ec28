"""The use of processor and memory, of this process and its machine."""

import errno
import os
import time

import psutil
import pytest

from farflung.learner.observe.machine import Machine, Usage


def test_usage_is_measured_once_a_second() -> None:
    """Nothing is known at first. Memory is that of the process; a busy loop uses a processor."""
    machine = Machine()
    assert machine.usage(10.0) == Usage()
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    assert machine.usage(10.9) == Usage()
    used = machine.usage(11.0)
    assert used.cpu is not None
    assert used.cpu > 0
    assert used.machine_cpu is not None
    assert used.machine_memory is not None
    assert abs(used.memory - psutil.Process(os.getpid()).memory_info().rss) < used.memory / 4
    assert machine.usage(11.5) is used


def test_usage_stays_while_no_file_descriptor_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of connections may take them all, and ends no learner by that."""
    machine = Machine()
    machine.usage(10.0)
    used = machine.usage(11.0)

    def refuse() -> float:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(psutil, "cpu_percent", refuse)
    assert machine.usage(12.0) is used
    assert Machine().usage(1.0) == Usage()
