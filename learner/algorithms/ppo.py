"""Proximal policy optimisation (Schulman et al., 2017)."""

from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from farflung.common.data.spec import Column, Spec
from farflung.common.data.states import STATE
from farflung.common.heads.head import LOG_PROBABILITY
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.actor_critic import DIVERGENCE, LEARNING_RATE, ActorCritic
from farflung.learner.algorithms.on_policy_settings import OnPolicySettings, PPOSettings
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.algorithms.recurrent_actor_critic import (
    RecurrentActorCritic,
    arranged,
    recurrent_actor_critic,
)
from farflung.learner.algorithms.surrogate import (
    clipped_surrogate,
    divergence,
    mean,
    normalised,
)
from farflung.learner.replay.on_policy import rollouts
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.replay.rollout_sequences import BEGINS
from farflung.learner.replay.rollouts import ADVANTAGES, VALUE
from farflung.learner.replay.sequences import BURN_IN, before


class PPO(ActorCritic):
    """Learns a policy from rollouts, a little away from the one that acted."""

    name: ClassVar[str] = "ppo"
    Settings: ClassVar[type[PPOSettings]] = PPOSettings
    settings: PPOSettings

    def __init__(self, spec: Spec, settings: PPOSettings, **others: Any) -> None:
        super().__init__(spec, settings, **others)
        if getattr(self.network, "states", None) and not self.recurrent:
            raise ConfigurationError(
                f"--model returned {type(self.network).__name__} with a recurrent state, and ppo "
                "unrolls a RecurrentActorCritic (learner/algorithms/recurrent_actor_critic.py): "
                "return one, or a subclass"
            )

    @property
    def recurrent(self) -> bool:
        """True if the network has a memory."""
        return isinstance(self.network, RecurrentActorCritic)

    def build(self, spec: Spec) -> nn.Module:
        """Return the built-in network for a spec."""
        own = self.settings
        if not own.lstm:
            return super().build(spec)
        form = own.hidden, own.lstm
        return recurrent_actor_critic(spec, *form, shared=own.shared, log_std=own.log_std)

    @classmethod
    def columns(cls, spec: Spec, settings: OnPolicySettings) -> tuple[Column, ...]:
        """Return those of the head, and the value by the network that acts."""
        return *super().columns(spec, settings), VALUE

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of rollouts, with the advantage of each row."""
        own = self.settings
        return rollouts(
            spec,
            rollout=own.rollout,
            epochs=own.epochs,
            gamma=own.gamma,
            gae_lambda=own.gae_lambda,
            batch_size=batch_size,
            capacity=capacity,
            seed=seed,
            max_lag=own.max_lag,
            shuffled=True,
            sequences=self.recurrent,
        )

    def answers(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the outputs of the head and the values for the rows of a batch."""
        if not isinstance(self.network, RecurrentActorCritic):
            return super().answers(batch)
        begins, burn_in = batch[BEGINS], before(batch)
        sequences = arranged(begins, batch[BURN_IN])
        states = {name: self.tensor(batch[STATE + name][begins]) for name in self.network.states}
        shown = {
            key: np.concatenate([burn_in.observations[key], leaf])
            for key, leaf in batch.observations.items()
        }
        return self.network.of_sequences(self.inputs(shown), sequences, states)

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the clipped surrogate, the value loss and the entropy."""
        own, weights = self.settings, self.weights(batch)
        advantages = self.tensor(batch[ADVANTAGES])
        returns = self.tensor(batch[VALUE.name]) + advantages
        if own.normalise_advantages:
            advantages = normalised(advantages, weights)
        policy, values = self.evaluated(batch)
        logs = policy.log_probabilities(self.actions(batch))
        log_ratios = logs - self.tensor(batch[LOG_PROBABILITY.name])

        surrogate = mean(clipped_surrogate(log_ratios, advantages, own.clip), weights)
        value_loss = mean((returns - values).square(), weights)
        entropy = mean(policy.entropies(), weights)
        loss = -surrogate + own.value_coefficient * value_loss - own.entropy_coefficient * entropy
        gradients = self.parameters.gradients(loss)
        return Gradients(
            tensors=gradients,
            metrics={
                "loss": loss.detach(),
                "gradient_norm": gradients.vector.norm(),
                "policy_loss": -surrogate.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                DIVERGENCE: mean(divergence(log_ratios.detach()), weights),
                LEARNING_RATE: self.learning_rate(batch),
                "stale": self.stale(batch),
            },
        )

    def apply(self, gradients: Gradients) -> None:
        """Make one step, unless the policy is too far from the one that acted already."""
        limit = self.settings.stop_at_kl
        if limit and float(gradients.metrics[DIVERGENCE]) > limit:
            self._updates += 1
            return
        super().apply(gradients)
