"""Conversations with lies: sequences of real messages with parts of them changed, at real sockets.

`python tests/hostile/converse.py --minutes 2 --seed 1` holds them with a learner that has keys: one
peer dials it, one the broker in front of it, one has a broker's key. Two honest actors work beside
them. It prints the turns that were taken. The exit code is 1 if learner or broker ended, if honest
steps stopped counting, or if the audit finds a fault. `tests/fuzz/conversation.py` is the
same without sockets, guided by coverage.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (2, 1)]

from fuzz.inputs import MESSAGE, NASTY, change, frame, unframed  # noqa: E402
from hostile.attacks import attack  # noqa: E402
from hostile.peer import Peer  # noqa: E402
from hostile.spin import at_low_priority  # noqa: E402
from hostile.victim import Victim, victim  # noqa: E402
from support.family import children_end  # noqa: E402

from farflung.common.protocol import topics  # noqa: E402

LYING = 0.6  # of messages and topics
PER_S = 400  # turns of one peer
LONGEST = 40  # turns of one conversation
SLICE_S = 5.0  # in which the honest actor has to get on


class Speaker:
    """One peer in conversation after conversation, by chance."""

    def __init__(self, peer: Peer, seed: int) -> None:
        self.peer, self.chance = peer, Random(seed)
        self.turns = Counter[str]()
        self._last: list[bytes] = []  # frames and topics that may be said again
        self._asked: list[bytes] = []
        self._turns: dict[str, Callable[[], None]] = {
            "hello": lambda: self._say(peer.hello(base=self._number(), nonce=peer.identity())),
            "report": lambda: self._say(peer.report(base=self._number())),
            "parcel": lambda: self._say(peer.parcel(rows=self.chance.choice((1, 8, 40)))),
            "parcel ahead": lambda: self._say(peer.parcel(sequence=self._number(), base=1)),
            "bye": lambda: self._say(peer.bye(base=self._number())),
            "again": self._repeat,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "reconnect": peer.reconnect,
            "start again": self._start_again,
        }

    def speak(self, seconds: float) -> None:
        """Hold conversations for so long."""
        end, began, taken = time.monotonic() + seconds, time.monotonic(), 0
        while (now := time.monotonic()) < end:
            if taken > (now - began) * PER_S:
                time.sleep(0.01)  # the pace of a conversation
                continue
            often = [8, 4, 8, 4, 2, 4, 6, 4, 1, 1]
            name = self.chance.choices(list(self._turns), often)[0]
            self._turns[name]()
            self.turns[name] += 1
            taken += 1

    def _number(self) -> int:
        near = max(1, self.peer.sequence + self.chance.randint(-3, 3))
        return near if self.chance.random() < 0.8 else self.chance.choice((0, -1, 1 << 40, 1 << 62))

    def _say(self, sent: bytes) -> None:
        if self.chance.random() < LYING:
            seed = self.chance.getrandbits(32)
            with suppress(Exception):  # a change that cannot be written: the truth will do
                sent = frame(change(MESSAGE, unframed(sent), seed))
        self._last = [*self._last[-LONGEST:], sent]
        self.peer.send(sent)

    def _repeat(self) -> None:
        if self._last:
            self.peer.send(self.chance.choice(self._last))

    def _topic(self) -> bytes:
        peer = self.peer
        own = (peer.policy, peer.name, peer.incarnation)
        topic = self.chance.choice(
            (
                topics.acknowledgement(*own),
                topics.snapshot(*own, peer.identity()),
                topics.weights(peer.policy),
                topics.beacon(peer.policy),
                topics.announcement(peer.policy),
                topics.telemetry(peer.policy),
            )
        )
        if self.chance.random() < LYING:
            parts: list[Any] = topic.decode().split("/")
            parts[self.chance.randrange(len(parts))] = self.chance.choice(NASTY)
            topic = "/".join(map(str, parts)).encode()[: self.chance.choice((3, 100, 4000))]
        return topic

    def _subscribe(self) -> None:
        self._asked = [*self._asked[-LONGEST:], self._topic()]
        self.peer.subscribe(self._asked[-1:])

    def _unsubscribe(self) -> None:
        known = [*self._asked, self._topic()]
        self.peer.unsubscribe([self.chance.choice(known)])

    def _start_again(self) -> None:
        """Take another incarnation, as an actor does that was started again."""
        self.peer.incarnation, self.peer.sequence = self.peer.identity(), 0


@attack("conversations with lies")
def converse(peer: Peer, seconds: float) -> None:
    """Hold conversations."""
    Speaker(peer, peer.random.getrandbits(32)).speak(seconds)


def hold(target: Victim, seconds: float, seed: int) -> tuple[Counter[str], int]:
    """Hold conversations on all ways; return the turns, and the slices without honest steps."""
    turns, stuck, end = Counter[str](), 0, time.monotonic() + seconds
    ways = (("mallory", False), ("mallory", True), ("edge-of-evil", False))
    number = 0
    while time.monotonic() < end and target.learner.running:
        key, through = ways[number % len(ways)]
        role = "broker" if key != "mallory" else "actor"
        name = "mallory/by-broker" if role == "broker" else "mallory"
        with (
            target.measuring() as figures,
            target.peer(key, name, through=through, role=role, seed=seed + number) as peer,
        ):
            speaker = Speaker(peer, seed + number)
            speaker.speak(min(SLICE_S, max(0.1, end - time.monotonic())))
        turns += speaker.turns
        stuck += not all(figures.steps.values())
        number += 1
    return turns, stuck


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        children_end(),
        victim(Path(folder), keys=True, broker=True, actors=1, relayed=1, forks=False) as target,
    ):
        at_low_priority()
        turns, stuck = hold(target, 60 * asked.minutes, asked.seed)
        alive = target.learner.running and target.broker is not None and target.broker.running
        code, said = target.audit() if alive else (1, target.learner.said[-3000:])
    found = {"turns": sum(turns.values()), "by_kind": turns, "alive": alive, "audit": code}
    print(json.dumps(found | {"slices_without_honest_steps": stuck}, indent=1))
    if code:
        print(said)
    return int(not alive or bool(stuck) or code != 0)


if __name__ == "__main__":
    sys.exit(main())
