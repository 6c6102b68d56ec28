"""The learner core: replay, pacing and algorithm. It knows no clock, socket, thread or file."""

import hashlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from farflung.common.data.parcel import Parcel
from farflung.common.data.pool import Pool
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import Diverged
from farflung.common.protocol.tensors import Gradients as WorkerGradients
from farflung.learner.algorithms.protocol import Algorithm, Gradients, Steerable
from farflung.learner.core.curves import published, require_name
from farflung.learner.core.guard import IN_A_ROW, FiniteWatch, Guard
from farflung.learner.core.normalisation import Normaliser, acting_policy, clipped
from farflung.learner.core.own_metrics import ENOUGH, Metrics, Updates
from farflung.learner.core.pacing import CoreState, Pacing
from farflung.learner.core.progress import Progress
from farflung.learner.core.split import Split
from farflung.learner.core.worker_gradients import OVERFLOW, STALE, mean
from farflung.learner.graph.acting_graph import state_arrays
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.steering.orders import AS_BEGUN, Steering
from farflung.learner.storage.checkpoint import copies

if TYPE_CHECKING:
    from farflung.learner.demonstrations.mixing import Mixture

log = logging.getLogger(__name__)


class Core:
    """Everything that training changes. A schedule decides what it does next."""

    def __init__(
        self,
        spec: Spec,
        algorithm: Algorithm,
        replay: Replay,
        pacing: Pacing,
        epoch: int,
        normaliser: Normaliser | None = None,
    ) -> None:
        self.spec = spec
        self.algorithm = algorithm
        self.replay = replay
        self.normaliser = normaliser
        self.reward_limit = 0.0  # of rows; 0: none
        self.mixture: Mixture | None = None  # of demonstrations into batches
        self.state = CoreState(pacing, Version(epoch, 0))
        self.progress = Progress()
        self.update_metrics = Updates()
        self.recorded = Metrics()
        self.guard = Guard()
        self.split = Split()  # its owner sets one with a clock
        # Returns the tensors of the last good checkpoint; raises where there is none.
        self.last_good: Callable[[], Mapping[str, torch.Tensor]] = _nothing
        self.pool: Callable[[], Pool | None] = lambda: None  # what is published with each version
        self.steering = AS_BEGUN  # as commands have changed it
        self._ratio = 0.0  # as configured, once a command may have changed it
        self._staleness = math.inf if spec.learning is None else spec.learning.staleness
        self._module = acting_policy(algorithm, normaliser)
        self._weights_watch = FiniteWatch(_as_tensors(self._weights()))
        self._state_watch = FiniteWatch(algorithm.state())

    @property
    def pacing(self) -> Pacing:
        """The replay ratio and both sides' counts."""
        return self.state.pacing

    def steer(self, steering: Steering) -> None:
        """Take the values that commands have set, from now on."""
        state, before, self.steering = self.state, self.steering, steering
        state.paused, state.publish_every = steering.paused, steering.publish_every or 0
        self._ratio = self._ratio or state.pacing.ratio
        ratio = self._ratio if steering.replay_ratio is None else steering.replay_ratio
        if (ratio, steering.weight) != (state.pacing.ratio, state.pacing.weight):
            state.pacing.weigh(steering.weight, ratio)
        if steering.learning_rate != before.learning_rate and isinstance(self.algorithm, Steerable):
            self.algorithm.take_learning_rate(steering.learning_rate)

    @property
    def has_learning_rate(self) -> bool:
        """True if the algorithm takes another step size while it runs."""
        return isinstance(self.algorithm, Steerable)

    def insert(self, parcels: Sequence[Parcel]) -> None:
        """Add the rows of checked parcels to the replay and their results to the statistics."""
        state = self.state
        with_rows = []
        for parcel in parcels:
            if not parcel.evaluation:
                if self.reward_limit:
                    parcel = clipped(parcel, self.reward_limit)
                if self.normaliser is not None:
                    self.normaliser.add(parcel)
                with_rows.append(parcel)
                state.pacing.inserted(parcel.rows)
                state.steps += parcel.rows
            self.progress.count(parcel, state.steps, state.version)
        if with_rows:
            self.replay.add(*with_rows)

    def record(self, name: str, value: float) -> None:
        """Add a value to a metric of the caller's own, for all screens, curves and `--until`.

        It is shown as the mean of its latest 100 values, as `train/NAME` if it has no slash.
        """
        require_name(name)
        self.recorded.add(published(name), (float(value),))

    def value(self, curve: str) -> float | None:
        """Return the newest value of a curve of episodes, updates or callers, or None.

        One episode is no rate: a metric of training episodes has a value after 20 of them.
        """
        group, _, short = curve.partition("/")
        figure = self.recorded.figure(curve)
        if group == "rollout":
            figure = self.progress.metrics.figure(short)
            figure = figure if figure is not None and figure.count >= ENOUGH else None
        if group == "eval" and self.progress.evaluation is not None:
            figure = self.progress.evaluation.figures.get(short)
        if figure is not None:
            return figure.mean
        names = [name for name in self.metrics if published(name) == curve]
        return self.update_metrics.mean(names[0]) if names else None

    @property
    def metrics(self) -> Mapping[str, torch.Tensor]:
        """The metrics of the newest update, on the algorithm's device."""
        return self.update_metrics.newest

    def update(self) -> None:
        """Sample one batch and take one gradient step, if the guard admits it.

        A batch counts as sampled either way: the replay ratio is about samples.
        """
        self.split.begin()
        batch = self._batch()
        self.split.lap("sample")
        gradients = self.algorithm.gradients(batch)
        self.split.lap("gradients")
        if self.apply(gradients) and gradients.priorities is not None:
            priorities = gradients.priorities.detach().cpu().numpy()
            if self.mixture is None:
                self.replay.prioritise(batch.indices, priorities)
            else:
                self.mixture.prioritise(self.replay, batch, priorities)
        self.split.lap("step")
        self.pacing.sampled(len(batch.actions) * self.replay.stride)

    def _batch(self) -> Batch:
        """Return the batch of the next update."""
        update, mixture = self.state.updates, self.mixture
        own = self.replay
        batch = own.sample(update) if mixture is None else mixture.sample(own, update)
        return batch if self.normaliser is None else self.normaliser.batch(batch)

    def apply_gradients(self, received: Sequence[WorkerGradients]) -> list[str]:
        """Take one step along the mean of workers' gradients, without those that are too stale.

        Each counts as often as the rows it stands for. The steps and episodes of the workers count
        in any case. Return for each the reason of its refusal, or nothing if it was applied.
        """
        newest, fresh = self.state.version, list[WorkerGradients]()
        for one in received:
            self.state.steps += one.envelope.steps
            self.progress.add(one.results, one.envelope.version, newest)
            if newest.number - one.envelope.version.number <= self._staleness:
                fresh.append(one)
        refusal = ""
        if fresh and not self.apply(mean(fresh, next(self._module.parameters()).device)):
            refusal = OVERFLOW
        kept = set(map(id, fresh))
        return [refusal if id(one) in kept else STALE for one in received]

    def apply(self, gradients: Gradients) -> bool:
        """Take one step along these gradients, computed here or elsewhere. False: refused."""
        admitted = self.guard.admits(gradients)
        if admitted:
            self.algorithm.apply(gradients)
        elif self.guard.despairs:
            self._go_back(
                f"{IN_A_ROW} updates in a row had a loss or gradients that were not finite"
            )
        self.update_metrics.add(gradients.metrics)
        self.state.updates += 1
        return admitted

    def publish(self) -> Weights:
        """Return the weights as they are now, all finite, under the next version."""
        arrays = self._weights()
        if broken := self._weights_watch.broken(_as_tensors(arrays)):
            self._go_back(f"the weights in {broken[0]} were not finite")
        state = self.state
        state.version = Version(state.version.epoch, state.version.number + 1)
        state.published_steps, state.published_updates = state.steps, state.updates
        return self.acting()

    def acting(self) -> Weights:
        """Return the acting weights as they are now, under the newest version or beyond it."""
        spec, state = self.spec, self.state
        tensors = spec.graph.weights
        return Weights(
            spec.run,
            spec.policy,
            state.version,
            state.steps,
            state.updates,
            tensors,
            pack(tensors, self._weights()),
            self.pool(),
        )

    def tensors(self) -> Mapping[str, torch.Tensor]:
        """Return copies of the algorithm's tensors for a checkpoint, all finite.

        They are copies because training goes on while the checkpoint is written.
        """
        tensors = self.algorithm.state()
        if broken := self._state_watch.broken(tensors):
            self._go_back(f"the state of the algorithm in {broken[0]} was not finite")
            tensors = self.algorithm.state()
        return copies(tensors)

    def resume(
        self, *, rows: int, steps: int, episodes: int, updates: int, samples: int, version: int
    ) -> None:
        """Continue counting from where an earlier epoch of this run ended.

        The rows are those of the journal; the steps of workers come on top of them.
        """
        state = self.state
        state.pacing.rows = rows
        state.steps = state.published_steps = max(rows, steps)
        state.updates = state.published_updates = updates
        state.pacing.samples = samples
        state.version = Version(state.version.epoch, version)
        self.progress.episodes = episodes

    @property
    def trained(self) -> bool:
        """True once an update has changed the weights, in this epoch or an earlier one."""
        return self.state.updates > self.guard.skipped

    @property
    def fingerprint(self) -> str:
        """A hash of the acting weights: two runs that did the same have the same."""
        block = pack(self.spec.graph.weights, self._weights())
        return hashlib.blake2b(block, digest_size=16).hexdigest()

    def _go_back(self, why: str) -> None:
        """Restore the last good weights, loudly. Steps, updates and versions go on counting."""
        self.guard.give_up(why)
        try:
            good = self.last_good()
        except Diverged as error:
            raise Diverged(f"{why}; {error}") from error
        self.algorithm.restore(good)
        self.guard.sentence = f"{why}: the last good checkpoint was restored"
        log.error(self.guard.sentence)

    def _weights(self) -> dict[str, np.ndarray]:
        """Return views of the acting weights: pack them before the next update."""
        return state_arrays(self._module, self.spec.graph)


def _nothing() -> Mapping[str, torch.Tensor]:
    raise Diverged("there is nothing to go back to")


def _as_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
