"""What an actor can be told. It needs nothing: the learner on this machine is the default."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from farflung.common.data.names import ACTOR, NAME, RULE
from farflung.common.net.address import Address, parse_address
from farflung.common.process.config import require

LINK = Parameter(group=Group("Learner", sort_key=1))
WORLD = Parameter(group=Group("World", sort_key=2))
PROCESS = Parameter(group=Group("Process", sort_key=3))

LEAST_AGE_S = 10.0  # by then several snapshots were asked for


@dataclass(frozen=True, slots=True)
class ActorConfig:
    """Everything an actor can be told; the learner tells it the rest."""

    address: Annotated[str, LINK] = "127.0.0.1:5555"
    """The learner: HOST, HOST:PORT or [IPV6]:PORT."""
    _: KW_ONLY
    keys: Annotated[str, LINK, Parameter(show_default=False)] = ""
    """Key file, from the learner's machine; by default ~/.config/farflung/actor.key if that is there and the learner is elsewhere."""
    feed_port: Annotated[int | None, LINK] = None
    """The learner's feed, where it is not the next port."""
    policy: Annotated[str, LINK] = "default"
    """The policy to act for."""
    name: Annotated[str, LINK, Parameter(show_default=False)] = ""
    """This actor's name; by default host and a random number. With keys their label comes before it."""
    environments: Annotated[int, WORLD, Parameter(name="--envs")] = 1
    """Environments in this process."""
    vector: Annotated[bool, WORLD, Parameter(negative=(), show_default=False)] = False
    """Use the environment's own vectorised version."""
    imports: Annotated[tuple[str, ...], WORLD, Parameter(name="--import", show_default=False)] = ()
    """Package that registers environments; repeatable."""
    allowed: Annotated[
        tuple[str, ...], WORLD, Parameter(name="--allow-env", show_default=False)
    ] = ()
    """Environment a learner may ask for, by default any registered one; repeatable."""
    evaluate: Annotated[bool, WORLD, Parameter(negative=(), show_default=False)] = False
    """Play the learner's greedy evaluation episodes instead of collecting."""
    once: Annotated[bool, PROCESS, Parameter(negative=(), show_default=False)] = False
    """End when the learner's run has reached its goal, instead of waiting for the next one. A learner that was stopped is waited for."""
    patience: Annotated[float, PROCESS] = 0.0
    """Seconds without a word from a learner after which the process ends; 0: never."""
    heartbeat: Annotated[str, PROCESS, Parameter(show_default=False)] = ""
    """File that is touched every few seconds while this actor works for a learner that it hears, for health checks."""
    acknowledged: Annotated[str, PROCESS, Parameter(show_default=False)] = ""
    """File to append a line to for each parcel that the learner acknowledged, for `learner audit --against`."""
    step_timeout: Annotated[float, PROCESS] = 60.0
    """Seconds after which an environment step counts as hung and the process ends; 0: never."""
    max_policy_age: Annotated[float, PROCESS] = 300.0
    """Seconds for which a newer policy may be known and not come, although it is asked for, before the process ends; 0: any."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], PROCESS] = "info"
    """The least important lines to show."""
    until_stdin_closes: Annotated[bool, PROCESS, Parameter(show=False, negative=())] = False
    """End when standard input closes: how a learner's own actors never outlive it."""

    def __post_init__(self) -> None:
        parse_address(self.address, self.feed_port)
        require(self.environments >= 1, "--envs must be at least 1")
        require(self.step_timeout >= 0, "--step-timeout must not be negative")
        require(
            self.max_policy_age == 0 or self.max_policy_age >= LEAST_AGE_S,
            f"--max-policy-age must be 0 or at least {LEAST_AGE_S:g}: a policy needs time to come",
        )
        require(self.patience >= 0, "--patience must not be negative")
        require(NAME.fullmatch(self.policy) is not None, f"--policy {self.policy!r}: {RULE}")
        require(
            not self.name or ACTOR.fullmatch(self.name) is not None, f"--name {self.name!r}: {RULE}"
        )

    @property
    def learner(self) -> Address:
        """Where the learner is."""
        return parse_address(self.address, self.feed_port)
