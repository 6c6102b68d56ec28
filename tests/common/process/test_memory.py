"""A process ends in a sentence before a peer makes it take all memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from farflung.common.process.memory import MemoryGuard, available_bytes, own_bytes


def test_memory_is_that_of_the_container_if_it_is_less(tmp_path: Path) -> None:
    """Without a limit, or with `max`, it is the machine's."""
    limit, none = tmp_path / "memory.max", tmp_path / "none"
    limit.write_text("1048576\n")
    assert available_bytes((none, limit)) == 1 << 20
    limit.write_text("max\n")
    assert available_bytes((limit,)) == available_bytes(()) > 1 << 28


def test_memory_of_this_process_grows_with_what_it_holds() -> None:
    """Pages that no file backs count."""
    before = own_bytes()
    block = bytearray(b"x") * (64 << 20)
    assert own_bytes() - before > len(block) // 2


def test_unknown_memory_ends_no_process(tmp_path: Path) -> None:
    """A system without /proc has no guard."""
    assert own_bytes(tmp_path / "statm") == 0


def test_guard_leaves_a_process_within_its_bound_alone() -> None:
    """It looks, and its thread ends with the block."""
    with MemoryGuard(100, "--max-memory", lambda: 100):
        pass


@pytest.mark.slow
def test_guard_ends_a_process_beyond_its_bound() -> None:
    """Exit code 71; the sentence names both figures and the setting."""
    program = (
        "import threading\nfrom farflung.common.process.memory import MemoryGuard\n"
        "with MemoryGuard(1, '--max-memory', lambda: 3_000_000_000):\n"
        "    threading.Event().wait(30)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 71, ended.stderr
    assert "holds 3.0 GB of memory and may hold 0.0" in ended.stderr
    assert "--max-memory" in ended.stderr
