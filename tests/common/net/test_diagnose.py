"""Why an address sends nothing: each cause by name, with its cure, over real sockets."""

import http.server
import logging
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from support.waiting import eventually, took_at_most

from farflung.common.net import diagnose as diagnosing
from farflung.common.net import keys, sockets
from farflung.common.net.address import Address
from farflung.common.net.diagnose import Diagnosis, Finding, diagnose
from farflung.common.net.handshake import Outcome
from farflung.common.net.listener import Listener
from farflung.common.process.errors import NotAllowed

ANYWHERE = Address("127.0.0.1", 0, 0)
PATIENCE_S = 60.0


@contextmanager
def server(keys_folder=None):
    """A server that listens, with keys or without."""
    with sockets.context() as context:
        front = Listener(
            context, ANYWHERE, 1, keys=keys.server_keys(keys_folder) if keys_folder else None
        )
        try:
            yield front.address
        finally:
            front.close()


@contextmanager
def listener():
    """A port that accepts and sends nothing, in front of one that does so too."""
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
    ):
        yield Address("127.0.0.1", first.getsockname()[1], second.getsockname()[1]), second


def test_diagnose_names_a_port_without_a_listener():
    """The sentence says where it looked; a learner may come yet."""
    with listener() as (address, _):
        pass
    found = diagnose(address, None)
    assert str(address) in found.text
    assert "nothing listens" in found.text
    assert (found.final, found.welcome) == (False, False)


def test_diagnose_names_a_host_that_does_not_resolve(monkeypatch):
    """It may be one day: names of containers come and go."""

    def unknown(*arguments, **options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    found = diagnose(Address("gpu-bxo", 5555, 5556), None)
    assert (found.text.partition(":")[0], found.final) == (
        "the name gpu-bxo does not resolve",
        False,
    )


def test_diagnose_names_a_listener_that_is_no_learner():
    """A web server has another greeting; a port that hangs up may be half a tunnel."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), http.server.BaseHTTPRequestHandler
    ) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        found = diagnose(Address("127.0.0.1", web.server_port, web.server_port), None)
        web.shutdown()
        thread.join()
    assert (
        "sends nothing: is the port right" in found.text
    )  # until the line that we began has an end
    with listener() as (address, second):
        hang_up = threading.Thread(target=lambda: second.accept()[0].close())
        address = Address(address.host, address.feed_port, address.feed_port)
        hang_up.start()
        assert "hangs up" in diagnose(address, None).text
        hang_up.join()
    with listener() as (address, _):
        assert "sends nothing" in diagnose(address, None).text  # it never sends anything


def test_diagnose_compares_the_keys(keys_folder, tmp_path):
    """Each difference between our keys and the server's is final, and named with its cure."""
    keys.make(tmp_path / "other")
    known, other = keys.client_keys(keys_folder), keys.client_keys(tmp_path / "other")
    unknown = keys.ClientKeys(other.path, other.client, other.public, other.secret, known.server)
    with server(keys_folder) as guarded, server() as plain:
        found = {
            "welcome": diagnose(guarded, known),
            "plain": diagnose(plain, None),
            "no key": diagnose(guarded, None),
            "not wanted": diagnose(plain, known),
            "not allowed": diagnose(guarded, unknown),
            "another server": diagnose(guarded, other),
        }
    assert {name for name, finding in found.items() if finding.welcome} == {"welcome", "plain"}
    assert {name for name, finding in found.items() if finding.final} == found.keys() - {
        "welcome",
        "plain",
    }
    assert "--keys FILE" in found["no key"].text
    assert "leave out" in found["not wanted"].text
    assert f"does not allow the key in {other.path}" in found["not allowed"].text
    assert "--add actor" in found["not allowed"].text
    assert f"is not the server that {other.path} is for" in found["another server"].text


@pytest.mark.parametrize(
    ("outcomes", "final"),
    [
        ([Outcome.CLOSED, Outcome.CLOSED, Outcome.ACCEPTED], False),
        ([Outcome.CLOSED, Outcome.NOTHING], False),
        ([Outcome.CLOSED, Outcome.CLOSED, Outcome.CLOSED], True),
    ],
)
def test_server_that_hangs_up_is_asked_again_before_its_keys_are_blamed(
    keys_folder, monkeypatch, outcomes, final
):
    """A server under attack closes connections of a crowd, and perhaps ours among them."""
    left = list(outcomes)
    with server(keys_folder) as address:
        monkeypatch.setattr(diagnosing.handshake, "attempt", lambda *_: left.pop(0))
        assert diagnose(address, keys.client_keys(keys_folder)).final is final
    assert not left


class TestSilence:
    """When it asks, and what it says."""

    @pytest.fixture
    def found(self, monkeypatch):
        """The finding of each look at the address; a test changes it."""
        found = [Finding("nothing is there")]
        monkeypatch.setattr(diagnosing, "diagnose", lambda address, keys: found[0])
        return found

    def look(self, silent, since, until, known=False):
        """Look ten times a second, with each answer in time; return the moments of rebuilding."""
        rebuilt = []
        for tenth in range(int(since * 10), int(until * 10)):
            if silent.look(tenth / 10, known, tenth / 10):
                rebuilt.append(tenth / 10)
            eventually(lambda: not silent.busy)
        return rebuilt

    def test_diagnosis_does_not_look_while_beacons_come(self, monkeypatch, caplog):
        """Beacons come every second."""
        asked = []
        monkeypatch.setattr(diagnosing, "diagnose", lambda address, keys: asked.append(address))
        silent = Diagnosis(Address("box", 1, 2))
        with caplog.at_level(logging.INFO):
            for second in range(100):
                assert not silent.look(1.4, True, float(second))
            assert not silent.busy
        assert asked == []
        assert not caplog.records

    def test_diagnosis_logs_a_reason_now_and_then(self, found, caplog):
        """40 s are two lines; another reason is a line at once."""
        silent = Diagnosis(Address("box", 1, 2))
        with caplog.at_level(logging.INFO):
            assert self.look(silent, 0, 40) == []
            assert [record.message for record in caplog.records] == [
                "waiting for a learner at box:1: nothing is there"
            ] * 2
            found[0] = Finding("it hangs up")
            self.look(silent, 40, 45)
        assert caplog.records[-1].message.endswith("it hangs up")
        assert len(caplog.records) == 3

    def test_wrong_keys_end_a_new_connection_and_pause_an_old_one(self, found):
        """At the start they are a mistake; later they were revoked, and the sockets are rebuilt."""
        found[0] = Finding("not allowed", final=True)
        with pytest.raises(NotAllowed, match="not allowed") as raised:
            self.look(Diagnosis(Address("box", 1, 2)), 0, 5)
        assert raised.value.exit_code == 77
        silent = Diagnosis(Address("box", 1, 2))
        assert self.look(silent, 0, 10, known=True) == []
        found[0] = Finding("come in", welcome=True)
        assert len(self.look(silent, 10, 20, known=True)) == 1

    def test_diagnosis_survives_a_look_that_fails(self, monkeypatch, caplog):
        """It is said."""
        monkeypatch.setattr(diagnosing, "diagnose", lambda address, keys: 1 / 0)
        with caplog.at_level(logging.INFO):
            self.look(Diagnosis(Address("box", 1, 2)), 0, 3)
        assert "cannot find out why" in caplog.text

    def test_diagnosis_never_blocks_its_caller(self, monkeypatch):
        """Names and connections may take their time; only one question is under way."""
        asked, go = [], threading.Event()
        monkeypatch.setattr(
            diagnosing,
            "diagnose",
            lambda address, keys: asked.append(1) or (go.wait(PATIENCE_S) and Finding("late")),
        )
        silent, began = Diagnosis(Address("box", 1, 2)), time.monotonic()
        for second in range(2, 20):
            assert not silent.look(float(second), False, float(second))
        assert took_at_most(time.monotonic() - began, PATIENCE_S / 2)
        assert asked == [1]
        go.set()
        eventually(lambda: not silent.busy)
