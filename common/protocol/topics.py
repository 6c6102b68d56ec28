"""The topics of a feed.

ZeroMQ sends subscriptions in byte order, on connect and on reconnect. So when `z/`, which asks for
a snapshot, arrives at a learner, the subscriptions to `a/`, `c/` and `w/` stand.
"""

import re
from typing import NamedTuple

from farflung.common.data.fields import ACTOR, IDENTITY_BITS, NAME, draw_identity
from farflung.common.data.weights import Version

NAMED = NAME.pattern.encode()
EVALUATES = 1 << IDENTITY_BITS - 1  # set in the nonce of an evaluator's question, and in no other
# The index that an actor asks for in rounds is in its nonce too, counted from `OF_FIRST`.
WISH_AT, WISH_BITS = 32, 20
OF_FIRST = -2  # one from the learner of the world's first policy; none from another one
FREE = -1  # the first that is free
PARTS = {"a": 1, "v": 4, "z": 2}  # numbers at the end of private topics, by kind
# Of one policy or of all; status of one broker or of all.
SHARED = re.compile(rb"[swctx]/(?:%b/)?|t/broker:(?:%b/)?" % (NAMED, NAMED))


class Private(NamedTuple):
    """A topic of one incarnation of one actor."""

    policy: str
    actor: str
    incarnation: int
    nonce: int | None  # of the snapshot that it asks for; None: no snapshot
    archived: Version | None = None  # the version that it asks for; None: no such question
    question: int = 0  # the nonce of that

    @property
    def evaluates(self) -> bool:
        """True for a question of an evaluator, which plays no rounds."""
        return self.nonce is not None and bool(self.nonce & EVALUATES)

    @property
    def wish(self) -> int:
        """The index that a question asks for: a number, `FREE` or `OF_FIRST`."""
        coded = ((self.nonce or 0) >> WISH_AT) % (1 << WISH_BITS)
        return FREE if not coded else OF_FIRST if coded == 1 else coded - 2


def announcement(policy: str = "") -> bytes:
    """Return the topic of the spec; without a policy that of every learner there."""
    return f"s/{policy}/".encode() if policy else b"s/"


def weights(policy: str) -> bytes:
    """Return the topic of the newest weights."""
    return f"w/{policy}/".encode()


def beacon(policy: str = "") -> bytes:
    """Return the topic of the beacon; without a policy that of every learner there."""
    return f"c/{policy}/".encode() if policy else b"c/"


def telemetry(policy: str = "") -> bytes:
    """Return the topic of a learner's figures; without a policy that of every learner there."""
    return f"t/{policy}/".encode() if policy else b"t/"


def trace(policy: str = "") -> bytes:
    """Return the topic of spans: while a client is subscribed to it, processes record some."""
    return f"x/{policy}/".encode() if policy else b"x/"


def acknowledgement(policy: str, actor: str, incarnation: int) -> bytes:
    """Return the topic of an incarnation's acknowledgements."""
    return f"a/{policy}/{actor}/{incarnation:016x}".encode()


def acknowledgements() -> bytes:
    """Return the beginning of the topics of all acknowledgements."""
    return b"a/"


def standing(policy: str, actor: str, incarnation: int) -> list[bytes]:
    """Return the topics that an actor subscribes to as long as an incarnation lasts."""
    return [acknowledgement(policy, actor, incarnation), beacon(policy), weights(policy)]


def draw_nonce(evaluates: bool, wish: int = FREE) -> int:
    """Draw the number of a question."""
    coded = {FREE: 0, OF_FIRST: 1}.get(wish, wish + 2)
    if coded >> WISH_BITS:
        raise ValueError(f"no rounds have an actor of number {wish}")
    drawn = draw_identity() % (1 << WISH_AT)
    return drawn | coded << WISH_AT | (EVALUATES if evaluates else 0)


def snapshot(policy: str, actor: str, incarnation: int, nonce: int) -> bytes:
    """Return the topic of a snapshot: to subscribe to it is to ask for spec and newest weights."""
    return f"z/{policy}/{actor}/{incarnation:016x}/{nonce:016x}".encode()


def archived(policy: str, actor: str, incarnation: int, version: Version, nonce: int) -> bytes:
    """Return the topic of an archived version: to subscribe to it is to ask for those weights."""
    asker = f"v/{policy}/{actor}/{incarnation:016x}"
    return f"{asker}/{version.epoch:016x}/{version.number:016x}/{nonce:016x}".encode()


def broker(name: str = "") -> bytes:
    """Return the topic of a broker's figures; without a name that of every broker there."""
    return f"t/broker:{name}/".encode() if name else b"t/broker:"


ALL_SHARED = (announcement, weights, beacon, telemetry, trace)


def is_shared_of(policy: str, topic: bytes) -> bool:
    """Return whether a subscription is to shared topics of this policy, and not to everything."""
    return topic != b"" and any(shared(policy).startswith(topic) for shared in ALL_SHARED)


def is_allowed(topic: bytes) -> bool:
    """Return whether a broker agrees to a subscription: it is well-formed.

    It never agrees to one of everything, or of a private topic of more than one incarnation.
    Numbers in private topics have a fixed width, so none is the beginning of another.
    """
    return SHARED.fullmatch(topic) is not None or parse_private(topic) is not None


def parse_policy(topic: bytes) -> str | None:
    """Return the policy of a topic that only its learner publishes on."""
    kind, _, rest = topic.decode("ascii", errors="replace").partition("/")
    policy, slash, _ = rest.partition("/")
    is_learners = kind in ("a", "s", "v", "w", "c", "z")
    return policy if is_learners and slash and NAME.fullmatch(policy) else None


def parse_private(topic: bytes) -> Private | None:
    """Return the parts of a private topic, if it is well-formed."""
    try:
        kind, policy, rest = topic.decode("ascii").split("/", 2)
        actor, *words = rest.rsplit("/", PARTS[kind])
        incarnation, *numbers = (int(word, 16) for word in words)
        if len(words) < PARTS[kind]:
            return None
    except (ValueError, KeyError):
        return None
    named = NAME.fullmatch(policy) and ACTOR.fullmatch(actor)
    if not named or not all(0 <= number < 1 << 64 for number in (incarnation, *numbers)):
        return None
    found = Private(policy, actor, incarnation, numbers[0] if kind == "z" else None)
    if kind == "v":
        found = found._replace(archived=Version(*numbers[:2]), question=numbers[2])
    return found if topic == _formed(found) else None


def _formed(private: Private) -> bytes:
    policy, actor, incarnation, nonce, version, question = private
    if version is not None:
        return archived(policy, actor, incarnation, version, question)
    if nonce is None:
        return acknowledgement(policy, actor, incarnation)
    return snapshot(policy, actor, incarnation, nonce)
