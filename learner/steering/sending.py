"""The sockets of one who steers: find the learner behind an address, ask, and wait for the answer.

It imports no torch.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from farflung.common.net.address import Address
from farflung.common.net.diagnose import diagnose
from farflung.common.net.keys import ACTOR, ClientKeys
from farflung.common.net.sockets import Context, Socket, experience_sender, feed_subscriber
from farflung.common.process.errors import (
    ConfigurationError,
    Exit,
    FarflungError,
    NotAllowed,
    Refused,
    UsageError,
)
from farflung.common.process.text import printable
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Beacon
from farflung.learner.steering.asking import AGAIN_S, Asking
from farflung.learner.steering.meanings import meaning

FIND_S = 10.0  # for a first beacon: a learner sends one each second
OTHERS_S = 1.2  # after it, for those of other policies behind the same address
LOOK_S = 0.2


class Unanswered(FarflungError):
    """No learner answered a command."""

    exit_code = Exit.UNAVAILABLE


def ask(
    context: Context,
    address: Address,
    keys: ClientKeys | None,
    actor: str,
    order: tuple[str, Mapping[str, Any]],
    policy: str,
    wait_s: float,
    run: str = "",  # the only one that is meant; empty: the one that is there
) -> str:
    """Ask the learner behind an address until it answers; return a sentence about it."""
    require_right(address, keys)
    beacon = find(context, address, keys, policy)
    if run and beacon.run != run:
        raise Unanswered(f"at {address} is run {beacon.run} now, and not {run}")
    asking = Asking(actor, beacon, *order)
    with (
        feed_subscriber(context, address, asking.topics, keys=keys) as feed,
        experience_sender(context, address, 2 + round(wait_s / AGAIN_S), keys) as push,
    ):
        end = time.monotonic() + wait_s
        while not asking.answered and time.monotonic() < end:
            if (frame := asking.due(time.monotonic())) is not None:
                push.send(frame)  # it never waits: the queue has room for all repetitions
            for received in _messages(feed, LOOK_S):
                asking.receive(received, time.monotonic())
    what = f"{beacon.policy} of run {beacon.run} at {address}"
    if not asking.answered:
        left = f"it is {asking.state} by its last word" if asking.has_left else "is it at work?"
        raise Unanswered(
            f"{what} has not answered within {wait_s:g} s: {left} It may still do what was asked; "
            "learner status and the run's log tell"
        )
    if asking.reason:
        raise ConfigurationError(f"{what} refuses it: {meaning(asking.reason)}")
    again = ", asked again since the learner was started again" if asking.repeated else ""
    return f"{what}: done{again}"


def require_right(address: Address, keys: ClientKeys | None) -> None:
    """Refuse what the learner would only count, since it answers none without the right."""
    if keys is not None and keys.client.role == ACTOR:
        raise NotAllowed(
            f"{keys.path} is an actor's key, and steering needs an operator's: "
            "learner keys FOLDER --add NAME --role operator, on the learner's machine"
        )
    if keys is None and not address.is_loopback:
        raise NotAllowed(
            f"without keys a learner takes commands from its own machine only, and {address} is "
            "another: name a key of role operator with --keys, or ask on that machine"
        )


def find(context: Context, address: Address, keys: ClientKeys | None, policy: str) -> Beacon:
    """Return the beacon of the learner behind an address; refuse to choose among several."""
    found: dict[str, Beacon] = {}
    with feed_subscriber(context, address, [topics.beacon(policy)], keys=keys) as feed:
        end = time.monotonic() + FIND_S
        while (now := time.monotonic()) < end:
            for frame in _messages(feed, min(LOOK_S, end - now)):
                with suppress(Refused):
                    message = wire.read(wire.open_frame(frame))
                    if isinstance(message, Beacon):
                        end = end if found else min(end, now + OTHERS_S)
                        found[message.policy] = message
            if policy in found:
                break
    if not found:
        named = f" of policy {policy}" if policy else ""
        why = diagnose(address, keys)
        raise (NotAllowed if why.final else Unanswered)(
            f"no learner{named} was heard at {address}: {why.text}"
        )
    if len(found) > 1:
        names = ", ".join(map(printable, sorted(found)))
        raise UsageError(
            f"{address} has learners of several policies: name one with --policy: {names}"
        )
    return next(iter(found.values()))


def _messages(feed: Socket, timeout_s: float) -> Iterator[bytes]:
    """Yield what is there, the first within so long."""
    patience_ms = max(1, int(1000 * timeout_s))
    while feed.poll(patience_ms):
        yield feed.recv_multipart()[-1]
        patience_ms = 0
