"""The words of Stable-Baselines3, CleanRL and RLlib on a learner's command line."""

from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from farflung.common.process.aliases import Aliases, translated
from farflung.common.process.config import flag_names
from farflung.common.process.errors import UsageError
from farflung.learner import aliases, main
from farflung.learner.algorithms.builtin import BUILT_IN
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.api.train import configuration
from farflung.learner.config import LearnerConfig, load

KNOWN = flag_names(LearnerConfig)


def test_words_of_others_are_taken_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    """With a value of its own or after =, with dashes or underscores."""
    asked = ["--total_timesteps=5000", "--lr", "0.01", "--gamma", "0.9", "--buffer-size", "2000"]
    words = main.in_our_words([*asked, "--num-envs", "3", "--seed", "1", "--learning-rate=1"])
    assert words == [
        *("--steps=5000", "--dqn.learning-rate", "0.01", "--dqn.gamma", "0.9"),
        *("--capacity", "2000", "--envs", "3", "--seed", "1", "--dqn.learning-rate=1"),
    ]
    config = load(words[:-1]).config
    assert (config.steps, config.capacity, config.environments) == (5000, 2000, 3)
    assert config.settings == DQNSettings(learning_rate=0.01, gamma=0.9)
    hints = capsys.readouterr().err.splitlines()
    assert hints[0] == "learner: --total_timesteps is called --steps here"
    assert "learner: --lr is called --dqn.learning-rate here" in hints
    assert len(hints) == 6


def test_a_word_without_an_equal_is_refused_with_what_to_write() -> None:
    """A share is not a number of steps."""
    with pytest.raises(UsageError, match=r"--exploration-fraction is unknown here\. Write --expl"):
        main.in_our_words(["--exploration-fraction", "0.1"])


def test_words_of_synchronous_schemes_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """Episodes per batch and actor, learning steps per batch, and a hint for an interval."""
    argv = ["--mode=sync", "--num-workers", "2", "--episodes_per_batch", "4"]
    config = load(main.in_our_words([*argv, "--learning-steps-per-batch", "episodes"])).config
    assert (config.actors, config.round_episodes, config.round_updates) == (2, 4, "episodes")
    with pytest.raises(UsageError, match=r"--mode sync or sequential: --round-steps"):
        main.in_our_words(["--train-interval", "4"])


def test_our_own_words_mean_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    """No alias hides a flag, a value is never a flag, and a subcommand has its own words."""
    assert KNOWN.isdisjoint({*aliases.SAME, *aliases.OTHER})
    argv = ["--name", "lr", "--steps", "5"]
    assert main.in_our_words(argv) == argv
    assert main.in_our_words(["evaluate", "--env-id", "x"]) == ["evaluate", "--env-id", "x"]
    assert capsys.readouterr().err == ""


@dataclass(frozen=True)
class Own:
    """Settings of a user's algorithm."""

    gamma: float = 0.9
    steps: int = 1
    temperature: float = 1.0


def test_settings_of_an_own_algorithm_are_found_too() -> None:
    """Those that it has, under their own names, unless a learner's flag has that name."""
    asked = ["--temperature", "2", "--discount", "0.5", "--steps", "9", "--lr", "1"]
    words, hints = aliases.of_algorithm(asked, "soft", Own, KNOWN)
    assert words == ["--soft.temperature", "2", "--soft.gamma", "0.5", "--steps", "9", "--lr", "1"]
    assert len(hints) == 2


def test_words_of_others_are_taken_in_a_file_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the top and in the section of the algorithm; with a hint that names the file."""
    file = tmp_path / "mine.toml"
    file.write_text(
        "algo = 'dqn'\ntotal_timesteps = 5000\nbuffer-size = 2000\nlr = 0.01\nseed = 1\n"
        "[dqn]\ndiscount = 0.5\ndouble = false\n"
    )
    config = load(["--config", str(file), "--steps", "6"]).config
    assert (config.steps, config.capacity, config.seed) == (6, 2000, 1)
    assert config.settings == DQNSettings(learning_rate=0.01, gamma=0.5, double=False)
    assert capsys.readouterr().err.splitlines() == [
        f"learner: [dqn]: discount in {file} is called gamma here",
        f"learner: algo in {file} is called algorithm here",
        f"learner: total_timesteps in {file} is called steps here",
        f"learner: buffer-size in {file} is called capacity here",
        f"learner: lr in {file} is called dqn.learning-rate here",
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("steps = 1\ntotal-timesteps = 2", "steps in .* is set under two names"),
        ("max-steps = 1\ntotal-timesteps = 2", "steps in .* is set under two names"),
        ("lr = 1\n[dqn]\nlearning-rate = 1", "dqn.learning-rate in .* is set under two names"),
        ("train-freq = 4", "train-freq in .* is unknown here. Write --replay-ratio: samples"),
        ("[dqn]\nclip = 1", "unknown key dqn.clip in"),
    ],
)
def test_file_with_a_word_that_cannot_be_taken_is_refused(
    tmp_path: Path, content: str, sentence: str
) -> None:
    """Two names of one setting, a word without an equal, and an unknown one."""
    file = tmp_path / "mine.toml"
    file.write_text(content)
    with pytest.raises(UsageError, match=sentence):
        load(["--config", str(file)])


def test_words_of_others_are_taken_as_keywords(capsys: pytest.CaptureFixture[str]) -> None:
    """With a hint in Python's spelling."""
    asked = {"total_timesteps": 5000, "num_envs": 2, "env_kwargs": {"is_slippery": False}}
    config = configuration({**asked, "lr": 0.01, "dqn": {"tau": 0.5}}).config
    assert (config.steps, config.environments) == (5000, 2)
    assert config.arguments == {"is_slippery": False}
    assert config.settings == DQNSettings(learning_rate=0.01, polyak=0.5)
    assert capsys.readouterr().err.splitlines() == [
        "farflung.train: total_timesteps is called steps here",
        "farflung.train: num_envs is called envs here",
        "farflung.train: env_kwargs is called env_args here",
        'farflung.train: lr is called dqn={"learning_rate": …} here',
        'farflung.train: dqn={"tau": …} is called dqn={"polyak": …} here',
    ]
    with pytest.raises(UsageError, match=r"^steps is set under two names: keep one of them"):
        configuration({"steps": 1, "total_timesteps": 2})
    with pytest.raises(UsageError, match=r"^train_freq is unknown here\. Write replay_ratio: "):
        configuration({"train_freq": 4})


def test_every_alias_leads_to_a_flag_that_exists() -> None:
    """In both tables, and in the hints."""
    assert {*aliases.SAME.values()} <= KNOWN
    assert {*aliases.SETTINGS.values()} <= {
        field.name.replace("_", "-")
        for built_in in BUILT_IN.values()
        for field in fields(built_in.settings)
    }
    named = {word.strip(":,.") for hint in aliases.OTHER.values() for word in hint.split()}
    flags = {word.removeprefix("--") for word in named if word.startswith("--")}
    assert flags <= KNOWN | {"render", "video"}


def test_translated_leaves_other_words_alone() -> None:
    """Also those that look like flags of one dash."""
    assert translated("x", ["-lr", "lr", "--unknown"], Aliases({"lr": "rate"})) == (
        ["-lr", "lr", "--unknown"],
        [],
    )
