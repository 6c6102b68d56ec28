"""A trace of two hosts with clocks that are 5 s apart: its times are those of one clock."""

import shutil
import signal
import subprocess

import psutil
import pytest
from support.timelines import Timeline, overlaps
from support.waiting import took_at_most

pytestmark = [pytest.mark.faults, pytest.mark.slow]

AHEAD_S = 5
WITHIN_S = 0.001
ATTEMPTS = 5
CLOCKS = ("unshare", "--time", "--fork", "--kill-child", "--monotonic", AHEAD_S)


def shifted(host):
    """Return the command line that runs a program there under a clock of its own."""

    def words(program, *rest):
        first, *others = host.words(program, *rest)
        inner = others[3:]  # after `netns exec NAME`
        return first, *others[:3], *CLOCKS, *inner

    return words


@pytest.fixture
def hosts(whole_network):
    """The learner's, and one with another clock."""
    if not shutil.which("unshare"):
        pytest.skip("clocks of their own need unshare")
    trial = subprocess.run([*map(str, CLOCKS), "true"], capture_output=True, text=True)
    if trial.returncode:
        pytest.skip(f"no clocks of their own here: {trial.stderr.strip()}")
    return whole_network.host("learner"), whole_network.host("actors")


def test_clocks_of_two_hosts_are_aligned(hosts, shell):
    """Three processes: the truth lies within the stated error, and that is below 1 ms."""
    near, far = hosts
    flags = ("--bind", near.address, "--insecure", "--warmup", 200, "--replay-ratio", 4)
    learner = shell.learner(*flags, port=5555, on=near.words).listens()
    shell.actor(learner.address, "--name", "near", on=near.words)
    shell.actor(learner.address, "--name", "far", on=shifted(far))
    learner.learns_on()
    learner.shows(lambda status: {"near", "far"} <= {actor.name for actor in status.actors})
    path = shell.folder / "trace.json"
    for _ in range(ATTEMPTS):
        words = ("--seconds", 3, "--feed-port", learner.address.feed_port)
        command = shell.start("learner", "trace", learner.address, path, *words)
        assert command.ended() == 0, command.said
        line = Timeline(path)
        line.require_nested()
        clocks = line.about["clocks"]
        for name, ahead_s in (("near", 0), ("far", AHEAD_S)):
            clock = clocks[f"actor {name}"]
            assert abs(clock["ahead_us"] - ahead_s * 1e6) <= clock["error_us"]
        errors = {name: clocks[f"actor {name}"]["error_us"] / 1e6 for name in ("near", "far")}
        if max(errors.values()) <= WITHIN_S:
            break
    assert all(took_at_most(error_s, WITHIN_S) for error_s in errors.values()), errors
    assert f"clock +{AHEAD_S}.0" in command.said or f"clock +{AHEAD_S - 1}.99" in command.said
    windows = line.of("actor far", "window")
    assert overlaps(line.of("learner", "update"), windows)
    last = max(one.end for row in line.rows.values() for one in row)
    assert last < 4.5 * 1e6  # of 3 s: no row is 5 s away
    psutil.Process(learner.pid).send_signal(signal.SIGTERM)
    assert learner.ended() == 0
