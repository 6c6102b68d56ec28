"""Floods of commands by clients that may not steer: their own ones, and captured ones again.

On a learner without keys each client of this machine may steer, by design. There the same floods
have no command in them that would be executed, but for one that changes nothing.
"""

from contextlib import suppress
from typing import Any

from hostile.attacks import Needs, attack
from hostile.known import FAR, FORGED, MANY, by_hand, in_turns, rounds
from hostile.peer import Peer

from farflung.common.protocol.wire import Kind

OPERATOR = "lab/me"  # whose commands are captured
AT_ONCE = 500  # commands of one connection
LONG = b"\x02"  # a whole message of ZMTP, its length in eight bytes
NAMES = ("stop", "pause", "checkpoint", "evaluate")


def command(peer: Peer, **changes: Any) -> bytes:
    """Return a command; by default one that changes nothing, however often it is executed."""
    fields = {"sequence": 1, "base": 1, "epoch": 1, "name": "resume", "arguments": {}}
    return peer.message(Kind.COMMAND, **(peer.sender() | fields | changes))


def senseless(peer: Peer, number: int) -> bytes:
    """Return a new command that no learner executes, from any sender."""
    mine: tuple[dict[str, Any], ...] = (
        {"name": "set", "arguments": {"weight": 1e300}},
        {"name": "set", "arguments": {FORGED: FORGED}},
        {"name": FORGED},
        {"epoch": FAR[number % len(FAR)], "name": "stop"},
        {"run": "another", "name": "stop"},
    )
    incarnation = peer.identity()
    return command(peer, **{"incarnation": incarnation, **mine[number % len(mine)]})


@attack("flood of commands")
def commands(peer: Peer, seconds: float) -> None:
    """Send commands under our name and under an operator's, and captured ones again and again."""
    captured = [command(peer), command(peer, actor=OPERATOR)]

    def own(number: int) -> bytes:
        name = NAMES[number % len(NAMES)]
        return command(peer, incarnation=peer.identity(), name=name)

    def stolen(number: int) -> bytes:
        name = NAMES[number % len(NAMES)]
        return command(peer, actor=OPERATOR, incarnation=peer.identity(), name=name)

    makers = [lambda n: captured[n % 2], lambda n: senseless(peer, n)]
    makers += [own, stolen] if peer.keys is not None else []
    peer.flood(in_turns(*makers), MANY, seconds)


@attack("flood of commands, without a key", Needs.NOTHING)
def commands_without_a_key(peer: Peer, seconds: float) -> None:
    """Dial without a key, send hundreds of commands, and dial again.

    Where there are keys, the handshake ends the connection, and no command is read.
    """
    for number in rounds(seconds):
        frames = [senseless(peer, number + n) for n in range(AT_ONCE)]
        packed = b"".join(LONG + len(frame).to_bytes(8, "big") + frame for frame in frames)
        with suppress(OSError), by_hand(peer.address) as opened:
            opened.sendall(packed)
