"""The interface of a learning algorithm. Yours is named by `--algorithm package.module:Class`.

docs/algorithms.md explains it with a complete example.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from farflung.common.data.spec import Column, Spec
from farflung.learner.replay.replay import Batch, Replay

Model = Callable[[Spec], torch.nn.Module]
"""A user's network, `--model package.module:function`. It answers observations with the outputs of
the algorithm's head."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """The result of a loss over one batch: a direction for the weights, and metrics to show."""

    tensors: Mapping[str, torch.Tensor]  # by parameter name of the trained module
    metrics: Mapping[str, torch.Tensor]  # 0-d, on the device; do not change one later
    priorities: torch.Tensor | None = None  # [B] float32, for replays that sample by them


class Algorithm(Protocol):
    """A loss and an optimizer, separable: one process may compute gradients, another apply them.

    In between the learner checks them: where they, or the metric `loss`, are not finite, `apply` is
    not called.
    """

    @property
    def head(self) -> str:
        """The head of `policy()`, as in its class."""

    def policy(self) -> torch.nn.Module:
        """Return the live module that acts.

        It is called with a tensor of observations, or with a dict of them for a dictionary space.
        It returns the outputs of the head, then one output for each column that the head does not
        compute: a tensor, or a tuple of tensors in this order.
        """

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay with the rows that the loss expects."""

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the loss over a batch. Change nothing."""

    def apply(self, gradients: Gradients) -> None:
        """Make one optimizer step, and all that follows from it."""

    def state(self) -> dict[str, torch.Tensor]:
        """Return everything that training changes, by name: weights, moments, counters.

        The tensors may be the live ones: the caller copies them. All must be finite, except those
        that held an infinity from the start, such as masks.
        """

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Continue from a `state()` of the same spec and settings."""


class Follower(Algorithm, Protocol):
    """An algorithm that workers can use: another process applies its gradients."""

    def follow(self, updates: int, passed: int | None) -> None:
        """Let all that follows from updates follow those of another process, as a target network.

        The module of `policy()` has the weights after so many updates, `passed` of which are new;
        None if they do not go on from the weights before.
        """


@runtime_checkable
class Steerable(Protocol):
    """An algorithm with a step size that `learner set learning-rate=` can change while it runs."""

    def take_learning_rate(self, rate: float | None) -> None:
        """Take another step size in the place of that in the settings; None: that one again.

        A schedule goes on, from the new one. It is set again where a run is resumed.
        """


class AlgorithmClass(Protocol):
    """The class of an algorithm: what the learner needs before it can make one."""

    @property
    def name(self) -> str:
        """The name of its section of flags and configuration."""

    @property
    def head(self) -> str:
        """The head of its policy: a name in the registry, see farflung.common.heads."""

    @property
    def Settings(self) -> type[Any]:  # noqa: N802
        """A frozen dataclass of settings, each with a default."""

    def columns(self, spec: Spec, settings: Any) -> tuple[Column, ...]:
        """Return the extra columns that actors shall record. Make it a classmethod.

        Each is one that the head computes, or a further output of `policy()` of the same name, or
        one that the world supplies: `info.mask` is `mask` in the info of its environments; or
        `INTERVENED`, which is true where another hand than the policy's chose the action.
        """

    def __call__(
        self,
        spec: Spec,
        settings: Any,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> Algorithm:
        """Make the algorithm. All that is random follows from the seed.

        The spec is final but for its graph, which is written from `policy()` and still empty.
        """
