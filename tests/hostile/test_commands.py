"""Floods of commands at a real learner: refused and counted, while honest actors step on."""

import json

import pytest
from hostile import attacks
from hostile.attacking import AT_BOTH, TRIES, attacking
from hostile.victim import Victim, victim
from support.contexts import fresh_context
from support.waiting import Deadline, readable

from farflung.common.net import keys as key_files
from farflung.common.net import sockets
from farflung.common.protocol import topics, wire
from farflung.learner.endpoint.commands import COMMANDS
from farflung.learner.observe.status import CommandStatus
from farflung.learner.steering.asking import Asking
from farflung.learner.steering.sending import find
from farflung.learner.storage import steering

pytestmark = [pytest.mark.system, pytest.mark.slow]

FLOOD, KEYLESS = "flood of commands", "flood of commands, without a key"
ATTACK_S, QUIET_S = 3.0, 2.0
ENOUGH = 1_000  # refused commands, once, except on a starved machine
LOG_BYTES = 256 << 10  # of a log after thousands of commands


def executed(target: Victim, weight: float, *, through: bool) -> bytes:
    """Let an operator set a weight; return the bytes of that command, as a listener has them."""
    keys = key_files.client_keys(target.label("lab", key_files.OPERATOR))
    address = target.front if through else target.learner.address
    assert address is not None
    with fresh_context() as context:
        beacon = find(context, address, keys, "")
        asking = Asking("lab/me", beacon, "set", {"weight": weight})
        captured, deadline = asking.due(0.0), Deadline(60.0)
        assert captured is not None
        with (
            sockets.feed_subscriber(context, address, asking.topics, keys=keys) as feed,
            sockets.experience_sender(context, address, keys=keys) as push,
        ):
            while not asking.answered and not deadline.over:
                push.send(captured)
                if feed.poll(500):
                    asking.receive(feed.recv_multipart()[-1], 0.0)
        assert asking.answered
        assert asking.reason == ""
    return captured


def refused_by_broker(target: Victim) -> dict[str, int]:
    """Return what a broker says that it refused."""
    keys = key_files.client_keys(target.label("watcher"))
    assert target.front is not None
    with (
        fresh_context() as context,
        sockets.feed_subscriber(context, target.front, [topics.broker("")], keys=keys) as feed,
    ):
        assert readable(feed)
        found = wire.read(wire.open_frame(feed.recv_multipart()[-1]))
    return dict(json.loads(found.document)["refused"])  # type: ignore[union-attr]


def books(target: Victim) -> CommandStatus:
    """Return the learner's book of commands, once it is one that says something."""
    return target.learner.shows(lambda status: status.commands.received > 0).commands


@AT_BOTH
def test_flood_of_commands_by_actors_is_refused_and_counted(tmp_path, through):
    """With an actor's key and without one; also an operator's command that was captured.

    The learner does none of it, and says it in some lines. Honest actors have their steps, and an
    operator's command is executed meanwhile.
    """
    direct, relayed = (0, 1) if through else (1, 0)
    with victim(tmp_path, keys=True, broker=through, actors=direct, relayed=relayed) as target:
        captured = executed(target, 2.0, through=through)
        before = books(target)
        assert (before.done, before.refused) == (1, {})

        def steps_stay() -> bool:
            quiet = target.during(QUIET_S)
            with (
                attacking(target, FLOOD, ATTACK_S + 5, through=through, keys=True),
                attacking(target, KEYLESS, ATTACK_S + 5, through=through),
                target.peer(through=through) as peer,
                target.measuring() as meanwhile,
            ):
                peer.flood(lambda n: captured, messages=100_000, seconds=ATTACK_S)
                executed(target, 3.0, through=through)
            after = target.during(QUIET_S)
            return (
                meanwhile.steps_per_s > 0.15 * quiet.steps_per_s
                and after.steps_per_s > 0.4 * quiet.steps_per_s
            )

        assert any(steps_stay() for _ in range(TRIES))
        refused = refused_by_broker(target) if through else {}
        status = target.learner.shows(
            lambda status: sum((refused | status.commands.refused).values()) > ENOUGH
        )
        found = status.commands
        assert (refused | found.refused).keys() <= {"role", "rate", "label"}
        assert found.waiting == 0
        assert status.steered == {"weight": 3.0}
        assert status.state == "run"
        run = tmp_path / "runs" / "victim"
        orders = [answer.order for answer in steering.read(run).answers]
        assert len(orders) == found.done
        assert orders == ["set weight=2.0", *["set weight=3.0"] * (len(orders) - 1)]
        assert len(orders) <= 1 + TRIES
        assert (run / "logs" / "learner.log").stat().st_size < LOG_BYTES
        target.learner.learns_on()


def test_flood_of_commands_by_clients_that_may_steer_is_paced(tmp_path):
    """Without keys, from this machine: some at once, one a second then, and the others refused."""
    with victim(tmp_path) as target:
        started = target.learner.shows(lambda status: status.updates > 0).seconds
        with target.peer() as peer:
            attacks.load()[FLOOD].run(peer, ATTACK_S)
        status = target.learner.shows(
            lambda status: status.commands.refused.get("rate", 0) > COMMANDS
        )
        answers = steering.read(tmp_path / "runs" / "victim").answers  # each took a write to disk
        assert 0 < len(answers) <= COMMANDS + (status.seconds - started) + 5
        assert {answer.order for answer in answers if not answer.refused} == {"resume"}
        assert status.commands.repeated > COMMANDS
        assert status.state == "run"
        target.learner.learns_on()
