"""A user's own algorithm whose gradients are NaN where a file asks for it. `--algorithm brittle:Brittle` finds it."""

import os
from pathlib import Path
from typing import ClassVar

import torch

from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.replay.batch import Batch


class Brittle(DQN):
    """DQN, until the file that BRITTLE names says in how many updates in a row it breaks."""

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
