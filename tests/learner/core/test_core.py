"""The learner core: rows in, updates, publications, and the guard around them."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.learners import a_config, a_learner
from support.makers import a_parcel, a_spec, an_evaluation, some_gradients

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import OBSERVATIONS, Graph, Tensor
from farflung.common.data.weights import Version
from farflung.common.process.errors import Diverged
from farflung.common.protocol import wire
from farflung.common.protocol.tensors import GradientsCodec, read_gradients_envelope
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.core.core import Core
from farflung.learner.core.pacing import Pacing


class Ledger:
    """A replay and a pacing that only count."""

    size, capacity, stride, memory = 0, 10, 1, ""

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
def core():
    """A core over a replay that only counts."""
    graph = Graph(b"", (), (), (Tensor("weight", "float32", (2, 2)),))
    counts = Ledger()
    return Core(a_spec(graph=graph), Idle(), counts, counts, 3)


def test_core_inserts_rows_into_replay_and_pacing(core):
    """A parcel of 5 rows is 5 steps, and pacing counts what the replay takes."""
    core.insert([a_parcel((2, 3), (Ending.OPEN,) * 2)])
    assert (core.state.steps, core.pacing.counted, len(core.replay.parcels)) == (5, [5], 1)


def test_core_keeps_evaluations_out_of_the_replay(core):
    """Greedy episodes change neither replay nor pacing nor the count of steps and episodes."""
    core.insert([an_evaluation([1.0, 3.0], version=4)])
    assert (
        core.state.steps,
        core.progress.episodes,
        core.replay.parcels,
        core.pacing.counted,
    ) == (0, 0, [], [])
    result = core.progress.evaluation
    assert (result.mean, result.episodes, result.length_mean, result.version) == (
        2.0,
        2,
        10.0,
        Version(1, 4),
    )


def test_core_counts_versions_from_one(core):
    """A version is a publication, within the epoch of this start."""
    assert core.state.version == Version(3, 0)
    assert [core.publish().version for _ in range(2)] == [Version(3, 1), Version(3, 2)]


def test_published_weights_never_change(core):
    """Training goes on in its own memory: what was published stays as it was."""
    weights = core.publish()
    before = weights.arrays["weight"].copy()
    with torch.no_grad():
        core.algorithm.module.weight += 1
    np.testing.assert_array_equal(weights.arrays["weight"], before)
    np.testing.assert_array_equal(core.publish().arrays["weight"], before + 1)


def test_fingerprint_is_of_the_acting_weights(core):
    """Equal weights have equal fingerprints, and the smallest change shows."""
    first = core.fingerprint
    assert core.fingerprint == first
    with torch.no_grad():
        core.algorithm.module.weight[0, 0] += 1e-6
    assert core.fingerprint != first


def test_core_counts_unpublished_updates(core):
    """Three updates, published, and one more: one is unpublished."""
    core.state.updates = 3
    assert core.state.unpublished == 3
    core.publish()
    core.state.updates += 1
    assert core.state.unpublished == 1


def test_core_samples_an_update_by_its_number(tmp_path):
    """It changes the weights, keeps the metrics, and counts its samples."""
    config = a_config(warmup=0)
    core = a_learner(config, tmp_path).core
    columns = {
        OBSERVATIONS: np.eye(9, 4, dtype=np.float32),
        "actions": np.zeros(8, np.int64),
        "rewards": np.ones(8, np.float32),
    }
    core.insert([Parcel(Version(1, 1), np.array([8], np.int32), np.array([1], np.uint8), columns)])
    sampled, before = [], core.fingerprint
    sample = core.replay.sample
    core.replay.sample = lambda update: sampled.append(update) or sample(update)
    core.update()
    core.update()
    assert (sampled, core.state.updates, core.pacing.samples) == ([0, 1], 2, 16)
    assert core.fingerprint != before
    assert math.isfinite(float(core.metrics["loss"]))


def test_core_passes_priorities_to_the_replay():
    """A replay that samples by priority gets one per sampled transition."""
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
    Core(a_spec(graph=graph), algorithm, counts, counts, 1).update()
    assert heard == [([4, 7], [0.5, 2.0])]


def breaking(core, breaks):
    """Make the gradients of these updates NaN; return the updates that were applied."""
    algorithm, stepped = core.algorithm, []
    gradients, apply = algorithm.gradients, algorithm.apply

    def broken(batch):
        found = gradients(batch)
        if core.state.updates not in breaks:
            return found
        return Gradients(
            {name: tensor * math.nan for name, tensor in found.tensors.items()},
            found.metrics,
            torch.ones(8),
        )

    algorithm.gradients = broken
    algorithm.apply = lambda gradients: stepped.append(core.state.updates) or apply(gradients)
    return stepped


@pytest.fixture
def learning(tmp_path):
    """A core with eight rows to learn from and no limit on updates."""
    core = a_learner(a_config(warmup=0), tmp_path).core
    columns = {
        OBSERVATIONS: np.eye(9, 4, dtype=np.float32),
        "actions": np.zeros(8, np.int64),
        "rewards": np.ones(8, np.float32),
    }
    core.insert([Parcel(Version(1, 1), np.array([8], np.int32), np.array([1], np.uint8), columns)])
    return core


def finite_weights(weights):
    return all(np.isfinite(array).all() for array in weights.arrays.values())


def test_core_skips_a_step_that_is_not_finite(learning):
    """Its batch counts as sampled; weights, optimizer and priorities stay as they were."""
    stepped = breaking(learning, {1, 2})
    learning.replay.prioritise = lambda indices, priorities: pytest.fail(
        "priorities of a step that was not made"
    )
    learning.update()
    before = learning.tensors()
    learning.update()
    learning.update()
    assert all(
        torch.equal(tensor, before[name]) for name, tensor in learning.algorithm.state().items()
    )
    learning.update()
    assert (stepped, learning.guard.skipped, learning.state.updates, learning.pacing.samples) == (
        [0, 3],
        2,
        4,
        4 * 8,
    )
    assert finite_weights(learning.publish())


def test_core_restores_the_last_good_weights_once_after_ten_skips(learning, caplog):
    """Loudly; updates count on. Ten more end it, with exit code 65."""
    breaking(learning, range(2, 100))
    learning.update()
    good, fingerprint = learning.tensors(), learning.fingerprint
    learning.last_good = lambda: good
    learning.update()
    for _ in range(9):
        learning.update()
    assert learning.fingerprint != fingerprint
    learning.update()
    assert (learning.fingerprint, learning.state.updates, learning.guard.skipped) == (
        fingerprint,
        12,
        10,
    )
    assert (
        "10 updates in a row had a loss or gradients that were not finite: "
        "the last good checkpoint was restored" in caplog.text
    )
    for _ in range(9):
        learning.update()
    with pytest.raises(
        Diverged, match="again after the last good checkpoint was restored"
    ) as caught:
        learning.update()
    assert caught.value.exit_code == 65
    assert finite_weights(learning.publish())


def test_core_ends_after_ten_skips_without_a_checkpoint(learning, tmp_path):
    """The sentence names the cause and the missing checkpoint."""
    breaking(learning, range(100))
    for _ in range(9):
        learning.update()
    with pytest.raises(
        Diverged,
        match=r"10 updates in a row .* not finite; there is no checkpoint yet to go back to: "
        r"lower the learning rate",
    ):
        learning.update()


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_core_never_publishes_spoilt_weights(learning, odd):
    """`apply` is a user's code. The last good version goes out; a second time the run ends."""
    good, fingerprint = learning.tensors(), learning.fingerprint
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


def test_core_never_saves_a_spoilt_state(learning):
    """A moment of the optimizer is enough: the weights would follow."""
    learning.update()
    good = learning.tensors()
    learning.last_good = lambda: good
    learning.algorithm.state()["optimizer.exp_avg"][0] = math.nan
    saved = learning.tensors()
    assert torch.equal(saved["optimizer.exp_avg"], good["optimizer.exp_avg"])
    assert "optimizer.exp_avg" in learning.guard.sentence


def test_learners_in_one_process_share_no_state(tmp_path):
    """Two learners trained in turns end with the bits that each has when trained alone."""

    def made(name, seed):
        return a_learner(a_config(seed=seed, warmup=0), tmp_path, name).core

    def step(core):
        frames = np.random.default_rng(0).random((9, 4), dtype=np.float32)
        columns = {
            OBSERVATIONS: frames,
            "actions": np.arange(8) % 2,
            "rewards": np.ones(8, np.float32),
        }
        lengths, endings = np.array([8], np.int32), np.array([Ending.TERMINATED], np.uint8)
        core.insert([Parcel(Version(1, 1), lengths, endings, columns)])
        core.update()

    left, right, alone = made("left", 1), made("right", 2), made("alone", 1)
    for _ in range(3):
        step(left)
        step(right)
    for _ in range(3):
        step(alone)
    assert left.fingerprint == alone.fingerprint != right.fingerprint


def test_core_applies_gradients_that_were_computed_elsewhere(learning):
    """They are guarded and counted like those of an update."""
    gradients = learning.algorithm.gradients(learning.replay.sample(0))
    before = learning.fingerprint
    assert learning.apply(gradients)
    assert (learning.fingerprint != before, learning.state.updates) == (True, 1)
    odd = Gradients({"x": torch.tensor([math.nan])}, {})
    assert not learning.apply(odd)
    assert (learning.state.updates, learning.guard.skipped) == (2, 1)


def test_core_refuses_stale_gradients_and_counts_their_steps(core):
    """Two versions behind is one too many. Its four steps and its episode were taken all the same.

    The fresh one beside it takes the step alone.
    """
    core._staleness = 1
    core.state.version, applied = Version(3, 5), []
    core.algorithm.apply = applied.append
    tensors = (Tensor("weight", "float32", (2, 2)),)
    stale = some_gradients(tensors, 9.0, version=Version(3, 3))
    fresh = some_gradients(tensors, 2.0, version=Version(3, 4))
    assert core.apply_gradients([stale]) == ["stale"]
    assert (applied, core.state.updates, core.state.steps) == ([], 0, 4)
    assert core.apply_gradients([stale, fresh]) == ["stale", ""]
    (step,) = applied
    assert step.tensors["weight"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert (core.state.updates, core.state.steps, core.progress.episodes) == (1, 12, 3)


def test_core_applies_the_gradients_of_a_worker_as_its_own(learning, tmp_path):
    """DQN's gradients take a step with the same bits after their way over the wire."""
    other = a_learner(a_config(warmup=0), tmp_path, "other").core
    gradients = learning.algorithm.gradients(learning.replay.sample(0))
    assert learning.apply(gradients)
    tensors = other.spec.graph.weights
    codec = GradientsCodec(tensors)
    sent = some_gradients(tensors, schema=codec.schema)
    arrays = {name: tensor.numpy() for name, tensor in gradients.tensors.items()}
    opened = wire.open_frame(codec.encode(replace(sent, arrays=arrays)))
    sent = codec.decode(opened, read_gradients_envelope(opened))
    assert other.apply_gradients([sent]) == [""]
    assert other.fingerprint == learning.fingerprint
    assert (other.state.updates, other.state.steps, other.progress.episodes) == (1, 4, 1)
    assert (float(other.metrics["loss"]), list(other.progress.returns)) == (0.5, [2.0])


def test_core_resumes_the_steps_of_workers(core):
    """The journal has 30 rows, and the last publication counted 90 steps: 60 were of workers."""
    core.state.pacing = Pacing(1.0, 1, 0, 1)
    core.resume(rows=30, steps=90, episodes=4, updates=7, samples=56, version=9)
    assert (core.state.steps, core.state.published_steps, core.pacing.rows) == (90, 90, 30)


def test_core_resumes_its_counters(core):
    """Steps, episodes, updates, samples and the version go on from where they were."""
    core.state.pacing = Pacing(1.0, 1, 0, 1)
    core.resume(rows=30, steps=30, episodes=4, updates=7, samples=56, version=9)
    state = core.state
    assert (state.steps, state.updates, state.unpublished) == (30, 7, 0)
    assert (core.pacing.rows, core.pacing.samples, core.progress.episodes) == (30, 56, 4)
    assert state.version == Version(3, 9)
