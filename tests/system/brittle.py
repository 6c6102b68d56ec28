"""A user's own algorithm; its gradients are NaN when a file asks for it.

`--algorithm brittle:Brittle` finds it.
"""

import os
from pathlib import Path
from typing import ClassVar

import torch

from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.replay.replay import Batch


class Brittle(DQN):
    """DQN, except in as many updates in a row as the file named by BRITTLE says."""

    name: ClassVar[str] = "brittle"

    def gradients(self, batch: Batch) -> Gradients:
        """NaN while there is something left to break."""
        found, order = super().gradients(batch), Path(os.environ["BRITTLE"])
        if not order.exists():
            return found
        left = int(order.read_text())
        order.write_text(str(left - 1)) if left > 1 else order.unlink()
        return Gradients(
            {name: torch.full_like(tensor, torch.nan) for name, tensor in found.tensors.items()},
            found.metrics,
        )
