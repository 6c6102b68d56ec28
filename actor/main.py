"""The `actor` command: dial a learner, and roll out what it asks for until somebody says stop."""

import logging
import secrets
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from farflung.actor.config import ActorConfig
from farflung.common.data.names import default_name
from farflung.common.process import config, lifecycle
from farflung.common.process import log as logs
from farflung.common.process.config import Loaded
from farflung.common.process.exits import Exit
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who

if TYPE_CHECKING:
    from farflung.common.net.keys import ClientKeys

logger = logging.getLogger(__name__)

ABOUT = (
    "Step environments for a learner: it says which, sends the policy, and takes the trajectories."
)


def main() -> None:
    """The entry point."""
    sys.exit(
        lifecycle.main_guard(
            "actor", lambda: config.run("actor", ActorConfig, act, sys.argv[1:], description=ABOUT)
        )
    )


def act(loaded: Loaded[ActorConfig]) -> int:
    """Act until the end, with a log."""
    from farflung.common.net.keys import client_keys_for, full_name

    asked = loaded.config
    keys = client_keys_for(asked.learner, asked.keys)
    name = full_name(keys, asked.name or default_name(socket.gethostname(), secrets.randbits(24)))
    with logs.start("actor", name, asked.log_level) as log:
        return run(asked, keys, log.who)


def run(asked: ActorConfig, keys: "ClientKeys | None", who: Who) -> int:
    """The whole life of an actor."""
    from farflung.actor.connection.policy_client import (
        PolicyClient,  # what needs numpy and sockets is not imported for --help
    )
    from farflung.actor.connection.sockets import GRACE_S, Connection
    from farflung.actor.heartbeat import Heartbeat
    from farflung.actor.loop import ActorLoop
    from farflung.actor.worker import Means
    from farflung.common.net import sockets
    from farflung.common.process.plugins import import_packages
    from farflung.common.protocol.receipts import Receipts

    import_packages(asked.imports)
    stop = Stop()
    if asked.until_stdin_closes:
        lifecycle.stop_when_closed(stop, sys.stdin.fileno())
    watchdog = Watchdog(asked.step_timeout)
    client = PolicyClient(asked.policy, who.name, asked.environments, asked.evaluate)
    if asked.acknowledged:
        client.write_receipts(Receipts(Path(asked.acknowledged)))
    means = Means(
        asked.environments, client.problem, stop.wait, time.monotonic, asked.vector, watchdog.beat
    )
    contact = Heartbeat(asked.patience, asked.heartbeat)
    with lifecycle.signals(stop), sockets.context() as context:
        link = Connection(context, asked.learner, client, keys=keys)
        try:
            ActorLoop(
                link,
                means,
                stop,
                watchdog,
                who,
                asked.allowed,
                asked.once,
                asked.max_policy_age,
                contact,
            ).run(asked.evaluate)
        except Exception as error:
            client.problem("ended", str(error))
            stop.set(str(error), 1)
            raise
        finally:
            link.pump()
            watchdog.close()
            link.close(stop.reason, GRACE_S)
    logger.log(
        logging.INFO if stop.exit_code in (0, Exit.INTERRUPTED) else logging.WARNING,
        "ended: %s",
        stop.reason,
    )
    return stop.exit_code


if __name__ == "__main__":
    main()
