"""The parts that DQN and R2D2 share: a network of values, its optimizer, and its target network."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.flat_parameters import FlatAdam, FlatParameters, TargetNetwork
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.algorithms.trained import OnDevice, part, prefixed
from farflung.learner.replay.prioritised import Priorities, Prioritised
from farflung.learner.replay.replay import Sampler
from farflung.learner.replay.sampling import Uniform


class ValueAlgorithm(OnDevice):
    """Learns the values of discrete actions by a target network that follows.

    A variant makes the network, and has `columns`, `replay` and `gradients`.
    """

    name: ClassVar[str]
    head: ClassVar[str] = "q"
    settings: DQNSettings | R2D2Settings

    def __init__(
        self,
        network: nn.Module,
        settings: DQNSettings | R2D2Settings,
        *,
        device: torch.device,
        polyak: float = 0.0,
    ) -> None:
        self.settings, self.device = settings, device
        self.network = network.to(device)
        self._parameters = FlatParameters(self.network)
        self._optimizer = FlatAdam(self._parameters, settings.learning_rate)
        self._target = TargetNetwork(
            self.network, self._parameters, polyak=polyak, every=settings.target_every
        )
        self._updates = 0
        self._rate = settings.learning_rate

    @property
    def target(self) -> nn.Module:
        """The target network."""
        return self._target.module

    @property
    def learning_rate(self) -> float:
        """The step size of the next update."""
        own = self.settings
        left = max(0.0, 1 - self._updates / own.anneal_updates) if own.anneal_updates else 1.0
        return self._rate * left

    def take_learning_rate(self, rate: float | None) -> None:
        """Take another step size before it is annealed; None: that of the settings."""
        self._rate = self.settings.learning_rate if rate is None else rate

    def policy(self) -> nn.Module:
        """Return the network that acts."""
        return self.network

    def sampler(self, capacity: int, batch_size: int, seed: int, beta_updates: int) -> Sampler:
        """Return the choice of rows: all alike, or by their errors."""
        settings = self.settings
        if not settings.prioritised:
            return Uniform(batch_size, seed)
        priorities = Priorities(settings.priority_alpha, settings.priority_beta, beta_updates)
        return Prioritised(batch_size, seed, capacity=capacity, priorities=priorities)

    def apply(self, gradients: Gradients) -> None:
        """Make one step of Adam along the clipped gradient; then the target network follows."""
        self._optimizer.learning_rate = self.learning_rate
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


def require_discrete(spec: Spec, algorithm: str) -> None:
    """Refuse actions that are not one of several."""
    if spec.action.kind != "discrete":
        raise ConfigurationError(
            f"{algorithm} chooses one of several actions; the actions here are "
            f"{spec.action.kind} {list(spec.action.shape)}: "
            f"{spec.world.environment} needs another --algorithm{_another(spec)}"
        )


def _another(spec: Spec) -> str:
    """Return the ways to learn other actions."""
    if spec.action.kind != "box":
        return ", such as ppo or impala"
    own = ", such as sac, td3 or ppo"
    if spec.world.seats:  # wrappers go around environments of one agent
        return own
    return f"{own}, or choose among few actions with --wrapper DiscretizeAction:bins=3"
