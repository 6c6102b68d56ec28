"""Versions of a policy's weights."""

from typing import NamedTuple

from farflung.common.data.fields import Natural


class Version(NamedTuple):
    """One publication of weights. Versions of one run compare; a bare number would not.

    A learner that is resumed can repeat a number, but its epoch is higher. On the wire and on
    disk a version is the array `[epoch, number]`.
    """

    epoch: Natural  # how many times the run's learner was started
    number: Natural  # how many times it published in this epoch

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}"
