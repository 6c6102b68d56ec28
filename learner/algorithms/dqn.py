"""Deep Q-learning (Mnih et al., 2015), double (van Hasselt et al., 2016) and dueling (Wang et al., 2016) where asked for."""

import copy
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.adam import Adam
from farflung.learner.algorithms.networks import q_network
from farflung.learner.algorithms.protocol import Gradients, Model
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.algorithms.staging import stage
from farflung.learner.replay.batch import Batch
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.rows.transitions import Transitions
from farflung.learner.replay.samplers.uniform import Uniform

DISTANCES: dict[str, Callable[..., Tensor]] = {"huber": F.huber_loss, "mse": F.mse_loss}


class DQN:
    """Learns the values of discrete actions from transitions.

    All trained parameters are views into one vector, and so are those of the target network: clipping, the optimizer's step and
    the target's pursuit are then one call each instead of one per tensor.
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
                f"dqn chooses one of several actions; the actions here are {spec.action.kind} {list(spec.action.shape)}: "
                f"{spec.world.environment} needs another --algorithm"
            )
        self.settings = settings
        self._device = device
        with torch.random.fork_rng(devices=[]):  # torch initialises from its global generator only
            torch.manual_seed(seed)
            network = model(spec) if model else build(spec, settings)
        self._network = network.to(device)
        self._target = copy.deepcopy(self._network).requires_grad_(False).train(mode=False)
        trained = {
            name: parameter
            for name, parameter in self._network.named_parameters()
            if parameter.requires_grad
        }
        self._names, self._parameters = list(trained), list(trained.values())
        self._weights = join(self._parameters)
        self._target_weights = join([self._target.get_parameter(name) for name in self._names])
        self._optimizer = Adam(self._weights, settings.learning_rate)
        self._updates = 0

    def policy(self) -> nn.Module:
        """The network that acts."""
        return self._network

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of n-step transitions."""
        rows = Transitions(spec, n_step=self.settings.n_step, gamma=self.settings.gamma)
        return Replay(spec, rows, Uniform(batch_size, seed), capacity=capacity)

    def gradients(self, batch: Batch) -> Gradients:
        """The gradient of the mean distance between values and their targets."""
        returns, discounts = (
            stage(batch.returns, self._device),
            stage(batch.discounts, self._device),
        )
        targets = returns + discounts * self._next_values(batch)
        values = chosen(
            self._network(self._inputs(batch.observations)), stage(batch.actions, self._device)
        )
        losses = DISTANCES[self.settings.loss](values, targets, reduction="none")
        if batch.weights is not None:
            losses = stage(batch.weights, self._device) * losses
        loss = losses.mean()
        tensors = torch.autograd.grad(
            loss, self._parameters, allow_unused=True, materialize_grads=True
        )
        return Gradients(
            tensors=dict(zip(self._names, tensors, strict=True)),
            metrics={"loss": loss.detach(), "value": values.detach().mean()},
            priorities=None if batch.weights is None else (targets - values.detach()).abs(),
            joined=torch.cat([tensor.ravel() for tensor in tensors]),
        )

    def apply(self, gradients: Gradients) -> None:
        """One step of Adam along the clipped gradient; then the target network follows."""
        gradient = gradients.joined
        if gradient is None:
            gradient = torch.cat([gradients.tensors[name].ravel() for name in self._names])
        if self.settings.max_gradient_norm:
            gradient = gradient * (
                self.settings.max_gradient_norm / (gradient.norm() + 1e-6)
            ).clamp(max=1)
        self._optimizer.step(gradient)
        self._updates += 1
        self._follow()

    def state(self) -> dict[str, Tensor]:
        """Everything that training changes, by name."""
        state = {f"network.{name}": tensor for name, tensor in self._network.state_dict().items()}
        state |= {f"target.{name}": tensor for name, tensor in self._target.state_dict().items()}
        state |= {f"optimizer.{name}": tensor for name, tensor in self._optimizer.state().items()}
        return state | {"updates": torch.tensor(self._updates)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state()` of the same spec and settings."""
        self._network.load_state_dict(part(state, "network."))
        self._target.load_state_dict(part(state, "target."))
        self._optimizer.restore(part(state, "optimizer."))
        self._updates = int(state["updates"])

    @torch.no_grad()
    def _next_values(self, batch: Batch) -> Tensor:
        """What the bootstrap observations are worth, `[B] float32`: chosen by the online network where double, valued by the target."""
        observations = self._inputs(batch.next_observations)
        values: Tensor = self._target(observations)
        if not self.settings.double:
            return values.amax(dim=1)
        return chosen(values, self._network(observations).argmax(dim=1))

    @torch.no_grad()
    def _follow(self) -> None:
        """Let the target network take a share of the online one at each update, or all of it every so many."""
        if self.settings.polyak:
            self._target_weights.lerp_(self._weights, self.settings.polyak)
        elif self._updates % self.settings.target_every == 0:
            self._target_weights.copy_(self._weights)
        else:
            return
        for target, online in zip(self._target.buffers(), self._network.buffers(), strict=True):
            target.copy_(online)

    def _inputs(self, observations: Mapping[str, np.ndarray]) -> Tensor | dict[str, Tensor]:
        """Observations as the module takes them: one tensor, or a dict of them where the space is a dictionary."""
        leaves = {key: stage(leaf, self._device) for key, leaf in observations.items()}
        return leaves.get("", leaves)


def build(spec: Spec, settings: DQNSettings) -> nn.Module:
    """The built-in network for a spec."""
    actions = spec.action.sizes[0]
    return q_network(
        spec.observation,
        spec.stack,
        actions,
        settings.hidden,
        settings.dueling,
        settings.layer_norm,
    )


def chosen(values: Tensor, actions: Tensor) -> Tensor:  # [B, A] float32, [B] int64
    """The value of each row's action, `[B] float32`."""
    return values.gather(1, actions.long()[:, None])[:, 0]


def join(parameters: list[nn.Parameter]) -> Tensor:
    """One vector of all the parameters, which become views into it: what changes it changes them."""
    vector = nn.utils.parameters_to_vector(parameters).detach()
    nn.utils.vector_to_parameters(vector, parameters)
    return vector


def part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The entries under a prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }
