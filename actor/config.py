"""The configuration of an actor, and the part of it that workers share.

By default both join a learner on this machine.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from farflung.actor.realtime.alone import WithoutLearner, is_answer
from farflung.actor.realtime.clock import MOST_HZ
from farflung.common.data.fields import ACTOR, DEFAULT_POLICY, NAME, RULE
from farflung.common.net.address import Address, parse_address
from farflung.common.process.config import MOST_USED, require

MOST = Parameter(group=MOST_USED)
LEARNER = Parameter(group=Group("Learner", sort_key=1))
WORLD = Parameter(group=Group("World", sort_key=2))
PROCESS = Parameter(group=Group("Process", sort_key=3))

LEAST_AGE_S = 10.0  # enough for several requests for a snapshot


@dataclass(frozen=True, slots=True)
class CollectorConfig:
    """The options of every process that collects; the learner sends everything else."""

    addresses: Annotated[
        tuple[str, ...], MOST, Parameter(metavar="HOST:PORT", name="--address", negative=())
    ] = ("127.0.0.1:5555",)
    """Learner to join: HOST, HOST:PORT or [IPV6]:PORT; several where a world has several."""
    _: KW_ONLY
    keys: Annotated[str, MOST, Parameter(metavar="FILE", show_default=False)] = ""
    """Key file (default: ~/.config/farflung/actor.key, if it exists and the learner is remote)."""
    feed_ports: Annotated[
        tuple[int, ...],
        LEARNER,
        Parameter(metavar="PORT", name="--feed-port", show_default=False, negative=()),
    ] = ()
    """Port of a learner's feed (default: the next one); repeat it for each address, in order."""
    policy: Annotated[str, MOST, Parameter(metavar="NAME")] = DEFAULT_POLICY
    """Policy to act for; its learner names the others of a world with several."""
    name: Annotated[str, MOST, Parameter(metavar="NAME", show_default=False)] = ""
    """Name of this process (default: host and a random number); a key's label precedes it."""
    environments: Annotated[int, MOST, Parameter(metavar="N", name="--envs")] = 1
    """Environments in this process."""
    vector: Annotated[bool | None, WORLD, Parameter(show_default=False)] = None
    """Use the environment's own vectorised version; --no-vector: single ones (default: single ones,
    and for 8 or more of CartPole the version with the same rows)."""
    environment_threads: Annotated[
        int, WORLD, Parameter(metavar="N", name="--env-threads", show_default=False)
    ] = 64
    """Most threads that step slow environments at once, where measured to be faster (default: 64);
    0: none."""
    environment_processes: Annotated[
        int, WORLD, Parameter(metavar="N", name="--env-processes", show_default=False)
    ] = 0
    """Most slow environments that step in processes of their own, where threads are no faster and
    these are (default: 0, none); each takes as much memory as an environment and its libraries."""
    imports: Annotated[
        tuple[str, ...], MOST, Parameter(metavar="PACKAGE", name="--import", show_default=False)
    ] = ()
    """Package that registers environments, or one as package.module:Class; repeatable."""
    allowed: Annotated[
        tuple[str, ...], WORLD, Parameter(metavar="ID", name="--allow-env", show_default=False)
    ] = ()
    """Environment that a learner may ask for (default: any registered one); repeatable."""
    once: Annotated[bool, MOST, Parameter(negative=(), show_default=False)] = False
    """Exit when the run reaches its goal; without it, wait for the next run."""
    patience: Annotated[float, MOST, Parameter(metavar="SECONDS")] = 0.0
    """Exit after this many seconds without a message from a learner; 0: never."""
    heartbeat: Annotated[str, PROCESS, Parameter(metavar="FILE", show_default=False)] = ""
    """File for health checks: touched every few seconds while the learner sends."""
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
        require(
            len(self.feed_ports) in (0, len(self.addresses)),
            f"--feed-port is needed once for each address or not at all: there are "
            f"{len(self.feed_ports)} for {len(self.addresses)}",
        )
        require(
            0 < len({(each.host, each.port) for each in self.learners}) == len(self.addresses),
            "an address is named twice: name each once",
        )
        require(self.environments >= 1, "--envs must be at least 1")
        require(self.environment_threads >= 0, "--env-threads must not be negative")
        require(self.environment_processes >= 0, "--env-processes must not be negative")
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
    def learners(self) -> tuple[Address, ...]:
        """Return the addresses of the learners."""
        feed_ports = self.feed_ports or (None,) * len(self.addresses)
        return tuple(
            parse_address(text, port) for text, port in zip(self.addresses, feed_ports, strict=True)
        )

    @property
    def learner(self) -> Address:
        """Return the first address."""
        return self.learners[0]

    @property
    def learners_named(self) -> str:
        """Return the addresses for a sentence."""
        word = "the learner" if len(self.addresses) == 1 else "learners"
        return f"{word} at {' and '.join(map(str, self.learners))}"


@dataclass(frozen=True, slots=True)
class ActorConfig(CollectorConfig):
    """The options of an actor: to collect, in real time too, or to play evaluations."""

    _: KW_ONLY
    evaluate: Annotated[bool, MOST, Parameter(negative=(), show_default=False)] = False
    """Play the learner's greedy evaluation episodes instead of collecting."""
    rate: Annotated[float, WORLD, Parameter(metavar="HZ")] = 0.0
    """Step in real time, so many times a second; 0: as fast as the learner takes the steps."""
    without_learner: Annotated[str, WORLD, Parameter(metavar="ANSWER")] = WithoutLearner.GO_ON.value
    """While a learner takes nothing, with --rate or several policies: go-on without it, or stop; or
    with --rate your function as package.module:function."""
    acknowledged: Annotated[str, PROCESS, Parameter(metavar="FILE", show_default=False)] = ""
    """File to which each acknowledged parcel adds a line, for `learner audit --against`."""

    def __post_init__(self) -> None:
        CollectorConfig.__post_init__(self)
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
            not self.rate or len(self.addresses) == 1,
            "--rate plays for one policy, so for the learner at one address",
        )
        require(
            is_answer(self.without_learner),
            f"--without-learner {self.without_learner}: choose {', '.join(WithoutLearner)}, or a "
            "function of yours as package.module:function",
        )
        require(
            ":" not in self.without_learner or self.rate > 0,
            f"--without-learner {self.without_learner}: a function acts at a fixed rate: "
            "add --rate HZ",
        )
