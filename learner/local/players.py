"""Players: the actors of the sequential mode, which take turns with training in its process."""

from collections.abc import Callable
from dataclasses import dataclass

from farflung.actor.connection.inline import InlineConnection, InTurns
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.loop import ActorLoop, Rules
from farflung.actor.worlds.gymnasium import Surroundings, opener
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who


@dataclass(frozen=True, slots=True)
class LocalActor:
    """An ordinary actor, except that the learner carries its messages and runs its turns."""

    client: PolicyClient
    loop: ActorLoop

    def turn(self) -> None:
        """Play one window or evaluation, if there is what it takes."""
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
    evaluates: bool = False,
) -> LocalActor:
    """Return an actor of this process. `wait` and `clock` are for environments that fail."""
    client = PolicyClient(policy, name, environments, evaluates=evaluates)
    open_world = opener(environments, Surroundings(client.problem, wait, clock))
    rules = Rules(evaluates=evaluates)
    # Within a turn no time passes: messages are exchanged between two turns.
    connection = InlineConnection(client, InTurns(), _no_time)
    loop = ActorLoop(
        connection, open_world, rules, stop, Watchdog(0.0), Who("actor", name), _no_time
    )
    return LocalActor(client, loop)


def _no_time() -> float:
    return 0.0
