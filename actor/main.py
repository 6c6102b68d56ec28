"""The `actor` command: dial a learner, and roll out what it asks for until somebody says stop."""

import logging
import secrets
import socket
import sys
import time
from pathlib import Path

from actor.config import ActorConfig
from common import config, lifecycle
from common import log as logs
from common.config import Loaded
from common.exits import Exit
from common.lifecycle import Stop, Watchdog
from common.names import default_name
from common.terminal import unblocked

logger = logging.getLogger(__name__)

ABOUT = "Step environments for a learner: it says which, sends the policy, and takes the trajectories."


def main() -> None:
    """The entry point."""
    sys.exit(lifecycle.main_guard("actor", lambda: config.run("actor", ActorConfig, act, sys.argv[1:], description=ABOUT)))


@unblocked()
def act(loaded: Loaded[ActorConfig]) -> int:
    """The whole life of an actor."""
    from actor.channel import Channel  # what needs numpy and sockets is not imported for --help
    from actor.contact import Contact
    from actor.link import GRACE_S, Link
    from actor.rollout import Rollout
    from actor.worker import Means
    from common import sockets
    from common.keys import client_keys_for, full_name
    from common.plugins import import_packages
    from common.receipts import Receipts

    asked = loaded.config
    keys = client_keys_for(asked.learner, asked.keys)
    name = full_name(keys, asked.name or default_name(socket.gethostname(), secrets.randbits(24)))
    log = logs.start("actor", name, asked.log_level)
    import_packages(asked.imports)
    stop = Stop()
    if asked.until_stdin_closes:
        lifecycle.stop_when_closed(stop, sys.stdin.fileno())
    watchdog = Watchdog(asked.step_timeout)
    channel = Channel(asked.policy, name, asked.environments, asked.evaluate)
    if asked.acknowledged:
        channel.write_receipts(Receipts(Path(asked.acknowledged)))
    means = Means(asked.environments, channel.problem, stop.wait, time.monotonic, asked.vector, watchdog.beat)
    contact = Contact(asked.patience, asked.heartbeat)
    with lifecycle.signals(stop), sockets.context() as context:
        link = Link(context, asked.learner, channel, keys=keys)
        try:
            Rollout(link, means, stop, watchdog, log.who, asked.allowed, asked.once, asked.max_policy_age, contact).run(asked.evaluate)
        except Exception as error:
            channel.problem("ended", str(error))
            stop.set(str(error), 1)
            raise
        finally:
            link.pump()
            watchdog.close()
            link.close(stop.reason, GRACE_S)
    logger.log(logging.INFO if stop.exit_code in (0, Exit.INTERRUPTED) else logging.WARNING, "ended: %s", stop.reason)
    return stop.exit_code


if __name__ == "__main__":
    main()
