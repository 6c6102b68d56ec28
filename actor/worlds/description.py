"""The description of a world, from which a learner writes a spec."""

from dataclasses import dataclass, field

from farflung.common.data.spec import Column, Space


@dataclass(frozen=True, slots=True)
class Description:
    """The facts about a world that a learner must know before it can write a spec."""

    observation: dict[str, Space]  # one leaf under "" for a plain space, else by key
    action: Space
    steps_limit: int | None = None  # an episode is truncated after so many, where one has a limit
    reward_threshold: float | None = None  # the return that counts as solved, where there is one
    starts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The first numbers of discrete spaces that do not count from 0, by column."""
    mask: Column | None = None  # of the legal actions, if it was asked for and the world has one
    agents: tuple[str, ...] = ()  # that the policy plays; none in a world without agents
