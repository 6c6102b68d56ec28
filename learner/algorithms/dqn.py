"""Deep Q-learning (Mnih et al., 2015), with double (van Hasselt et al., 2016) and dueling (Wang et
al., 2016) as options."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data.spec import Column, Spec
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.flat_parameters import FlatAdam, FlatParameters, TargetNetwork
from farflung.learner.algorithms.networks import q_network
from farflung.learner.algorithms.protocol import Gradients, Model
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.transitions import Transitions

DISTANCES: dict[str, Callable[..., Tensor]] = {"huber": F.huber_loss, "mse": F.mse_loss}


class DQN:
    """Learns the values of discrete actions from transitions.

    A variant overrides `next_values` or `replay`, and uses `network`, `target`, `inputs` and
    `tensor`.
    """

    name: ClassVar[str] = "dqn"
    head: ClassVar[str] = "q"
    Settings: ClassVar[type[DQNSettings]] = DQNSettings

    def __init__(
        self,
        spec: Spec,
        settings: DQNSettings,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> None:
        if spec.action.kind != "discrete":
            raise ConfigurationError(
                f"{self.name} chooses one of several actions; the actions here are "
                f"{spec.action.kind} {list(spec.action.shape)}: "
                f"{spec.world.environment} needs another --algorithm{_another(spec)}"
            )
        self.settings = settings
        self.device = device
        with torch.random.fork_rng(devices=[]):  # torch initialises from its global generator only
            torch.manual_seed(seed)
            network = model(spec) if model else build(spec, settings)
        self.network = network.to(device)
        self._parameters = FlatParameters(self.network)
        self._optimizer = FlatAdam(self._parameters, settings.learning_rate)
        self._learning_rate = torch.tensor(settings.learning_rate)
        self._target = TargetNetwork(
            self.network, self._parameters, polyak=settings.polyak, every=settings.target_every
        )
        self._updates = 0

    @classmethod
    def columns(cls, spec: Spec, settings: DQNSettings) -> tuple[Column, ...]:
        """Return nothing: the loss needs no extra columns."""
        return ()

    @property
    def target(self) -> nn.Module:
        """The target network."""
        return self._target.module

    def policy(self) -> nn.Module:
        """Return the network that acts."""
        return self.network

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of n-step transitions."""
        rows = Transitions(spec, n_step=self.settings.n_step, gamma=self.settings.gamma)
        return Replay(spec, rows, Uniform(batch_size, seed), capacity=capacity)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the mean distance between values and their targets."""
        returns, discounts = self.tensor(batch.returns), self.tensor(batch.discounts)
        with torch.no_grad():
            targets = returns + discounts * self.next_values(batch)
        values = chosen(self.network(self.inputs(batch.observations)), self.tensor(batch.actions))
        losses = DISTANCES[self.settings.loss](values, targets, reduction="none")
        if batch.weights is not None:
            losses = self.tensor(batch.weights) * losses
        loss = losses.mean()
        gradients = self._parameters.gradients(loss)
        return Gradients(
            tensors=gradients,
            metrics={
                "loss": loss.detach(),
                "gradient_norm": gradients.vector.norm(),
                "value": values.detach().mean(),
                "learning_rate": self._learning_rate,
            },
            priorities=None if batch.weights is None else (targets - values.detach()).abs(),
        )

    def next_values(self, batch: Batch) -> Tensor:
        """Return the values of the bootstrap observations, `[B] float32`. Called without autograd.

        With double Q-learning the online network chooses the action, and the target values it.
        """
        observations = self.inputs(batch.next_observations)
        values: Tensor = self.target(observations)
        if not self.settings.double:
            return values.amax(dim=1)
        return chosen(values, self.network(observations).argmax(dim=1))

    def apply(self, gradients: Gradients) -> None:
        """Make one step of Adam along the clipped gradient; then the target network follows."""
        self._optimizer.step(gradients.tensors, self.settings.max_gradient_norm)
        self._updates += 1
        self._target.follow(self._updates)

    def follow(self, updates: int, passed: int | None) -> None:
        """Let the target network follow updates that another process made."""
        self._updates = updates
        if passed is None:
            self._target.copy()
        else:
            self._target.follow(updates, passed)

    def state(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {
            **prefixed("network.", self.network.state_dict()),
            **prefixed("target.", self.target.state_dict()),
            **prefixed("optimizer.", self._optimizer.state()),
            "updates": torch.tensor(self._updates),
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state()` of the same spec and settings."""
        self.network.load_state_dict(part(state, "network."))
        self.target.load_state_dict(part(state, "target."))
        self._optimizer.restore(part(state, "optimizer."))
        self._updates = int(state["updates"])

    def inputs(self, observations: Mapping[str, np.ndarray]) -> Tensor | dict[str, Tensor]:
        """Return observations as a network takes them: a tensor, or a dict of tensors by key."""
        leaves = {key: self.tensor(leaf) for key, leaf in observations.items()}
        return leaves.get("", leaves)

    def tensor(self, array: np.ndarray) -> Tensor:
        """Return an array of a batch as a tensor on the device."""
        return stage(array, self.device)


def build(spec: Spec, settings: DQNSettings) -> nn.Module:
    """Return the built-in network for a spec."""
    return q_network(
        spec.observation,
        spec.stack,
        spec.action.sizes[0],
        settings.hidden,
        settings.dueling,
        settings.layer_norm,
    )


def chosen(values: Tensor, actions: Tensor) -> Tensor:  # [B, A] float32, [B] int64
    """Return the value of each row's action, `[B] float32`."""
    return values.gather(1, actions.long()[:, None])[:, 0]


def stage(array: np.ndarray, device: torch.device) -> Tensor:
    """Return an array as a tensor on the device: shared memory on the CPU, a copy on CUDA.

    The copy runs while the caller continues. torch reuses a pinned block only after the copies that
    read it have finished, so the caller need not keep anything alive.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def prefixed(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state with a prefix before each name."""
    return {prefix + name: tensor for name, tensor in state.items()}


def part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the entries of a state under a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }


def _another(spec: Spec) -> str:
    """Return the ways to learn continuous actions."""
    if spec.action.kind != "box":
        return ""
    return (
        ". For continuous actions there is the head gaussian, and no built-in algorithm: name one "
        "of your own, or choose among few actions with --wrapper DiscretizeAction:bins=3"
    )
