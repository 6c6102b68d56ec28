"""The web application: pages, the JSON API, the stream of events, and what probes ask for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from farflung.learner.dashboard import documents
from farflung.learner.dashboard.access import FORM_BYTES, Access, Guard
from farflung.learner.dashboard.exposition import CONTENT_TYPE, exposition
from farflung.learner.dashboard.films import film
from farflung.learner.dashboard.library import Known, Library
from farflung.learner.dashboard.live import RETURN
from farflung.learner.dashboard.overlay import overlay
from farflung.learner.dashboard.steering import Order, Steering

STATIC = Path(__file__).parent / "static"
PULSE_S = 1.0  # between two events of a stream
STREAMS = 64  # at once
OVERLAID = 32  # runs in one chart
CURVES = 100  # in one answer


class Sources(Protocol):
    """The feeds and folders behind the runs."""

    @property
    def places(self) -> Sequence[Mapping[str, Any]]:
        """The places that were named, and the state of each."""


class Application:
    """The answers to requests. All of them read, but for a login and the commands of `Steering`."""

    def __init__(
        self, library: Library, sources: Sources, access: Access, steering: Steering
    ) -> None:
        self.closing = asyncio.Event()  # streams end
        self._library, self._sources, self._access = library, sources, access
        self._steering = steering
        self._streams = 0

    def starlette(self) -> Starlette:
        """Return the ASGI application."""
        one = "/api/runs/{key}"
        routes = [
            Route("/", self._page),
            Route("/login", self._login_page),
            Route("/login", self._login, methods=["POST"]),
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
            Route("/api/places", self._places),
            Route("/api/runs", self._runs),
            Route(one, self._of_run(self._detail)),
            Route(f"{one}/settings", self._of_run(documents.settings)),
            Route(f"{one}/policies", self._of_run(documents.policies)),
            Route(f"{one}/evaluations", self._of_run(self._evaluations)),
            Route(f"{one}/videos/{{name:path}}", self._video),
            Route(f"{one}/commands", self._command, methods=["POST"]),
            Route("/api/token", self._token),
            Route(f"{one}/curves", self._curves),
            Route("/api/brokers", self._brokers),
            Route("/api/overlay", self._overlay),
            Route("/api/stream", self._stream),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        guard = Middleware(Guard, access=self._access)
        return Starlette(
            routes=routes, middleware=[guard], exception_handlers={HTTPException: _refused}
        )

    async def _page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _login_page(self, request: Request) -> Response:
        return FileResponse(STATIC / "login.html")

    async def _login(self, request: Request) -> Response:
        return self._access.login(await _body(request))

    async def _livez(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _readyz(self, request: Request) -> Response:
        """Answer 200 while at least one place has been read or heard lately."""
        if not any(place["ready"] for place in self._sources.places):
            return PlainTextResponse("nothing is heard or read: see /api/places\n", 503)
        return PlainTextResponse("ok\n")

    async def _metrics(self, request: Request) -> Response:
        return Response(exposition(self._library), headers={"Content-Type": CONTENT_TYPE})

    async def _places(self, request: Request) -> Response:
        return _json({"places": self._sources.places})

    async def _brokers(self, request: Request) -> Response:
        return _json({"brokers": self._library.brokers()})

    async def _runs(self, request: Request) -> Response:
        return _json(documents.listing(self._library))

    def _evaluations(self, run: Known) -> dict[str, Any]:
        return documents.evaluations(self._library, run)

    async def _video(self, request: Request) -> Response:
        """Answer with a video, or the range of it that a player asks for."""
        run, name = self._found(request.path_params["key"]), request.path_params["name"]
        found = None
        if run.kept is not None:
            found = await run_in_threadpool(film, Path(run.kept.summary.folder), name)
        if found is None:
            raise HTTPException(404, "there is no such video in the folder of this run")
        path, kind = found
        return FileResponse(path, media_type=kind)

    async def _token(self, request: Request) -> Response:
        """Answer with what a command has to bring: no page of another site can read it."""
        return _json({"token": self._steering.token})

    async def _command(self, request: Request) -> Response:
        """Pass a command on to the learner of a run; the answer is a sentence."""
        run = self._found(request.path_params["key"])
        self._steering.require_own_page(request.headers)
        asked = _order(await _body(request))
        by = "a browser" if request.client is None else f"a browser at {request.client.host}"
        return _json({"said": await run_in_threadpool(self._steering.ask, run, asked, by)})

    def _detail(self, run: Known) -> dict[str, Any]:
        found = documents.detail(run, self._library.clock())
        return found | {"steering": self._steering.offer(run)}

    def _of_run(self, document: Callable[[Known], Any]) -> Callable[[Request], Any]:
        """Return the answer with a document about a run; it may read files."""

        async def answer(request: Request) -> Response:
            return _json(await run_in_threadpool(document, self._found(request.path_params["key"])))

        return answer

    async def _curves(self, request: Request) -> Response:
        run, asked = self._found(request.path_params["key"]), request.query_params
        names = asked["names"].split(",")[:CURVES] if "names" in asked else None
        after = _number(asked.get("after", "0"))
        return _json(await run_in_threadpool(self._library.table, run, names, after))

    async def _overlay(self, request: Request) -> Response:
        asked = request.query_params
        by = asked.get("by", "steps")
        if by not in ("steps", "time"):
            raise HTTPException(400, "by is steps or time")
        keys = [key for key in asked.get("runs", "").split(",") if key]
        if len(keys) > OVERLAID:
            raise HTTPException(400, f"at most {OVERLAID} runs")
        runs = [self._found(key) for key in keys]
        name = asked.get("curve", RETURN)
        points = {
            run.key: await run_in_threadpool(self._library.points, run, name, by) for run in runs
        }
        return _json(overlay(points) | {"curve": name, "by": by})

    async def _stream(self, request: Request) -> Response:
        if self._streams >= STREAMS:
            raise HTTPException(503, f"{STREAMS} pages are open already")
        key = request.query_params.get("run", "")
        return StreamingResponse(self._events(key), media_type="text/event-stream")

    async def _events(self, key: str) -> AsyncIterator[bytes]:
        """Yield the pulse of all runs every second, and the status of one where it is new."""
        self._streams += 1
        try:
            shown: object = None
            while not self.closing.is_set():
                yield _event("pulse", self._pulse())
                run = self._library.find(key)
                now = self._library.clock()
                if run is not None and (news := _news(run, now)) != shown:
                    shown = news
                    yield _event("run", self._detail(run))
                await _pause(self.closing, PULSE_S)
        finally:
            self._streams -= 1

    def _pulse(self) -> dict[str, Any]:
        now = self._library.clock()
        live = [run for run in self._library.all() if run.live is not None]
        return {
            "revision": self._library.revision,
            "live": [documents.brief(run, now) for run in live],
            "places": self._sources.places,
            "brokers": self._library.brokers(),
        }

    def _found(self, key: str) -> Known:
        found = self._library.find(key)
        if found is None:
            raise HTTPException(404, "there is no such run here")
        return found


async def _body(request: Request) -> bytes:
    """Return the body of a request, which is short or refused."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > FORM_BYTES:
            raise HTTPException(413, "that is too long")
    return body


def _order(body: bytes) -> Order:
    try:
        return msgspec.json.decode(body, type=Order)
    except ValueError as error:
        raise HTTPException(400, f"this is no command: {error}") from error


async def _pause(over: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except TimeoutError:
        return


def _news(run: Known, now: float) -> object:
    """Return what changes when a run is worth showing again."""
    if run.live is None:
        return run.kept
    silent_s = 0.0 if run.is_heard(now) else round(run.live.silent_s(now))
    return run.live.serial, silent_s, run.kept is None


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise HTTPException(400, "after is a number of rows")
    return int(text)


def _json(document: Any) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")


def _event(name: str, document: Any) -> bytes:
    """Return an event; JSON has no line ends of its own."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(document))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _json({"error": error.detail})
    answer.status_code = error.status_code
    return answer
