"""`learner memory`: the parts of the memory of a learner, its actors and the brokers between them.

All of it is in their statuses. What no process can tell, such as the queues within libzmq and the
memory of Python itself, is the rest of what the system counts.
"""

import time
from collections.abc import Mapping
from typing import Any, TextIO

import msgspec

from farflung.actor.holding import LIBRARIES, RESIDENT
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context, feed_subscriber
from farflung.common.process.errors import Refused
from farflung.common.process.text import printable
from farflung.common.protocol import topics
from farflung.common.protocol.messages import Telemetry
from farflung.common.protocol.wire import open_frame, read
from farflung.learner.observe.formatting import UNKNOWN, size
from farflung.learner.observe.status import Status, as_json
from farflung.learner.observe.watch import receive

BROKERS_S = 1.5  # a broker publishes its status every second
BROKERS, UPSTREAMS, NAME_LETTERS = 64, 64, 80
LARGEST = 1 << 53
REST = "rest"
MEANING = {
    "replay": "replay, as far as it is filled",
    "network": "network, target and optimizer",
    "versions": "published versions that evaluations may need",
    "parcels": "parcels that wait or are not acknowledged",
    "sockets": "messages that were not read",
    "weights": "weights that came last",
    "environments": "environments: the process grew by so much",
    "session": "session of the acting graph: the process grew by so much",
    "queues": "frames that an upstream has not taken",
    LIBRARIES: "programs and libraries, shared by processes",
    REST: "the rest: Python, and what libraries allocate",
}

Parts = dict[str, int]


class BrokerMemory(msgspec.Struct, frozen=True):
    """The part of a broker's status that counts here."""

    broker: str
    memory: int = 0
    upstreams: tuple[dict[str, Any], ...] = ()


def show_memory(
    context: Context, address: Address, stream: TextIO, json: bool, keys: ClientKeys | None
) -> None:
    """Print the memory of all processes of a run; raise `Unhealthy` if no learner answers."""
    processes = of_learner(receive(context, address, 5.0, keys))
    processes |= brokers(context, address, keys)
    text = as_json(processes) if json else "\n".join(lines(processes))
    stream.write(text + "\n")


def of_learner(status: Status) -> dict[str, Parts]:
    """Return the memory of a learner and of its actors, by process and part."""
    found = {"learner": with_rest({RESIDENT: status.memory, **status.memory_parts})}
    for actor in status.actors:
        found[f"actor {actor.name}"] = with_rest(dict(actor.memory))
    return found


def with_rest(parts: Parts) -> Parts:
    """Return the parts of a process, and what is left of its resident memory."""
    known = sum(value for part, value in parts.items() if part != RESIDENT)
    if RESIDENT in parts:
        parts[REST] = max(0, parts[RESIDENT] - known)
    return parts


def brokers(context: Context, address: Address, keys: ClientKeys | None) -> dict[str, Parts]:
    """Return the memory of the brokers that publish at an address."""
    found: dict[str, Parts] = {}
    with feed_subscriber(context, address, [topics.broker()], keys=keys) as socket:
        end = time.monotonic() + BROKERS_S
        while (left := end - time.monotonic()) > 0 and len(found) < BROKERS:
            if socket.poll(max(1, int(left * 1000))):
                found |= of_broker(socket.recv_multipart()[-1])
    return found


def of_broker(frame: bytes) -> dict[str, Parts]:
    """Return the memory of a broker; nothing for a message that cannot be read."""
    try:
        message = read(open_frame(frame))
        if not isinstance(message, Telemetry):
            return {}
        status = msgspec.json.decode(message.document, type=BrokerMemory)
    except (Refused, ValueError, RecursionError):
        return {}
    queued = [upstream.get("queued_bytes", 0) for upstream in status.upstreams[:UPSTREAMS]]
    queues = sum(number for number in queued if type(number) is int and 0 <= number < LARGEST)
    memory = min(max(0, status.memory), LARGEST)
    name = printable(status.broker, NAME_LETTERS)
    return {f"broker {name}": with_rest({RESIDENT: memory, "queues": queues})}


def lines(processes: Mapping[str, Parts]) -> list[str]:
    """Return a paragraph for each process, its largest part first."""
    found = []
    for name, parts in processes.items():
        resident = parts.get(RESIDENT)
        found.append(f"{name}: {UNKNOWN if resident is None else size(resident)}")
        for part, value in sorted(parts.items(), key=lambda one: -one[1]):
            if part != RESIDENT:
                found.append(f"  {size(value):>8}  {MEANING.get(part, part)}")
    return found
