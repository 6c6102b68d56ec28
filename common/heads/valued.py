"""Values of choices as columns: from them a learner computes the first errors of rows."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from farflung.common.data.spec import Column
from farflung.common.heads.head import At, Choice, Chooser, LegalChooser
from farflung.common.heads.masks import allowed

ACTION_VALUE = Column("action_value", "float32", (), "step")  # of the action that was taken
BEST_VALUE = Column("best_value", "float32", (), "step")  # of the best action at that step
VALUES = (ACTION_VALUE, BEST_VALUE)


class Valued:
    """Chooses as another chooser does, and adds the values of the action and of the best one."""

    def __init__(self, chooser: Chooser) -> None:
        self._chooser = chooser

    def begin(self, horizon: int, steps: int) -> None:
        """Draw the noise of a window."""
        self._chooser.begin(horizon, steps)

    def choose(self, at: At, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose from values [n, A]."""
        return _valued(self._chooser.choose(at, outputs), outputs[0])

    def choose_legal(self, at: At, outputs: Sequence[np.ndarray], legal: np.ndarray) -> Choice:
        """Choose from values [n, A] of the legal actions."""
        chooser = cast(LegalChooser, self._chooser)
        return _valued(chooser.choose_legal(at, outputs, legal), allowed(outputs[0], legal))


def _valued(choice: Choice, values: np.ndarray) -> Choice:  # [n, A]
    taken = values[np.arange(len(values)), choice.actions]
    own = {ACTION_VALUE.name: taken, BEST_VALUE.name: values.max(axis=1)}
    return Choice(choice.actions, {**choice.columns, **own})
