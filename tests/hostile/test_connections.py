"""Thousands of connections without a key, against a learner and a broker with few descriptors."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.contexts import fresh_context
from support.programs import Learner, Program, Shell

from farflung.common.net import keys

pytestmark = [pytest.mark.system, pytest.mark.slow]

LIMIT = 800  # descriptors of the process under attack
CROWD = 2 * LIMIT
ATTACK_S = 6.0
HALF_A_GREETING = "ff00000000000000017f03"
GREETING = f"{HALF_A_GREETING}00{b'CURVE'.hex():0<40}{bytes(32).hex()}"
PATH = Path(__file__).with_name("silent_crowd.py")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Starts programs for one test."""
    with fresh_context() as context:
        shell = Shell(tmp_path, context)
        yield shell
        shell.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Keys of a server, of the client actor, and of a broker."""
    keys.make(tmp_path / "keys", "edge", "broker")
    return tmp_path / "keys"


def few_descriptors(program: str, *words: object) -> tuple[object, ...]:
    """Return the command line of a program with a hard limit of descriptors."""
    path = Path(sys.executable).parent / program
    return "/bin/sh", "-c", f'ulimit -n {LIMIT}; exec "$0" "$@"', path, *words


def a_learner(shell: Shell, folder: Path, **others: object) -> Learner:
    """Return a learner with keys that writes a checkpoint every second."""
    flags = ("--keys", folder, "--name", "guarded", "--warmup", 200, "--replay-ratio", 1)
    learner = shell.learner(*flags, "--checkpoint-every", 1, **others).listens()
    learner.keys = keys.client_keys(folder)
    return learner


def attack(shell: Shell, ports: tuple[int, int], words: str) -> Program:
    """Start the crowd."""
    listed = ",".join(map(str, ports))
    crowd: Program = shell.start(sys.executable, PATH, listed, CROWD, ATTACK_S, words)
    return crowd


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("", id="idle"),
        pytest.param(HALF_A_GREETING, id="half", marks=pytest.mark.faults),
        pytest.param(GREETING, id="greeting", marks=pytest.mark.faults),
    ],
)
def test_connections_without_a_key_cost_a_learner_nothing(shell, folder, words):
    """It trains on, writes checkpoints, admits an actor meanwhile, and ends when it is told to."""
    learner = a_learner(shell, folder, on=few_descriptors)
    flags = ("--keys", folder / "actor.key", "--name")
    shell.actor(learner.address, *flags, "early")
    before = learner.learns_on()
    crowd = attack(shell, (learner.address.port, learner.address.feed_port), words)
    learner.says("never sent a message: its oldest are closed")
    shell.actor(learner.address, *flags, "late")
    learner.shows(lambda status: sum(a.state == "running" for a in status.actors) == 2)
    assert learner.learns_on().updates > before.updates
    assert crowd.ended() == 0
    assert learner.learns_on().lost == 0
    learner.send(signal.SIGTERM)
    assert learner.ended() == 0
    assert learner.said.count("never sent a message") == 1
    assert "Traceback" not in learner.said


@pytest.mark.faults
def test_connections_without_a_key_cost_a_broker_nothing(shell, folder):
    """It relays on: both to those that were there and to one that comes meanwhile."""
    learner = a_learner(shell, folder)
    upstream = (f"127.0.0.1:{learner.address.port}", "--upstream-keys", folder / "edge.key")
    broker = shell.start(
        *few_descriptors("broker", *upstream, "--keys", folder, "--port", 0), kind=Learner
    ).listens()
    flags = ("--keys", folder / "actor.key", "--name")
    shell.actor(broker.address, *flags, "early")
    learner.learns_on()
    crowd = attack(shell, (broker.address.port, broker.address.feed_port), HALF_A_GREETING)
    broker.says("never sent a message: its oldest are closed")
    shell.actor(broker.address, *flags, "late")
    learner.shows(lambda status: sum(a.state == "running" for a in status.actors) == 2)
    assert crowd.ended() == 0
    learner.learns_on()
    broker.send(signal.SIGTERM)
    assert broker.ended() == 0
    assert "Traceback" not in broker.said
