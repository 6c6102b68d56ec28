"""Demonstrations: their share of each batch, where they come from, and what is refused."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs
from support.learner_epoch import LearnerEpoch
from support.learners import a_config
from support.makers import a_spec

from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Space
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.bc import BC
from farflung.learner.algorithms.bc_settings import BCSettings
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.core.build import build_core
from farflung.learner.demonstrations import minari_source
from farflung.learner.demonstrations.mixing import Mixture, joined, mixture_of
from farflung.learner.demonstrations.source import demonstrations
from farflung.learner.replay.replay import DEMONSTRATED, Batch
from farflung.learner.storage.run_folder import Run

NUMBERS = (100, 101, 102)  # of the parcels of the demonstrations: eight steps each


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with a journal of three parcels."""
    folder = tmp_path_factory.mktemp("demonstrations")
    epoch = LearnerEpoch(folder)
    epoch.receive(*NUMBERS)
    epoch.end()
    return folder


def epoch(folder: Path, dataset: Path, **changes: Any) -> LearnerEpoch:
    """Return a learner with rows of its own and demonstrations."""
    found = LearnerEpoch(folder, demos=str(dataset), batch_size=32, **changes)
    found.receive(1, 2, 3)
    return found


def seen(batch: Batch) -> np.ndarray:
    """Return the number of the parcel that each row is from."""
    (leaf,) = batch.observations.values()
    return leaf.reshape(len(batch), -1)[:, 0]


# ---- shares


@pytest.mark.parametrize(("share", "rows"), [(0.5, 16), (0.25, 8), (0.05, 2), (1.0, 32)])
def test_each_batch_has_the_share_of_demonstrations_that_was_asked(
    tmp_path: Path, dataset: Path, share: float, rows: int
) -> None:
    """Own rows come first; the column `demonstrated` tells them apart, in each of 40 batches."""
    core = epoch(tmp_path, dataset, demo_share=share).core
    for update in range(40):
        core.state.updates = update
        batch = core._batch()
        assert batch[DEMONSTRATED].tolist() == [False] * (32 - rows) + [True] * rows
        assert (seen(batch) >= 100).tolist() == batch[DEMONSTRATED].tolist()
        assert len(batch) == len(batch.actions) == len(seen(batch)) == 32


def test_demonstrations_are_drawn_evenly_and_repeat(tmp_path: Path, dataset: Path) -> None:
    """Over 200 batches each parcel has a third of them; a batch follows from its number."""
    core = epoch(tmp_path, dataset).core
    mixture = core.mixture
    assert mixture is not None
    drawn = [mixture.sample(core.replay, update) for update in range(200)]
    numbers = np.concatenate([seen(batch)[16:] for batch in drawn])
    shares = [(numbers == number).mean() for number in NUMBERS]
    np.testing.assert_allclose(shares, 1 / 3, atol=0.05)
    again = mixture.sample(core.replay, 17)
    assert (again.indices == drawn[17].indices).all()


def test_updates_with_demonstrations_hold_the_replay_ratio(tmp_path: Path, dataset: Path) -> None:
    """An update counts as many samples as its batch has rows, of both sources."""
    core = epoch(tmp_path, dataset).core
    core.update()
    assert core.pacing.samples == 32
    assert core.guard.skipped == 0


def test_priorities_go_to_the_replay_that_a_row_is_from() -> None:
    """The first two of three rows are own ones."""
    noted: dict[str, list[Any]] = {"own": [], "shown": []}

    def replay(name: str, rows: int) -> Any:
        batch = Batch({"x": np.arange(rows)}, {}, np.arange(rows), np.ones(rows, np.float32))
        note = lambda numbers, values: noted[name].append((numbers.tolist(), values.tolist()))  # noqa: E731
        return SimpleNamespace(sample=lambda update: batch, prioritise=note)

    mixture, own = Mixture(replay("shown", 1), 1, 3), replay("own", 2)
    batch = mixture.sample(own, 0)
    assert batch.weights is not None
    mixture.prioritise(own, batch, np.array([5.0, 6.0, 7.0]))
    assert noted == {"own": [([0, 1], [5.0, 6.0])], "shown": [([0], [7.0])]}


def test_prioritised_replays_of_both_sources_learn(tmp_path: Path, dataset: Path) -> None:
    """Rows of both have weights, and their sampling goes on from a checkpoint's state."""
    settings = DQNSettings(hidden=(4,), prioritised=True)
    core = epoch(tmp_path, dataset, settings=settings).core
    assert core.mixture is not None
    before = core.mixture.replay.state()
    for _ in range(3):
        core.update()
    assert core._batch().weights is not None
    after = core.mixture.replay.state()
    assert after != before
    core.mixture.replay.restore(after)
    assert core.mixture.replay.state() == after


def test_weights_of_one_source_alone_are_left_out() -> None:
    """All rows count the same then."""
    one = Batch({"x": np.zeros(2)}, {}, np.arange(2), np.ones(2, np.float32))
    assert joined(one, replace(one, weights=None)).weights is None


@pytest.mark.parametrize("share", [0.0, 0.01, 1.1])
def test_shares_without_a_row_are_refused(share: float) -> None:
    """Before anything is started."""
    with pytest.raises(UsageError, match="a batch has from one of them to all"):
        a_config(demos="runs/x", demo_share=share, batch_size=32)


# ---- behaviour cloning


def cloning(action: Space, **settings: Any) -> BC:
    """Return a small BC."""
    head = "deterministic" if action.kind == "box" else "logits"
    seen = {"": Space("box", "float32", (2,))}
    spec = structs.replace(a_spec(), action=action, head=head, observation=seen, extras=())
    chosen = BCSettings(**{"hidden": (16,), "learning_rate": 0.01} | settings)
    return BC(spec, chosen, device=torch.device("cpu"), seed=0)


def shown(actions: np.ndarray, marks: Any = True) -> Batch:
    """Return a batch of demonstrations."""
    count = len(actions)
    first = np.random.default_rng(0).normal(size=(count, 2)).astype(np.float32)
    marked = np.broadcast_to(np.array(marks, np.bool_), count).copy()
    columns = {"observations": first, "actions": actions, DEMONSTRATED: marked}
    return Batch(columns, {}, np.arange(count))


def test_loss_of_cloned_choices_is_the_cross_entropy_of_demonstrations() -> None:
    """Logits of 0 over three choices: log 3 in each marked row, others do not count."""
    algorithm = cloning(Space("discrete", "int64", (), (3,)))
    with torch.no_grad():
        for parameter in algorithm.network.parameters():
            parameter.zero_()
    actions = np.array([0, 1, 2, 2])
    found = algorithm.gradients(shown(actions, [True, True, False, False]))
    assert found.metrics["loss"].item() == pytest.approx(np.log(3))
    none = algorithm.gradients(shown(actions, False))
    assert none.metrics["loss"].item() == 0


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_cloned_policy_acts_as_demonstrated(kind: str) -> None:
    """An action that follows from the first number is learned, and restored."""
    box = Space("box", "float32", (1,), low=(-2.0,), high=(2.0,))
    algorithm = cloning(box if kind == "box" else Space("discrete", "int64", (), (2,)))
    rows = shown(np.zeros(64, np.int64))
    signs = rows.observations[""][:, 0] > 0
    actions = rows.observations[""][:, :1].clip(-1.5, 1.5)
    rows.columns["actions"] = actions if kind == "box" else signs.astype(np.int64)
    for _ in range(150):
        algorithm.apply(algorithm.gradients(rows))
    again = cloning(box if kind == "box" else Space("discrete", "int64", (), (2,)))
    again.restore(algorithm.state())
    answers = again.network(torch.from_numpy(rows.observations[""])).detach().numpy()
    if kind == "box":
        assert np.abs(2 * np.tanh(answers) - actions).mean() < 0.25
    else:
        assert (answers.argmax(axis=1) == signs).mean() > 0.95


def test_cloning_without_demonstrations_is_refused() -> None:
    """Before anything is started."""
    with pytest.raises(UsageError, match="bc learns from demonstrations: name a run"):
        a_config(algorithm="bc")


# ---- journals


def test_demonstrations_keep_their_clipped_rewards(tmp_path: Path, dataset: Path) -> None:
    """Rewards of 100 to 102 are cut as own ones are."""
    core = epoch(tmp_path, dataset, clip_rewards=1.0).core
    assert core._batch()["returns"].max() <= 3  # of three steps


def test_a_folder_without_steps_is_refused(tmp_path: Path, dataset: Path) -> None:
    """The sentence names it; so does that of a folder which is no run."""
    with pytest.raises(ConfigurationError, match="is not the folder of a run"):
        epoch(tmp_path / "one", tmp_path / "none")
    empty = LearnerEpoch(tmp_path / "empty")
    empty.end()
    with pytest.raises(ConfigurationError, match="empty has no steps"):
        epoch(tmp_path / "two", tmp_path / "empty")


def test_demonstrations_of_another_world_are_refused(dataset: Path) -> None:
    """Their observations, actions and stack must be those of this run."""
    spec = build_core(a_config(), Run("a", "a-1", dataset / "x"), torch.device("cpu"), 1).spec
    box = {"": Space("box", "float32", (99,))}
    with pytest.raises(ConfigurationError, match="its observations are not those of this run"):
        demonstrations(str(dataset), structs.replace(spec, observation=box), {})
    with pytest.raises(ConfigurationError, match="its --stack are not those"):
        demonstrations(str(dataset), structs.replace(spec, stack=2), {})


def test_algorithms_that_take_no_demonstrations_refuse_them() -> None:
    """One of a user's own says that it takes them."""
    with pytest.raises(ConfigurationError, match="dqn takes no --demos"):
        mixture_of(a_config(demos="x"), a_spec(), SimpleNamespace(), {}, 0)
    assert mixture_of(a_config(), a_spec(), SimpleNamespace(), {}, 0) is None


# ---- Minari


def episode(steps: int, **changes: Any) -> Any:
    """Return an episode as Minari has it."""
    parts = {
        "observations": np.arange(2 * (steps + 1), dtype=np.float64).reshape(-1, 2),
        "actions": np.full(steps, 5),
        "rewards": np.ones(steps),
        "terminations": np.array([False] * (steps - 1) + [True]),
        "truncations": np.zeros(steps, np.bool_),
    }
    return SimpleNamespace(**parts | changes)


def minari_spec(**changes: Any) -> Any:
    """Return a spec for these episodes."""
    seen = {"": Space("box", "float32", (2,))}
    return structs.replace(a_spec(), observation=seen, extras=(), **changes)


def test_an_episode_of_minari_is_a_trajectory() -> None:
    """In the dtypes of the spec, actions counted from 0, the first frame repeated for a stack."""
    found = minari_source.parcel(episode(3), "x", minari_spec(stack=2), {"actions": (4,)})
    assert found.lengths.tolist() == [3]
    assert found.endings.tolist() == [Ending.TERMINATED]
    assert found.columns["actions"].tolist() == [1, 1, 1]
    frames = found.columns["observations"]
    assert frames.dtype == np.float32
    assert frames[:, 0].tolist() == [0, 0, 2, 4, 6]


@pytest.mark.parametrize(
    ("truncated", "ending"), [(True, Ending.TRUNCATED), (False, Ending.OPEN)], ids=str
)
def test_episodes_of_minari_end_as_they_ended(truncated: bool, ending: Ending) -> None:
    """Truncated, or cut by who recorded them: both have a value after their last step."""
    ended = np.array([False, truncated])
    cut = episode(2, terminations=np.zeros(2, np.bool_), truncations=ended)
    assert minari_source.parcel(cut, "x", minari_spec(), {}).endings.tolist() == [ending]


def test_other_shapes_of_minari_are_refused() -> None:
    """The sentence names the column and both shapes."""
    odd = episode(3, observations=np.zeros((4, 7)))
    with pytest.raises(ConfigurationError, match=r"observations .* are \[4, 7\].* has \[4, 2\]"):
        minari_source.parcel(odd, "x", minari_spec(), {})


@pytest.mark.filterwarnings("ignore")  # what Minari recommends to publishers
@pytest.mark.slow
def test_a_dataset_of_minari_becomes_parcels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One written by Minari itself, where it is installed."""
    minari = pytest.importorskip("minari")
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    import gymnasium

    buffers = [
        EpisodeBuffer(
            id=number,
            seed=number,
            observations=np.zeros((4, 4), np.float32),
            actions=np.array([0, 1, 0]),
            rewards=np.ones(3),
            terminations=np.array([False, False, True]),
            truncations=np.zeros(3, np.bool_),
            infos={},
        )
        for number in range(2)
    ]
    minari.create_dataset_from_buffers(
        "toys/random-v0",
        buffer=buffers,
        env=gymnasium.make("CartPole-v1"),
        algorithm_name="random",
        author="x",
        author_email="x@example.org",
        data_format="hdf5",
        description="d",
    )
    spec = structs.replace(minari_spec(), observation={"": Space("box", "float32", (4,))})
    found = demonstrations("minari:toys/random-v0", spec, {})
    assert [parcel.rows for parcel in found] == [3, 3]
    with pytest.raises(ConfigurationError, match="minari:toys/none-v0 cannot be loaded"):
        demonstrations("minari:toys/none-v0", spec, {})
