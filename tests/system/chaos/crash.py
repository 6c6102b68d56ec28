"""A kill or an error at the n-th system call of one thread: strace, on forks of this process."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from support.waiting import eventually

CALLS = (
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "fsync",
    "fdatasync",
    "rename",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
)
CALLS += ("mkdir", "fallocate", "ftruncate", "openat", "copy_file_range", "sendfile", "msync")
WITHIN_S = 20.0
DONE, FAILED = 0, 9


@dataclass(frozen=True, slots=True)
class Point:
    """The n-th call of one kind by one thread, and its fault."""

    thread: int  # 0: the main thread, 1: the next
    call: str
    number: int
    fault: str  # in the words of strace: signal=SIGKILL, error=EIO

    def __str__(self) -> str:
        return f"{self.fault} at {self.call} {self.number} of thread {self.thread}"


class Crashed(AssertionError):
    """A process that ended as it should not."""


def forked(work: Callable[[], None]) -> None:
    """Do the work in a process of its own; raise its error here, as text."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        _work(work, writable)
    os.close(writable)
    with os.fdopen(readable) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise Crashed(text or f"ended with {status}")


def killed_in_the_middle(work: Callable[[], None], after_s: float) -> None:
    """Do the work in a process of its own, which is killed after a time."""
    child = os.fork()
    if not child:
        _work(work, sys.stderr.fileno())
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def disturbed(
    prepare: Callable[[], Callable[[], None]], log: Path, point: Point | None
) -> tuple[str, list[int]]:
    """Prepare without strace, then go on under it.

    Return how it ended (killed, ended, or its error), and its threads before.
    """
    words, said = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(words[1])
        _go_on(prepare, said[1], words[0])
    os.close(said[1])
    os.close(words[0])
    with os.fdopen(said[0]) as report, os.fdopen(words[1], "w") as go:
        first = report.readline()
        if not first.strip().replace(" ", "").isdigit():
            raise Crashed(first + report.read())
        threads = [int(word) for word in first.split()]
        tracer = _attach(child, threads, log, point)
        with suppress(BrokenPipeError):
            go.write("go\n")
            go.flush()
        text = report.read()
    _, status = os.waitpid(child, 0)
    eventually(lambda: tracer.poll() is not None, "the end of strace", WITHIN_S)
    assert tracer.stderr is not None
    tracer.stderr.close()
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}", threads
    return text.strip().splitlines()[-1] if status else "ended", threads


def counted(log: Path, threads: list[int]) -> Iterator[tuple[int, str, int]]:
    """Yield thread, call and count from a log of strace."""
    found = re.findall(r"^(\d+) +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
    for (thread, call), often in Counter(found).items():
        if int(thread) in threads:  # one that begins later cannot be waited for
            yield threads.index(int(thread)), call, often


def _attach(
    child: int, threads: list[int], log: Path, point: Point | None
) -> subprocess.Popen[bytes]:
    """Start strace and wait until it is attached: to one thread with a fault, else to all."""
    command = ["strace", "-y", "-o", str(log), "-e", f"trace={','.join(CALLS)}"]
    if point is None:
        command += ["-f", "-p", str(child)]
    else:
        command += [
            "-e",
            f"inject={point.call}:{point.fault}:when={point.number}",
            "-p",
            str(threads[point.thread]),
        ]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert tracer.stderr is not None
    if b"attached" not in (said := tracer.stderr.readline()):
        raise Crashed(f"strace: {said.decode()}")
    return tracer


def _work(work: Callable[[], None], said: int) -> None:
    try:
        work()
    except BaseException:
        os.write(said, traceback.format_exc().encode())
        os._exit(FAILED)
    os._exit(DONE)


def _go_on(prepare: Callable[[], Callable[[], None]], said: int, words: int) -> None:
    def work() -> None:
        go_on = prepare()
        others = [
            thread.native_id or 0
            for thread in threading.enumerate()
            if thread is not threading.main_thread()
        ]
        # After a fork, the main thread still has its former number.
        threads = [os.getpid(), *sorted(others)]
        os.write(said, (" ".join(map(str, threads)) + "\n").encode())
        os.read(words, 8)
        go_on()

    _work(work, said)
