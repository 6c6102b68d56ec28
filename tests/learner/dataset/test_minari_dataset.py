"""A run as a dataset of Minari's: written by `learner dataset`, read by Minari and by `--demos`."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support.learner_epoch import LearnerEpoch
from support.makers import a_spec

from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Space, Spec, World
from farflung.common.process.errors import ConfigurationError
from farflung.learner.cli.dataset import dataset
from farflung.learner.dataset import journal_episodes, minari_dataset
from farflung.learner.dataset.episodes import Episode
from farflung.learner.demonstrations.source import demonstrations
from farflung.learner.storage.journal import segments
from farflung.learner.storage.policies import read_spec

ABOUT = {"algorithm_name": "dqn", "description": "d"}


@pytest.fixture
def minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Minari, with its datasets in a folder of the test; skips where it is not installed."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return pytest.importorskip("minari")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with three parcels in its journal, after two that are gone."""
    epoch = LearnerEpoch(tmp_path / "one")
    epoch.receive(3, 4, 5)
    epoch.end()
    return tmp_path / "one"


def an_episode(spec: Spec, steps: int, ending: Ending, seed: int) -> Episode:
    """Return an episode of random rows."""
    rng = np.random.default_rng(seed)
    columns = {}
    for column in spec.columns:
        count = steps + (column.per == "observation")
        numbers = rng.integers(0, 2, (count, *column.shape))
        columns[column.name] = numbers.astype(column.dtype)
    return Episode(columns, ending, begun=True)


def rich_spec() -> Spec:
    """Return a spec with a picture and a number to see, and a number from 4 on to choose."""
    return structs.replace(
        a_spec(),
        world=World("Nothing-v0"),
        observation={
            "camera": Space("box", "uint8", (6, 6, 3)),
            "gear": Space("discrete", "int64", (), (3,)),
            "lamps": Space("box", "bool", (2,)),
        },
        action=Space("discrete", "int64", (), (2,)),
    )


@pytest.mark.slow
def test_episodes_come_back_from_minari_as_they_were(minari: Any) -> None:
    """Pictures bit by bit, numbers that do not begin at 0, endings; in more than one part."""
    spec, starts = rich_spec(), {"actions": (4,), "observations.gear": (-1,)}
    endings = (Ending.TERMINATED, Ending.TRUNCATED, Ending.OPEN)
    given = [an_episode(spec, 3 + place, ending, place) for place, ending in enumerate(endings)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minari_dataset, "PART_BYTES", 600)
        written = minari_dataset.write("toys/rich-v0", iter(given), spec, starts, ABOUT)
    assert (written.episodes, written.steps, written.cut) == (3, 12, 1)

    loaded = minari.load_dataset("toys/rich-v0")
    assert (loaded.total_episodes, loaded.total_steps) == (3, 12)
    assert loaded.action_space.start == 4
    found = list(loaded.iterate_episodes())
    assert [bool(episode.terminations[-1]) for episode in found] == [True, False, False]
    assert [bool(episode.truncations[-1]) for episode in found] == [False, True, True]
    for episode, original in zip(found, given, strict=True):
        camera = original.columns["observations.camera"]
        np.testing.assert_array_equal(episode.observations["camera"], camera)
        gear = original.columns["observations.gear"]
        np.testing.assert_array_equal(episode.observations["gear"], gear - 1)
        assert loaded.action_space.contains(int(episode.actions[0]))
        assert episode.rewards.tolist() == original.columns["rewards"].tolist()
        assert not episode.terminations[:-1].any()
        assert not episode.truncations[:-1].any()

    parcels = demonstrations("minari:toys/rich-v0", spec, starts)
    for parcel, original in zip(parcels, given, strict=True):
        for name, column in original.columns.items():
            np.testing.assert_array_equal(parcel.columns[name], column)


@pytest.mark.slow
def test_command_writes_the_steps_of_a_journal(
    minari: Any, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with its own next observation; the environment is there to be made again."""
    assert dataset(run) == 0
    said = capsys.readouterr().out
    assert "farflung/one-v0: 24 steps in 3 episodes, of which 3 are cut." in said
    loaded = minari.load_dataset("farflung/one-v0")
    assert loaded.spec.env_spec.id == "CartPole-v1"
    assert loaded.storage.metadata["description"].endswith("run one in CartPole-v1.")
    seen = [episode.observations[:, 0].tolist() for episode in loaded.iterate_episodes()]
    assert sorted(seen) == [[number] * 9 for number in (3.0, 4.0, 5.0)]
    with pytest.raises(ConfigurationError, match=r"farflung/one-v0 exists in .* with --id"):
        dataset(run)
    assert minari.load_dataset("farflung/one-v0").total_steps == 24


@pytest.mark.slow
def test_nothing_is_left_of_a_dataset_that_fails(minari: Any, run: Path, tmp_path: Path) -> None:
    """Without a whole episode there is none; an id that Minari refuses is named."""
    with pytest.raises(ConfigurationError, match="or no whole episode"):
        dataset(run, whole=True)
    with pytest.raises(ConfigurationError, match="--id a b: write NAME-v0"):
        dataset(run, name="a b")

    def breaks() -> Any:
        yield from (an_episode(a_spec(), 2, Ending.OPEN, 0) for _ in range(3))
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minari_dataset, "PART_BYTES", 1)
        with pytest.raises(ConfigurationError, match=r"cannot be written: .*No space"):
            minari_dataset.write("farflung/broken-v0", breaks(), a_spec(), {}, ABOUT)
    assert not (tmp_path / "datasets/farflung/broken-v0").exists()
    with pytest.raises(FileNotFoundError):
        minari.load_dataset("farflung/one-v0")


def test_missing_minari_and_missing_journals_are_named(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentences say what to install, and which runs have a journal."""
    found = journal_episodes.episodes(tmp_path, a_spec(), journal_episodes.Damages())
    with pytest.raises(ConfigurationError, match="has no journal"):
        next(found)
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'farflung\[minari\]'"):
        dataset(run)


def test_damaged_parts_of_a_journal_are_counted(run: Path) -> None:
    """The steps beside them are written; those of a torn tail were never acknowledged."""
    spec, damages = read_spec(run), journal_episodes.Damages()
    assert len(list(journal_episodes.episodes(run, spec, damages))) == 3
    assert damages.count == 0
    path = segments.path_of(run / segments.FOLDER, segments.numbers(run / segments.FOLDER)[0])
    content = bytearray(path.read_bytes())
    place = content.index(b"box-1")
    content[place] ^= 1
    path.write_bytes(content)
    assert len(list(journal_episodes.episodes(run, spec, damages))) == 2
    assert damages.count == 1


def test_default_id_is_one_that_minari_takes(tmp_path: Path) -> None:
    """Names of runs may have dots."""
    assert minari_dataset.default_id(tmp_path / "cart.pole 2") == "farflung/cart-pole-2-v0"


def test_environment_that_was_played_otherwise_is_not_named() -> None:
    """With wrappers, with agents, or from a package that is not here."""
    of = minari_dataset._environment
    assert of(World("CartPole-v1")).id == "CartPole-v1"
    assert of(World("CartPole-v1", wrappers=(("Frame", {}),))) is None
    assert of(World("CartPole-v1", seats={"one": ("a",)})) is None
    assert of(World("Nothing-v0")) is None
    assert of(World("CartPole-v1", {"no_such": 1})) is None
    made = of(World("CartPole-v1", {"sutton_barto_reward": True}))
    assert made.kwargs["sutton_barto_reward"]
    assert "sutton_barto_reward" not in of(World("CartPole-v1")).kwargs


def test_spaces_have_the_bounds_of_actions() -> None:
    """Those of observations are not in a spec."""
    of = minari_dataset._space
    arm = of(Space("box", "float32", (2,), low=(-1.0, -2.0), high=(1.0, 3.0)), None)
    assert (arm.low.tolist(), arm.high.tolist()) == ([-1, -2], [1, 3])
    assert of(Space("box", "uint8", (2, 2)), None).high.max() == 255
    assert not np.isfinite(of(Space("box", "float32", (2,)), None).low).any()
    choices = of(Space("multidiscrete", "int64", (2,), (3, 4)), (1, 0))
    assert (choices.nvec.tolist(), choices.start.tolist()) == ([3, 4], [1, 0])


def test_parts_are_counted_once() -> None:
    """Steps, episodes, and those that are cut."""
    written = minari_dataset.Written()
    given = [an_episode(a_spec(), steps, Ending.OPEN, steps) for steps in (1, 2, 3)]
    parts = list(minari_dataset._parts(iter(given), written))
    assert [len(part) for part in parts] == [3]
    assert (written.episodes, written.steps, written.cut) == (3, 6, 3)
