"""The configuration of an actor. By default it joins a learner on this machine."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from farflung.actor.realtime.alone import WithoutLearner
from farflung.actor.realtime.clock import MOST_HZ
from farflung.common.data.fields import ACTOR, NAME, RULE
from farflung.common.net.address import Address, parse_address
from farflung.common.process.config import MOST_USED, require

MOST = Parameter(group=MOST_USED)
LEARNER = Parameter(group=Group("Learner", sort_key=1))
WORLD = Parameter(group=Group("World", sort_key=2))
PROCESS = Parameter(group=Group("Process", sort_key=3))

LEAST_AGE_S = 10.0  # enough for several requests for a snapshot


@dataclass(frozen=True, slots=True)
class ActorConfig:
    """The options of an actor; the learner sends everything else."""

    address: Annotated[str, MOST, Parameter(metavar="HOST:PORT")] = "127.0.0.1:5555"
    """Learner to join: HOST, HOST:PORT or [IPV6]:PORT."""
    _: KW_ONLY
    keys: Annotated[str, MOST, Parameter(metavar="FILE", show_default=False)] = ""
    """Key file (default: ~/.config/farflung/actor.key, if it exists and the learner is remote)."""
    feed_port: Annotated[int | None, LEARNER, Parameter(metavar="PORT")] = None
    """Port of the learner's feed (default: the next one)."""
    policy: Annotated[str, MOST, Parameter(metavar="NAME")] = "default"
    """Policy to act for."""
    name: Annotated[str, MOST, Parameter(metavar="NAME", show_default=False)] = ""
    """This actor's name (default: host and a random number); a key's label precedes it."""
    environments: Annotated[int, MOST, Parameter(metavar="N", name="--envs")] = 1
    """Environments in this process."""
    vector: Annotated[bool, WORLD, Parameter(negative=(), show_default=False)] = False
    """Use the environment's own vectorised version."""
    imports: Annotated[
        tuple[str, ...], MOST, Parameter(metavar="PACKAGE", name="--import", show_default=False)
    ] = ()
    """Package that registers environments, or one as package.module:Class; repeatable."""
    allowed: Annotated[
        tuple[str, ...], WORLD, Parameter(metavar="ID", name="--allow-env", show_default=False)
    ] = ()
    """Environment that a learner may ask for (default: any registered one); repeatable."""
    rate: Annotated[float, WORLD, Parameter(metavar="HZ")] = 0.0
    """Step in real time, so many times a second; 0: as fast as the learner takes the steps."""
    without_learner: Annotated[WithoutLearner, WORLD] = WithoutLearner.GO_ON
    """With --rate, while no learner is there: go-on with the last policy, or stop until it is."""
    evaluate: Annotated[bool, MOST, Parameter(negative=(), show_default=False)] = False
    """Play the learner's greedy evaluation episodes instead of collecting."""
    once: Annotated[bool, MOST, Parameter(negative=(), show_default=False)] = False
    """Exit when the run reaches its goal; without it, wait for the next run."""
    patience: Annotated[float, MOST, Parameter(metavar="SECONDS")] = 0.0
    """Exit after this many seconds without a message from a learner; 0: never."""
    heartbeat: Annotated[str, PROCESS, Parameter(metavar="FILE", show_default=False)] = ""
    """File for health checks: touched every few seconds while the learner sends."""
    acknowledged: Annotated[str, PROCESS, Parameter(metavar="FILE", show_default=False)] = ""
    """File to which each acknowledged parcel adds a line, for `learner audit --against`."""
    step_timeout: Annotated[float, PROCESS, Parameter(metavar="SECONDS")] = 60.0
    """Exit when an environment step takes longer than this many seconds; 0: never."""
    max_memory: Annotated[float, PROCESS, Parameter(metavar="GB", show_default=False)] = 0.0
    """GB of memory after which it exits (default: three quarters of the machine's)."""
    max_policy_age: Annotated[float, PROCESS, Parameter(metavar="SECONDS")] = 300.0
    """Exit after this many seconds without receiving an announced newer policy; 0: never."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], PROCESS, Parameter(metavar="LEVEL")
    ] = "info"
    """Least important level of log lines to show."""
    until_stdin_closes: Annotated[bool, PROCESS, Parameter(show=False, negative=())] = False
    """Exit when standard input closes, so that a learner's own actors never outlive it."""

    def __post_init__(self) -> None:
        parse_address(self.address, self.feed_port)
        require(self.environments >= 1, "--envs must be at least 1")
        require(
            not (self.evaluate and self.vector),
            "--evaluate cuts episodes that never end, which only single environments allow: "
            "leave --vector out",
        )
        require(0 <= self.rate <= MOST_HZ, f"--rate must be between 0 and {MOST_HZ:,} Hz")
        require(
            not (self.rate and self.evaluate),
            "--rate collects in real time, and --evaluate collects nothing: choose one of them",
        )
        require(
            self.rate > 0 or self.without_learner is WithoutLearner.GO_ON,
            "--without-learner is about the steps of --rate: without it an actor waits",
        )
        require(self.step_timeout >= 0, "--step-timeout must not be negative")
        require(
            self.max_policy_age == 0 or self.max_policy_age >= LEAST_AGE_S,
            f"--max-policy-age must be 0 or at least {LEAST_AGE_S:g}: a policy needs time to come",
        )
        require(self.max_memory >= 0, "--max-memory must not be negative")
        require(self.patience >= 0, "--patience must not be negative")
        require(NAME.fullmatch(self.policy) is not None, f"--policy {self.policy!r}: {RULE}")
        require(
            not self.name or ACTOR.fullmatch(self.name) is not None, f"--name {self.name!r}: {RULE}"
        )

    @property
    def learner(self) -> Address:
        """Return the learner's address."""
        return parse_address(self.address, self.feed_port)
