"""The commands of people on the page: the right to them, and the way to the learner.

A page of another site can have a browser send a request here. It cannot read an answer. So a
command names its own page as its origin, and brings a token that only this page could read.
"""

import hmac
import logging
import secrets
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.exceptions import HTTPException

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys, full_name
from farflung.common.process.errors import FarflungError, NotAllowed, Refused
from farflung.common.process.text import printable
from farflung.learner.dashboard.library import Known
from farflung.learner.steering.naming import own_name
from farflung.learner.steering.orders import FIELDS, Name, arguments
from farflung.learner.steering.sending import ask, require_right

WAIT_S = 20.0  # for a learner that writes a checkpoint
AT_ONCE = 4  # commands of all pages
TOKEN_HEADER = "x-farflung-token"  # noqa: S105 - its name
READ_ONLY = "this dashboard was started with --read-only"
UNGUARDED = (
    "an operator's key steers only behind a page with a token: start the dashboard with "
    "--token-file"
)

log = logging.getLogger(__name__)


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command as the page sends it; the words are KEY=VALUE of `set`."""

    name: Name
    words: tuple[str, ...] = ()


class Steering:
    """The commands of a dashboard. Keys are by the addresses of feeds."""

    def __init__(
        self,
        keys: Mapping[Address, ClientKeys | None] | None = None,
        guarded: bool = False,  # each request needs the dashboard's token
        read_only: bool = False,
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._keys = {str(address): (address, key) for address, key in (keys or {}).items()}
        self._guarded, self._read_only = guarded, read_only
        self._free = threading.BoundedSemaphore(AT_ONCE)

    def offer(self, run: Known) -> dict[str, Any]:
        """Return whether a run can be steered from here, and why not."""
        why = self._why_not(run)
        return {"allowed": not why, "why": why, "settings": [] if why else list(FIELDS)}

    def require_own_page(self, headers: Mapping[str, str]) -> None:
        """Refuse a request that the page of this server has not sent."""
        origin = urlsplit(headers.get("origin", ""))
        own = origin.scheme in ("http", "https") and origin.netloc == headers.get("host")
        site = headers.get("sec-fetch-site", "same-origin")
        given = headers.get(TOKEN_HEADER, "").encode("utf-8", "replace")
        if not own or site != "same-origin" or not hmac.compare_digest(given, self.token.encode()):
            raise HTTPException(403, "commands are taken from the page of this server only")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise HTTPException(415, "a command is JSON")

    def ask(self, run: Known, order: Order, by: str) -> str:
        """Have the learner of a run do what was asked; return its answer as a sentence."""
        if why := self._why_not(run):
            raise HTTPException(403, why)
        if not self._free.acquire(blocking=False):
            raise HTTPException(503, f"{AT_ONCE} commands are on their way: ask again in a moment")
        try:
            said = self._asked(run, order)
        except Refused as refusal:
            raise HTTPException(400, refusal.detail or refusal.reason) from refusal
        except FarflungError as error:
            log.warning("%s: asked for by %s: %s", _shown(run, order), by, error)
            raise HTTPException(409, str(error)) from error
        finally:
            self._free.release()
        log.info("%s: asked for by %s: %s", _shown(run, order), by, said)
        return said

    def _asked(self, run: Known, order: Order) -> str:
        assert run.live is not None
        address, keys = self._keys[run.live.address]
        words = arguments(order.words)
        name, status = full_name(keys, own_name("dashboard")), run.live.status
        with sockets.context() as context:
            what = (order.name.value, words)
            return ask(context, address, keys, name, what, status.policy, WAIT_S, status.run)

    def _why_not(self, run: Known) -> str:
        """Return a sentence if nothing can be asked of a run from here; else nothing."""
        if self._read_only:
            return READ_ONLY
        if run.live is None or run.live.address not in self._keys:
            return "only a run that is heard here can be steered"
        address, keys = self._keys[run.live.address]
        try:
            require_right(address, keys)
        except NotAllowed as refusal:
            return str(refusal)
        return UNGUARDED if keys is not None and not self._guarded else ""


def _shown(run: Known, order: Order) -> str:
    status = None if run.live is None else run.live.status
    what = " ".join((order.name, *order.words))
    return printable(f"{what} of run {status.run if status else run.key}", 200)
