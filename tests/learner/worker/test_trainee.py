"""A worker's trainee by itself: pacing, staleness, and the books that its messages keep."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs
from support.makers import a_learning, a_parcel, a_spec

from farflung.common.data.parcel import Results
from farflung.common.data.spec import Graph, Tensor, metric_column
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.transitions import Transitions
from farflung.learner.worker.trainee import Trainee, joined

TENSORS = (Tensor("weight", "float32", (1, 2)),)
# An update of 4 samples after 4 rows, at one sample a row; two steps along one version.
LEARNING = a_learning(batch=4, warmup=4, ratio=1.0, staleness=1, publish_every=1, capacity=64)
SPEC = a_spec(horizon=1, graph=Graph(b"", (), (), TENSORS), learning=LEARNING)
MOST = 4 + 4 + 64  # steps in a message: warm-up, a batch, a parcel of 64 windows


class Slope:
    """An algorithm with a gradient of 3 and 4 everywhere, and priorities if it is told so."""

    def __init__(self, name: str = "weight", priorities: tuple[float, ...] | None = None) -> None:
        self.module = torch.nn.Linear(2, 1, bias=False)
        self.followed: list[tuple[int, int | None]] = []
        self._name, self._priorities = name, priorities

    def policy(self) -> torch.nn.Module:
        return self.module

    def replay(self, spec: Any, *, capacity: int, batch_size: int, seed: int) -> Replay:
        rows = Transitions(spec, n_step=1, gamma=0.5)
        return Replay(spec, rows, Uniform(batch_size, seed), capacity=capacity)

    def gradients(self, batch: Any) -> Gradients:
        found = None if self._priorities is None else torch.tensor(self._priorities)
        tensors = {self._name: torch.tensor([[3.0, 4.0]])}
        return Gradients(tensors, {"loss": torch.tensor(0.5)}, found)

    def follow(self, updates: int, passed: int | None) -> None:
        self.followed.append((updates, passed))


def weights(number: int, updates: int, epoch: int = 1) -> Weights:
    """Return a version with the number of its updates in all weights."""
    block = pack(TENSORS, {"weight": np.full((1, 2), updates, np.float32)})
    return Weights("run-1", "default", Version(epoch, number), 0, updates, TENSORS, block)


@pytest.fixture
def make() -> Callable[..., tuple[Trainee, Slope]]:
    """Return a function that makes a trainee with so many rows."""

    def made(rows: int = 8, **changes: Any) -> tuple[Trainee, Slope]:
        slope = Slope(**changes)
        trainee: Any = Trainee(SPEC, slope, "box-1", 0)  # type: ignore[arg-type]
        if rows:
            trainee.insert(a_parcel((rows,), results=((2.0, 3),)))
        return trainee, slope

    return made


def test_an_update_is_owed_for_each_batch_of_rows_after_the_warm_up(make: Any) -> None:
    """Of 8 rows 4 are warm-up: one batch of 4. Seven rows are one too few."""
    assert [make(rows)[0].owes for rows in (0, 7, 8)] == [False, False, True]
    trainee, _ = make(8)
    trainee.gradients(weights(1, 0), 0)
    assert not trainee.owes


def test_gradients_name_what_they_stand_for(make: Any) -> None:
    """Four samples, the 8 steps and the episode since the message before, and the norm, 5."""
    trainee, slope = make(8)
    found = trainee.gradients(weights(3, 2), 0)
    envelope = found.envelope
    assert (envelope.version, envelope.samples, envelope.steps) == (Version(1, 3), 4, 8)
    assert (envelope.norm, envelope.metrics) == (5.0, {"loss": 0.5})
    assert (found.results.returns.tolist(), found.results.lengths.tolist()) == ([2.0], [3])
    assert found.arrays["weight"].tolist() == [[3.0, 4.0]]
    assert slope.module.weight.tolist() == [[2.0, 2.0]]
    again = trainee.gradients(weights(3, 2), 0)
    assert (again.envelope.steps, len(again.results.returns)) == (0, 0)


def test_priorities_travel_as_statistics(make: Any) -> None:
    """Their mean and their largest one; the rows stay here."""
    trainee, _ = make(8, priorities=(1.0, 2.0, 3.0, 6.0))
    metrics = trainee.gradients(weights(1, 0), 0).envelope.metrics
    assert metrics == {"loss": 0.5, "priority_mean": 3.0, "priority_max": 6.0}


def test_target_follows_the_updates_of_the_learner(make: Any) -> None:
    """From none, then by two; by none known after a learner that went back to a checkpoint."""
    trainee, slope = make(8)
    for version in (weights(1, 5), weights(1, 5), weights(4, 7), weights(5, 6, epoch=2)):
        trainee.gradients(version, 0)
    assert slope.followed == [(5, None), (7, 2), (6, None)]


def test_steps_along_one_version_are_bounded(make: Any) -> None:
    """Two, because a version has one update and may be one behind. Refused ones do not count."""
    trainee, _ = make(8)
    ahead = [trainee.is_ahead(Version(1, 1), 0)]
    for _ in range(2):
        trainee.gradients(weights(1, 0), 0)
        ahead.append(trainee.is_ahead(Version(1, 1), 0))
    assert ahead == [False, False, True]
    assert not trainee.is_ahead(Version(1, 1), 1)  # one was refused
    assert not trainee.is_ahead(Version(1, 2), 0)  # a newer version has come


def test_steps_beyond_those_of_one_message_go_with_the_next(make: Any) -> None:
    """A learner refuses more than it believes: 72 of 100, then 28."""
    trainee, _ = make(100)
    sent = [trainee.gradients(weights(1, 0), 0).envelope.steps for _ in range(3)]
    assert sent == [MOST, 100 - MOST, 0]


def test_gradients_of_other_tensors_end_the_worker_in_a_sentence(make: Any) -> None:
    """A learner has no place for them."""
    trainee, _ = make(8, name="critic.weight")
    with pytest.raises(ConfigurationError, match=r"\(critic.weight\): a worker can send no others"):
        trainee.gradients(weights(1, 0), 0)


def test_other_workers_sample_other_rows() -> None:
    """Each has a stream of its own in the seed tree."""
    spec = structs.replace(SPEC, learning=structs.replace(LEARNING, batch=32))
    drawn = []
    for index in (0, 1):
        trainee = Trainee(spec, Slope(), "box-1", index)  # type: ignore[arg-type]
        trainee.insert(a_parcel((40,)))
        drawn.append(trainee.replay.sample(0).indices.tolist())
    assert drawn[0] != drawn[1]


def test_joined_results_keep_their_order() -> None:
    """First the older ones; of none there are none."""
    one, other = (Results(np.array([value]), np.array([3], np.int32)) for value in (1.0, 2.0))
    assert joined([one, other], ()).returns.tolist() == [1.0, 2.0]
    assert len(joined([], ()).returns) == 0


def test_metrics_of_episodes_travel_with_their_results() -> None:
    """Also of those that wait for the next message, as one message ends 72 episodes at most."""
    spec = structs.replace(SPEC, extras=(metric_column("is_success"),))
    trainee = Trainee(spec, Slope(), "box-1", 0)  # type: ignore[arg-type]
    for success in (1.0, 0.0):
        parcel = a_parcel((50,), results=((2.0, 1),) * 50)
        metrics = {"is_success": np.full(50, success)} if success else {}
        trainee.insert(replace(parcel, results=replace(parcel.results, metrics=metrics)))
    sent = [trainee.gradients(weights(1, 0), 0).results for _ in range(3)]
    expected = [1.0] * 50 + [np.nan] * 50  # the second parcel reported none
    np.testing.assert_array_equal(sent[0].metrics["is_success"], expected[:MOST])
    np.testing.assert_array_equal(sent[1].metrics["is_success"], expected[MOST:])
    assert len(sent[2].returns) == 0
