"""States of several parts in one dict, by prefix: `{"network.weight": ...}`."""

from collections.abc import Mapping

from torch import Tensor


def prefixed(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state with a prefix before each name."""
    return {prefix + name: tensor for name, tensor in state.items()}


def part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the entries under a prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }
