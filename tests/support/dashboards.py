"""Dashboards on free ports of loopback, and what a browser would ask them."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from farflung.common.process.lifecycle import Stop
from farflung.learner.dashboard.access import Access
from farflung.learner.dashboard.app import Application
from farflung.learner.dashboard.library import Library
from farflung.learner.dashboard.server import listen, serve
from farflung.learner.dashboard.steering import Steering
from farflung.learner.observe.status import ActorStatus, EvaluationStatus, Status
from support.waiting import eventually

STATUS = Status(
    run="brave-otter-1a2b",
    environment="CartPole-v1",
    algorithm="dqn",
    device="cpu",
    seconds=5.0,
    steps=500,
    steps_target=2000,
    episodes=20,
    updates=90,
    epoch=1,
    version=4,
    return_mean=20.5,
    return_spread=2.5,
    evaluation=EvaluationStatus(400.0, 20, 3, 450.0),
    metrics={"loss": 0.5},
    steps_per_second=100.0,
    updates_per_second=18.0,
    ratio_wanted=8.0,
    ratio_held=7.5,
    update_split={"sample": 0.001, "gradients": 0.003},
    replay_size=500,
    replay_capacity=1000,
    refused={"schema": 3},
    actors=(ActorStatus("box-1", "running", steps_per_second=60.0),),
)
HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>&amp;"\'\\\n\x1b[2J\u202e'


@dataclass
class Answer:
    """The answer of a server."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The JSON in the body."""
        return json.loads(self.body)


@dataclass
class Sources:
    """Feeds and folders that are what a test says."""

    places: Sequence[Mapping[str, Any]] = field(default_factory=list)


class Served:
    """A dashboard that answers requests."""

    def __init__(self, library: Library, sources: Sources, port: int) -> None:
        self.library, self.sources, self.port = library, sources, port
        self.address = f"http://127.0.0.1:{port}"

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str
    ) -> Answer:
        """Ask for a path; a header `host` is sent in place of the true one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, named)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    @contextmanager
    def stream(self, run: str = "") -> Iterator[Iterator[tuple[str, Any]]]:
        """Open the stream of events; yield them by name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", f"/api/stream?run={run}")
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        try:
            yield _events(answer)
        finally:
            connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    while line := answer.readline().decode().rstrip("\n"):
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))
            answer.readline()  # the empty line that ends an event


@contextmanager
def served(
    library: Library | None = None,
    access: Access | None = None,
    sources: Sources | None = None,
    steering: Steering | None = None,
) -> Iterator[Served]:
    """Serve a dashboard in a thread until the block ends."""
    library, sources = library or Library(), sources or Sources()
    app = Application(library, sources, access or Access(), steering or Steering())
    stop, listening = Stop(), listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    words = (app.starlette(), listening, stop, app.closing)
    thread = threading.Thread(target=serve, args=words, name="dashboard")
    thread.start()
    try:
        yield Served(library, sources, port)
    finally:
        stop.set("the test is over")
        eventually(lambda: not thread.is_alive(), "the end of a dashboard", 30.0)
        listening.close()
        stop.close()


def crowd(number: int, moment: int = 0) -> tuple[ActorStatus, ...]:
    """Return so many actors with figures that follow from their numbers."""
    return tuple(
        ActorStatus(f"box-{n:03d}", "running", 4, float((n * 37 + moment * 11) % 500), n, moment)
        for n in range(number)
    )


def filled(hint: Any, text: str) -> Any:
    """Return a value of this type with a text in every place that has room for one."""
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(**{each.name: filled(hints[each.name], text) for each in fields(hint)})
    inner, origin = get_args(hint), get_origin(hint)
    if origin is tuple:
        return (filled(inner[0], text),) * 2
    if origin is dict:
        return {text: filled(inner[1], text)}
    if origin is Annotated:
        return filled(inner[0], text)
    if inner:  # a union: the part that can hold most
        return filled(max(inner, key=lambda part: (is_dataclass(part), part is str)), text)
    return text if hint is str else hint(3)


def course(library: Library, moments: int, first: Status = STATUS) -> None:
    """Let a run be heard so often, with steps and returns that grow."""
    for moment in range(moments):
        library.hear(
            replace(
                first,
                seconds=float(moment),
                steps=500 + 100 * moment,
                return_mean=20.5 + moment,
                metrics={"loss": 1.0 / (moment + 1)},
            ),
            "127.0.0.1:5555",
        )


def raw(port: int, text: bytes) -> bytes:
    """Send bytes as they are; return the beginning of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        return connection.recv(4096)
