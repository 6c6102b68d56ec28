"""Archived versions that actors ask for: read beside the sockets' thread, and published once."""

import threading

from support.waiting import eventually

from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.endpoint import archives
from farflung.learner.endpoint.archives import Archives

VERSION = Version(1, 1)


def answered(found: Archives) -> list[tuple[bytes, bytes]]:
    """Wait for answers."""
    return eventually(lambda: list(found.due()), "an answer")


def test_each_question_is_answered_once_on_its_topic() -> None:
    """More questions than are read at a time, in their order."""
    found = Archives()
    found.read = lambda version: str(version).encode()
    for number in range(3 * archives.AT_ONCE):
        found.ask(b"%d" % number, Version(1, number + 1))
    answers: list[tuple[bytes, bytes]] = []
    while len(answers) < 3 * archives.AT_ONCE:
        answers += answered(found)
    assert answers == [(b"%d" % n, b"1.%d" % (n + 1)) for n in range(3 * archives.AT_ONCE)]
    assert list(found.due()) == []


def test_few_answers_are_in_memory_at_a_time() -> None:
    """Reading stops until they were published."""
    found, read = Archives(), list[Version]()
    found.read = lambda version: read.append(version) or b""  # type: ignore[func-returns-value]
    for number in range(1, 50):
        found.ask(b"%d" % number, Version(1, number))
    eventually(lambda: not found._reads, "the end of reading")
    assert len(read) == archives.AT_ONCE


def test_slow_disk_does_not_hold_up_the_sockets() -> None:
    """While a version is read, questions come and nothing is due."""
    found, goes_on = Archives(), threading.Event()
    found.read = lambda version: b"x" if goes_on.wait(30) else b""
    found.ask(b"a", VERSION)
    found.ask(b"b", VERSION)
    assert list(found.due()) == []
    goes_on.set()
    assert answered(found)[0] == (b"a", b"x")


def test_version_that_cannot_be_read_is_passed_over() -> None:
    """The next question is answered; so it is after a question that was taken back."""

    def read(version: Version) -> bytes:
        if version == VERSION:
            raise ConfigurationError("there is no such version")
        return b"x"

    found = Archives()
    found.ask(b"a", VERSION)
    found.ask(b"b", Version(1, 2))
    found.forget(b"b")
    found.read = read
    found.ask(b"c", Version(1, 3))
    assert answered(found) == [(b"c", b"x")]


def test_learner_without_a_pool_answers_nothing() -> None:
    """Questions are bounded, and no thread is started."""
    found = Archives()
    for number in range(archives.WAITING + 10):
        found.ask(b"%d" % number, VERSION)
    assert len(found._questions) == archives.WAITING
    assert not found._reads
