"""A short sequential run of an algorithm, of which each update is kept: `learner check`."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.process.lifecycle import Stop
from farflung.learner.algorithms.protocol import Algorithm, Gradients
from farflung.learner.config import LearnerConfig
from farflung.learner.core.build import build_core
from farflung.learner.core.core import Core
from farflung.learner.endpoint.endpoint import FIRST_EPOCH, Endpoint
from farflung.learner.local.actors import sequential_actors
from farflung.learner.loop import Loop
from farflung.learner.replay.replay import Batch
from farflung.learner.schedule.schedule import InRounds
from farflung.learner.storage.run_folder import new_run
from farflung.learner.transport.in_process import InProcess

UPDATES = 24  # kept; more are made where a rollout asks for them
MOST_STEPS = 20_000  # of the environment, until so many updates


@dataclass(frozen=True, slots=True)
class Kept:
    """One update: what it learned from, and hashes of that and of the gradients."""

    batch: Batch
    seen: str
    found: str


class Watched:
    """An algorithm, of which the first updates are kept, and tensors that are not finite named."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.inner = algorithm
        self.updates: list[Kept] = []
        self.broken: list[str] = []  # of the first update with such tensors
        self.moved: set[str] = set()  # tensors of which a gradient was not zero

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the algorithm."""
        gradients = self.inner.gradients(batch)
        tensors = dict(gradients.tensors)
        if "loss" in gradients.metrics:
            tensors["the metric loss"] = gradients.metrics["loss"]
        if not self.broken:
            self.broken = [name for name, each in tensors.items() if not each.isfinite().all()]
        self.moved |= {name for name, each in gradients.tensors.items() if bool(each.any())}
        if len(self.updates) < UPDATES:
            arrays = {**batch.columns, **{f"next {n}": a for n, a in batch.next_columns.items()}}
            self.updates.append(Kept(batch, digest_of(arrays), digest(gradients.tensors)))
        return gradients


class Trial:
    """One run of an algorithm in one process, until it has made some updates."""

    def __init__(
        self,
        config: LearnerConfig,
        folder: Path,
        name: str,
        shown: Sequence[Parcel] = (),
        spec: Spec | None = None,
    ) -> None:
        run = new_run(str(folder), name, config.environment, "")
        self.folder, self._made = run.folder, (config, folder, shown)
        device = torch.device("cpu")
        self.core: Core = build_core(config, run, device, FIRST_EPOCH, spec, demonstrated=shown)
        self.watched = Watched(self.core.algorithm)
        self.core.algorithm = self.watched
        self.begun = copied(self.policy_tensors())
        self.start = digest(self.core.algorithm.state())
        self.parcels: list[Parcel] = []

    def fresh(self, name: str) -> "Trial":
        """Return the same trial at its beginning, with the graph that was written for this one."""
        config, folder, shown = self._made
        return Trial(config, folder, name, shown, self.core.spec)

    def policy_tensors(self) -> dict[str, Tensor]:
        """Return the parameters of the policy that train, by name."""
        parameters = self.core.algorithm.policy().named_parameters()
        return {name: each.detach() for name, each in parameters if each.requires_grad}

    def play(self, config: LearnerConfig, beat: Callable[[], None]) -> None:
        """Let an actor play and the algorithm learn, until the updates are made."""
        core, stop = self.core, Stop()
        insert = core.insert

        def kept(parcels: Sequence[Parcel]) -> None:
            self.parcels += parcels
            insert(parcels)

        core.insert = kept  # type: ignore[method-assign]
        endpoint = Endpoint(core.spec)
        transport = InProcess(endpoint, sequential_actors(config, stop, lambda left: beat()))
        try:
            Loop(core, InRounds(), endpoint, transport).run(_Until(core, beat))
        finally:
            transport.close()
            stop.close()


class _Until:
    """The supervision of a trial: it ends after some updates, or too many steps."""

    rows_wanted = 1 << 40

    def __init__(self, core: Core, beat: Callable[[], None]) -> None:
        self._core, self._beat = core, beat

    @property
    def over(self) -> bool:
        """True once the trial has shown what it can."""
        state = self._core.state
        return state.updates >= UPDATES or state.steps >= MOST_STEPS

    def tick(self) -> None:
        """Show the watchdog that it goes on."""
        self._beat()


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of tensors."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of tensors by name, bit for bit."""
    return digest_of({name: each.detach().cpu().numpy() for name, each in tensors.items()})


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """Return a hash of arrays by name, bit for bit."""
    found = hashlib.blake2b(digest_size=8)
    for name in sorted(arrays):
        found.update(f"{name} {arrays[name].dtype} {arrays[name].shape}\n".encode())
        found.update(np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def differing(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> list[str]:
    """Return the names of tensors that differ in a bit."""
    return [
        name
        for name in {**one, **other}
        if name not in one or name not in other or not _same(one[name], other[name])
    ]


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and digest({"": one}) == digest({"": other})
