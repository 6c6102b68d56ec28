"""The `broker` command: one address in front of learners.

It is for actors that cannot or should not reach each learner.
"""

import logging
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from farflung.broker.config import BrokerConfig
from farflung.common.data.fields import default_name
from farflung.common.process import config, lifecycle
from farflung.common.process import log as logs
from farflung.common.process.config import Loaded, require
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop

if TYPE_CHECKING:
    from farflung.common.net.keys import ClientKeys

log = logging.getLogger("farflung.broker.main")  # also under `python -m`

ABOUT = (
    "Relay between actors and learners: trajectories go to the learner of their policy, "
    "every learner's feed goes to all actors."
)


EXAMPLES = {
    "broker red:5555 blue:5555": "one address for two learners that actors cannot reach",
    "broker gpu-box:5555 --bind 0.0.0.0 --keys farflung-keys --upstream-keys edge.key": (
        "in front of actors on other machines"
    ),
}


def main() -> None:
    """Run the command."""
    sys.exit(
        lifecycle.main_guard(
            "broker",
            lambda: config.run(
                "broker",
                BrokerConfig,
                relay,
                sys.argv[1:],
                description=ABOUT,
                examples=EXAMPLES,
            ),
        )
    )


def relay(loaded: Loaded[BrokerConfig]) -> int:
    """Run a broker until it is stopped; return the exit code."""
    asked = loaded.config
    require(bool(asked.upstreams), "name at least one learner: broker HOST[:PORT]")
    name = asked.name or default_name(socket.gethostname(), secrets.randbits(24))
    with logs.start("broker", name, asked.log_level):
        # Before the imports that take time.
        log.info("starting, for %s", ", ".join(map(str, asked.learners)), extra=logs.LASTING)
        return run(asked, name)


def run(asked: BrokerConfig, name: str) -> int:
    """Run a broker from start to end; return its exit code."""
    from farflung.broker.relay_loop import Broker  # --help imports no sockets
    from farflung.common.net import sockets
    from farflung.common.net.keys import server_keys
    from farflung.common.process import descriptors

    descriptors.require(
        descriptors.OWN + descriptors.LINE * (len(asked.learners) + descriptors.ACTORS),
        f"a broker for {len(asked.learners)} learners and {descriptors.ACTORS} actors",
    )
    keys = server_keys(Path(asked.keys)) if asked.keys else None
    upstream_keys = broker_keys(asked.upstream_keys)
    stop = Stop()
    if asked.until_stdin_closes:
        lifecycle.stop_when_closed(stop, sys.stdin.fileno())
    with lifecycle.signals(stop), sockets.context() as context:
        link = Broker(
            context,
            asked.address,
            asked.learners,
            asked.queue,
            name,
            keys=keys,
            upstream_keys=upstream_keys,
            largest=asked.largest_message,
        )
        log.info(
            "listening: actor %s (feed on port %d)",
            link.address.seen_from_elsewhere,
            link.address.feed_port,
        )
        learners = ", ".join(map(str, asked.learners))
        log.info("relaying to %s; memory: %s", learners, memory(asked))
        log.info("connecting to %s", learners, extra=logs.LASTING)
        try:
            link.run(stop)
        finally:
            link.close()
        log.info("stopped: %s", stop.reason)
    return stop.exit_code


def broker_keys(path: str) -> "ClientKeys | None":
    """Return the keys that a broker dials with: learners accept every actor's messages from it."""
    from farflung.common.net.keys import BROKER, client_keys

    if not path:
        return None
    found = client_keys(Path(path))
    if found.client.role != BROKER:
        raise ConfigurationError(
            f"--upstream-keys {path} is a key of role {found.client.role}. "
            "Make one for a broker on the learner's machine: "
            "learner keys FOLDER --add NAME --role broker"
        )
    return found


def memory(asked: BrokerConfig) -> str:
    """Return the formula of the memory that it may take."""
    from farflung.common.net.shares import BROKER, TOPIC_MEMORY
    from farflung.common.net.sockets import (
        FEED_BACKLOG_BYTES,
        FEED_MESSAGES,
        LEAST_FEED_MESSAGES,
        RELAY_MESSAGES,
    )

    return (
        f"{len(asked.learners)} × {asked.queue >> 20} MiB queued, "
        f"{RELAY_MESSAGES} messages in the socket of each actor and learner, "
        f"{FEED_MESSAGES} feed messages of each learner, and of the feed for an actor that does "
        f"not read at most {FEED_BACKLOG_BYTES >> 20} MiB or {LEAST_FEED_MESSAGES} messages, "
        f"for topics {BROKER.total.size * TOPIC_MEMORY >> 20} MiB"
    )


if __name__ == "__main__":
    main()
