"""Local actors: started as child processes, or made to take turns in the sequential mode.

Players take turns with training in its process.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from farflung.actor.connection.inline import InTurns
from farflung.actor.connection.policies import PolicyConnections
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.loop import ActorLoop
from farflung.actor.rules import Rules
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.fields import DEFAULT_POLICY
from farflung.common.net.address import Address
from farflung.common.net.keys import CLIENT_FILE, client_keys
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.learner.algorithms.builtin import BUILT_IN
from farflung.learner.config import LearnerConfig
from farflung.learner.local.children import Children, actor_command
from farflung.learner.local.processors import local_actors
from farflung.learner.schedule.rounds import round_actors
from farflung.learner.transport.in_process import TurnTaker

EVALUATION_SEATS = 20
EVALUATOR = "evaluator"
HERE = Address("this process", 0, 0)  # of learners that have no ports

Look = Callable[[Callable[[], int]], None]
"""Called before each step; the argument returns the episodes that an evaluation has to go."""


def _unseen(left: Callable[[], int]) -> None:
    """Look at nothing."""


def _no_time() -> float:
    return 0.0


def start_local_actors(config: LearnerConfig, address: Address, children: Children) -> None:
    """Start the local actors and the evaluator: ordinary ones, over loopback."""
    near, now = address.seen_from_here, time.monotonic()
    wanted: list[tuple[str, int, bool]] = [
        (f"local-{index}", config.environments, False) for index in range(local_actors(config))
    ]
    if config.evaluate_every and not config.policies:
        wanted.append((EVALUATOR, min(config.evaluate_episodes, EVALUATION_SEATS), True))
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
            role="worker" if config.gradients == "only" and not evaluates else "actor",
        )
        if config.gradients == "only" and not evaluates:
            command += own_code(config)
        children.add(name, command, now)


def own_code(config: LearnerConfig) -> tuple[str, ...]:
    """Return the flags with which a worker may import what a user's learner imports."""
    algorithm = () if config.algorithm in BUILT_IN else ("--algorithm", config.algorithm)
    return (*algorithm, "--model", config.model) if config.model else algorithm


def evaluations(config: LearnerConfig) -> str:
    """Return a sentence about the evaluations of a run."""
    if not config.evaluate_every:
        return "no evaluations: --evaluate-every is 0"
    process = "by an actor with --evaluate, which plays for all policies"
    if config.mode == "sequential":
        process = "between turns"
    elif not config.policies:
        process = "by a process of their own"
    return (
        f"evaluations: {config.evaluate_episodes} greedy episodes every "
        f"{config.evaluate_every:,} steps, {process} (--evaluate-every 0: none)"
    )


def join_command(config: LearnerConfig, address: Address, policy: str = "") -> str:
    """Return the command that starts an actor of this learner or team, from elsewhere if it can."""
    word = ("learner", "worker") if config.gradients == "only" else ("actor",)
    parts = [*word, str(address.seen_from_elsewhere)]
    parts += (
        ["--feed-port", str(address.feed_port)] if address.feed_port != address.port + 1 else []
    )
    parts += ["--keys", CLIENT_FILE] if config.keys else []
    policy = policy or config.policy
    parts += ["--policy", policy] if policy != DEFAULT_POLICY else []
    parts += [part for package in config.imports for part in ("--import", package)]
    parts += own_code(config) if config.gradients == "only" else ()
    return shlex.join(parts)


def sequential_actors(
    config: LearnerConfig,
    stop: Stop,
    look: Look = _unseen,
    now: Callable[[], float] = _no_time,
) -> list[TurnTaker]:
    """Return the actors of the sequential mode, with the same names and sizes."""
    clock = time.monotonic
    make = partial(
        local_actor, config.policy, wait=stop.wait, clock=clock, stop=stop, look=look, now=now
    )
    made: list[TurnTaker] = [
        make(f"local-{index}", config.environments) for index in range(round_actors(config))
    ]
    if config.evaluate_every:
        seats = min(config.evaluate_episodes, EVALUATION_SEATS)
        made.append(make(EVALUATOR, seats, evaluates=True))
    return made


@dataclass(frozen=True, slots=True)
class LocalActor:
    """An ordinary actor, except that its messages are carried in its process, between its turns."""

    pair: InTurns
    connection: PolicyConnections
    loop: ActorLoop

    @property
    def client(self) -> PolicyClient:
        """Its side of the protocol, for the policy that it joined."""
        return self.pair.clients[0]

    @property
    def clients(self) -> Sequence[PolicyClient]:
        """Its sides of the protocol, one for each policy that it looks for so far."""
        return self.pair.clients

    def turn(self) -> None:
        """Play one window or evaluation, if the actor has a policy and credit."""
        self.connection.exchange(0.0)  # learners that are away are noticed by the time
        self.loop.turn()

    def close(self) -> None:
        """Close the environments."""
        self.loop.close()


def local_actor(
    policy: str,
    name: str,
    environments: int,
    *,
    stop: Stop,
    wait: Callable[[float], object],
    clock: Callable[[], float],
    look: Look = _unseen,
    evaluates: bool = False,
    now: Callable[[], float] = _no_time,
) -> LocalActor:
    """Return an actor of this process. `wait` and `clock` are for environments that fail.

    `now` is the time by which a learner is away while others are there.
    """

    def client(policy: str) -> PolicyClient:
        return PolicyClient(policy, name, environments, evaluates=evaluates)

    pair = InTurns()

    def connect(address: Address, first: PolicyClient) -> InTurns:
        pair.add(first)
        return pair

    connection = PolicyConnections([HERE], policy, client, connect, clock=now)
    around = Surroundings(connection.problem, wait, clock, lambda: look(lambda: loop.left))
    rules = Rules(evaluates=evaluates)
    # Within a turn no time passes: messages are exchanged between two turns.
    loop = ActorLoop(
        connection,
        opener(environments, around),
        rules,
        stop,
        Watchdog(0.0),
        Who("actor", name),
        _no_time,
    )
    return LocalActor(pair, connection, loop)
