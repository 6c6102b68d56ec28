import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.common.process.settings_file import resolved_toml
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.config import LearnerConfig, load
from farflung.learner.core.curves import reported, wanted
from farflung.learner.local.actors import evaluations


def test_nothing_said_is_the_dataclass_with_its_defaults() -> None:
    """`learner` alone trains DQN on CartPole for all actors that join on loopback."""
    config = load([]).config
    assert (config.environment, config.actors, config.bind, config.port, config.algorithm) == (
        "CartPole-v1",
        0,
        "127.0.0.1",
        5555,
        "dqn",
    )
    assert config.settings == DQNSettings()


def test_the_section_of_dqn() -> None:
    """An algorithm's settings have its name before them."""
    config = load(
        [
            "--dqn.learning-rate",
            "0.5",
            "--dqn.hidden",
            "64",
            "32",
            "--dqn.no-double",
            "--actors",
            "auto",
        ]
    ).config
    assert config.settings == DQNSettings(learning_rate=0.5, hidden=(64, 32), double=False)
    assert config.actors == "auto"


def test_arguments_and_wrappers_of_the_environment() -> None:
    """Values are JSON where they are JSON, text otherwise; a JSON object is taken as it is.

    The later one wins.
    """
    config = LearnerConfig(
        environment_arguments=(
            "map_name=8x8",
            "is_slippery=false",
            '{"size": [1, 2], "goal": "a=b"}',
            "goal = x=y",
        ),
        wrapper=(
            "TimeLimit:max_episode_steps=50",
            "RescaleAction:min_action=-1,max_action=1",
            'Crop:{"box": [1, 2]}',
            "Flatten",
        ),
    )
    assert config.arguments == {
        "map_name": "8x8",
        "is_slippery": False,
        "size": [1, 2],
        "goal": " x=y",
    }
    assert config.wrappers == (
        ("TimeLimit", {"max_episode_steps": 50}),
        ("RescaleAction", {"min_action": -1, "max_action": 1}),
        ("Crop", {"box": [1, 2]}),
        ("Flatten", {}),
    )


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({}, 1.0),
        ({"init": "runs/a"}, 0.05),
        ({"init": "runs/a", "exploration_end": 0.01}, 0.01),
        ({"init": "runs/a", "exploration_start": 0.5}, 0.5),
    ],
)
def test_weights_of_another_run_are_trained_with_little_exploration(
    changes: dict[str, Any], start: float
) -> None:
    """From its end value on, unless a flag says otherwise; so does the file of such a run."""
    config = LearnerConfig(**changes)
    assert (config.exploration.start, config.exploration.epsilon(0)) == (start, start)
    line = next(line for line in resolved_toml(config, {}).splitlines() if "n-start" in line)
    assert line.startswith("exploration-start = 0.5" if start == 0.5 else "# exploration-start")


def test_evaluations_are_on_and_zero_turns_them_off() -> None:
    """A run says so in a line at its start."""
    said = evaluations(load([]).config)
    assert said == (
        "evaluations: 20 greedy episodes every 10,000 steps, by a process of their own "
        "(--evaluate-every 0: none)"
    )
    assert evaluations(load(["--evaluate-every", "0"]).config) == (
        "no evaluations: --evaluate-every is 0"
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"horizon": 2, "settings": DQNSettings(n_step=3)},
            "--horizon 2 is shorter than the 3 steps of a return",
        ),
        (
            {"batch_size": 200, "capacity": 100, "warmup": 50},
            "--batch-size 200 is more than the --capacity of 100",
        ),
        ({"warmup": 200, "capacity": 150}, "training would never begin"),
        ({"until": "evaluation > 3", "evaluate_every": 0}, "add --evaluate-every"),
        ({"until": "steps >> 3"}, "not a comparison"),
        ({"environment_arguments": ("slippery",)}, "write KEY=VALUE"),
        ({"environment_arguments": ("{1",)}, "is not a JSON object"),
        ({"wrapper": ("Crop:{1",)}, "--wrapper"),
        ({"environments": 0}, "--envs must be at least 1"),
        ({"actors": -1}, "--actors"),
        ({"seed": -1}, "--seed"),
        ({"exploration_start": 0.1, "exploration_end": 0.2}, "--exploration-start"),
        ({"replay_ratio": 0.0}, "--replay-ratio"),
        ({"tolerance": 0.0}, "--tolerance"),
        ({"port": 70_000}, "--port"),
        ({"port": 65_535}, "--feed-port"),
        ({"port": 7000, "feed_port": 7000}, "--feed-port and --port must differ"),
        ({"feed_port": -1}, "--feed-port"),
        ({"name": "a/b"}, "--name 'a/b'"),
        ({"policy": ""}, "--policy ''"),
        ({"device": "gpu"}, "cuda:N"),
        ({"model": "network"}, "package.module:function"),
        ({"gradients": "only", "mode": "sequential"}, "--gradients only is for --mode async"),
        ({"gradients": "also", "replay_ratio": math.inf}, "it would never play again"),
        ({"policies": "auto", "durability": "none"}, "set fsync or process"),
        ({"policies": "auto", "policy": "red", "gradients": "also"}, "workers play for one"),
        ({"policies": "auto", "policy": "red", "actors": 2}, "starts no actors"),
        ({"policies": "red", "policy": "red"}, "'red' is no policy: write auto"),
        ({"max_staleness": -1}, "--max-staleness must be at least 0"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(changes: dict[str, Any], says: str) -> None:
    """Each impossible number, name or combination names its flag."""
    with pytest.raises(UsageError, match=says):
        replace(LearnerConfig(), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"learning_rate": 0.0},
        {"gamma": 1.1},
        {"n_step": 0},
        {"hidden": (0,)},
        {"target_every": 0},
        {"polyak": 2.0},
        {"max_gradient_norm": -1.0},
    ],
)
def test_impossible_settings_of_dqn_are_refused(changes: dict[str, Any]) -> None:
    """The sentence names the key."""
    with pytest.raises(UsageError, match=f"dqn.{next(iter(changes)).replace('_', '-')}"):
        DQNSettings(**changes)


def test_edges_that_work() -> None:
    """A horizon of one with n = 1, a replay ratio without a bound, any free port, a batch as large
    as the replay.
    """
    one_step = {"horizon": 1, "settings": DQNSettings(n_step=1)}
    replace(
        LearnerConfig(),
        replay_ratio=float("inf"),
        port=0,
        batch_size=1000,
        capacity=1000,
        warmup=1000,
        **one_step,
    )


MINE = """
from dataclasses import dataclass

@dataclass(frozen=True, kw_only=True)
class Settings:
    temperature: float = 2.0
    '''How warm.'''

class Mine:
    name = 'mine'
    Settings = Settings
    defaults = {'batch_size': 64, 'replay_ratio': 4.0}

class Wrong(Mine):
    defaults = {'batchsize': 64}
"""


@pytest.fixture
def my_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's own algorithm in a module on the path."""
    (tmp_path / "warm.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "warm:Mine"
    sys.modules.pop("warm", None)


def test_a_user_s_algorithm_has_its_own_section(
    my_algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is the section's name, in flags, variables and files.

    The file that is written loads again.
    """
    loaded = load(["--algorithm", my_algorithm, "--mine.temperature", "3"])
    assert loaded.config.settings.temperature == 3.0
    assert isinstance(loaded.config, LearnerConfig)
    text = resolved_toml(loaded.config, loaded.origins)
    assert "[mine]\ntemperature = 3.0  # flag\n" in text
    (tmp_path / "config.toml").write_text(text)
    assert (
        load(["--config", str(tmp_path / "config.toml")]).config.settings == loaded.config.settings
    )
    monkeypatch.setenv("FARFLUNG_LEARNER_ALGORITHM", my_algorithm)
    monkeypatch.setenv("FARFLUNG_LEARNER_MINE_TEMPERATURE", "4")
    assert load([]).config.settings.temperature == 4.0
    with pytest.raises(UsageError, match=r"--dqn\.gamma"):
        load(["--dqn.gamma", "0.5"])


def test_an_algorithm_has_defaults_of_its_own_for_the_learner_s_options(
    my_algorithm: str, tmp_path: Path
) -> None:
    """They rank below flags and files, and all other options keep their defaults."""
    config = load(["--algorithm", my_algorithm]).config
    assert (config.batch_size, config.replay_ratio) == (64, 4.0)
    assert config.capacity == LearnerConfig().capacity
    (tmp_path / "own.toml").write_text("batch-size = 32\n")
    config = load(
        ["--algorithm", my_algorithm, "--config", str(tmp_path / "own.toml"), "--replay-ratio", "8"]
    ).config
    assert (config.batch_size, config.replay_ratio) == (32, 8.0)


def test_a_default_for_an_option_that_no_learner_has_is_refused(my_algorithm: str) -> None:
    """The sentence names the word."""
    with pytest.raises(ConfigurationError, match="default for batchsize"):
        load(["--algorithm", my_algorithm.replace("Mine", "Wrong")])


@pytest.mark.parametrize(
    ("algorithm", "error", "says"),
    [
        ("dqm", UsageError, r"unknown algorithm 'dqm'.* Did you mean dqn\?"),
        ("json:JSONDecoder", ConfigurationError, "is not an algorithm"),
        ("nowhere:Mine", ConfigurationError, "cannot import nowhere"),
    ],
)
def test_an_unknown_algorithm_is_refused_in_a_sentence(
    algorithm: str, error: type[Exception], says: str
) -> None:
    """A misspelt name, a class that is none, a module that is not there."""
    with pytest.raises(error, match=says):
        load([f"--algorithm={algorithm}"])


def test_every_value_survives_the_run_folder(tmp_path: Path) -> None:
    """`config.toml` in a run folder yields the same configuration."""
    config = load(
        [
            "--feed-port",
            "7000",
            "--replay-ratio",
            "inf",
            "--wrapper",
            "A",
            "--wrapper",
            "B:k=1",
            "--no-compress",
            "--tolerance",
            "9",
        ]
    )
    (tmp_path / "config.toml").write_text(resolved_toml(config.config, config.origins))
    again = load(["--config", str(tmp_path / "config.toml")])
    assert vars(again.config) == vars(config.config)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["farflung.learner.config", "farflung.actor.config"])
def test_help_needs_nothing_heavy(module: str) -> None:
    """A configuration is read without torch, numpy, gymnasium, onnxruntime or ZeroMQ."""
    heavy = ("torch", "numpy", "gymnasium", "onnxruntime", "zmq", "rich")
    program = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == "[]"


@pytest.mark.parametrize("bind", ["0.0.0.0", "192.168.1.7", "::"])
def test_listening_beyond_this_machine_is_refused_unless_asked_for(bind):
    """Without keys every process that reaches the ports is an actor.

    The error says so, with the ways out, before the learner listens.
    """
    with pytest.raises(ConfigurationError, match="--insecure"):
        LearnerConfig(bind=bind)
    assert LearnerConfig(bind=bind, insecure=True).bind == bind
    assert LearnerConfig(bind="127.0.0.1").bind == "127.0.0.1"


@pytest.mark.parametrize("words", [["--mode", "sequential"], ["--durability", "none"]])
def test_without_a_journal_there_is_nothing_to_resume(words: list[str]) -> None:
    """Refused as early as the command line."""
    with pytest.raises(UsageError, match="continues from a journal"):
        load(["--resume", "auto", *words])


def test_metrics_of_episodes_are_named_once() -> None:
    """`is_success` is there without being named."""
    config = load(["--metrics", "grip", "is_success", "x.y", "--seed", "3"]).config
    assert (reported(config.metrics), config.seed) == (("is_success", "grip", "x.y"), 3)
    assert wanted(config.metrics, ()) == ("is_success", "grip", "x.y")
    assert wanted((), {"eval/success_rate", "steps"}) == ("is_success",)
    assert wanted((), ()) == ()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metrics": ("a b",)}, "--metrics 'a b': a name has at most 64"),
        ({"metrics": ("a/b",)}, "--metrics 'a/b'"),
        ({"metrics": ("return",)}, "the learner has a figure of that name"),
        ({"metrics": ("success_rate",)}, "the learner has a figure of that name"),
        ({"metrics": tuple(f"m{n}" for n in range(64))}, "at most 63 of them"),
        ({"until": "eval/success_rate > 0.5", "evaluate_every": 0}, "add --evaluate-every"),
        ({"until": "grip > 0.5"}, "unknown metric 'grip'.*--metrics adds"),
    ],
)
def test_metrics_that_cannot_be_are_refused(changes: dict[str, Any], says: str) -> None:
    """In a sentence, before anything begins."""
    with pytest.raises(UsageError, match=says):
        LearnerConfig(**changes)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--batch-size", "100"], "2048 rows is no multiple of --batch-size 100"),
        (["--capacity", "4000"], "below twice the rollout"),
        (["--replay-ratio", "4"], "--replay-ratio is for algorithms that draw rows at random"),
        (["--warmup", "100"], "--warmup is for algorithms that draw rows at random"),
        (["--mode", "sequential", "--round-updates", "3"], "--round-updates is for algorithms"),
        (["--normalise-rewards"], "the advantages of ppo"),
        (["--gradients", "also"], "rollouts of all actors"),
        (["--ppo.epochs", "0"], "ppo.epochs must be at least 1"),
        (["--ppo.gae-lambda", "2"], "ppo.gae-lambda must lie between 0 and 1"),
        (["--ppo.max-lag", "-1"], "ppo.max-lag must not be negative"),
    ],
)
def test_rollouts_that_cannot_be_learned_from_are_refused(words: list[str], says: str) -> None:
    """So are options of replays that are drawn from; the defaults are none of them."""
    with pytest.raises((ConfigurationError, UsageError), match=says):
        load(["--algorithm", "ppo", *words])
    for name in ("ppo", "impala"):
        assert load(["--algorithm", name]).config.warmup == 0
