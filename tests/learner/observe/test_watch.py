"""`learner status` against a feed of real bytes on a free port."""

import io
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import zmq
from support.waiting import eventually, readable

from farflung.common.net.address import Address
from farflung.common.net.sockets import Context
from farflung.common.process.errors import Refused
from farflung.common.protocol.messages import Bye, Telemetry
from farflung.common.protocol.topics import telemetry
from farflung.common.protocol.wire import encode
from farflung.learner.observe.screen import line
from farflung.learner.observe.status import Status, WaitingStatus, from_document, to_document
from farflung.learner.observe.watch import Unhealthy, decode, describe, watch

STATUS = Status(run="r", seconds=5.0, steps=7)


def frame(status: Status) -> bytes:
    """The telemetry message of a status."""
    return bytes(encode(Telemetry("r", "default", 1, to_document(status))))


@pytest.fixture
def publish(context: Context) -> Iterator[Callable[..., Address]]:
    """Start a feed that sends these frames to its first subscriber; return its address."""
    threads: list[threading.Thread] = []

    def start(*frames: bytes) -> Address:
        feed = context.socket(zmq.XPUB)
        port = feed.bind_to_random_port("tcp://127.0.0.1")

        def serve() -> None:
            with feed:
                if readable(feed) and feed.recv() == b"\x01t/":
                    for each in frames:
                        feed.send_multipart([telemetry("default"), each])
                    readable(feed)  # until the watcher leaves

        threads.append(threading.Thread(target=serve))
        threads[0].start()
        return Address("127.0.0.1", port - 1, port)

    yield start
    for thread in threads:
        eventually(lambda thread=thread: not thread.is_alive(), "the end of a feed")


def test_a_learner_that_answers_is_healthy(
    context: Context, publish: Callable[..., Address]
) -> None:
    """Its status is printed as a line where there is no terminal."""
    stream = io.StringIO()
    watch(context, publish(frame(STATUS)), stream)
    assert stream.getvalue() == line(STATUS) + "\n"


def test_json_is_the_document(context: Context, publish: Callable[..., Address]) -> None:
    """For machines, one line."""
    stream = io.StringIO()
    watch(context, publish(frame(STATUS)), stream, as_json=True)
    assert from_document(stream.getvalue()) == STATUS


def test_what_cannot_be_read_is_passed_over(
    context: Context, publish: Callable[..., Address]
) -> None:
    """A status after odd bytes is still a status."""
    stream = io.StringIO()
    watch(context, publish(b"odd", frame(STATUS)), stream)
    assert "steps 7" in stream.getvalue()


def test_a_learner_without_progress_is_unhealthy(
    context: Context, publish: Callable[..., Address]
) -> None:
    """Its status is printed, and the sentence says what it waits for."""
    stream = io.StringIO()
    stuck = Status(run="r", idle_seconds=75.0, waiting=WaitingStatus("rows", 1000, 1.0))
    with pytest.raises(
        Unhealthy, match="no step and no update for 1 min 15 s: updates wait for 1,000 more rows"
    ):
        watch(context, publish(frame(stuck)), stream)
    assert stream.getvalue() == line(stuck) + "\n"


@pytest.mark.parametrize("stalled_s", [0.0, 76.0])
def test_how_long_it_may_stand_still_can_be_told(
    context: Context, publish: Callable[..., Address], stalled_s: float
) -> None:
    """For ever, too: some health checks only ask if it is alive."""
    watch(
        context,
        publish(frame(Status(run="r", idle_seconds=75.0))),
        io.StringIO(),
        stalled_s=stalled_s,
    )


def test_a_paused_learner_is_healthy(context: Context, publish: Callable[..., Address]) -> None:
    """It stands still because a person wants it to."""
    watch(
        context, publish(frame(Status(run="r", state="pause", idle_seconds=7000.0))), io.StringIO()
    )


def test_silence_is_unhealthy(context: Context) -> None:
    """Nothing listens there: the sentence names address and feed port; the exit code is 1."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: no other program can answer there
        port = taken.getsockname()[1]
        with pytest.raises(
            Unhealthy,
            match=rf"nothing heard from 127.0.0.1:{port - 1} within 0.2 s: .* port {port}",
        ) as raised:
            watch(context, Address("127.0.0.1", port - 1, port), io.StringIO(), timeout_s=0.2)
    assert raised.value.exit_code == 1


def test_another_release_is_named(context: Context, publish: Callable[..., Address]) -> None:
    """Not silence, but words that this side does not know."""
    with pytest.raises(Unhealthy, match="Use the same release"):
        watch(context, publish(b"odd"), io.StringIO(), timeout_s=0.2)


def test_only_telemetry_is_a_status() -> None:
    """Any other message is refused."""
    with pytest.raises(Refused, match="Bye"):
        decode(bytes(encode(Bye("r", "default", "a", 1, 1, "over"))))


def test_a_terminal_gets_the_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, without the hint to press Ctrl-C."""
    monkeypatch.setattr("farflung.learner.observe.watch.can_draw", lambda stream: True)
    text = describe(STATUS, io.StringIO())
    assert text.startswith("╭")
    assert "Ctrl-C" not in text
