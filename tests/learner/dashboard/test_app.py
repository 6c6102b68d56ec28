"""The answers of the server: documents, streams, refusals, and texts that stay texts."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.dashboards import HOSTILE, STATUS, Served, Sources, course, crowd, raw, served
from support.runs import a_run, point

from farflung.learner.dashboard import app
from farflung.learner.dashboard.folders import Folders
from farflung.learner.dashboard.library import Library, key_of
from farflung.learner.dashboard.live import RETURN
from farflung.learner.observe.status import ProblemStatus, from_document, to_document

KEY = key_of(STATUS.run, STATUS.policy)


def test_documents_are_those_of_the_run() -> None:
    """The whole status, curves with all names or some, evaluations."""
    library = Library(lambda: 100.0, lambda: 100.0)
    course(library, 3)
    with served(library) as dashboard:
        [run] = dashboard.ask("/api/runs").document["runs"]
        assert (run["id"], run["heard"], run["state"], run["steps"]) == (KEY, True, "running", 700)
        detail = dashboard.ask(f"/api/runs/{KEY}").document
        assert detail["status"]["run"] == STATUS.run
        assert detail["status"]["actors"][0]["name"] == "box-1"
        curves = dashboard.ask(f"/api/runs/{KEY}/curves?names={RETURN},none").document
        assert curves["curves"] == {
            RETURN: {word: [20.5, 21.5, 22.5] for word in ("mean", "low", "high")}
        }
        assert {"train/loss", "split/sample", "pacing/replay_ratio_wanted"} <= set(curves["names"])
        later = dashboard.ask(f"/api/runs/{KEY}/curves?after=2").document
        assert later["curves"]["train/loss"]["mean"] == [pytest.approx(1 / 3)]
        [evaluation] = dashboard.ask(f"/api/runs/{KEY}/evaluations").document["evaluations"]
        assert (evaluation["mean"], evaluation["best"]) == (400.0, 450.0)
        assert dashboard.ask(f"/api/runs/{KEY}/settings").document == {"settings": []}
        assert dashboard.ask(f"/api/runs/{KEY}/policies").document["kept"] is None


def test_runs_of_a_folder_are_laid_over_one_another(tmp_path: Path) -> None:
    """With their mean and range."""
    library = Library()
    for name, gain in (("one", 1.0), ("two", 3.0)):
        a_run(tmp_path, name, *(point(n, **{RETURN: gain * n}) for n in range(3)))
    Folders([tmp_path], library, pytest.fail).look()
    keys = ",".join(run.key for run in library.all())
    with served(library) as dashboard:
        found = dashboard.ask(f"/api/overlay?runs={keys}").document
    assert (found["at"][0], found["at"][-1]) == (0.0, 2.0)
    assert (found["mean"][-1], found["low"][-1], found["high"][-1]) == (4.0, 2.0, 6.0)
    assert len(found["runs"]) == 2


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/runs/none", 404),
        ("/api/runs/none/curves", 404),
        (f"/api/runs/{KEY}/curves?after=-1", 400),
        (f"/api/runs/{KEY}/curves?after=9999999999", 400),
        (f"/api/overlay?runs={KEY}&by=age", 400),
        ("/api/overlay?runs=none", 404),
        ("/api/overlay?runs=" + ",".join("x" * 40), 400),
        ("/static/../app.py", 404),
        ("/static/%2e%2e/app.py", 404),
        ("/static/..%2fapp.py", 404),
        ("/static/", 404),
        ("/nothing", 404),
    ],
)
def test_what_is_not_there_is_refused(path: str, code: int, dashboard: Served) -> None:
    """With a document that says why, and without a file of another folder."""
    answer = dashboard.ask(path)
    assert answer.code == code
    assert answer.document["error"]


@pytest.fixture(scope="module")
def library() -> Library:
    """A run that is heard once."""
    made = Library()
    made.hear(STATUS, "127.0.0.1:5555")
    return made


@pytest.fixture(scope="module")
def dashboard(library: Library) -> Iterator[Served]:
    """A dashboard of that run."""
    with served(library) as found:
        yield found


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(method: str, dashboard: Served) -> None:
    """All but a login is read."""
    for path in ("/", "/api/runs", f"/api/runs/{KEY}", "/metrics", "/static/main.js"):
        assert dashboard.ask(path, method, "x").code == 405


def hostile_status() -> Any:
    """A status with markup, escapes and long texts wherever a text can be, as it is heard."""
    text = HOSTILE + "x" * 3000
    status = replace(
        STATUS,
        **dict.fromkeys(
            ("run", "policy", "environment", "algorithm", "device", "folder", "join", "until"), text
        ),
        metrics={text: 1.0},
        refused={text: 1},
        problems=(text,),
        problem_texts=(ProblemStatus(text, (text, text)),),
        actors=tuple(replace(each, name=f"{n}{text}") for n, each in enumerate(crowd(3))),
    )
    return from_document(to_document(status))


def test_hostile_texts_stay_texts_in_json() -> None:
    """The type is JSON, nothing may sniff another, and no text has an escape or a line end."""
    library = Library()
    status = hostile_status()
    library.hear(status, "127.0.0.1:5555")
    key = key_of(status.run, status.policy)
    with served(library) as dashboard:
        for path in ("/api/runs", f"/api/runs/{key}", f"/api/runs/{key}/curves"):
            answer = dashboard.ask(path)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert b"\x1b" not in answer.body
            assert "\u202e".encode() not in answer.body
        detail = dashboard.ask(f"/api/runs/{key}").document
        assert len(detail["status"]["environment"]) == 2000
        with dashboard.stream(key) as events:
            assert next(events)[0] == "pulse"
            assert next(events)[1]["status"]["problems"] == list(status.problems)


@pytest.mark.slow
def test_stream_tells_what_is_new() -> None:
    """The pulse every second, and the run where another status has come."""
    library = Library()
    library.hear(STATUS, "127.0.0.1:5555")
    places = Sources([{"place": "here", "ready": True}])
    with served(library, sources=places) as dashboard, dashboard.stream(KEY) as events:
        name, pulse = next(events)
        assert (name, pulse["places"][0]["place"]) == ("pulse", "here")
        assert next(events)[1]["status"]["steps"] == 500
        library.hear(replace(STATUS, steps=800), "127.0.0.1:5555")
        news = next(news for name, news in events if name == "run")
        assert news["status"]["steps"] == 800


def test_streams_are_bounded(monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    """A page more is told so, and gets a place when another one closes."""
    monkeypatch.setattr(app, "STREAMS", 1)
    with served(library) as dashboard, dashboard.stream() as events:
        next(events)
        assert dashboard.ask("/api/stream").code == 503


def test_open_stream_does_not_hold_up_the_end(library: Library) -> None:
    """A page that stays open ends with the server, not the other way around."""
    with ExitStack() as later:
        with served(library) as dashboard:
            events = later.enter_context(dashboard.stream())
            assert next(events)[0] == "pulse"
        assert {name for name, _ in events} <= {"pulse", "run"}


@pytest.mark.parametrize(("ready", "code"), [(True, 200), (False, 503)])
def test_ready_while_a_place_answers(ready: bool, code: int) -> None:
    """Alive it is in any case."""
    with served(sources=Sources([{"ready": False}, {"ready": ready}])) as dashboard:
        assert dashboard.ask("/readyz").code == code
        assert dashboard.ask("/livez").code == 200


@pytest.mark.parametrize(
    "text",
    [
        b"\x00\xff" * 100 + b"\r\n\r\n",
        b"GET /" + b"x" * 70_000,
        b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 20_000,
        b"GET http://evil.example/api/runs HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_odd_requests_are_refused_and_harm_nothing(text: bytes, dashboard: Served) -> None:
    """The next request is answered."""
    assert raw(dashboard.port, text).split(b" ")[1][:1] == b"4"
    assert dashboard.ask("/livez").code == 200
