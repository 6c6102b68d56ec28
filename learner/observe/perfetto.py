"""Perfetto: its page reads a trace from this machine, once, and draws it in the browser."""

import http.server
import socketserver
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from farflung.common.process.errors import ConfigurationError

PAGE = "https://ui.perfetto.dev"
PORT = 9001  # the one that Perfetto's content security policy admits
PATIENCE_S = 60.0  # for the browser to fetch the file


class _Server(socketserver.TCPServer):
    """Hands out one file."""

    allow_reuse_address = True
    content = b""
    served = False


class _Answer(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE_S

    def do_GET(self) -> None:
        """Hand out the file, to Perfetto's page and to no other."""
        if self.path != "/trace.json":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Access-Control-Allow-Origin", PAGE)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)
        self.server.served = True

    def log_message(self, *words: object) -> None:
        """Write no line for each request."""


def show(
    file: Path,
    stream: TextIO,
    browse: Callable[[str], object] = webbrowser.open,
    port: int = PORT,
    patience_s: float = PATIENCE_S,
) -> bool:
    """Open a trace in Perfetto; return whether its page has fetched the file in time."""
    try:
        server = _Server(("127.0.0.1", port), _Answer)
    except OSError as error:
        raise ConfigurationError(
            f"port {port} of this machine is in use ({error}), and Perfetto reads from no other: "
            f"open {file} at {PAGE} yourself"
        ) from error
    with server:
        server.content = file.read_bytes()
        url = f"{PAGE}/#!/?url=http://127.0.0.1:{server.server_address[1]}/trace.json"
        stream.write(f"opening {url}\n")
        browse(url)
        end = time.monotonic() + patience_s
        while not server.served and (left := end - time.monotonic()) > 0:
            server.timeout = left
            server.handle_request()
    if not server.served:
        stream.write(f"no page has fetched {file}: open it at {PAGE} yourself\n")
    return server.served
