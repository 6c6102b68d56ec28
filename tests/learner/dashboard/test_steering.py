"""Commands from the page: where they are allowed, and the requests that are refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.dashboards import STATUS, Answer, Served, served

from farflung.common.net import keys as key_files
from farflung.common.net.address import Address
from farflung.common.net.keys import client_keys
from farflung.learner.dashboard.library import Known, Library, key_of
from farflung.learner.dashboard.steering import READ_ONLY, UNGUARDED, Steering

HERE, THERE = Address("127.0.0.1", 5555, 5556), Address("192.0.2.7", 5555, 5556)
KEY = key_of(STATUS.run, STATUS.policy)


def heard(address: Address) -> Known:
    """Return a run that is heard at an address."""
    library = Library()
    library.hear(STATUS, str(address))
    [found] = library.all()
    return found


@pytest.fixture
def dashboard() -> Iterator[Served]:
    """A dashboard that hears a run of this machine."""
    library = Library()
    library.hear(STATUS, str(HERE))
    with served(library, steering=Steering({HERE: None})) as found:
        yield found


def test_learner_of_this_machine_is_steered_without_keys() -> None:
    """One of another machine needs an operator's key, and a page with a token."""
    assert Steering({HERE: None}).offer(heard(HERE))["allowed"] is True
    assert "learning-rate" in Steering({HERE: None}).offer(heard(HERE))["settings"]
    assert "name a key of role operator" in Steering({THERE: None}).offer(heard(THERE))["why"]
    assert Steering({HERE: None}, read_only=True).offer(heard(HERE))["why"] == READ_ONLY
    assert "heard here" in Steering({}).offer(heard(HERE))["why"]


def test_key_steers_by_its_role_and_behind_a_token(tmp_path: Path) -> None:
    """Else each user of this machine would have the rights of the key."""
    folder = tmp_path / "keys"
    key_files.make(folder, "lab", "operator")
    operator, actor = client_keys(folder / "lab.key"), client_keys(folder)
    for address in (HERE, THERE):
        assert Steering({address: operator}).offer(heard(address))["why"] == UNGUARDED
        assert Steering({address: operator}, guarded=True).offer(heard(address))["allowed"] is True
        assert (
            "actor's key" in Steering({address: actor}, guarded=True).offer(heard(address))["why"]
        )


def asked(dashboard: Served, body: str = '{"name": "pause"}', **changed: str) -> Answer:
    """Send a command as the page does, but for some headers; an empty one is left out."""
    token = dashboard.ask("/api/token").document["token"]
    headers = {
        "origin": dashboard.address,
        "content_type": "application/json",
        "x_farflung_token": token,
        "sec_fetch_site": "same-origin",
    } | changed
    sent = {name: value for name, value in headers.items() if value}
    return dashboard.ask(f"/api/runs/{KEY}/commands", "POST", body, **sent)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"x_farflung_token": ""}, 403),
        ({"x_farflung_token": "0" * 32}, 403),
        ({"x_farflung_token": "é"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"host": "evil.example"}, 421),
    ],
)
def test_request_of_another_page_is_refused(
    dashboard: Served, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], code: int
) -> None:
    """By its origin, its lack of the token, its type, or the name that it calls this server."""
    done: list[str] = []
    monkeypatch.setattr(Steering, "ask", lambda *words: done.append("asked") or "done")
    assert asked(dashboard, **changed).code == code
    assert done == []
    assert asked(dashboard).document == {"said": "done"}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        '{"name": "rm"}',
        '{"name": "pause", "more": 1}',
        '{"name": "set", "words": [1]}',
        '{"name": "set", "words": ["weight"]}',
        '{"name": "pause", "words": "' + "x" * 5000 + '"}',
    ],
)
def test_command_that_is_none_is_refused(dashboard: Served, body: str) -> None:
    """In a sentence."""
    answer = asked(dashboard, body)
    assert answer.code in (400, 413)
    assert answer.document["error"]


def test_other_methods_and_runs_are_refused(dashboard: Served) -> None:
    """A link on another page is a GET, and changes nothing."""
    assert dashboard.ask(f"/api/runs/{KEY}/commands").code == 405
    assert (
        dashboard.ask("/api/runs/none/commands", "POST", json.dumps({"name": "stop"})).code == 404
    )


def test_dashboard_that_only_reads_passes_nothing_on() -> None:
    """Also for its own page."""
    library = Library()
    library.hear(STATUS, str(HERE))
    with served(library, steering=Steering({HERE: None}, read_only=True)) as dashboard:
        answer = asked(dashboard)
        assert (answer.code, answer.document["error"]) == (403, READ_ONLY)
        detail = dashboard.ask(f"/api/runs/{KEY}").document["steering"]
        assert detail == {"allowed": False, "why": READ_ONLY, "settings": []}
