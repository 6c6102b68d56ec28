"""The memory of a learner by its parts, and `learner memory`: that of all processes of a run."""

from collections.abc import Mapping

from farflung.common.process.memory import resident_bytes
from farflung.learner.core.core import Core

LOOK_S = 10.0  # between two looks at the tensors: a user's algorithm may copy them


class Holding:
    """Looks at what a learner holds in memory."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._tensors = 0
        self._looked_at = float("-inf")

    def parts(self, held: Mapping[str, int], seconds: float) -> dict[str, int]:
        """Return bytes by part; with those of messages and versions."""
        if seconds - self._looked_at >= LOOK_S:
            self._looked_at = seconds
            self._tensors = self._on_this_machine()
        return {
            "replay": self._core.replay.held_bytes,
            "network": self._tensors,
            **held,
            "libraries": resident_bytes().files,
        }

    def _on_this_machine(self) -> int:
        """Return the bytes of network, target and optimizer that are not on a device."""
        tensors = self._core.algorithm.state().values()
        return sum(tensor.nbytes for tensor in tensors if tensor.device.type == "cpu")
