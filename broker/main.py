"""The `broker` command: one address in front of learners, for actors that cannot or should not reach each of them."""

import logging
import secrets
import socket
import sys

from broker.config import BrokerConfig
from common import config, lifecycle
from common import log as logs
from common.config import Loaded, require
from common.lifecycle import Stop
from common.names import default_name

log = logging.getLogger("broker.main")  # also under `python -m`

ABOUT = "Relay between actors and learners: trajectories go to the learner of their policy, every learner's feed goes to all actors."


def main() -> None:
    """The entry point."""
    sys.exit(lifecycle.main_guard("broker", lambda: config.run("broker", BrokerConfig, relay, sys.argv[1:], description=ABOUT)))


def relay(loaded: Loaded[BrokerConfig]) -> int:
    """The whole life of a broker."""
    from broker.link import Link  # what needs sockets is not imported for --help
    from common import sockets

    asked = loaded.config
    require(bool(asked.upstreams), "name at least one learner: broker HOST[:PORT]")
    name = asked.name or default_name(socket.gethostname(), secrets.randbits(24))
    logger = logs.start("broker", name, asked.log_level)
    stop = Stop()
    with lifecycle.signals(stop), sockets.context() as context:
        link = Link(context, asked.address, asked.learners, asked.queue, name)
        log.info("listening: actor %s (feed on port %d)", link.address.seen_from_elsewhere, link.address.feed_port)
        log.info("relaying to %s; memory: %s", ", ".join(map(str, asked.learners)), memory(asked))
        try:
            link.run(stop)
        finally:
            link.close()
    log.info("stopped: %s", stop.reason)
    logger.stop()
    return stop.exit_code


def memory(asked: BrokerConfig) -> str:
    """The formula of what it may take."""
    from common.sockets import FEED_BACKLOG_BYTES, RELAY_MESSAGES

    return (
        f"{len(asked.learners)} × {asked.queue >> 20} MiB queued, {RELAY_MESSAGES} messages in the socket of each actor and upstream, "
        f"at most {FEED_BACKLOG_BYTES >> 20} MiB of feed for an actor that does not read"
    )


if __name__ == "__main__":
    main()
