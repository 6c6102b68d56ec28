"""The configuration of a learner, with a section for the chosen algorithm."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from farflung.common.data.fields import DEFAULT_POLICY, LARGEST
from farflung.common.data.pool import OPPONENT, OUTCOME, SEAT
from farflung.common.data.spec import LONGEST_EPISODE, Exploration
from farflung.common.net.address import Address, listening
from farflung.common.process.config import MOST_USED, Loaded
from farflung.common.process.config import load as load_any
from farflung.learner import aliases, config_checks, config_words
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.config_section import ALGORITHM, of_algorithm
from farflung.learner.core.curves import of_episodes, reported
from farflung.learner.presets import preset
from farflung.learner.schedule.goal import Condition, parse
from farflung.learner.selfplay.sampling import Sampling

MOST = Parameter(group=MOST_USED)
WORLD = Parameter(group=Group("World", sort_key=1))
RUN = Parameter(group=Group("Run", sort_key=2))
COLLECTION = Parameter(group=Group("Collection", sort_key=3))
REPLAY = Parameter(group=Group("Replay and pacing", sort_key=4))
ROUNDS = Parameter(group=Group("Rounds (sync and sequential)", sort_key=4.5))
WORKERS = Parameter(group=Group("Gradients of workers (async)", sort_key=4.7))
TRAINING = Parameter(group=Group("Training", sort_key=5))
SELFPLAY = Parameter(group=Group("Self-play", sort_key=5.5))
EVALUATION = Parameter(group=Group("Evaluation", sort_key=6))
NETWORK = Parameter(group=Group("Network", sort_key=7))
SEVERAL = Parameter(consume_multiple=True, negative=(), show_default=False)

Updates = int | Literal["episodes", "steps"]
SETTINGS = "config.toml"  # in the folder of a run
TEAM_SETTINGS = "team.toml"  # in a folder with a run for each policy of a world


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """The options of a learner."""

    environment: Annotated[str, MOST, Parameter(metavar="ID", name="--env")] = "CartPole-v1"
    """Registered id of the environment."""
    environment_arguments: Annotated[
        tuple[str, ...],
        WORLD,
        Parameter(metavar="KEY=VALUE", name="--env-args", show_default=False),
    ] = ()
    """An argument of the environment, as KEY=VALUE or a JSON object; repeatable."""
    wrapper: Annotated[tuple[str, ...], WORLD, Parameter(metavar="NAME", show_default=False)] = ()
    """A registered wrapper, innermost first, as NAME or NAME:KEY=VALUE,KEY=VALUE; repeatable."""
    stack: Annotated[int, WORLD, Parameter(metavar="FRAMES")] = 1
    """Frames that make one observation."""
    imports: Annotated[
        tuple[str, ...], WORLD, Parameter(metavar="PACKAGE", name="--import", show_default=False)
    ] = ()
    """Package that registers your own environments and wrappers, or an environment as
    package.module:Class, which gets the id package.module.Class; repeatable."""

    action_mask: Annotated[bool, WORLD] = True
    """Choose only actions that an environment allows, if its info has an `action_mask`."""

    policies: Annotated[str, WORLD, Parameter(metavar="SEATS", show_default=False)] = ""
    """Policies that play the agents of a world, each with a learner: auto (one for each agent), or
    'red=agent_0,agent_1; blue=*', where * is all other agents. With --policy, only that learner."""

    opponent: Annotated[
        tuple[str, ...], WORLD, Parameter(metavar="POLICY=WHO", show_default=False)
    ] = ()
    """A policy of --policies that learns nothing: WHO is random, a registered script, or the policy
    of another run as RUN[@CHECKPOINT]; repeatable."""

    metrics: Annotated[tuple[str, ...], WORLD, SEVERAL, Parameter(metavar="NAME")] = ()
    """Numbers in an environment's info at an episode's end to show, besides is_success."""

    preset: Annotated[str, MOST, Parameter(metavar="NAME", show_default=False)] = ""
    """Measured settings below all others, of `learner presets`: environment, algorithm and more."""
    actors: Annotated[int | Literal["auto"], MOST, Parameter(metavar="N")] = 0
    """Actors to start on this machine; auto: its processors less two."""
    environments: Annotated[int, MOST, Parameter(metavar="N", name="--envs")] = 1
    """Environments in each of these actors."""
    steps: Annotated[int, MOST, Parameter(metavar="STEPS")] = 0
    """Environment steps after which the run ends; 0: no limit."""
    until: Annotated[str, MOST, Parameter(metavar="CONDITION", show_default=False)] = ""
    """Condition that ends the run: "evaluation >= 475 and steps > 1e4", "success_rate >= 0.9"."""
    seed: Annotated[int, RUN, Parameter(metavar="NUMBER")] = 0
    """Root of every random stream."""
    mode: Annotated[Literal["async", "sync", "sequential"], RUN, Parameter(metavar="MODE")] = (
        "async"
    )
    """async: actors and learner side by side; sync: in rounds, reproducible to the bit; sequential:
    the same in one process."""
    run_dir: Annotated[str, RUN, Parameter(metavar="FOLDER")] = "runs"
    """Folder of all runs."""
    name: Annotated[str, MOST, Parameter(metavar="NAME", show_default=False)] = ""
    """Name of this run and its folder (default: environment and time)."""
    init: Annotated[str, RUN, Parameter(metavar="RUN", show_default=False)] = ""
    """Folder of another run; train its newest weights further, with little exploration."""
    resume: Annotated[str, MOST, Parameter(metavar="RUN", show_default=False)] = ""
    """Run folder to continue with its settings; auto: the newest unfinished one, else a new run."""
    durability: Annotated[Literal["fsync", "process", "none"], RUN, Parameter(metavar="DEGREE")] = (
        "fsync"
    )
    """Acknowledged data survives: fsync a power cut, process a kill, none neither (async only)."""
    keep_journal: Annotated[bool, RUN, Parameter(negative=())] = False
    """Keep the whole journal, even what neither replay nor checkpoints need."""
    ui: Annotated[Literal["auto", "panel", "lines", "json"], RUN, Parameter(metavar="KIND")] = (
        "auto"
    )
    """Display of progress; auto: the panel on a terminal, else lines."""
    dashboard: Annotated[str, RUN, Parameter(metavar="PORT")] = "auto"
    """Port of a page beside this learner, on loopback; off: none; auto: 8555 or a free one, if a
    terminal shows these lines."""
    log_to: Annotated[tuple[str, ...], RUN, SEVERAL, Parameter(metavar="OUTLET")] = ()
    """Where curves go besides the folder: wandb, mlflow, or your own as package.module:Class."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], RUN, Parameter(metavar="LEVEL")
    ] = "info"
    """Least important level of log lines to show."""
    until_stdin_closes: Annotated[bool, RUN, Parameter(show=False, negative=())] = False
    """End with the program that started this one, as with SIGTERM."""

    horizon: Annotated[int, COLLECTION, Parameter(metavar="STEPS")] = 32
    """Steps of each environment before an actor takes newer weights."""
    exploration_start: Annotated[float | None, COLLECTION, Parameter(metavar="SHARE")] = None
    """Share of random actions at the beginning (default: 1, or with --init that of the end)."""
    exploration_end: Annotated[float, COLLECTION, Parameter(metavar="SHARE")] = 0.05
    """Share of random actions at the end."""
    exploration_steps: Annotated[int, COLLECTION, Parameter(metavar="STEPS")] = 10_000
    """Environment steps from the first share to the last."""
    exploration_ladder: Annotated[int, COLLECTION, Parameter(metavar="RUNGS")] = 0
    """Rungs of an Ape-X exploration ladder over all environments; 0: all explore alike."""
    exploration_noise: Annotated[float, COLLECTION, Parameter(metavar="DEVIATION")] = 0.1
    """Noise of deterministic continuous actions (td3), in halves of their range."""
    exploration_correlation: Annotated[float, COLLECTION, Parameter(metavar="SHARE")] = 0.0
    """Correlation of the noise of continuous actions from step to step (sac, td3): 0 to below 1."""
    largest_value: Annotated[float, COLLECTION, Parameter(metavar="NUMBER")] = LARGEST
    """Largest magnitude of a float in collected rows: parcels with a larger one are refused."""
    interventions: Annotated[bool, COLLECTION, Parameter(negative=())] = False
    """Record with each step if a person or script chose its action (column `intervened`)."""
    compress: Annotated[bool, COLLECTION] = True
    """Compress images on the network (uint8 only; floats never pay)."""

    capacity: Annotated[int, REPLAY, Parameter(metavar="ROWS")] = 100_000
    """Transitions kept."""
    warmup: Annotated[int, REPLAY, Parameter(metavar="ROWS")] = 1_000
    """Transitions before the first update."""
    replay_ratio: Annotated[float, REPLAY, Parameter(metavar="RATIO")] = 32.0
    """Average number of times that each transition is sampled; inf: train without waiting."""
    tolerance: Annotated[float | None, REPLAY, Parameter(metavar="SAMPLES")] = None
    """Samples to collect ahead of learning (default: ratio x warm-up, or the least that works)."""

    normalise_observations: Annotated[bool, REPLAY, Parameter(negative=())] = False
    """Show networks observations of floats in deviations from the mean of all collected ones."""
    normalise_rewards: Annotated[bool, REPLAY, Parameter(negative=())] = False
    """Divide returns in batches by the deviation of discounted sums of rewards."""
    clip_rewards: Annotated[float, REPLAY, Parameter(metavar="LIMIT")] = 0.0
    """Largest reward in the replay; larger ones are cut to it, reported returns not (0: none)."""

    demos: Annotated[str, REPLAY, Parameter(metavar="DATASET", show_default=False)] = ""
    """Demonstrations in each batch: the folder of a run, for its journal, or minari:ID."""
    demo_share: Annotated[float, REPLAY, Parameter(metavar="SHARE")] = 0.5
    """Share of each batch that is demonstrations, with --demos."""

    round_actors: Annotated[int, ROUNDS, Parameter(metavar="N")] = 0
    """Actors that play each round, from anywhere; 0: those of --actors."""
    round_steps: Annotated[int, ROUNDS, Parameter(metavar="STEPS")] = 0
    """Steps of each environment in a round; 0: the horizon."""
    round_episodes: Annotated[int, ROUNDS, Parameter(metavar="N")] = 0
    """Episodes that each actor ends in a round; 0: a round has --round-steps."""
    round_updates: Annotated[Updates, ROUNDS, Parameter(metavar="N")] = 0
    """Updates after each round; episodes, steps: one for each; 0: as --replay-ratio allows."""
    exploration_rounds: Annotated[int, ROUNDS, Parameter(metavar="N")] = 0
    """Rounds from the first share of random actions to the last; 0: --exploration-steps."""

    gradients: Annotated[Literal["none", "only", "also"], WORKERS, Parameter(metavar="KIND")] = (
        "none"
    )
    """Gradients to take from workers: none; only them, and no rows: --actors starts workers; also
    them, beside rows."""
    max_staleness: Annotated[int, WORKERS, Parameter(metavar="VERSIONS")] = 10
    """Versions by which gradients may be older than the newest: staler ones are refused."""

    batch_size: Annotated[int, TRAINING, Parameter(metavar="ROWS")] = 128
    """Transitions in an update."""
    publish_every: Annotated[int, TRAINING, Parameter(metavar="UPDATES")] = 10
    """Updates between two versions of the weights."""
    device: Annotated[str, TRAINING, Parameter(metavar="DEVICE")] = "auto"
    """Device to train on: auto, cpu, cuda, cuda:N or mps. Learners of --policies have one each."""
    threads: Annotated[int, TRAINING, Parameter(metavar="N")] = 1
    """CPU threads of torch; with one, training is reproducible to the bit."""
    checkpoint_every: Annotated[float, TRAINING, Parameter(metavar="SECONDS")] = 300.0
    """Seconds between two checkpoints; 0: only at the end."""
    archive_every: Annotated[str, TRAINING, Parameter(metavar="N UNIT", show_default=False)] = ""
    """Interval between two versions that stay in the archive: '500 updates', '1e5 steps',
    '200 episodes' (default: none)."""
    archive_most: Annotated[int, TRAINING, Parameter(metavar="VERSIONS")] = 100
    """Versions in the archive; with more, older ones are thinned out evenly."""

    pool: Annotated[tuple[str, ...], SELFPLAY, SEVERAL, Parameter(metavar="OPPONENT=SHARE")] = ()
    """Opponents of training games with their shares: random=1 archive=2 live=1 MY_SCRIPT=1."""
    pool_sampling: Annotated[Sampling, SELFPLAY, Parameter(metavar="KIND")] = "uniform"
    """Archived versions to prefer: none (uniform), recent, hard to beat, or even ones."""
    pool_newest: Annotated[int, SELFPLAY, Parameter(metavar="VERSIONS")] = 0
    """Newest archived versions that are in the pool; 0: all."""
    pool_exploration: Annotated[float, SELFPLAY, Parameter(metavar="SHARE")] = 0.05
    """Share of random actions of archived versions, and of a policy from another run."""

    evaluate_every: Annotated[int, MOST, Parameter(metavar="STEPS")] = 10_000
    """Environment steps between two evaluations; 0: none."""
    evaluate_episodes: Annotated[int, EVALUATION, Parameter(metavar="N")] = 20
    """Greedy episodes in an evaluation."""
    evaluate_max_steps: Annotated[int, EVALUATION, Parameter(metavar="STEPS")] = LONGEST_EPISODE
    """Steps after which such an episode is cut: a greedy policy may never end one."""

    bind: Annotated[str, NETWORK, Parameter(metavar="ADDRESS")] = "127.0.0.1"
    """Address to listen on."""
    keys: Annotated[str, NETWORK, Parameter(metavar="FOLDER", show_default=False)] = ""
    """Folder made by `learner keys`: admit only clients with one of its keys, and encrypt all."""
    insecure: Annotated[bool, NETWORK, Parameter(negative=())] = False
    """Listen beyond this machine without keys: no encryption, and any machine may send."""
    port: Annotated[int, NETWORK, Parameter(metavar="PORT")] = 5555
    """Port for experience; 0: any free one."""
    feed_port: Annotated[int | None, NETWORK, Parameter(metavar="PORT")] = None
    """Port of the feed (default: the next one)."""
    policy: Annotated[str, NETWORK, Parameter(metavar="NAME")] = DEFAULT_POLICY
    """Name of the policy that this learner trains."""

    algorithm: Annotated[str, Parameter(metavar="NAME", group=MOST_USED)] = "dqn"
    """Algorithm: bc, dqn, impala, ppo, r2d2, sac, td3, or your own as package.module:Class."""
    model: Annotated[
        str, Parameter(metavar="MODULE:FUNCTION", group=ALGORITHM, show_default=False)
    ] = ""
    """Function package.module:function that makes the network, instead of the built-in one."""
    settings: Annotated[Any, Parameter(name="dqn", group=ALGORITHM, consume_multiple=True)] = field(
        default_factory=DQNSettings
    )
    """Settings of the algorithm."""

    def __post_init__(self) -> None:
        config_checks.check_numbers(self)
        config_checks.check_names(self)
        config_checks.check_combinations(self)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the environment."""
        return config_words.arguments("--env-args", self.environment_arguments)

    @property
    def wrappers(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Return the wrappers with their arguments, innermost first."""
        return tuple(config_words.wrapper(text) for text in self.wrapper)

    @property
    def exploration(self) -> Exploration:
        """Return how actors explore. Weights of another run are not taught by random actions."""
        start, end, ladder = self.exploration_start, self.exploration_end, self.exploration_ladder
        start = (end if self.init else 1.0) if start is None else start
        noise = self.exploration_noise, self.exploration_correlation
        if rounds := self.exploration_rounds:
            return Exploration(start, end, rounds, ladder, "round", *noise)
        return Exploration(start, end, self.exploration_steps, ladder, "step", *noise)

    @property
    def is_team(self) -> bool:
        """Return whether this command starts a learner for each policy, and is none itself."""
        return bool(self.policies) and self.policy == DEFAULT_POLICY

    @property
    def address(self) -> Address:
        """Return the address to listen on."""
        return listening(self.bind, self.port, self.feed_port, self.insecure, self.keys)

    @property
    def condition(self) -> Condition:
        """Return the condition of `--until`."""
        return parse(self.until, tuple(map(of_episodes, self.reported)))

    @property
    def reported(self) -> tuple[str, ...]:
        """Return the metrics of episodes that actors send; those of games where there is a pool."""
        return reported((*self.metrics, *((OPPONENT, SEAT, OUTCOME) if self.pool else ())))


def config_class(argv: Sequence[str]) -> type[LearnerConfig]:
    """Return the configuration class with the section of the chosen algorithm."""
    return of_algorithm(LearnerConfig, argv)


def load(argv: Sequence[str]) -> Loaded[LearnerConfig]:
    """Return the configuration from flags, environment variables and file."""
    return load_any("learner", config_class(argv), argv, aliases.in_file, [preset.fill])
