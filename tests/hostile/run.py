"""One attack in a process of its own, at a low priority: the siege starts these.

    python tests/hostile/run.py "flood of names" --host 127.0.0.1 --port 5555 --feed-port 5556 \
        --key mallory.key --seconds 10 --peers 50

Without `--key` the peers have none. Each peer is a thread. It says `ready` before it begins,
and ends after its seconds.
"""

import argparse
import logging
import os
import sys
import threading
import time
from pathlib import Path

# Attackers of an earlier release speak its protocol: they import its code.
TREE = os.environ.get("HOSTILE_TREE", str(Path(__file__).parents[2]))
sys.path[:0] = [TREE, str(Path(__file__).parents[1])]

from hostile import attacks  # noqa: E402
from hostile.peer import Peer  # noqa: E402
from hostile.spin import LOWEST, READY, at_low_priority  # noqa: E402

from farflung.common.data.spec import Spec  # noqa: E402
from farflung.common.net.address import Address  # noqa: E402

AT_MOST_S = 10.0  # that an attack may last beyond its seconds


def one_peer(asked: argparse.Namespace, number: int, spec: Spec | None = None) -> Peer:
    """Return a peer with a name of its own."""
    address = Address(asked.host, asked.port, asked.feed_port)
    name, seed = f"{asked.name}-{number}", asked.seed + number
    return Peer(address, key=asked.key, name=name, seed=seed, spec=spec)


def known_spec(asked: argparse.Namespace) -> Spec | None:
    """Return the spec, which one peer learns for all; None for peers that need none."""
    found = attacks.ATTACKS[asked.attack]
    if asked.key is None and found.needs is attacks.Needs.NOTHING:
        return None
    with one_peer(asked, 0) as peer:
        return peer.learn()


def assail(asked: argparse.Namespace, number: int, spec: Spec | None) -> None:
    """Attack as one peer."""
    with one_peer(asked, number, spec) as peer:
        attacks.ATTACKS[asked.attack].run(peer, asked.seconds)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attack", nargs="?", default="")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5555)
    parser.add_argument("--feed-port", type=int, default=5556)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--name", default="mallory")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--peers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nice", type=int, default=LOWEST)
    asked = parser.parse_args()
    logging.disable()
    attacks.load()
    spec = known_spec(asked)
    at_low_priority(asked.nice)
    print(READY, flush=True)
    crowd = [
        threading.Thread(target=assail, args=(asked, number, spec), daemon=True)
        for number in range(asked.peers)
    ]
    for peer in crowd:
        peer.start()
    end = time.monotonic() + asked.seconds + AT_MOST_S
    for peer in crowd:
        peer.join(max(0.0, end - time.monotonic()))
    sys.stdout.flush()
    os._exit(0)  # threads that are late end with the process


if __name__ == "__main__":
    sys.exit(main())
