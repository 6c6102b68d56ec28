"""`learner dashboard`: name the places, watch them, and serve what is known until a signal."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farflung.common.net import sockets
from farflung.common.net.address import Address, parse_address
from farflung.common.net.keys import client_keys_for
from farflung.common.process.config import require
from farflung.common.process.errors import Exit, UsageError
from farflung.common.process.lifecycle import Stop
from farflung.learner.dashboard.access import Access, draw_token, read_token
from farflung.learner.dashboard.app import Application
from farflung.learner.dashboard.feed import SILENT_S, Feed
from farflung.learner.dashboard.folders import Folders
from farflung.learner.dashboard.library import LIVE, Library
from farflung.learner.dashboard.server import listen, serve
from farflung.learner.dashboard.steering import Steering

RUNS = Path("runs")
ADDRESSES = LIVE

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """The wishes of the command line."""

    places: Sequence[str] = ()
    bind: str = "127.0.0.1"
    port: int = 8555
    host_names: Sequence[str] = ()
    token_file: Path | None = None
    keys: str = ""
    feed_port: int | None = None
    read_only: bool = False


def split(places: Sequence[str], feed_port: int | None) -> tuple[list[Address], list[Path]]:
    """Return the addresses and the folders among the places; without any the usual ones."""
    if not places:
        return [parse_address("127.0.0.1", feed_port)], [RUNS]
    addresses, folders = [], []
    for place in places:
        if Path(place).is_dir() or "/" in place or Path(place) == RUNS:
            folders.append(Path(place))
        else:
            addresses.append(parse_address(place, feed_port))
    require(
        len(addresses) <= ADDRESSES, f"at most {ADDRESSES} addresses: a broker has one for many"
    )
    if missing := [folder for folder in folders if folder != RUNS and not folder.is_dir()]:
        raise UsageError(f"there is no folder {missing[0]}: name an address, or a folder of runs")
    return list(dict.fromkeys(addresses)), list(dict.fromkeys(folders))


class Places:
    """The feeds and folders that were named, at work from `start` to `close`."""

    def __init__(
        self,
        context: sockets.Context,
        addresses: Mapping[Address, Any],
        folders: Sequence[Path],
        library: Library,
        failed: Callable[[str], None],
    ) -> None:
        self._feeds = [
            Feed(context, address, keys, library, failed) for address, keys in addresses.items()
        ]
        self._folders = Folders(folders, library, failed)
        self._shown = [str(folder) for folder in folders]

    @property
    def places(self) -> list[dict[str, Any]]:
        """The places that were named, and the state of each."""
        now = time.monotonic()
        found: list[dict[str, Any]] = []
        for feed in self._feeds:
            silent_s = None if feed.heard is None else round(now - feed.heard, 1)
            ready = silent_s is not None and silent_s < SILENT_S
            problem = "" if ready else feed.problem
            found.append(
                {
                    "place": feed.address,
                    "kind": "feed",
                    "ready": ready,
                    "silent_s": silent_s,
                    "problem": problem,
                }
            )
        if self._shown:
            problem = self._folders.problem
            found.append(
                {
                    "place": ", ".join(self._shown),
                    "kind": "folder",
                    "ready": not problem,
                    "silent_s": None,
                    "problem": problem,
                }
            )
        return found

    def start(self) -> None:
        """Look at the folders, and subscribe to the feeds."""
        self._folders.start()
        for feed in self._feeds:
            feed.start()

    def close(self) -> None:
        """End all threads."""
        for feed in self._feeds:
            feed.close()
        self._folders.close()


def run(options: Options, stop: Stop) -> int:
    """Serve until a signal; return the exit code."""
    addresses, folders = split(options.places, options.feed_port)
    keys = {address: client_keys_for(address, options.keys) for address in addresses}
    with ExitStack() as resources:
        listening = resources.enter_context(listen(options.bind, options.port))
        port = listening.getsockname()[1]
        here = Address(options.bind, port, 0)
        token = _token(options, here)
        library = Library()
        context = resources.enter_context(sockets.context())
        places = Places(
            *(context, keys, folders, library), lambda why: stop.set(why, Exit.SOFTWARE)
        )
        resources.callback(places.close)
        places.start()
        _say_where(here, token, options.token_file is None)
        access = Access([*options.host_names, options.bind], token)
        steering = Steering(keys, bool(token), options.read_only)
        app = Application(library, places, access, steering)
        serve(app.starlette(), listening, stop, app.closing)
    return stop.exit_code


def _token(options: Options, here: Address) -> str:
    """Return the token that is needed; empty on loopback unless a file names one."""
    if options.token_file is not None:
        return read_token(options.token_file)
    return "" if here.is_loopback else draw_token()


def _say_where(here: Address, token: str, drawn: bool) -> None:
    """Name the page. A drawn token stands behind `#`, which no browser sends to a server."""
    where = here.seen_from_elsewhere
    if not token:
        log.info("dashboard: http://%s/", where)
    elif drawn:
        log.info("dashboard: http://%s/login#%s", where, token)
        log.info("the token is new with each start; --token-file FILE keeps one")
    else:
        log.info("dashboard: http://%s/login, with the token of --token-file", where)
    if not here.is_loopback:
        log.info("it is plain HTTP: the network can read along; behind a TLS proxy it cannot")
