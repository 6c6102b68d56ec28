"""Training: the owner of replay, pacing and algorithm. It knows no sockets, no threads and no clock; every mode drives it."""

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch

from farflung.common.data.parcel import Parcel, Results
from farflung.common.data.spec import OBSERVATIONS, Spec
from farflung.common.data.statistics import History, Spread
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights, pack
from farflung.common.process.errors import Diverged
from farflung.learner.algorithms.protocol import Algorithm, Gradients
from farflung.learner.core.guard import IN_A_ROW, FiniteWatch, Guard
from farflung.learner.core.pacing import Pacing
from farflung.learner.graph.acting_graph import state_arrays
from farflung.learner.replay.batch import Batch
from farflung.learner.replay.replay import Replay
from farflung.learner.storage.checkpoint import copies

log = logging.getLogger(__name__)

RECENT = 100  # episodes that a mean return is taken over
SUSPICIOUS_ROWS = 1000  # after so many rows, observations that never differed are reported


class Training:
    """What is learned from which rows, and how far it has got."""

    def __init__(
        self, spec: Spec, algorithm: Algorithm, replay: Replay, pacing: Pacing, epoch: int
    ) -> None:
        self.spec = spec
        self.algorithm = algorithm
        self.replay = replay
        self.pacing = pacing
        self.version = Version(epoch, 0)
        self.updates = 0
        self.published_updates = 0
        self.progress = Progress()
        self.metrics: Mapping[str, torch.Tensor] = {}
        self.guard = Guard()
        self.last_good: Callable[[], Mapping[str, torch.Tensor]] = (
            _nothing  # what the last checkpoint restores; raises where none is
        )
        self._module = algorithm.policy()
        self._weights_watch, self._state_watch = (
            FiniteWatch(_as_tensors(self._weights())),
            FiniteWatch(algorithm.state()),
        )

    @property
    def steps(self) -> int:
        """Environment steps that entered the replay."""
        return self.progress.steps

    def insert(self, parcels: Iterable[Parcel]) -> int:
        """Take checked parcels: their rows into the replay, their results into the statistics. Gives how many there were.

        Pacing knows of each before the next one is asked for, so that it can say whether that may come too.
        """
        taken, with_rows = 0, []
        for parcel in parcels:
            taken += 1
            if not parcel.evaluation:
                with_rows.append(parcel)
                self.pacing.inserted(parcel.rows)
            self.progress.count(parcel, self.version)
        if with_rows:
            self.replay.add(*with_rows)
        return taken

    def update(self) -> None:
        """One batch, one gradient step; none where the guard does not admit it, and the batch counts all the same."""
        batch = self.replay.sample(self.updates)
        gradients = self.algorithm.gradients(batch)
        if self.guard.admits(gradients):
            self._step(batch, gradients)
        elif self.guard.despairs:
            self._go_back(
                f"{IN_A_ROW} updates in a row had a loss or gradients that were not finite"
            )
        self.metrics = gradients.metrics
        self.updates += 1
        self.pacing.sampled(len(batch.actions))

    def publish(self) -> Weights:
        """The weights as they are now, under the next version. They are finite."""
        arrays = self._weights()
        if broken := self._weights_watch.broken(_as_tensors(arrays)):
            self._go_back(f"the weights in {broken[0]} were not finite")
            arrays = self._weights()
        self.version = Version(self.version.epoch, self.version.number + 1)
        self.published_updates = self.updates
        tensors = self.spec.graph.weights
        block = pack(tensors, arrays)
        return Weights(
            self.spec.run, self.spec.policy, self.version, self.steps, self.updates, tensors, block
        )

    def state(self) -> Mapping[str, torch.Tensor]:
        """What a checkpoint has to hold of the algorithm, in copies: it is written while training goes on. It is finite."""
        state = self.algorithm.state()
        if broken := self._state_watch.broken(state):
            self._go_back(f"the state of the algorithm in {broken[0]} was not finite")
            state = self.algorithm.state()
        return copies(state)

    @property
    def fingerprint(self) -> str:
        """A hash of the acting weights: two runs that did the same have the same."""
        return hashlib.blake2b(
            pack(self.spec.graph.weights, self._weights()), digest_size=16
        ).hexdigest()

    @property
    def unpublished(self) -> int:
        """Updates that no version has yet."""
        return self.updates - self.published_updates

    def _step(self, batch: Batch, gradients: Gradients) -> None:
        self.algorithm.apply(gradients)
        if gradients.priorities is not None:
            self.replay.prioritise(batch.indices, gradients.priorities.detach().cpu().numpy())

    def _go_back(self, why: str) -> None:
        """Take up the last good weights again, loudly. Steps, updates and versions go on from where they are."""
        self.guard.give_up(why)
        try:
            good = self.last_good()
        except Diverged as error:
            raise Diverged(f"{why}; {error}") from error
        self.algorithm.restore(good)
        self.guard.sentence = f"{why}: the last good checkpoint was taken up again"
        log.error(self.guard.sentence)

    def _weights(self) -> dict[str, np.ndarray]:
        """What actors get, as it is now: pack it before the next update."""
        return state_arrays(self._module, self.spec.graph)


def _nothing() -> Mapping[str, torch.Tensor]:
    raise Diverged("there is nothing to go back to")


def _as_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Progress:
    """What parcels say about how well it goes."""

    def __init__(self) -> None:
        self.steps = 0
        self.episodes = 0
        self.returns: deque[float] = deque(maxlen=RECENT)
        self.lengths: deque[float] = deque(maxlen=RECENT)
        self.history = History()
        self.lag = (
            Spread()
        )  # versions between what collected a parcel and the newest, when it came in
        self.evaluation: EvaluationResult | None = None  # the newest
        self.suspicion = ConstantObservations()

    def count(self, parcel: Parcel, newest: Version) -> None:
        """Add a parcel's steps and results."""
        if parcel.evaluation:
            if len(parcel.results.returns):
                self.evaluation = EvaluationResult(self.steps, parcel.version, parcel.results)
            return
        self.steps += parcel.rows
        self.episodes += len(parcel.results.returns)
        self.returns.extend(parcel.results.returns.tolist())
        self.lengths.extend(parcel.results.lengths.tolist())
        for value in parcel.results.returns.tolist():
            self.history.add(value)
        if parcel.version.epoch == newest.epoch:
            self.lag.add(newest.number - parcel.version.number)
        self.suspicion.look(parcel)

    @property
    def return_mean(self) -> float | None:
        """The mean return of the latest episodes."""
        return sum(self.returns) / len(self.returns) if self.returns else None

    @property
    def length_mean(self) -> float | None:
        """The mean length of the latest episodes."""
        return sum(self.lengths) / len(self.lengths) if self.lengths else None


class EvaluationResult:
    """Greedy episodes of one version."""

    def __init__(self, steps: int, version: Version, results: Results) -> None:
        self.steps = steps  # counted by the learner when the result came in
        self.version = version
        self.mean = float(results.returns.mean())
        self.length_mean = float(results.lengths.mean())
        self.episodes = len(results.returns)


class ConstantObservations:
    """Watches the first rows for observations that never change: nothing can be learned from those."""

    def __init__(self) -> None:
        self._first: dict[str, np.ndarray] = {}
        self._rows = 0
        self.verdict = ""  # a sentence, once there is reason for it

    def look(self, parcel: Parcel) -> None:
        """Compare a parcel's observations with the first one ever seen, until some differ or enough were the same."""
        if self._rows < 0:
            return
        observations = {
            name: column for name, column in parcel.columns.items() if name.startswith(OBSERVATIONS)
        }
        for name, column in observations.items():
            self._first.setdefault(name, column[0].copy())
        if any((column != self._first[name]).any() for name, column in observations.items()):
            self._rows = -1
            self.verdict = ""
            return
        self._rows += parcel.rows
        if self._rows >= SUSPICIOUS_ROWS:
            what = (
                "all zero"
                if not any(first.any() for first in self._first.values())
                else "all the same"
            )
            self.verdict = f"the observations of the first {self._rows} steps are {what}: nothing can be learned from them"
