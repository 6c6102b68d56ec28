"""Values of choices as columns of a row."""

import numpy as np

from farflung.common.heads.discrete import GreedyArgmax
from farflung.common.heads.head import Choice
from farflung.common.heads.valued import Valued


class Last:
    """Takes the last action."""

    def begin(self, horizon: int, steps: int) -> None:
        """Draw nothing."""

    def choose(self, at: object, outputs: list[np.ndarray]) -> Choice:
        """Return the last action of each row, and a column."""
        return Choice(np.full(len(outputs[0]), 2), {"other": np.ones(len(outputs[0]))})


def test_values_of_the_action_and_of_the_best_one_are_added() -> None:
    """The choice itself and its other columns stay as they are."""
    values = np.array([[1, 5, 3], [9, 2, 4]], np.float32)
    choice = Valued(Last()).choose(0, [values])
    assert choice.actions.tolist() == [2, 2]
    assert choice.columns["action_value"].tolist() == [3, 4]
    assert choice.columns["best_value"].tolist() == [5, 9]
    assert choice.columns["other"].tolist() == [1, 1]


def test_the_best_value_is_that_of_a_legal_action() -> None:
    """Actions that are not allowed do not count."""
    values = np.array([[1, 5, 3]], np.float32)
    choice = Valued(GreedyArgmax()).choose_legal(0, [values], np.array([[True, False, True]]))
    assert choice.columns["best_value"].tolist() == [3]
    assert choice.columns["action_value"].tolist() == [3]
