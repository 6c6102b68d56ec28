"""Local actors: started as child processes, or made as players of the sequential mode."""

import shlex
import time
from functools import partial
from pathlib import Path

from farflung.actor.config import ActorConfig
from farflung.common.net.address import Address
from farflung.common.net.keys import CLIENT_FILE, client_keys
from farflung.common.process.lifecycle import Stop
from farflung.learner.config import LearnerConfig
from farflung.learner.local.children import Children, actor_command
from farflung.learner.local.players import local_actor
from farflung.learner.local.processors import local_actors
from farflung.learner.transport.in_process import Player

DEFAULT_POLICY = ActorConfig().policy
EVALUATION_SEATS = 20


def start_local_actors(config: LearnerConfig, address: Address, children: Children) -> None:
    """Start the local actors and the evaluator: ordinary ones, over loopback."""
    near, now = address.seen_from_here, time.monotonic()
    wanted: list[tuple[str, int, bool]] = [
        (f"local-{index}", config.environments, False) for index in range(local_actors(config))
    ]
    if config.evaluate_every:
        wanted.append(("evaluator", min(config.evaluate_episodes, EVALUATION_SEATS), True))
    keys = (
        str(client_keys(Path(config.keys)).path) if config.keys and wanted else ""
    )  # the path: a secret is on no command line
    for name, seats, evaluates in wanted:
        command = actor_command(
            near,
            name,
            environments=seats,
            policy=config.policy,
            imports=config.imports,
            evaluate=evaluates,
            keys=keys,
        )
        children.add(name, command, now)


def join_command(config: LearnerConfig, address: Address) -> str:
    """Return the command that starts an actor of this learner, from elsewhere if it can."""
    words = ["actor", str(address.seen_from_elsewhere)]
    words += (
        ["--feed-port", str(address.feed_port)] if address.feed_port != address.port + 1 else []
    )
    words += ["--keys", CLIENT_FILE] if config.keys else []
    words += ["--policy", config.policy] if config.policy != DEFAULT_POLICY else []
    words += [word for package in config.imports for word in ("--import", package)]
    return shlex.join(words)


def players(config: LearnerConfig, stop: Stop) -> list[Player]:
    """Return the actors of the sequential mode, with the same names and sizes."""
    make = partial(local_actor, config.policy, wait=stop.wait, clock=time.monotonic, stop=stop)
    made: list[Player] = [
        make(f"local-{index}", config.environments) for index in range(max(1, local_actors(config)))
    ]
    if config.evaluate_every:
        seats = min(config.evaluate_episodes, EVALUATION_SEATS)
        made.append(make("evaluator", seats, evaluates=True))
    return made
