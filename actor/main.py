"""The `actor` command: dial a learner, and play what it asks for until stopped."""

import logging
import secrets
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from farflung.actor.config import ActorConfig, CollectorConfig
from farflung.common.data.fields import default_name
from farflung.common.process import config, lifecycle
from farflung.common.process import log as logs
from farflung.common.process.aliases import Aliases, file_words, translated
from farflung.common.process.config import Loaded
from farflung.common.process.errors import Exit
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.process.memory import MemoryGuard

if TYPE_CHECKING:
    from farflung.actor.connection.policies import MakeClient
    from farflung.actor.connection.policy_client import PolicyClient
    from farflung.actor.connection.port import Connections
    from farflung.actor.loop import ActorLoop
    from farflung.actor.realtime.loop import RateLoop
    from farflung.common.net.keys import ClientKeys
    from farflung.common.net.sockets import Context

Form = tuple[
    "Connections", "Callable[..., ActorLoop | RateLoop]", "Callable[[str], object]"
]  # the connection, the maker of the loop, and the last words to the learner

SIGNAL_S = 1.5  # for a signal to end what is played; the supervisor expects the end within 2 s

logger = logging.getLogger("farflung.actor.main")  # also under `python -m`

ABOUT = (
    "Step environments for a learner: it names them, sends the policy, and takes the trajectories."
)


EXAMPLES = {
    "actor": "join the learner on this machine",
    "actor gpu-box:5555 --envs 16": "join another one, with 16 environments",
    "actor gpu-box:5555 --keys actor.key": "with a key, from a copy of its file",
    "actor gpu-box:5555 --import my_worlds": "environments of your own package",
    "actor gpu-box:5555 --evaluate": "play the evaluations instead of collecting",
    "actor box:5555 box:5565 --policy red": "a world of several policies, each with its learner",
}
ALIASES = Aliases(
    dict.fromkeys(("num-envs", "n-envs", "num-envs-per-env-runner"), "envs")
    | dict.fromkeys(("learner", "host", "server", "connect"), "address"),
    {"env": "The learner names the environment.", "env-id": "The learner names the environment."},
)


def main() -> None:
    """The entry point."""
    sys.exit(lifecycle.main_guard("actor", lambda: command(sys.argv[1:])))


def command(argv: list[str]) -> int:
    """Run the command line; return the exit code."""
    argv, hints = translated("actor", argv, ALIASES)
    sys.stderr.writelines(f"{hint}\n" for hint in hints)
    return config.run(
        "actor",
        ActorConfig,
        act,
        argv,
        description=ABOUT,
        examples=EXAMPLES,
        words=file_words("actor", ALIASES),
    )


class Role(Protocol):
    """The difference between an actor and a worker, which learns from its rows and keeps them."""

    @property
    def name(self) -> str:
        """The word for it in the log."""

    @property
    def learns(self) -> bool:
        """True if it sends gradients."""

    @property
    def evaluates(self) -> bool:
        """True if it plays evaluations and collects nothing."""

    def client(self, name: str, policy: str) -> "PolicyClient":
        """Return the client of a policy, in a process of this name."""

    def form(self, context: "Context", client: "MakeClient", keys: "ClientKeys | None") -> Form:
        """Return the connection, the maker of the loop, and the way of last words."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The role of an actor: it sends rows, or plays evaluations."""

    asked: ActorConfig
    name: ClassVar[str] = "actor"
    learns: ClassVar[bool] = False

    @property
    def evaluates(self) -> bool:
        """True with `--evaluate`."""
        return self.asked.evaluate

    def client(self, name: str, policy: str) -> "PolicyClient":
        """Return a client that sends parcels, and writes their receipts if that is asked for."""
        from farflung.actor.connection.policy_client import PolicyClient
        from farflung.actor.connection.receipts import write_receipts
        from farflung.common.protocol.outbox import WhenFull
        from farflung.common.protocol.receipts import Receipts
        from farflung.common.protocol.topics import OF_FIRST

        asked = self.asked
        when_full = WhenFull.DROP_OLDEST if asked.rate else WhenFull.WAIT
        client = PolicyClient(
            policy, name, asked.environments, asked.evaluate, when_full, wish=OF_FIRST
        )
        if asked.acknowledged:
            write_receipts(client, Receipts(Path(asked.acknowledged)))
        return client

    def form(self, context: "Context", client: "MakeClient", keys: "ClientKeys | None") -> Form:
        """Return the parts of an actor in real time, or as fast as the learner takes the steps."""
        make = at_rate if self.asked.rate else in_windows
        return make(self.asked, context, client, keys)


def act(loaded: Loaded[ActorConfig]) -> int:
    """Act until the end; return the exit code."""
    return take_part(loaded.config, Actor(loaded.config))


def take_part(asked: CollectorConfig, role: Role) -> int:
    """Run a role with a log. Its first line comes before the imports that take time."""
    name = asked.name or default_name(socket.gethostname(), secrets.randbits(24))
    with logs.start(role.name, name, asked.log_level) as log:
        logger.info("starting, for %s", asked.learners_named, extra=logs.LASTING)
        from farflung.common.net.keys import client_keys_for, full_name

        keys = client_keys_for(asked.learner, asked.keys)
        log.who.name = full_name(keys, name)
        return run(asked, keys, log.who, role)


def run(asked: CollectorConfig, keys: "ClientKeys | None", who: Who, role: Role) -> int:
    """Run an actor or worker from start to end; return its exit code."""
    # Not imported for --help: these need numpy and sockets.
    from farflung.actor import hangs
    from farflung.actor.connection.port import GRACE_S
    from farflung.actor.rules import Heartbeat, Rules
    from farflung.actor.worlds.families import opener
    from farflung.actor.worlds.own import import_own
    from farflung.actor.worlds.surroundings import Surroundings
    from farflung.common.net import sockets

    import_own(asked.imports)
    stop = Stop()
    if asked.until_stdin_closes:
        lifecycle.stop_when_closed(stop, sys.stdin.fileno())
    watchdog = Watchdog(asked.step_timeout)
    beat = Heartbeat(asked.patience, asked.heartbeat)
    rules = Rules(
        role.evaluates, asked.allowed, asked.once, asked.max_policy_age, beat, role.learns
    )
    guard = MemoryGuard(int(asked.max_memory * 1e9), "--max-memory")
    with lifecycle.signals(stop), guard, sockets.context() as context:
        connection, make_loop, tell = role.form(context, partial(role.client, who.name), keys)
        watchdog.last_words = partial(hangs.last_words, tell)
        watchdog.standing = hangs.Suspicion(connection).look
        limits = asked.environment_threads, asked.environment_processes, asked.imports
        around = Surroundings(connection.problem, stop.wait, time.monotonic, watchdog.beat, *limits)
        open_world = opener(asked.environments, around, asked.vector)
        loop = make_loop(connection, open_world, rules, stop, watchdog, who)
        try:
            logger.info("connecting to %s", asked.learners_named, extra=logs.LASTING)
            with lifecycle.SignalDeadline(SIGNAL_S):
                loop.run()
        except Exception as error:
            connection.problem("ended", str(error))
            stop.set(str(error), 1)
            raise
        finally:
            connection.exchange(0.0)
            watchdog.close()
            connection.close(stop.reason, GRACE_S)
            if line := loop.summary():
                logger.info(line)
    level = logging.INFO if stop.exit_code in (0, Exit.INTERRUPTED) else logging.WARNING
    logger.log(level, "ended: %s", stop.reason)
    return stop.exit_code


def in_windows(
    asked: ActorConfig, context: "Context", client: "MakeClient", keys: "ClientKeys | None"
) -> Form:
    """Return the parts of an actor that plays as fast as the learners take the steps."""
    from farflung.actor.connection.policies import PolicyConnections
    from farflung.actor.connection.sockets import Sockets
    from farflung.actor.loop import ActorLoop
    from farflung.actor.realtime.alone import WithoutLearner

    connect = partial(Sockets, context, keys=keys)
    answer = WithoutLearner(asked.without_learner)
    connection = PolicyConnections(asked.learners, asked.policy, client, connect, answer)
    return connection, ActorLoop, connection.last_words


def at_rate(
    asked: ActorConfig, context: "Context", client: "MakeClient", keys: "ClientKeys | None"
) -> Form:
    """Return the parts of an actor that steps in real time."""
    from farflung.actor.realtime import connection as threads
    from farflung.actor.realtime.loop import RateLoop
    from farflung.actor.worlds.own import find_answer

    without = find_answer(asked.without_learner)
    connection = threads.connect(context, asked.learner, client(asked.policy), keys)
    make_loop = partial(RateLoop, rate_hz=asked.rate, without=without)
    return connection, make_loop, partial(threads.last_words, connection)


if __name__ == "__main__":
    main()
