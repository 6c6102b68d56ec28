"""The dashboard's door: names, tokens, and the headers of every answer."""

import re
from pathlib import Path

import pytest
from support.dashboards import STATUS, raw, served

from farflung.common.process.errors import ConfigurationError
from farflung.learner.dashboard.access import HEADERS, POLICY, TRIES, Access, draw_token, read_token
from farflung.learner.dashboard.library import Library

TOKEN = "0123456789-abcdefghij"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8555", "localhost", "LOCALHOST:1", "[::1]:8555", "10.0.0.7", "box.example:80"],
)
def test_addresses_and_own_names_are_answered(host: str) -> None:
    """An address cannot be pointed elsewhere by another site, and names are those given."""
    assert Access(["box.example"]).answers_to(host)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8555", "", "[::1", "a b"],
)
def test_foreign_names_are_refused(host: str) -> None:
    """A page of another site cannot read this one under a name of its own."""
    assert Access(["box.example"]).answers_to(host) is False


def test_foreign_host_gets_nothing() -> None:
    """No path is an exception, nor is a request with two names or none."""
    with served() as dashboard:
        for path in ("/", "/livez", "/api/runs", "/static/main.js", "/metrics"):
            answer = dashboard.ask(path, host="evil.example")
            assert (answer.code, b"--host-name" in answer.body) == (421, True)
        two = b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
        assert raw(dashboard.port, two).split()[1] in (b"400", b"421")
        assert raw(dashboard.port, b"GET / HTTP/1.0\r\n\r\n").split()[1] in (b"400", b"421")


def test_every_answer_has_the_headers() -> None:
    """Pages, documents and refusals; scripts are ours alone, without exception."""
    with served() as dashboard:
        for path in (
            "/",
            "/login",
            "/static/main.js",
            "/api/runs",
            "/api/runs/x",
            "/metrics",
            "/no",
        ):
            answer = dashboard.ask(path)
            assert {name: answer.headers[name.lower()] for name in HEADERS} == HEADERS, path
            assert answer.headers["cache-control"] == "no-store"
            assert "server" not in answer.headers
            assert "access-control-allow-origin" not in answer.headers
    assert not re.search(r"unsafe|\*|https?:|data:|blob:", POLICY)
    assert POLICY.startswith("default-src 'none'; script-src 'self';")


def test_without_the_token_there_is_only_the_door() -> None:
    """Probes answer, the page of a browser leads to the login, all else is refused."""
    library = Library()
    library.hear(STATUS, "127.0.0.1:5555")
    with served(library, Access(token=TOKEN)) as dashboard:
        for path in ("/api/runs", "/api/stream", "/metrics", "/", "/static/main.js", "/no"):
            answer = dashboard.ask(path)
            assert (answer.code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
            assert STATUS.run.encode() not in answer.body
        assert dashboard.ask("/livez").code == 200
        assert dashboard.ask("/login").code == 200
        led = dashboard.ask("/", accept="text/html,*/*")
        assert (led.code, led.headers["location"]) == (303, "/login")


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"],
)
def test_another_token_is_refused(given: str) -> None:
    """Also one that begins like it."""
    access = Access(token=TOKEN)
    assert not access.admits({"authorization": given})
    assert access.admits({"authorization": f"Bearer {TOKEN}"})


def test_login_sets_a_cookie_that_scripts_cannot_read() -> None:
    """The cookie is not the token, and opens what the token opens."""
    with served(access=Access(token=TOKEN)) as dashboard:
        refused = dashboard.ask("/login", "POST", "token=wrong")
        assert (refused.code, refused.headers["location"]) == (303, "/login?refused")
        assert "set-cookie" not in refused.headers
        answer = dashboard.ask("/login", "POST", f"token={TOKEN}")
        assert (answer.code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        pair = cookie.partition(";")[0]
        assert dashboard.ask("/api/runs", cookie=pair).code == 200
        assert dashboard.ask("/api/runs", cookie=pair[:-1]).code == 401
        assert dashboard.ask("/api/runs", cookie=f"{pair}\x7f;;=").code in (200, 400, 401)


def test_guesses_are_slow_and_small() -> None:
    """A few logins at once, then one every two seconds; a large form is not read."""
    with served(access=Access(token=TOKEN)) as dashboard:
        codes = [dashboard.ask("/login", "POST", "token=x").code for _ in range(TRIES + 5)]
        assert codes[0] == 303
        assert 429 in codes
        assert dashboard.ask("/login", "POST", "token=" + "x" * 5000).code == 413


def test_token_of_another_dashboard_does_not_open_this_one() -> None:
    """A cookie knows no ports, so each token has a cookie of its own name."""
    one, other = Access(token=TOKEN), Access(token=draw_token())
    pair = one.login(f"token={TOKEN}".encode()).headers["set-cookie"].partition(";")[0]
    assert one.admits({"cookie": pair})
    assert not other.admits({"cookie": pair})


def test_file_of_a_token_is_its_owners(tmp_path: Path) -> None:
    """One that others can read, a short one and a missing one are refused with the way out."""
    path = tmp_path / "token"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_token(path)
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == TOKEN
    for odd in ("short", "with spaces in the middle of it", "ä" * 30, ""):
        path.write_text(odd)
        with pytest.raises(ConfigurationError, match="holds no token"):
            read_token(path)
    assert len(draw_token()) >= 32
