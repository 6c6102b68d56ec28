"""What a learner can be told: one frozen dataclass, and the section of the algorithm that was chosen."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from farflung.common.data.names import NAME, RULE
from farflung.common.net.address import Address, listening
from farflung.common.process import plugins
from farflung.common.process.config import Loaded, peek, require, suggestion
from farflung.common.process.config import load as load_any
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.until import Condition, parse

WORLD = Parameter(group=Group("World", sort_key=1))
RUN = Parameter(group=Group("Run", sort_key=2))
COLLECTION = Parameter(group=Group("Collection", sort_key=3))
REPLAY = Parameter(group=Group("Replay and pacing", sort_key=4))
TRAINING = Parameter(group=Group("Training", sort_key=5))
EVALUATION = Parameter(group=Group("Evaluation", sort_key=6))
NETWORK = Parameter(group=Group("Network", sort_key=7))
ALGORITHM = Group("Algorithm", sort_key=8)

SETTINGS = "config.toml"  # in the folder of a run
BUILT_IN = {"dqn": DQNSettings}


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """Everything a learner can be told."""

    environment: Annotated[str, WORLD, Parameter(name="--env")] = "CartPole-v1"
    """Registered id of the environment."""
    environment_arguments: Annotated[
        tuple[str, ...], WORLD, Parameter(name="--env-args", show_default=False)
    ] = ()
    """An argument of the environment, as KEY=VALUE or a JSON object; repeatable."""
    wrapper: Annotated[tuple[str, ...], WORLD, Parameter(show_default=False)] = ()
    """A registered wrapper, innermost first, as NAME or NAME:KEY=VALUE,KEY=VALUE; repeatable."""
    stack: Annotated[int, WORLD] = 1
    """Frames that make one observation."""
    imports: Annotated[tuple[str, ...], WORLD, Parameter(name="--import", show_default=False)] = ()
    """Package that registers your own environments and wrappers; repeatable."""

    actors: Annotated[int | Literal["auto"], RUN] = 0
    """Actors to start on this machine; auto: as many as it has processors, less two."""
    environments: Annotated[int, RUN, Parameter(name="--envs")] = 1
    """Environments in each of these actors."""
    steps: Annotated[int, RUN] = 0
    """Environment steps after which the run is over; 0: no such end."""
    until: Annotated[str, RUN, Parameter(show_default=False)] = ""
    """Condition that ends the run, such as "evaluation >= 475 and steps > 1e4"."""
    seed: Annotated[int, RUN] = 0
    """The root of every random stream."""
    mode: Annotated[Literal["async", "sequential"], RUN] = "async"
    """async: actors and learner run side by side; sequential: in one process, the same bits every time."""
    run_dir: Annotated[str, RUN] = "runs"
    """Folder of all runs."""
    name: Annotated[str, RUN, Parameter(show_default=False)] = ""
    """Name of this run and its folder; by default made of environment and time."""
    init: Annotated[str, RUN, Parameter(show_default=False)] = ""
    """Folder of another run, to start from its weights."""
    resume: Annotated[str, RUN, Parameter(show_default=False)] = ""
    """Folder of a run to go on with, under its own settings; auto: the newest unfinished run of this environment, else a new one."""
    durability: Annotated[Literal["fsync", "process", "none"], RUN] = "fsync"
    """The fault that what is acknowledged survives: fsync a power cut, process a killed learner, none neither; async mode only."""
    keep_journal: Annotated[bool, RUN, Parameter(negative=())] = False
    """Keep all of the journal, also what neither replay nor checkpoints need any more."""
    ui: Annotated[Literal["auto", "panel", "lines", "json"], RUN] = "auto"
    """How progress is shown; auto: the panel on a terminal, else lines."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], RUN] = "info"
    """The least important lines to show."""

    horizon: Annotated[int, COLLECTION] = 32
    """Steps of each environment between two looks at the newest weights."""
    exploration_start: Annotated[float, COLLECTION] = 1.0
    """Share of random actions at the beginning."""
    exploration_end: Annotated[float, COLLECTION] = 0.05
    """Share of random actions in the end."""
    exploration_steps: Annotated[int, COLLECTION] = 10_000
    """Environment steps from one to the other."""
    exploration_ladder: Annotated[int, COLLECTION] = 0
    """Rungs of an Ape-X ladder over all environments, from curious to greedy; 0: all the same."""
    compress: Annotated[bool, COLLECTION] = True
    """Compress images on their way (uint8 only; floats never pay)."""

    capacity: Annotated[int, REPLAY] = 100_000
    """Transitions kept."""
    warmup: Annotated[int, REPLAY] = 1_000
    """Transitions before the first update."""
    replay_ratio: Annotated[float, REPLAY] = 32.0
    """How often each transition is sampled on average; inf: train as fast as it can."""
    tolerance: Annotated[float | None, REPLAY] = None
    """Samples by which collection may run ahead; by default as many as the warm-up's rows are worth, or the fewest that work."""

    batch_size: Annotated[int, TRAINING] = 128
    """Transitions in an update."""
    publish_every: Annotated[int, TRAINING] = 10
    """Updates between two versions of the weights."""
    device: Annotated[str, TRAINING] = "auto"
    """Where to train: auto, cpu, cuda, cuda:N or mps."""
    threads: Annotated[int, TRAINING] = 1
    """Threads of torch on the CPU; with one, training repeats to the bit."""
    checkpoint_every: Annotated[float, TRAINING] = 300.0
    """Seconds between two checkpoints; 0: only at the end."""

    evaluate_every: Annotated[int, EVALUATION] = 0
    """Environment steps between two evaluations; 0: none."""
    evaluate_episodes: Annotated[int, EVALUATION] = 20
    """Greedy episodes in an evaluation."""

    bind: Annotated[str, NETWORK] = "127.0.0.1"
    """Address to listen on."""
    keys: Annotated[str, NETWORK, Parameter(show_default=False)] = ""
    """Folder that `learner keys` made: only whoever has one of its keys is let in, and everything is encrypted."""
    insecure: Annotated[bool, NETWORK, Parameter(negative=())] = False
    """Listen beyond this machine although nothing is encrypted and everybody may send."""
    port: Annotated[int, NETWORK] = 5555
    """Port for experience; 0: any that is free."""
    feed_port: Annotated[int | None, NETWORK] = None
    """Port of the feed; by default the next one."""
    policy: Annotated[str, NETWORK] = "default"
    """Name of the policy that this learner trains."""

    algorithm: Annotated[str, Parameter(group=ALGORITHM)] = "dqn"
    """Built in: dqn. Your own: package.module:Class."""
    model: Annotated[str, Parameter(group=ALGORITHM, show_default=False)] = ""
    """A function package.module:function that makes the network, instead of the built-in one."""
    settings: Annotated[Any, Parameter(name="dqn", group=ALGORITHM, consume_multiple=True)] = field(
        default_factory=DQNSettings
    )
    """The section of the algorithm."""

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_names(self)
        _check_combinations(self)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the environment."""
        return _arguments("--env-args", self.environment_arguments)

    @property
    def wrappers(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """The wrappers with their arguments, innermost first."""
        return tuple(_wrapper(text) for text in self.wrapper)

    @property
    def address(self) -> Address:
        """Where to listen."""
        return listening(self.bind, self.port, self.feed_port, self.insecure, self.keys)

    @property
    def condition(self) -> Condition:
        """What `--until` says."""
        return parse(self.until)


def config_class(argv: Sequence[str]) -> type[LearnerConfig]:
    """The configuration with the section of the algorithm that is asked for. A user's own is imported, a built-in one is not."""
    a_command_follows = bool(argv) and not argv[0].startswith("-")
    chosen = "dqn" if a_command_follows else peek("learner", "algorithm", argv) or "dqn"
    if chosen in BUILT_IN:
        return _with_section(chosen, BUILT_IN[chosen])
    if ":" not in chosen:
        raise UsageError(
            f"unknown algorithm {chosen!r}: there is {', '.join(BUILT_IN)}, or package.module:Class.{suggestion(chosen, BUILT_IN)}"
        )
    found = plugins.find(chosen)
    if not hasattr(found, "Settings") or not hasattr(found, "name"):
        raise ConfigurationError(
            f"{chosen} is not an algorithm: it needs a name and a dataclass Settings"
        )
    return _with_section(found.name, found.Settings)


def load(argv: Sequence[str]) -> Loaded[LearnerConfig]:
    """The configuration that these flags, the environment and the file make."""
    return load_any("learner", config_class(argv), argv)


def _with_section(name: str, settings: type[Any]) -> type[LearnerConfig]:
    annotation: object = Annotated[
        settings, Parameter(name=name, group=ALGORITHM, consume_multiple=True)
    ]
    return make_dataclass(
        "LearnerConfig",
        [("settings", annotation, field(default_factory=settings))],
        bases=(LearnerConfig,),
        namespace={
            "__module__": __name__
        },  # cyclopts takes a class of the standard library (`types`, otherwise) for one value
        frozen=True,
        kw_only=True,
    )


def _check_numbers(config: LearnerConfig) -> None:
    least = {
        "stack": 1,
        "envs": 1,
        "horizon": 1,
        "capacity": 1,
        "batch-size": 1,
        "publish-every": 1,
        "threads": 1,
        "evaluate-episodes": 1,
    }
    least |= {
        "steps": 0,
        "exploration-steps": 0,
        "exploration-ladder": 0,
        "warmup": 0,
        "checkpoint-every": 0,
        "evaluate-every": 0,
        "seed": 0,
    }
    for key, number in least.items():
        name = "environments" if key == "envs" else key.replace("-", "_")
        require(getattr(config, name) >= number, f"--{key} must be at least {number}")
    require(config.actors == "auto" or config.actors >= 0, "--actors must not be negative")
    require(
        0 <= config.exploration_end <= config.exploration_start <= 1,
        "exploration goes from --exploration-start, at most 1, down to --exploration-end",
    )
    require(config.replay_ratio > 0, "--replay-ratio must be above 0")
    require(
        config.tolerance is None or 0 < config.tolerance < math.inf, "--tolerance must be above 0"
    )


def _check_names(config: LearnerConfig) -> None:
    for key, name in (("name", config.name), ("policy", config.policy)):
        allowed = NAME.fullmatch(name) is not None or (key == "name" and not name)
        require(allowed, f"--{key} {name!r}: {RULE}")
    require(
        re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", config.device) is not None,
        f"--device {config.device!r}: write auto, cpu, cuda, cuda:N or mps",
    )
    require(
        not config.model or ":" in config.model,
        f"--model {config.model!r}: write package.module:function",
    )


def _check_combinations(config: LearnerConfig) -> None:
    """Refuse what is understood but cannot work together, as early as the command line."""
    n_step = getattr(config.settings, "n_step", 1)  # a user's algorithm may know none
    require(
        config.horizon >= n_step,
        f"--horizon {config.horizon} is shorter than the {n_step} steps of a return: raise it or lower n-step",
    )
    require(
        config.batch_size <= config.capacity,
        f"--batch-size {config.batch_size} is more than the --capacity of {config.capacity}",
    )
    require(
        config.warmup <= config.capacity,
        f"--warmup {config.warmup} is more than the --capacity of {config.capacity}: training would never begin",
    )
    require(
        config.mode != "sequential" or config.replay_ratio < math.inf,
        "--replay-ratio inf has no end where actors wait for their turn: give a number with --mode sequential",
    )
    require(
        not (config.resume and config.mode == "sequential"),
        "--resume goes on from a journal, and --mode sequential writes none: begun anew with the same seed it repeats to the bit",
    )
    require(
        not (config.resume and config.durability == "none"),
        "--resume goes on from a journal, and --durability none writes none",
    )
    evaluates = config.evaluate_every > 0 or "evaluation" not in config.condition.figures
    require(evaluates, "--until names the evaluation, but there is none: add --evaluate-every")
    _ = config.arguments, config.wrappers, config.address


def _arguments(flag: str, texts: Sequence[str]) -> dict[str, Any]:
    """Arguments from KEY=VALUE (the value as JSON where it is JSON, else as text) and JSON objects."""
    arguments: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if text.lstrip().startswith("{"):
            arguments |= _json(text, flag)
        elif equals and key.strip():
            arguments[key.strip()] = _json_or_text(value)
        else:
            raise UsageError(f"{flag} {text!r}: write KEY=VALUE or a JSON object")
    return arguments


def _wrapper(text: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = text.partition(":")
    texts = [rest] if rest.startswith("{") else [part for part in rest.split(",") if part]
    return name, _arguments("--wrapper", texts)


def _json(text: str, flag: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except ValueError as error:
        raise UsageError(f"{flag} {text!r} is not a JSON object: {error}") from error


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
