"""`learner trace`: what the processes of a run did, all on one time line."""

import json
import re

import pytest
from support.timelines import CLOCK, Timeline, overlaps
from support.waiting import Deadline

from farflung.common.net import keys, sockets
from farflung.common.net.address import parse_address
from farflung.common.protocol import topics, wire

pytestmark = [pytest.mark.system, pytest.mark.slow]

LEARNER = {"receive", "journal", "sync", "insert", "update", "sample", "gradients", "publish"}
ACTOR = {"window", "environment", "inference", "pack", "exchange", "waiting"}
ATTEMPTS = 5  # on a machine where nothing happens for seconds


def traced(shell, address, *flags, wanted=lambda line: True):
    """Trace until a time line has what is wanted; return it with what the command said."""
    path = shell.folder / "trace.json"
    for _ in range(ATTEMPTS):
        words = ("--seconds", 2, "--feed-port", address.feed_port, *flags)
        command = shell.start("learner", "trace", address, path, *words)
        assert command.ended() == 0, command.said
        timeline = Timeline(path)
        timeline.require_nested()
        if wanted(timeline):
            break
    return timeline, command.said


def whole(*actors):
    """Return a condition: all of these took part, and there is a span of each sort."""
    return lambda line: (
        line.names("learner") >= LEARNER
        and all(line.names(f"actor {name}") >= ACTOR for name in actors)
    )


def probes(learner, until):
    """Return how many probes a learner publishes until so many beacons."""
    found = beacons = 0
    deadline = Deadline(60)
    wanted = [topics.beacon()]
    with sockets.feed_subscriber(learner.context, learner.address, wanted) as feed:
        while beacons < until and not deadline.over:
            if feed.poll(200):
                kind = wire.kind_of(feed.recv_multipart()[-1])
                found += kind == wire.Kind.PROBE
                beacons += kind == wire.Kind.BEACON
    assert beacons == until
    return found


@pytest.fixture
def learner(shell):
    """A learner that holds its actors back now and then."""
    return shell.learner("--warmup", 200, "--replay-ratio", 4, "--name", "seen").listens()


def test_trace_shows_learner_and_actors_at_work(learner, shell):
    """A valid Chrome trace; each thread's spans nest; collection and training overlap."""
    for name in ("one", "two"):
        shell.actor(learner.address, "--name", name)
    learner.learns_on()
    line, said = traced(shell, learner.address, wanted=whole("one", "two"))
    assert line.processes == {"learner", "actor one", "actor two"}
    assert line.names("learner") >= LEARNER
    assert all(line.names(f"actor {name}") >= ACTOR for name in ("one", "two"))
    assert {thread for process, thread in line.rows if process == "learner"} == {
        "training",
        "network",
        "journal",
    }
    windows = [*line.of("actor one", "window"), *line.of("actor two", "window")]
    assert overlaps(line.of("learner", "update"), windows)
    clocks = {found[1]: found for found in map(CLOCK.match, said.splitlines()) if found}
    assert set(clocks) == {"one", "two"}
    for name, found in clocks.items():  # of one machine: the truth is 0
        about = line.about["clocks"][f"actor {name}"]
        assert abs(about["ahead_us"]) <= about["error_us"]
        assert float(found[3]) == pytest.approx(about["error_us"] / 1e3, abs=0.001)
        assert int(found[4]) == about["round_trips"] > 1
    assert re.search(r"training [1-9]\d*% of the time, collection [1-9]\d*%", said)
    assert probes(learner, until=3) == 0  # it ends by itself


def test_trace_passes_a_broker_with_keys(shell, tmp_path):
    """The client has an actor's key, and the actor's name its label."""
    folder = tmp_path / "keys"
    keys.make(folder, "edge", "broker")
    key = folder / "actor.key"
    learner = shell.learner("--warmup", 200, "--keys", folder).listens()
    learner.keys = keys.client_keys(key)
    means = ("--keys", folder, "--upstream-keys", folder / "edge.key", "--port", 0)
    feed = ("--upstream-feed-port", learner.address.feed_port)
    broker = shell.start("broker", learner.address, *feed, *means)
    found = broker.says(r"listening: actor (\S+).* \(feed on port (\d+)\)")
    front = parse_address(found[1], int(found[2]))
    shell.actor(front, "--name", "far", "--keys", key)
    learner.learns_on()
    line, said = traced(shell, front, "--keys", key, wanted=whole("actor/far"))
    assert line.processes == {"learner", "actor actor/far"}
    assert line.names("actor actor/far") >= ACTOR
    assert "no room" not in said.partition("actor/far")[0]
    clock = line.about["clocks"]["actor actor/far"]
    assert abs(clock["ahead_us"]) <= clock["error_us"]


def test_memory_of_all_processes_by_their_parts(learner, shell):
    """Each part is below what the system counts, and the actor knows the most of its parts."""
    broker = shell.start(
        *("broker", learner.address, "--upstream-feed-port", learner.address.feed_port),
        *("--port", 0, "--name", "edge"),
    )
    found = broker.says(r"listening: actor (\S+).* \(feed on port (\d+)\)")
    front = parse_address(found[1], int(found[2]))
    actor = shell.actor(front, "--name", "one")
    learner.shows(lambda status: any("session" in one.memory for one in status.actors))
    words = "learner", "memory", front, "--feed-port", front.feed_port
    command = shell.start(*words, "--json")
    assert command.ended() == 0, command.said
    processes = json.loads(command.said)
    assert set(processes) == {"learner", "actor one", "broker edge"}
    for name, program in (("learner", learner), ("actor one", actor), ("broker edge", broker)):
        parts = processes[name]
        resident = parts.pop("resident")
        assert 0.5 <= resident / 1e6 / program.resident_mb() <= 2
        assert sum(parts.values()) == pytest.approx(resident, rel=0.05)
    assert {"replay", "network", "versions", "parcels"} <= processes["learner"].keys()
    assert {"weights", "parcels", "environments", "session"} <= processes["actor one"].keys()
    command = shell.start(*words)
    assert command.ended() == 0
    assert "actor one:" in command.said
    assert "session of the acting graph" in command.said


def test_trace_of_no_learner_says_so(shell, free_address):
    """Nothing is written."""
    command = shell.start("learner", "trace", free_address, "--seconds", 1)
    assert command.ended() == 1
    assert "nothing heard from" in command.said
    assert not (shell.folder / "trace.json").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--seconds", "0"), "--seconds 0: a number up to 60"),
        (("--seconds", "3600"), "--seconds 3600: a number up to 60"),
        (("--seconds", "nan"), "--seconds nan: a number up to 60"),
        (("missing/trace.json",), "name a file in a folder that is there"),
    ],
)
def test_trace_that_cannot_be_is_refused_at_once(shell, free_address, words, sentence):
    """Before a learner is asked."""
    command = shell.start("learner", "trace", free_address, *words)
    assert command.ended() == 78
    assert sentence in command.said
