"""The built-in network of a policy and its value with a memory: one step, and sequences.

Each part states twice what it computes: for torch, and in the nodes of an acting graph.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from farflung.common.data.spec import Spec
from farflung.learner.algorithms.actor_critic_network import (
    Body,
    Logits,
    MeanAndDeviation,
    Observations,
    Scalar,
    action_head,
)
from farflung.learner.algorithms.recurrent import State
from farflung.learner.replay.rollout_sequences import within

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value

HIDDEN, CELL = "hidden", "cell"
OF_CRITIC = "critic_"  # in front of the names of the critic's own state


class Sequences(NamedTuple):
    """The places of rows in sequences side by side, each filled up to the longest one.

    A row is at place `sequence * longest + step`. Those of the burn-in come before all others.
    """

    places: Tensor  # [E + B] int64
    burn_in: int  # E
    size: tuple[int, int]  # sequences, and steps of the longest one


def arranged(begins: np.ndarray, burn_in: np.ndarray) -> Sequences:
    """Return the places of E rows of burn-in and of B rows behind them.

    `begins` [B] bool marks the first row of each sequence, and `burn_in` [B] int64 has the steps in
    front of it there.
    """
    (firsts,) = begins.nonzero()
    before, lengths = burn_in[firsts], np.diff(firsts, append=len(begins))
    longest = int((before + lengths).max())
    starts = longest * np.arange(len(firsts))
    earlier = np.repeat(starts, before) + within(before)
    rows = np.repeat(starts + before, lengths) + within(lengths)
    places = torch.from_numpy(np.concatenate([earlier, rows]))
    return Sequences(places, len(earlier), (len(firsts), longest))


class RecurrentActorCritic(nn.Module):
    """The outputs of a head, then the value, then the state: of one memory, or of one for each.

    `forward` is one step, as actors take it. Of sequences it is the same as many of them.
    """

    def __init__(
        self, memory: "Memory", head: Logits | MeanAndDeviation, critic: "Memory | None"
    ) -> None:
        super().__init__()
        self.memory, self.head, self.critic = memory, head, critic
        self.value = Scalar(memory.width)
        prefixes = [""] if critic is None else ["", OF_CRITIC]
        self.states = {
            prefix + name: (memory.width,) for prefix in prefixes for name in (HIDDEN, CELL)
        }

    def forward(self, observations: Observations, **states: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of the head, values [N], and the next state, all float32."""
        own = self.memory(observations, states[HIDDEN], states[CELL])
        theirs: State | tuple[()] = ()
        if self.critic is not None:
            theirs = self.critic(observations, states[OF_CRITIC + HIDDEN], states[OF_CRITIC + CELL])
        return *self.head(own[0]), self.value((theirs or own)[0]), *own, *theirs

    def of_sequences(
        self, observations: Observations, sequences: Sequences, states: dict[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """Return the outputs of the head and the values for the rows behind the burn-in.

        The observations are those of E + B rows, and states those at the beginning of each sequence
        [sequences, width].
        """
        shown = self.memory.unrolled(observations, sequences, (states[HIDDEN], states[CELL]))
        seen = shown
        if self.critic is not None:
            state = states[OF_CRITIC + HIDDEN], states[OF_CRITIC + CELL]
            seen = self.critic.unrolled(observations, sequences, state)
        return *self.head(shown), self.value(seen)

    def as_graph(
        self, sheet: "Sheet", observations: "Value | dict[str, Value]", **states: "Value"
    ) -> "tuple[Value, ...]":
        """Write the nodes that do the same as `forward`."""
        state = {HIDDEN: states[HIDDEN], CELL: states[CELL]}
        own = theirs = sheet.call(self.memory, observations, **state)
        after = own
        if self.critic is not None:
            state = {HIDDEN: states[OF_CRITIC + HIDDEN], CELL: states[OF_CRITIC + CELL]}
            theirs = sheet.call(self.critic, observations, **state)
            after = (*own, *theirs)
        return *sheet.call(self.head, own[0]), sheet.call(self.value, theirs[0]), *after


class Memory(nn.Module):
    """Encoders and a perceptron, and an LSTM over their features."""

    def __init__(self, body: Body, units: int) -> None:
        super().__init__()
        self.body, self.width = body, units
        self.lstm = nn.LSTM(body.width, units, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight"):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, observations: Observations, hidden: Tensor, cell: Tensor) -> State:
        """Return the next hidden and cell state, [N, width] each."""
        features = self.body(observations)
        _, (hidden, cell) = self.lstm(features[:, None], (hidden[None], cell[None]))
        return hidden[0], cell[0]

    def unrolled(self, observations: Observations, sequences: Sequences, state: State) -> Tensor:
        """Return the hidden states after the rows behind the burn-in, [B, width]."""
        features, (count, longest) = self.body(observations), sequences.size
        places = sequences.places.to(features.device)
        padded = features.new_zeros(count * longest, features.shape[1])
        padded = padded.index_copy(0, places, features).view(count, longest, -1)
        shown, _ = self.lstm(padded, tuple(part[None] for part in state))
        behind: Tensor = shown.flatten(0, 1).index_select(0, places[sequences.burn_in :])
        return behind

    def as_graph(
        self,
        sheet: "Sheet",
        observations: "Value | dict[str, Value]",
        hidden: "Value",
        cell: "Value",
    ) -> "tuple[Value, Value]":
        """Write the nodes that do the same as `forward`."""
        return sheet.lstm_step(self.lstm, sheet.call(self.body, observations), hidden, cell)


def recurrent_actor_critic(
    spec: Spec, hidden: tuple[int, ...], units: int, *, shared: bool, log_std: float
) -> RecurrentActorCritic:
    """Return a network as `actor_critic` does, with an LSTM of so many units."""
    memory, critic = (Memory(Body(spec, hidden), units) for _ in range(2))
    head = action_head(units, spec.action, log_std)
    return RecurrentActorCritic(memory, head, None if shared else critic)
