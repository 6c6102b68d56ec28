"""Presets: each is a valid configuration, and its values come below a user's own."""

import re
import tomllib
from pathlib import Path

import pytest

import farflung
from farflung.common.process.errors import FarflungError, UsageError
from farflung.learner import main
from farflung.learner.api.train import configuration
from farflung.learner.cli.presets import presets
from farflung.learner.config import load
from farflung.learner.learner import Learner
from farflung.learner.presets import preset
from farflung.learner.sweeps import settings as sweep_settings


@pytest.mark.parametrize("name", preset.names())
def test_each_preset_is_a_configuration_that_is_refused_nowhere(name: str) -> None:
    """It names environment and algorithm, and its first line has the figures that it reached."""
    found = preset.find(name)
    loaded = load(["--preset", name])
    assert loaded.config.environment == found.settings["env"]
    assert loaded.config.algorithm == found.settings["algorithm"]
    assert found.text.startswith("# ")
    assert "seeds)" in found.about or "seeds;" in found.about
    from_it = {key for key, origin in loaded.origins.items() if origin == f"preset {name}"}
    plain = sweep_settings.plain(found.settings)
    assert from_it == set(plain)


def test_flags_variables_and_files_come_before_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preset has what none of them sets, and the algorithm's default is for the rest."""
    monkeypatch.setenv("FARFLUNG_LEARNER_ACTORS", "3")
    file = tmp_path / "own.toml"
    file.write_text("evaluate-every = 500\n[sac]\nhidden = [32]\n")
    words = ["--preset", "pendulum-sac", "--until", "steps > 7", "--config", str(file)]
    loaded = load(words)
    config, origins = loaded.config, loaded.origins
    assert (config.until, origins["until"]) == ("steps > 7", "flag")
    assert (config.actors, origins["actors"]) == (3, "environment")
    assert (config.evaluate_every, origins["evaluate-every"]) == (500, "file")
    assert (config.settings.hidden, origins["sac.hidden"]) == ((32,), "file")
    assert config.settings.learning_rate == 1e-3
    assert origins["sac.learning-rate"] == "preset pendulum-sac"
    assert config.replay_ratio == 256
    assert "replay-ratio" not in origins


@pytest.mark.parametrize("of", ["variable", "file"])
def test_variables_and_files_name_presets_too(
    of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any other setting; the section of its algorithm is there."""
    file = tmp_path / "own.toml"
    file.write_text('preset = "pendulum-sac"\n' if of == "file" else "")
    if of == "variable":
        monkeypatch.setenv("FARFLUNG_LEARNER_PRESET", "pendulum-sac")
    config = load(["--config", str(file), "--sac.gamma", "0.5"]).config
    assert (config.algorithm, config.settings.gamma) == ("sac", 0.5)
    assert config.settings.hidden == (64, 64)


def test_a_run_records_the_origin_and_needs_no_preset_any_more(tmp_path: Path) -> None:
    """Its file has all values: it is the same run where the preset has changed or gone."""
    loaded = load(["--preset", "cartpole-positions-r2d2", "--steps", "9"])
    text = preset.resolved(loaded.config, loaded.origins)
    assert 'algorithm = "r2d2"  # preset cartpole-positions-r2d2' in text
    assert "steps = 9  # flag" in text
    (tmp_path / "config.toml").write_text(text)
    again = load(["--config", str(tmp_path / "config.toml")]).config
    assert vars(again) == vars(loaded.config) | {"preset": ""}


def test_the_values_of_a_preset_are_shown_in_one_line() -> None:
    """Those that are used, so without what a flag replaced."""
    loaded = load(["--preset", "cartpole-ppo", "--actors", "1"])
    line = preset.used(loaded.config, loaded.origins)
    assert line.startswith('preset cartpole-ppo: env = "CartPole-v1", ')
    assert 'algorithm = "ppo"' in line
    assert "actors" not in line
    assert preset.used(*vars_of(load([]))) == ""


def vars_of(loaded):
    """Return configuration and origins."""
    return loaded.config, loaded.origins


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--preset", "pendulum-sc"], "unknown preset 'pendulum-sc'. Did you mean pendulum-sac?"),
        (["--preset", "../presets/cartpole"], "unknown preset"),
        (["--preset", "cartpole-ppo", "--algorithm", "dqn"], "is for --algorithm ppo, not dqn"),
        (["--preset", "cartpole-ppo", "--sac.gamma", "0.9"], "sac.gamma"),
    ],
)
def test_unknown_presets_and_other_algorithms_are_refused(words: list[str], sentence: str) -> None:
    """The nearest name is suggested; nothing of a preset is dropped silently."""
    with pytest.raises(UsageError) as refused:
        load(words)
    assert sentence in str(refused.value)


def test_the_command_trains_with_a_preset_and_words_of_others(monkeypatch, tmp_path, capsys):
    """Its algorithm is known before the words of other libraries are translated."""
    asked = []
    monkeypatch.setattr(Learner, "__init__", lambda self, loaded: asked.append(loaded))
    monkeypatch.setattr(Learner, "serve", lambda self: 0)
    assert main.command(["--preset", "pendulum-sac", "--lr", "0.5"]) == 0
    assert asked[0].config.settings.learning_rate == 0.5
    assert 'preset pendulum-sac: env = "Pendulum-v1"' in capsys.readouterr().err


def test_keywords_name_presets_too() -> None:
    """The defaults of a script come below them; an environment of its own comes before."""
    loaded = configuration({"preset": "cartpole-ppo"})
    assert (loaded.config.actors, loaded.config.algorithm) == (2, "ppo")
    other = configuration({"preset": "cartpole-ppo", "env": "Acrobot-v1", "actors": 1})
    assert (other.config.environment, other.config.actors) == ("Acrobot-v1", 1)
    sequential = configuration({"preset": "cartpole-positions-r2d2"}).config
    assert (sequential.mode, sequential.actors, sequential.ui) == ("sequential", 0, "lines")
    with pytest.raises(farflung.FarflungError, match="Did you mean cartpole-ppo"):
        configuration({"preset": "cartpole-pp"})


def test_sweeps_search_around_a_preset(tmp_path: Path) -> None:
    """Fixed settings name it; trials have its values but those that are searched."""
    file = tmp_path / "sweep.toml"
    config = sweep_settings.check(file, {"preset": "pendulum-sac", "sac": {"gamma": 0.9}}, {})
    assert (config.algorithm, config.settings.gamma) == ("sac", 0.9)
    assert config.settings.hidden == (64, 64)


def test_the_document_lists_all_presets() -> None:
    """With what they reached."""
    text = (Path(__file__).parents[2] / "docs/algorithms.md").read_text()
    listed = re.findall(r"^\| `([\w-]+)` \|", text.partition("## Presets")[2], re.MULTILINE)
    assert sorted(listed) == preset.names()


def test_presets_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each; the file of one is a file for --config."""
    assert presets() == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == preset.names()
    assert any("Pendulum-v1" in line for line in lines)
    assert presets("pendulum-sac") == 0
    assert tomllib.loads(capsys.readouterr().out) == preset.find("pendulum-sac").settings
    with pytest.raises(UsageError, match="Did you mean cartpole"):
        presets("cartpol")


SMALL = {
    "offline": ["--warmup", "64", "--capacity", "2000", "--batch-size", "32"],
    "rollouts": ["--batch-size", "32"],
    "r2d2": ["--warmup", "200", "--capacity", "2000", "--batch-size", "60"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", preset.names())
def test_the_first_updates_of_each_preset_run(name: str, tmp_path: Path) -> None:
    """Environment, wrappers, network and algorithm fit; a missing package is named with its extra.

    Sizes are smaller and evaluations are left out, so that it takes a second.
    """
    algorithm = preset.find(name).settings["algorithm"]
    words = ["--preset", name, "--mode", "sequential", "--actors", "1", "--envs", "1"]
    words += ["--evaluate-every", "0", "--until", "updates >= 2", "--ui", "json"]
    words += ["--run-dir", str(tmp_path), "--exploration-ladder", "0", "--horizon", "20"]
    if algorithm in ("ppo", "impala"):
        words += [*SMALL["rollouts"], f"--{algorithm}.rollout", "64"]
    else:
        words += SMALL["r2d2" if algorithm == "r2d2" else "offline"]
    try:
        assert Learner(load(words)).serve() == 0
    except FarflungError as error:
        if "pip install 'farflung[" not in str(error):
            raise
        pytest.skip(str(error))
