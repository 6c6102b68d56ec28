"""Perfetto's page gets a trace from this machine, once."""

import io
import socket
import threading
import urllib.error
import urllib.request

import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.learner.observe.perfetto import PAGE, show


def shown(file, *paths):
    """Return what a browser gets that fetches these paths in turn, and if the file was fetched."""
    got, threads = [], []

    def browse(url):
        where = url.partition("url=")[2]
        urls = [where.replace("/trace.json", path) for path in paths]
        thread = threading.Thread(target=lambda: got.extend(map(fetched, urls)))
        thread.start()
        threads.append(thread)

    served = show(file, io.StringIO(), browse, port=0, patience_s=30)
    threads[0].join(30)
    return got, served


def fetched(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.headers["Access-Control-Allow-Origin"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, None, b""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"traceEvents":[]}')
    return path


def test_page_fetches_the_file(file):
    """Another site may not read it."""
    assert shown(file, "/trace.json") == ([(200, PAGE, b'{"traceEvents":[]}')], True)


def test_no_other_file_is_handed_out(file):
    """Not even one in the folder of the trace; the page may still fetch its own."""
    got, served = shown(file, "/../trace.json", "/", "/trace.json")
    assert [code for code, _, _ in got] == [404, 404, 200]
    assert served


def test_file_that_no_page_fetches_is_named(file):
    """The browser may be on another machine."""
    said = io.StringIO()
    assert not show(file, said, lambda url: None, port=0, patience_s=0.05)
    assert f"no page has fetched {file}" in said.getvalue()


def test_taken_port_is_named(file):
    """Perfetto's page reads from one port only."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigurationError, match="in use"),
    ):
        show(file, io.StringIO(), lambda url: None, port=taken.getsockname()[1])
