"""The spec of a policy: all that an actor must know, so that it needs only an address.

Its columns and tensors have a schema, the hash of a text that any language can write, and a layout
in one block of bytes, in which each begins at a multiple of `ALIGNMENT`.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from farflung.common.data.fields import Name
from farflung.common.data.learning import Learning
from farflung.common.data.selfplay import Selfplay

OBSERVATIONS = "observations"
ACTIONS = "actions"
REWARDS = "rewards"
INFO = "info."  # in front of the name of an extra column that the world supplies
ACTION_MASK = (
    "info.action_mask"  # of a world: the actions that are legal, see common/heads/masks.py
)
RESULT = "result."  # in front of the name of a metric of episodes, an extra column per result
METRICS = 64  # of an episode, at most
SCHEMA_DIGITS = 16  # hexadecimal, of a SHA-256
WINDOWS = 64  # of one seat, in a parcel at most: it has so many times the horizon in rows
LONGEST_EPISODE = 27_000  # steps of an evaluation's episode: half an hour of Atari


class Column(Struct, frozen=True, forbid_unknown_fields=True):
    """One named array of a parcel: an element per observation, step, trajectory or result."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    per: Literal["observation", "step", "trajectory", "result"]

    def count(self, steps: int, trajectories: int, stack: int) -> int:
        """Return the number of elements in the rows of so many steps and trajectories."""
        return {
            "observation": steps + trajectories * stack,
            "step": steps,
            "trajectory": trajectories,
        }[self.per]


# Of the step: another hand than the policy's chose the action that was taken. The owner of the loop
# knows it, see ActorSession; elsewhere it is false.
INTERVENED = Column("intervened", "bool", (), "step")


class Space(Struct, frozen=True, forbid_unknown_fields=True):
    """A leaf of an observation or action space, as plain data."""

    kind: Literal["box", "discrete", "multidiscrete"]
    dtype: str
    shape: tuple[int, ...]
    sizes: tuple[int, ...] = ()  # discrete: how many; multidiscrete: how many each
    low: tuple[float, ...] = ()  # of a continuous action, flattened
    high: tuple[float, ...] = ()


class World(Struct, frozen=True, forbid_unknown_fields=True):
    """The environment that actors make: registered names and plain arguments, never code."""

    environment: str
    arguments: dict[str, Any] = {}
    wrappers: tuple[tuple[str, dict[str, Any]], ...] = ()  # applied in order, innermost first
    seed: int = 0
    seats: dict[str, tuple[str, ...]] = {}
    """The agents that each policy plays. Empty: this spec's own policy plays all of them."""
    scripts: dict[str, Name] = {}  # that play policies without a learner, at each actor

    def branch(self, policy: str) -> tuple[str, ...]:
        """Return a policy's part of the paths in the seed tree.

        Policies of one world have one seed, and the same places: their numbers must differ.
        """
        return (policy,) if len(self.seats) > 1 else ()


class Exploration(Struct, frozen=True, forbid_unknown_fields=True):
    """Epsilon over the environment steps or the rounds of the run, linear from start to end."""

    start: float = 1.0
    end: float = 0.05
    steps: int = 10_000
    ladder: int = 0  # N > 1: seats on N rungs of Ape-X, epsilon ** (1 + 7 * rung / (N - 1))
    per: Literal["step", "round"] = "step"  # the unit of `steps`
    noise: float = 0.1  # of deterministic continuous actions: deviation, in halves of their range
    correlation: float = 0.0  # of the noise of continuous actions from step to step

    def progress(self, steps: int, version: int) -> int:
        """Return the steps, or with the number of the newest version the rounds before it."""
        return steps if self.per == "step" else max(0, version - 1)

    def epsilon(self, steps: int) -> float:
        """Return the base value after a number of environment steps, or of rounds."""
        return (
            self.start + (self.end - self.start) * min(1.0, steps / self.steps)
            if self.steps
            else self.end
        )


class Evaluation(Struct, frozen=True, forbid_unknown_fields=True):
    """Greedy episodes on their own start states."""

    every: int = 0  # environment steps between two evaluations; 0: none
    episodes: int = 20
    max_steps: int = LONGEST_EPISODE  # after so many an episode is cut: it may never end


class Rounds(Struct, frozen=True, forbid_unknown_fields=True):
    """The rounds of the sync mode: the share that each actor plays under one version."""

    actors: int  # with the indices below it; others wait
    windows: int = 1  # of `horizon` steps
    episodes: int = 0  # with N > 0: windows until N episodes have ended, the last one cut there


class Tensor(Struct, frozen=True, forbid_unknown_fields=True):
    """An input, an output or a weight of the acting graph.

    The shape of an input or output has no batch dimension.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the bytes of one element of the batch, or of the whole weight."""
        return (
            math.prod(self.shape)
            * {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "uint8": 1, "bool": 1}[
                self.dtype
            ]
        )


class Graph(Struct, frozen=True, forbid_unknown_fields=True):
    """An acting graph: an ONNX model without weights, its inputs, outputs and weights."""

    model: bytes
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]  # in the order and layout of a weights message


class Spec(Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The data that a learner sends to every actor of one policy."""

    run: Name
    policy: Name
    mode: Literal["sequential", "sync", "async"]
    world: World
    observation: dict[str, Space]  # one leaf under "" for a plain space, else by key
    action: Space
    head: str  # a name in the registry of heads, see common/heads
    horizon: int
    stack: int
    graph: Graph
    exploration: Exploration = Exploration()
    evaluation: Evaluation = Evaluation()
    extras: tuple[Column, ...] = ()  # masks, log-probabilities, recurrent state, priorities
    compression: dict[str, Literal["lz4"]] = {}  # by column name
    rounds: Rounds | None = None  # None: actors play as much as they have credit for
    learning: Learning | None = None  # of workers; None: the learner takes no gradients
    selfplay: Selfplay | None = None  # None: the policy plays its seats in every episode
    frozen: bool = False  # it learns nothing: actors record no rows of it

    @cached_property
    def observations(self) -> tuple[Column, ...]:
        """The observation columns: one, or one for each key of a dictionary space."""
        return tuple(
            Column(column_name(key), space.dtype, space.shape, "observation")
            for key, space in self.observation.items()
        )

    @cached_property
    def infos(self) -> tuple[Column, ...]:
        """The extra columns that the world supplies, such as a mask of the legal actions."""
        return tuple(extra for extra in self.extras if extra.name.startswith(INFO))

    @cached_property
    def mask(self) -> Column | None:
        """The column of the legal actions, where the world supplies one."""
        return next((extra for extra in self.extras if extra.name == ACTION_MASK), None)

    @cached_property
    def row_extras(self) -> tuple[Column, ...]:
        """The extra columns of trajectories."""
        return tuple(extra for extra in self.extras if extra.per != "result")

    @cached_property
    def result_extras(self) -> tuple[Column, ...]:
        """The extra columns of results: metrics of episodes."""
        return tuple(extra for extra in self.extras if extra.per == "result")

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of episodes by their names in the info of environments."""
        return tuple(extra.name.removeprefix(RESULT) for extra in self.result_extras)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Every column of a trajectory of this policy, in the order of the wire."""
        own = (
            Column(ACTIONS, self.action.dtype, self.action.shape, "step"),
            Column(REWARDS, "float32", (), "step"),
        )
        return self.observations + own + self.row_extras

    @cached_property
    def choices(self) -> dict[str, tuple[int, ...]]:
        """The columns of numbers that choose, with how many choices each number of a row has."""
        spaces = {column_name(key): space for key, space in self.observation.items()}
        spaces[ACTIONS] = self.action
        return {name: space.sizes for name, space in spaces.items() if space.sizes}

    @property
    def agents(self) -> int:
        """The seats of this policy in one environment: its agents, or one where there are none."""
        return len(self.world.seats.get(self.policy, ())) or 1

    @property
    def most_rows(self) -> int:
        """The rows of one parcel at most: actors cut a larger window into several."""
        return WINDOWS * self.horizon

    @property
    def schema_lines(self) -> list[str]:
        """Return the text under the schema: all that a receiver of rows relies on."""
        return [
            line("horizon", self.horizon),
            line("stack", self.stack),
            *(
                line("column", c.per, c.dtype, sizes(c.shape), c.name)
                for c in (*self.columns, *self.result_extras)
            ),
            *(line("choices", sizes(counts), name) for name, counts in self.choices.items()),
        ]

    @cached_property
    def schema(self) -> str:
        """Return the hash of `schema_lines`, which is in every parcel."""
        return digest(self.schema_lines)


def metric_column(name: str) -> Column:
    """Return the column of a metric of episodes, with NaN where an episode reported none."""
    return Column(RESULT + name, "float64", (), "result")


def column_name(key: str) -> str:
    """Return the name of the column and graph input of an observation leaf."""
    return f"{OBSERVATIONS}.{key}" if key else OBSERVATIONS


def digest(lines: Iterable[str]) -> str:
    """Return the hash of lines, each ended by a newline."""
    text = "".join(f"{line}\n" for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()[:SCHEMA_DIGITS]


def line(*words: object) -> str:
    """Return one line of a schema's text; a name, which may have spaces, is its last word."""
    return " ".join(map(str, words))


def sizes(numbers: Sequence[int]) -> str:
    """Return a shape or numbers of choices as one word: `84x84`, and `-` for a single number."""
    return "x".join(map(str, numbers)) or "-"
