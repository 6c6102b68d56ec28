"""A worker's copy of the policy: replay, target network, and gradients at the learner's weights.

It knows no socket, clock or thread.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from msgspec import structs

from farflung.actor.connection.form import Encode
from farflung.common.data import seeds
from farflung.common.data.parcel import Parcel, Results
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.outbox import Frame
from farflung.common.protocol.tensors import Gradients, GradientsCodec, GradientsEnvelope
from farflung.learner.algorithms.protocol import Follower
from farflung.learner.algorithms.protocol import Gradients as Found
from farflung.learner.core.pacing import Pacing
from farflung.learner.core.worker_gradients import STALE
from farflung.learner.replay.replay import Batch

NO_VERSION = Version(0, 0)


class Trainee:
    """Learns from the rows of one worker, along the weights that the learner publishes."""

    def __init__(self, spec: Spec, algorithm: Follower, actor: str, index: int) -> None:
        learning = spec.learning
        assert learning is not None
        self._spec, self._learning, self._algorithm, self._actor = spec, learning, algorithm, actor
        self._module = algorithm.policy()
        # The first worker samples as the learner itself would; each other one by itself.
        stream = ("replay", index) if index else ("replay",)
        self.replay = algorithm.replay(
            spec,
            capacity=learning.capacity,
            batch_size=learning.batch,
            seed=seeds.number(spec.world.seed, *stream),
        )
        self._pacing = Pacing(learning.ratio, learning.batch, learning.warmup, spec.horizon)
        # In one message: a learner refuses more. What is left goes with the next one.
        self._most_steps = learning.most_steps(spec.most_rows)
        self._schema = GradientsCodec(spec.graph.weights, spec.result_extras).schema
        self._held = NO_VERSION
        self._updates = 0  # of the learner, under the version held
        self._computed = 0  # gradients at that version
        self._refused = 0  # of all before it
        self.unsent_steps = 0  # since the last gradients
        self._finished: list[Results] = []  # likewise

    @property
    def owes(self) -> bool:
        """True while the replay ratio asks for an update: it comes before further steps."""
        return self._pacing.may_update

    def is_ahead(self, version: Version, refused: int) -> bool:
        """Return whether all gradients at a version are computed that may be.

        Further ones would be too stale, even if no other worker learned. Those that were refused
        take no step, and do not count: `refused` is the number of all so far.
        """
        if version != self._held:
            return False
        return self._computed - (refused - self._refused) >= self._learning.may_owe

    def insert(self, parcel: Parcel) -> None:
        """Add the rows of a parcel to the replay."""
        self.replay.add(parcel)
        self._pacing.inserted(parcel.rows)
        self.unsent_steps += parcel.rows
        if len(parcel.results.returns):
            self._finished.append(parcel.results)

    def gradients(self, weights: Weights, refused: int) -> Gradients:
        """Return gradients at these weights, of the next batch."""
        if weights.version != self._held:
            self._hold(weights, refused)
        batch = self.replay.sample(self._updates + self._computed)
        found = self._algorithm.gradients(batch)
        self._computed += 1
        samples = len(batch) * self.replay.stride
        self._pacing.sampled(samples)
        metrics = {name: float(value) for name, value in found.metrics.items()}
        if found.priorities is not None:
            metrics |= self._prioritise(batch, found.priorities)
        return Gradients(self._envelope(found, samples, metrics), self._arrays(found), self._take())

    def _hold(self, weights: Weights, refused: int) -> None:
        """Take over the learner's weights; the target network follows as many updates."""
        tensors = {name: torch.from_numpy(np.array(each)) for name, each in weights.arrays.items()}
        self._module.load_state_dict(tensors, strict=False)
        passed = weights.updates - self._updates
        is_new = self._held == NO_VERSION or passed < 0  # the learner went back to a checkpoint
        self._algorithm.follow(weights.updates, None if is_new else passed)
        self._held, self._computed, self._refused = weights.version, 0, refused
        self._updates = weights.updates

    def _prioritise(self, batch: Batch, priorities: torch.Tensor) -> dict[str, float]:
        """Hand priorities to the replay; return their statistics."""
        values = priorities.detach().cpu().numpy()
        self.replay.prioritise(batch.indices, values)
        return {"priority_mean": float(values.mean()), "priority_max": float(values.max())}

    def _arrays(self, found: Found) -> dict[str, np.ndarray]:
        names = [tensor.name for tensor in self._spec.graph.weights]
        if found.tensors.keys() != set(names):
            odd = sorted(found.tensors.keys() ^ set(names))[0]
            raise ConfigurationError(
                f"{self._learning.algorithm}: its gradients are not those of the policy's tensors "
                f"({odd}): a worker can send no others"
            )
        return {name: found.tensors[name].detach().cpu().numpy() for name in names}

    def _envelope(self, found: Found, samples: int, metrics: dict[str, float]) -> GradientsEnvelope:
        """Return the envelope, still without a number."""
        norms = [float(tensor.detach().norm()) for tensor in found.tensors.values()]
        steps = min(self.unsent_steps, self._most_steps)
        self.unsent_steps -= steps
        return GradientsEnvelope(
            run=self._spec.run,
            policy=self._spec.policy,
            actor=self._actor,
            incarnation=0,
            sequence=1,
            base=1,
            version=self._held,
            schema=self._schema,
            round=0,
            samples=samples,
            steps=steps,
            norm=float(np.linalg.norm(norms)),
            metrics=metrics,
        )

    def _take(self) -> Results:
        """Return the episodes that finished, at most as many as one message may have."""
        results = joined(self._finished, self._spec.metrics)
        now, rest = results.part(0, self._most_steps), results.part(self._most_steps)
        self._finished = [rest] if len(rest.returns) else []
        return now


def joined(results: Sequence[Results], metrics: Sequence[str]) -> Results:
    """Return several results as one, with all metrics of a spec."""
    if not results:
        return Results()
    columns = zip(*(one.columns(metrics) for one in results), strict=True)
    returns, lengths, *values = map(np.concatenate, columns)
    return Results(returns, lengths, dict(zip(metrics, values, strict=True)))


class GradientForm:
    """The form of gradients. The weights that they are taken at end with the learner's epoch."""

    word, usual, outlives_epochs = "message of gradients", frozenset({STALE}), False

    def encoder(self, spec: Spec, actor: str) -> Encode:
        """Return the function that forms the gradients of this worker."""
        codec = GradientsCodec(spec.graph.weights, spec.result_extras)

        def encode(gradients: Any, incarnation: int, sequence: int, base: int) -> Frame:
            envelope = structs.replace(
                gradients.envelope, incarnation=incarnation, sequence=sequence, base=base
            )
            return codec.encode(replace(gradients, envelope=envelope))

        return encode
