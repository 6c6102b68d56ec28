"""What a learning algorithm is to the learner. Implement it in a package of your own: `--algorithm package.module:Class`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch

from farflung.common.data.spec import Spec
from farflung.learner.replay.batch import Batch
from farflung.learner.replay.replay import Replay

Model = Callable[[Spec], torch.nn.Module]
"""A user's network, `--model package.module:function`: what it gives is called with observations and answers with the algorithm's head."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """What one batch says: a direction for the weights, and what was noticed on the way."""

    tensors: Mapping[str, torch.Tensor]  # by parameter name of the trained module
    metrics: Mapping[str, torch.Tensor]  # 0-d, on the device: to read one waits for it, so read few
    priorities: torch.Tensor | None = None  # [B] float32: for replays that sample by them
    joined: torch.Tensor | None = (
        None  # all tensors in one row, where the algorithm has that anyway: one look at it is one call
    )


class Algorithm(Protocol):
    """A loss and an optimizer, separable: gradients may be computed in one process and applied in another.

    Between the two the learner looks at them: where they, or the metric `loss`, are not finite, `apply` is not called.

    A learner makes it as `Class(spec, settings, device=device, seed=seed, model=model)`. The graph of that spec is still empty,
    since it is written from `policy()`; spaces, stack and horizon are final. Whatever is random follows from the seed.
    """

    name: ClassVar[str]  # of its section of flags and configuration
    head: ClassVar[str]  # of the policy module, a name in the registry of heads
    Settings: ClassVar[type[Any]]  # a frozen dataclass, every field with a default

    def policy(self) -> torch.nn.Module:
        """The live module that acts: called with a tensor of observations, or a dict of them where the space is a dictionary."""
        ...

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """An empty replay whose rows mean what the loss expects."""
        ...

    def gradients(self, batch: Batch) -> Gradients:
        """What the loss says about a batch; changes nothing."""
        ...

    def apply(self, gradients: Gradients) -> None:
        """One optimizer step, and whatever follows from it."""
        ...

    def state(self) -> dict[str, torch.Tensor]:
        """Everything that training changes, by name: weights, targets, the optimizer's moments, counters.

        As it is: who keeps it makes copies. All of it is finite, but for what held an infinity from the first.
        """
        ...

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from a `state()` of the same spec and settings."""
        ...
