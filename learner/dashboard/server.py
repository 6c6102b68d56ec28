"""The server's end of HTTP: one listening port, bounded, until a request to stop."""

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop

CONNECTIONS = 256  # further requests are answered with 503
HEAD_BYTES = 16 << 10  # of a request that is not complete
GOODBYE_S = 2  # for answers that are on their way


def listen(bind: str, port: int) -> socket.socket:
    """Return the listening socket; port 0 means any."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after a restart
    try:
        listening.bind((bind, port))
        listening.listen(64)
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        raise ConfigurationError(
            f"cannot listen on {bind}:{port}: {error.strerror}"
            + (". Choose another --port, or 0 for any that is free" if taken else "")
        ) from error
    return listening


def serve(app: ASGIApp, listening: socket.socket, stop: Stop, closing: asyncio.Event) -> None:
    """Answer requests until `stop` is set; `closing` tells streams to end."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_graceful_shutdown=GOODBYE_S,
    )
    asyncio.run(_until(stop, closing, _Server(config), listening))


async def _until(
    stop: Stop, closing: asyncio.Event, server: uvicorn.Server, listening: socket.socket
) -> None:
    def end() -> None:
        loop.remove_reader(stop)
        closing.set()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    loop.add_reader(stop, end)
    await server.serve(sockets=[listening])


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `Stop`, which has them already."""
        yield
