"""The dashboard's door: the name it is called by, its token, and what a browser may do with it.

A page of another site can have a browser ask this server, under a name of its own that it points
here. So the server answers only to addresses, to names of this machine, and to those that a person
adds. Off loopback each request needs the token, as a cookie or as `Authorization: Bearer TOKEN`.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from farflung.common.net.bucket import Bucket
from farflung.common.process.errors import ConfigurationError

LEAST_LETTERS, MOST_LETTERS = 20, 200  # of a token
TOKEN = re.compile(rf"[\w.-]{{{LEAST_LETTERS},{MOST_LETTERS}}}", re.ASCII)
FORM_BYTES = 4096  # of a login
TRIES, TRIES_PER_S = 10, 0.5  # of logins, of all clients together
COOKIE_S = 30 * 86_400
WITHOUT_TOKEN = frozenset(
    {
        *("/livez", "/readyz", "/login"),
        *(f"/static/{name}" for name in ("login.js", "style.css", "icon.svg")),
    }
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "media-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner can read."""
    try:
        mode = path.stat().st_mode
        token = path.read_bytes()[: 4 * MOST_LETTERS].decode("ascii", errors="replace").strip()
    except OSError as error:
        raise ConfigurationError(f"the token in {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(f"others can read the token in {path}: chmod 600 {path}")
    if not TOKEN.fullmatch(token):
        raise ConfigurationError(
            f"{path} holds no token: one of {LEAST_LETTERS} to {MOST_LETTERS} letters, digits and "
            f"- _ . is needed: python -c 'import secrets; print(secrets.token_urlsafe())' > {path}"
        )
    return token


def draw_token() -> str:
    """Return a new token."""
    return secrets.token_urlsafe(24)


class Access:
    """The names that this server answers to, and its token; empty: none is needed."""

    def __init__(self, names: Iterable[str] = (), token: str = "") -> None:
        self.token = token
        own = {"localhost", socket.gethostname(), socket.getfqdn()}
        self._names = {name.lower().rstrip(".") for name in (*names, *own)}
        self._cookie = hmac.digest(token.encode(), b"farflung dashboard", "sha256").hex()
        self._cookie_name = f"farflung-{self._cookie[:8]}"  # cookies know no ports
        self._tries = Bucket(TRIES, time.monotonic())

    def answers_to(self, host: str) -> bool:
        """Return whether a Host header names this server. An address belongs to no other site."""
        name = _without_port(host).lower().rstrip(".")
        if name in self._names:
            return True
        try:
            if name.startswith("["):
                ipaddress.IPv6Address(name[1:].removesuffix("]"))
            else:
                ipaddress.IPv4Address(name)
        except ValueError:
            return False
        return True

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request carries the token, or the cookie of a login."""
        if not self.token:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie_name)
        except CookieError:
            return False
        return cookie is not None and _equal(cookie.value, self._cookie)

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, in a time that does not depend on it."""
        return bool(self.token) and _equal(given, self.token)

    def login(self, body: bytes) -> Response:
        """Answer a login: the cookie and the way to the page, or a refusal."""
        if not self._tries.take(time.monotonic(), TRIES_PER_S):
            return PlainTextResponse("too many logins: wait some seconds\n", 429)
        try:
            [given] = parse_qs(body.decode("ascii"), max_num_fields=1)["token"]
        except (ValueError, KeyError):
            given = ""
        if self.token and not self.is_token(given):
            return RedirectResponse("/login?refused", 303)
        answer = RedirectResponse("/", 303)
        if self.token:
            answer.set_cookie(
                *(self._cookie_name, self._cookie, COOKIE_S), httponly=True, samesite="strict"
            )
        return answer


class Guard:
    """Middleware that checks name and token, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.getlist("host")
        if len(host) != 1 or not self._access.answers_to(host[0]):
            return PlainTextResponse(
                "this server does not answer to that name: use its address, or start it with "
                "--host-name NAME\n",
                421,
            )
        if scope["path"] in WITHOUT_TOKEN or self._access.admits(headers):
            return None
        if scope["path"] == "/" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        words = {"WWW-Authenticate": "Bearer"}
        return PlainTextResponse("a token is needed: log in at /login\n", 401, words)


def _without_port(host: str) -> str:
    if host.startswith("["):
        address, bracket, _ = host.partition("]")
        return address if bracket else ""
    return host.partition(":")[0]


def _equal(given: str, expected: str) -> bool:
    """Compare in constant time; the digests hide even the length."""
    digests = (
        hashlib.sha256(each.encode("utf-8", "replace")).digest() for each in (given, expected)
    )
    return hmac.compare_digest(*digests)
