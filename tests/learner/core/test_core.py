"""What is learned from which rows, how far it has got, and what is odd about it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.learners import a_config, a_learner
from support.makers import a_parcel, a_spec, an_evaluation

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import OBSERVATIONS, Graph, Tensor
from farflung.common.data.version import Version
from farflung.common.process.errors import Diverged
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.core.training import ConstantObservations, Progress, Training

NEWEST = Version(1, 5)


class Ledger:
    """A replay and a pacing that only count."""

    size, capacity, memory = 0, 10, ""

    def __init__(self) -> None:
        self.parcels, self.counted = [], []

    def add(self, *parcels):
        self.parcels.extend(parcels)

    def inserted(self, rows):
        self.counted.append(rows)


class Idle:
    """An algorithm with one matrix."""

    def __init__(self) -> None:
        self.module = torch.nn.Linear(2, 2, bias=False)
        self.module.matrix = self.module.weight

    def policy(self):
        return self.module

    def state(self):
        return {"matrix": self.module.weight.detach().clone()}

    def restore(self, state):
        with torch.no_grad():
            self.module.weight.copy_(state["matrix"])


@pytest.fixture
def training():
    """Training over a replay that only counts."""
    graph = Graph(b"", (), (), (Tensor("weight", "float32", (2, 2)),))
    counts = Ledger()
    return Training(a_spec(graph=graph), Idle(), counts, counts, 3)


def test_rows_enter_replay_and_pacing(training):
    """A parcel of 5 rows is 5 steps, and pacing counts what the replay takes."""
    training.insert([a_parcel((2, 3), (Ending.OPEN,) * 2)])
    assert (training.steps, training.pacing.counted, len(training.replay.parcels)) == (5, [5], 1)


def test_an_evaluation_feeds_nothing_to_replay(training):
    """Greedy episodes change neither replay nor pacing nor the count of steps and episodes."""
    training.insert([an_evaluation([1.0, 3.0], version=4)])
    assert (
        training.steps,
        training.progress.episodes,
        training.replay.parcels,
        training.pacing.counted,
    ) == (0, 0, [], [])
    result = training.progress.evaluation
    assert (result.mean, result.episodes, result.length_mean, result.version) == (
        2.0,
        2,
        10.0,
        Version(1, 4),
    )


def test_an_evaluation_without_episodes_says_nothing(training):
    """It does not replace the one before."""
    training.insert([an_evaluation([1.0])])
    training.insert([an_evaluation([])])
    assert training.progress.evaluation.mean == 1.0


def test_versions_are_counted_from_one(training):
    """A version is a publication, within the epoch of this start."""
    assert training.version == Version(3, 0)
    assert [training.publish().version for _ in range(2)] == [Version(3, 1), Version(3, 2)]


def test_published_weights_never_change(training):
    """Training goes on in its own memory: what was published stays as it was."""
    weights = training.publish()
    before = weights.arrays["weight"].copy()
    with torch.no_grad():
        training.algorithm.module.weight += 1
    np.testing.assert_array_equal(weights.arrays["weight"], before)
    np.testing.assert_array_equal(training.publish().arrays["weight"], before + 1)


def test_the_fingerprint_is_of_the_acting_weights(training):
    """Equal weights have equal fingerprints, and the smallest change shows."""
    first = training.fingerprint
    assert training.fingerprint == first
    with torch.no_grad():
        training.algorithm.module.weight[0, 0] += 1e-6
    assert training.fingerprint != first


def test_updates_without_a_version_are_counted(training):
    """Three updates, published, and one more: one is unpublished."""
    training.updates = 3
    assert training.unpublished == 3
    training.publish()
    training.updates += 1
    assert training.unpublished == 1


def test_an_update_is_sampled_by_its_number(tmp_path):
    """An update draws the batch of its number, changes the weights, keeps its metrics, and pacing hears of its samples."""
    config = a_config(warmup=0)
    training = a_learner(config, tmp_path).training
    columns = {
        OBSERVATIONS: np.eye(9, 4, dtype=np.float32),
        "actions": np.zeros(8, np.int64),
        "rewards": np.ones(8, np.float32),
    }
    training.insert(
        [Parcel(Version(1, 1), np.array([8], np.int32), np.array([1], np.uint8), columns)]
    )
    sampled, before = [], training.fingerprint
    sample = training.replay.sample
    training.replay.sample = lambda update: sampled.append(update) or sample(update)
    training.update()
    training.update()
    assert (sampled, training.updates, training.pacing.samples) == ([0, 1], 2, 16)
    assert training.fingerprint != before
    assert math.isfinite(float(training.metrics["loss"]))


def test_results_make_the_return():
    """Episodes of 10, 20 and 60 have the mean 30, the history shows each."""
    progress = Progress()
    assert (progress.return_mean, progress.length_mean) == (None, None)
    progress.count(a_parcel(results=[(10.0, 1), (20.0, 2)]), NEWEST)
    progress.count(a_parcel(results=[(60.0, 6)]), NEWEST)
    assert (progress.return_mean, progress.length_mean, progress.episodes) == (30.0, 3.0, 3)
    assert progress.history.points == (10.0, 20.0, 60.0)


def test_the_mean_is_of_the_latest_hundred():
    """An early success is forgotten after a hundred episodes."""
    progress = Progress()
    progress.count(a_parcel(results=[(1000.0, 1)] + [(1.0, 1)] * 100), NEWEST)
    assert progress.return_mean == 1.0


def test_the_lag_is_in_versions():
    """Collected under version 2 while 5 is the newest: three behind. Another epoch's versions cannot be compared."""
    progress = Progress()
    progress.count(a_parcel(version=2), NEWEST)
    progress.count(a_parcel(version=90, epoch=2), NEWEST)
    assert (progress.lag.p50, len(progress.lag)) == (3, 1)


def constant(rows, value):
    parcel = a_parcel((rows,))
    parcel.columns[OBSERVATIONS][:] = value
    return parcel


@pytest.mark.parametrize(("value", "words"), [(0.0, "all zero"), (1.5, "all the same")])
def test_observations_that_never_change_are_reported(value, words):
    """After a thousand rows there is a sentence; before that there is none."""
    suspicion = ConstantObservations()
    suspicion.look(constant(999, value))
    assert suspicion.verdict == ""
    suspicion.look(constant(1, value))
    assert (
        suspicion.verdict
        == f"the observations of the first 1000 steps are {words}: nothing can be learned from them"
    )


def test_a_single_difference_ends_the_suspicion():
    """One other frame takes the sentence back, for good."""
    suspicion = ConstantObservations()
    suspicion.look(constant(1000, 0.0))
    suspicion.look(constant(10, 1.0))
    suspicion.look(constant(2000, 0.0))
    assert suspicion.verdict == ""


def test_priorities_reach_the_replay():
    """A replay that samples by them hears which transitions mattered how much."""
    graph = Graph(b"", (), (), (Tensor("weight", "float32", (2, 2)),))
    counts, algorithm = Ledger(), Idle()
    batch = SimpleNamespace(indices=np.array([4, 7]), actions=np.zeros(2))
    heard = []
    counts.sample, counts.sampled = lambda update: batch, lambda samples: None
    counts.prioritise = lambda indices, priorities: heard.append(
        (indices.tolist(), priorities.tolist())
    )
    algorithm.gradients = lambda batch: Gradients(
        {}, {}, torch.tensor([0.5, 2.0], requires_grad=True)
    )
    algorithm.apply = lambda gradients: None
    Training(a_spec(graph=graph), algorithm, counts, counts, 1).update()
    assert heard == [([4, 7], [0.5, 2.0])]


def breaking(training, breaks):
    """Makes the algorithm's gradients NaN in these updates; gives the updates whose steps were made."""
    algorithm, stepped = training.algorithm, []
    gradients, apply = algorithm.gradients, algorithm.apply

    def broken(batch):
        found = gradients(batch)
        if training.updates not in breaks:
            return found
        return Gradients(
            {name: tensor * math.nan for name, tensor in found.tensors.items()},
            found.metrics,
            torch.ones(8),
        )

    algorithm.gradients = broken
    algorithm.apply = lambda gradients: stepped.append(training.updates) or apply(gradients)
    return stepped


@pytest.fixture
def learning(tmp_path):
    """Training with eight rows to learn from, of which no pacing makes an end."""
    training = a_learner(a_config(warmup=0), tmp_path).training
    columns = {
        OBSERVATIONS: np.eye(9, 4, dtype=np.float32),
        "actions": np.zeros(8, np.int64),
        "rewards": np.ones(8, np.float32),
    }
    training.insert(
        [Parcel(Version(1, 1), np.array([8], np.int32), np.array([1], np.uint8), columns)]
    )
    return training


def finite_weights(weights):
    return all(np.isfinite(array).all() for array in weights.arrays.values())


def test_a_step_that_is_not_finite_is_skipped(learning):
    """Its batch counts for pacing and sampling; weights, optimizer and priorities never hear of it."""
    stepped = breaking(learning, {1, 2})
    learning.replay.prioritise = lambda indices, priorities: pytest.fail(
        "priorities of a step that was not made"
    )
    learning.update()
    before = learning.state()
    learning.update()
    learning.update()
    assert all(
        torch.equal(tensor, before[name]) for name, tensor in learning.algorithm.state().items()
    )
    learning.update()
    assert (stepped, learning.guard.skipped, learning.updates, learning.pacing.samples) == (
        [0, 3],
        2,
        4,
        4 * 8,
    )
    assert finite_weights(learning.publish())


def test_after_ten_in_a_row_the_last_good_weights_return_once(learning, caplog):
    """Loudly; updates count on. Ten more end it, with exit code 65."""
    breaking(learning, range(2, 100))
    learning.update()
    good, fingerprint = learning.state(), learning.fingerprint
    learning.last_good = lambda: good
    learning.update()
    for _ in range(9):
        learning.update()
    assert learning.fingerprint != fingerprint
    learning.update()
    assert (learning.fingerprint, learning.updates, learning.guard.skipped) == (fingerprint, 12, 10)
    assert (
        "10 updates in a row had a loss or gradients that were not finite: the last good checkpoint was taken up again"
        in caplog.text
    )
    for _ in range(9):
        learning.update()
    with pytest.raises(
        Diverged, match="again after the last good checkpoint was taken up"
    ) as caught:
        learning.update()
    assert caught.value.exit_code == 65
    assert finite_weights(learning.publish())


def test_without_a_checkpoint_ten_in_a_row_are_the_end(learning, tmp_path):
    """The sentence says why, and what there is not. A checkpoint that is there by then is found."""
    breaking(learning, range(100))
    for _ in range(9):
        learning.update()
    with pytest.raises(
        Diverged,
        match=r"10 updates in a row .* not finite; there is no checkpoint yet to go back to: lower the learning rate",
    ):
        learning.update()


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_weights_that_an_algorithm_spoils_are_never_published(learning, odd):
    """`apply` is somebody else's code. What goes out is the last good version; a second time it is the end."""
    good, fingerprint = learning.state(), learning.fingerprint
    learning.last_good = lambda: good

    def spoil():
        with torch.no_grad():
            next(iter(learning.algorithm.policy().parameters())).view(-1)[0] = odd

    spoil()
    assert finite_weights(learning.publish())
    assert learning.fingerprint == fingerprint
    assert "the weights in " in learning.guard.sentence
    spoil()
    with pytest.raises(Diverged):
        learning.publish()


def test_a_state_that_an_algorithm_spoils_is_never_saved(learning):
    """A moment of the optimizer is enough: the weights would follow."""
    learning.update()
    good = learning.state()
    learning.last_good = lambda: good
    learning.algorithm.state()["optimizer.exp_avg"][0] = math.nan
    saved = learning.state()
    assert torch.equal(saved["optimizer.exp_avg"], good["optimizer.exp_avg"])
    assert "optimizer.exp_avg" in learning.guard.sentence


def test_learners_in_one_process_share_no_state(tmp_path):
    """Two learners trained in turns end with the bits that each has when trained alone."""

    def made(name, seed):
        return a_learner(a_config(seed=seed, warmup=0), tmp_path, name).training

    def step(training):
        frames = np.random.default_rng(0).random((9, 4), dtype=np.float32)
        columns = {
            OBSERVATIONS: frames,
            "actions": np.arange(8) % 2,
            "rewards": np.ones(8, np.float32),
        }
        lengths, endings = np.array([8], np.int32), np.array([Ending.TERMINATED], np.uint8)
        training.insert([Parcel(Version(1, 1), lengths, endings, columns)])
        training.update()

    left, right, alone = made("left", 1), made("right", 2), made("alone", 1)
    for _ in range(3):
        step(left)
        step(right)
    for _ in range(3):
        step(alone)
    assert left.fingerprint == alone.fingerprint != right.fingerprint
