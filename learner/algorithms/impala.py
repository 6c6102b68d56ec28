"""IMPALA (Espeholt et al., 2018): actors run ahead with older versions, and V-trace corrects it."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from farflung.common.data.spec import Spec
from farflung.common.heads.head import LOG_PROBABILITY
from farflung.learner.algorithms.actor_critic import LEARNING_RATE, ActorCritic
from farflung.learner.algorithms.actor_critic_network import WithoutValue
from farflung.learner.algorithms.on_policy_settings import IMPALASettings
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.algorithms.surrogate import mean
from farflung.learner.algorithms.vtrace import vtrace
from farflung.learner.replay.on_policy import rollouts
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.replay.rollouts import CONTINUES


class IMPALA(ActorCritic):
    """Learns a policy from trajectories of older ones, in the order of their steps."""

    name: ClassVar[str] = "impala"
    Settings: ClassVar[type[IMPALASettings]] = IMPALASettings
    settings: IMPALASettings

    def policy(self) -> nn.Module:
        """Return the network that acts: actors compute no values."""
        return WithoutValue(self.network)

    def replay(self, spec: Spec, *, capacity: int, batch_size: int, seed: int) -> Replay:
        """Return an empty replay of rollouts, the rows of which stay in order."""
        own = self.settings
        return rollouts(
            spec,
            rollout=own.rollout,
            epochs=own.epochs,
            gamma=own.gamma,
            batch_size=batch_size,
            capacity=capacity,
            seed=seed,
            max_lag=own.max_lag,
        )

    def gradients(self, batch: Batch) -> Gradients:
        """Return the gradients of the policy gradient, the value loss and the entropy."""
        own, weights = self.settings, self.weights(batch)
        policy, values = self.evaluated(batch)
        logs = policy.log_probabilities(self.actions(batch))
        continues, next_values = self.following(batch, values.detach())
        targets, advantages = vtrace(
            logs.detach() - self.tensor(batch[LOG_PROBABILITY.name]),
            self.tensor(batch.returns),
            self.tensor(batch.discounts),
            values.detach(),
            next_values,
            continues,
            longest=self.spec.horizon,
            rho_bar=own.rho_bar,
            c_bar=own.c_bar,
            trace_lambda=own.trace_lambda,
        )

        policy_loss = -mean(advantages * logs, weights)
        value_loss = mean((targets - values).square(), weights)
        entropy = mean(policy.entropies(), weights)
        loss = policy_loss + own.value_coefficient * value_loss - own.entropy_coefficient * entropy
        gradients = self.parameters.gradients(loss)
        return Gradients(
            tensors=gradients,
            metrics={
                "loss": loss.detach(),
                "gradient_norm": gradients.vector.norm(),
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                LEARNING_RATE: self.learning_rate(batch),
                "stale": self.stale(batch),
            },
        )

    def following(self, batch: Batch, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return for each row if the next one continues it, and the value after it; both `[B]`.

        The network is asked again only where trajectories end, or the batch does.
        """
        within = batch[CONTINUES].copy()
        within[-1] = False
        (ends,) = np.nonzero(~within)
        next_values = values.roll(-1)
        last = {key: leaf[ends] for key, leaf in batch.next_observations.items()}
        with torch.no_grad():
            next_values[self.tensor(ends)] = self.network(self.inputs(last))[-1]
        return self.tensor(within), next_values
