"""An algorithm that writes down what it sampled, for tests of the way from an actor to a batch."""

import os
from pathlib import Path

import numpy as np

from farflung.common.data.spec import ACTIONS, INTERVENED
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.replay.replay import Batch

KEPT = "KEPT"  # the variable that names the file
ROW = np.dtype([("step", "f4"), ("action", "i8"), ("intervened", "?")])


class Keeping(DQN):
    """Deep Q-learning that appends step, action and flag of each sampled row to a file."""

    def gradients(self, batch: Batch) -> Gradients:
        """Write the batch down; `step` is the first number of an observation."""
        rows = np.empty(len(batch), ROW)
        rows["step"] = batch.observations[""][:, 0]
        rows["action"], rows["intervened"] = batch[ACTIONS], batch[INTERVENED.name]
        with Path(os.environ[KEPT]).open("ab") as kept:
            kept.write(rows.tobytes())
        return super().gradients(batch)
