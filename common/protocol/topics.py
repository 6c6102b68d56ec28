"""The topics of a feed. Libraries send subscriptions in byte order, so `z/`, the question for a snapshot, comes when the others stand."""

from typing import NamedTuple

from farflung.common.data.names import ACTOR, NAME


class Private(NamedTuple):
    """Whose snapshot a private topic asks for."""

    policy: str
    actor: str
    incarnation: int
    nonce: int


def announcement(policy: str = "") -> bytes:
    """The spec, for whoever watches; without a policy those of every learner there."""
    return f"s/{policy}/".encode() if policy else b"s/"


def weights(policy: str) -> bytes:
    """The newest weights."""
    return f"w/{policy}/".encode()


def beacon(policy: str = "") -> bytes:
    """The learner's state and its lines to the actors; without a policy those of every learner there."""
    return f"c/{policy}/".encode() if policy else b"c/"


def telemetry(policy: str = "") -> bytes:
    """A learner's figures; without a policy those of every learner there."""
    return f"t/{policy}/".encode() if policy else b"t/"


def private(policy: str, actor: str, incarnation: int, nonce: int) -> bytes:
    """To subscribe to it is to ask for spec and newest weights. Numbers have a fixed width: no topic is the beginning of another."""
    return f"z/{policy}/{actor}/{incarnation:016x}/{nonce:016x}".encode()


def broker(name: str = "") -> bytes:
    """A broker's figures; without a name those of every broker there. No policy is called like this."""
    return f"t/broker:{name}/".encode() if name else b"t/broker:"


def is_allowed(topic: bytes) -> bool:
    """Whether a feed agrees to such a subscription: everything, or everybody's snapshots, is nobody's need."""
    return topic != b"" and (not topic.startswith(b"z") or parse_private(topic) is not None)


def parse_policy(topic: bytes) -> str | None:
    """The policy that a learner speaks of under this topic: in announcement, weights, beacon or snapshot."""
    kind, _, rest = topic.decode("ascii", errors="replace").partition("/")
    policy, slash, _ = rest.partition("/")
    return policy if kind in ("s", "w", "c", "z") and slash and NAME.fullmatch(policy) else None


def parse_private(topic: bytes) -> Private | None:
    """Who asks, if this is a well-formed question."""
    try:
        kind, rest = topic.decode("ascii").split("/", 1)
        place, incarnation, nonce = rest.rsplit("/", 2)
        policy, actor = place.split("/", 1)
        numbers = int(incarnation, 16), int(nonce, 16)
    except ValueError:
        return None
    known = (
        kind == "z"
        and NAME.fullmatch(policy)
        and ACTOR.fullmatch(actor)
        and all(0 <= number < 1 << 64 for number in numbers)
    )
    return (
        Private(policy, actor, *numbers)
        if known and topic == private(policy, actor, *numbers)
        else None
    )
