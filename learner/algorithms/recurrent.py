"""Networks with a recurrent state, as `networks.py` has them without: one step, and sequences."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from farflung.common.data.spec import Space
from farflung.learner.algorithms.networks import Dueling, encoder, hidden_layer

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value

Observations = Tensor | dict[str, Tensor]
State = tuple[Tensor, Tensor]  # hidden and cell, [N, units] float32 each


class RecurrentQNetwork(nn.Module):
    """Encoders side by side, a perceptron, an LSTM, and a head with one value for each action.

    `forward` is one step, as actors take it. Of a sequence it is the same as many of them.
    """

    def __init__(
        self,
        observation: dict[str, Space],
        stack: int,
        actions: int,
        hidden: tuple[int, ...],
        units: int,
        dueling: bool,
    ) -> None:
        super().__init__()
        encoders = {key: encoder(space, stack) for key, space in observation.items()}
        self.keys = tuple(encoders)
        self.encoders = nn.ModuleList(encoders.values())
        widths = (sum(leaf.width for leaf in encoders.values()), *hidden)
        self.body = nn.Sequential(
            *(
                layer
                for ins, outs in pairwise(widths)
                for layer in hidden_layer(ins, outs, layer_norm=True)
            )
        )
        self.lstm = nn.LSTM(widths[-1], units, batch_first=True)
        self.head = Dueling(units, actions) if dueling else nn.Linear(units, actions)
        self.states = {"hidden": (units,), "cell": (units,)}

    def forward(
        self, observations: Observations, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return values [N, actions] float32, and the next hidden and cell state."""
        features = self.features(observations)
        shown, (hidden, cell) = self.lstm(features[:, None], (hidden[None], cell[None]))
        return self.head(shown[:, 0]), hidden[0], cell[0]

    def features(self, observations: Observations) -> Tensor:
        """Return what the LSTM sees of observations [N, (stack,) *shape], [N, width] float32."""
        leaves = (
            [observations]
            if isinstance(observations, Tensor)
            else [observations[key] for key in self.keys]
        )
        encoded = [encode(leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)]
        features: Tensor = self.body(torch.cat(encoded, dim=1))
        return features

    def of_sequence(self, features: Tensor, state: State) -> Tensor:
        """Return the values [B, T, actions] of features [B, T, width] from a state on."""
        shown, _ = self.lstm(features, tuple(part[None] for part in state))
        values: Tensor = self.head(shown.flatten(0, 1))
        return values.view(*shown.shape[:2], values.shape[1])

    def after(self, features: Tensor, lengths: Tensor, state: State) -> State:
        """Return the state after the first `lengths` [B] steps of features [B, T, width]."""
        packed = pack_padded_sequence(
            features, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        _, (hidden, cell) = self.lstm(packed, tuple(part[None] for part in state))
        moved = (lengths > 0)[:, None]
        return torch.where(moved, hidden[0], state[0]), torch.where(moved, cell[0], state[1])

    def as_graph(
        self,
        sheet: "Sheet",
        observations: "Value | dict[str, Value]",
        hidden: "Value",
        cell: "Value",
    ) -> "tuple[Value, Value, Value]":
        """Write the nodes that do the same as `forward`."""
        leaves: Sequence[Value] = (
            [observations[key] for key in self.keys]
            if isinstance(observations, dict)
            else [observations]
        )
        encoded = [
            sheet.call(encode, leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)
        ]
        features = sheet.call(self.body, sheet.joined(encoded))
        hidden, cell = sheet.lstm_step(self.lstm, features, hidden, cell)
        return sheet.call(self.head, hidden), hidden, cell


def of_steps(network: RecurrentQNetwork, observations: Observations) -> Tensor:
    """Return the features [B, T, width] of sequences of observations [B, T, (stack,) *shape]."""
    if isinstance(observations, Tensor):
        first, flat = observations, network.features(observations.flatten(0, 1))
    else:
        first = next(iter(observations.values()))
        flat = network.features({key: leaf.flatten(0, 1) for key, leaf in observations.items()})
    return flat.view(*first.shape[:2], flat.shape[1])
