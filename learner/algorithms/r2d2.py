"""R2D2: Q-learning with a memory (Kapturowski et al., 2019).

Sequences begin with the state that the actor had there. A burn-in warms it up under the present
weights, and no gradient flows through that.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data.spec import ACTION_MASK, Column, Spec
from farflung.common.data.states import EPISODE, STATE
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.dqn import legal_values
from farflung.learner.algorithms.protocol import Gradients, Model
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.algorithms.recurrent import RecurrentQNetwork, State, of_steps
from farflung.learner.algorithms.trained import seeded
from farflung.learner.algorithms.value_algorithm import ValueAlgorithm, require_discrete
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.replay.sequences import BURN_IN, MASK, SPANS, Sequences, before

EPSILON = 1e-3  # of the rescaling: it keeps the inverse smooth


class R2D2(ValueAlgorithm):
    """Learns the values of discrete actions in worlds that do not show all of their state."""

    name: ClassVar[str] = "r2d2"
    Settings: ClassVar[type[R2D2Settings]] = R2D2Settings
    settings: R2D2Settings

    def __init__(
        self,
        spec: Spec,
        settings: R2D2Settings,
        *,
        device: torch.device,
        seed: int,
        model: Model | None = None,
    ) -> None:
        require_discrete(spec, self.name)
        with seeded(seed):
            network = model(spec) if model else build(spec, settings)
        if not isinstance(network, RecurrentQNetwork):
            raise ConfigurationError(
                f"--model returned {type(network).__name__}, and {self.name} unrolls a "
                "RecurrentQNetwork (learner/algorithms/recurrent.py): return one, or a subclass"
            )
        super().__init__(network, settings, device=device)

    @classmethod
    def columns(cls, spec: Spec, settings: R2D2Settings) -> tuple[Column, ...]:
        """Return the place in the episode, by which trajectories are joined."""
        return (EPISODE,)

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of sequences. Capacity and batch size are in steps."""
        if batch_size % spec.horizon:
            raise ConfigurationError(
                f"--batch-size {batch_size} is no multiple of --horizon {spec.horizon}: a batch "
                f"of {self.name} has whole sequences of {spec.horizon} steps"
            )
        settings, sequences = self.settings, max(1, capacity // spec.horizon)
        rows = Sequences(
            spec,
            n_step=settings.n_step,
            gamma=settings.gamma,
            burn_in=settings.burn_in,
            capacity=sequences,
        )
        sampler = self.sampler(sequences, batch_size // spec.horizon, seed, beta_updates=0)
        return Replay(spec, rows, sampler, capacity=sequences)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the mean distance between values and their targets."""
        actions = self.tensor(batch.actions).long()  # [B, H]
        mask = self.tensor(batch[MASK])  # [B, H] float32
        online = self.values(self.network, batch)  # [B, H + 1, A]
        with torch.no_grad():
            targets = self.targets(batch, online.detach())
        values = online[:, :-1].gather(2, actions[..., None])[..., 0]  # [B, H]
        losses = mask * F.huber_loss(values, targets, reduction="none")
        if batch.weights is not None:
            losses = self.tensor(batch.weights)[:, None] * losses
        loss = losses.sum() / mask.sum()
        gradients = self._parameters.gradients(loss)
        return Gradients(
            tensors=gradients,
            metrics={
                "loss": loss.detach(),
                "gradient_norm": gradients.vector.norm(),
                "value": self.unscaled(values.detach() * mask).sum() / mask.sum(),
                "learning_rate": torch.tensor(self.learning_rate),
            },
            priorities=(
                None
                if batch.weights is None
                else mixed(targets - values.detach(), mask, self.settings.eta)
            ),
        )

    def targets(self, batch: Batch, online: Tensor) -> Tensor:
        """Return `returns + discounts * next_values` for each step, `[B, H] float32`.

        With double Q-learning the online network chooses the action, and the target values it.
        """
        values = self.values(self.target, batch)  # [B, H + 1, A]
        chooser = online if self.settings.double else values
        legal = batch.columns.get(ACTION_MASK)
        if legal is not None:
            flat = legal_values(chooser.flatten(0, 1), self.tensor(legal).bool().flatten(0, 1))
            chooser = flat.view_as(chooser)
        best = chooser.argmax(dim=2, keepdim=True)
        values = self.unscaled(values.gather(2, best)[..., 0])  # [B, H + 1]
        steps = torch.arange(batch[SPANS].shape[1], device=self.device)
        next_values = values.gather(1, steps + self.tensor(batch[SPANS]).long())
        returns, discounts = self.tensor(batch.returns), self.tensor(batch.discounts)
        return self.scaled(returns + discounts * next_values)

    def values(self, network: nn.Module, batch: Batch) -> Tensor:
        """Return the values of a sequence's observations after its burn-in, `[B, H + 1, A]`."""
        assert isinstance(network, RecurrentQNetwork)
        state = self.tensor(batch[f"{STATE}hidden"]), self.tensor(batch[f"{STATE}cell"])
        if BURN_IN in batch.columns:
            state = self.warmed_up(network, batch, state)
        return network.of_sequence(of_steps(network, self.inputs(batch.observations)), state)

    @torch.no_grad()
    def warmed_up(self, network: RecurrentQNetwork, batch: Batch, state: State) -> State:
        """Return the state after the burn-in, under the weights of this network."""
        features = of_steps(network, self.inputs(before(batch).observations))
        return network.after(features, self.tensor(batch[BURN_IN]), state)

    def scaled(self, values: Tensor) -> Tensor:
        """Return values as the network learns them."""
        return rescaled(values) if self.settings.rescale else values

    def unscaled(self, values: Tensor) -> Tensor:
        """Return what the network's values stand for."""
        return restored(values) if self.settings.rescale else values


def build(spec: Spec, settings: R2D2Settings) -> RecurrentQNetwork:
    """Return the built-in network for a spec."""
    return RecurrentQNetwork(
        spec.observation,
        spec.stack,
        spec.action.sizes[0],
        settings.hidden,
        settings.units,
        settings.dueling,
    )


def rescaled(values: Tensor) -> Tensor:
    """Return `h(x) = sign(x) (sqrt(|x| + 1) - 1) + EPSILON x` (Pohlen et al., 2018)."""
    return values.sign() * ((values.abs() + 1).sqrt() - 1) + EPSILON * values


def restored(values: Tensor) -> Tensor:
    """Return the inverse of `rescaled`."""
    root = (1 + 4 * EPSILON * (values.abs() + 1 + EPSILON)).sqrt()
    return values.sign() * (((root - 1) / (2 * EPSILON)).square() - 1)


def mixed(errors: Tensor, mask: Tensor, eta: float) -> Tensor:  # both [B, H] float32
    """Return the priority of each sequence, `[B]`: eta * max + (1 - eta) * mean of its errors."""
    sizes = errors.abs() * mask
    return eta * sizes.amax(dim=1) + (1 - eta) * sizes.sum(dim=1) / mask.sum(dim=1)
