"""The way between the spaces of environments and the columns of a spec."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from farflung.common.data.spec import ACTION_MASK, INFO, Column, Space, column_name
from farflung.common.process.errors import ConfigurationError

OWN_SPACE = "the space that the environment declares (correct the environment)"
WRONG = (KeyError, IndexError, TypeError, ValueError)  # of numpy, by what an environment returned


Gather = Callable[[Sequence[Any], Sequence[Mapping[str, Any]]], None]
"""Copy one observation of each environment, and its info, into rows."""


def held(numbers: np.ndarray, space: Space) -> bool:
    """Return whether numbers [..., *shape], counted from 0, are all of a discrete space."""
    if not space.shape:  # for few seats a fraction of numpy's time
        counted = numbers.ravel().tolist()
        return bool(min(counted) >= 0 and max(counted) < space.sizes[0])
    most = np.reshape(space.sizes, space.shape)
    return bool(((numbers >= 0) & (numbers < most)).all())


@dataclass(frozen=True, slots=True)
class ObservationField:
    """One column of the observations, and its place in what environments return."""

    key: str  # of a dictionary space, else ""
    space: Space
    start: int | np.ndarray = 0  # the first number of a discrete space; columns count from 0

    @property
    def column(self) -> str:
        """Its name in trajectories and as an input of the acting graph."""
        return column_name(self.key)

    def of(self, observation: Any) -> Any:
        """Return this part of an observation, or of a batch of them."""
        return observation[self.key] if self.key else observation

    def checked(self, observation: Any, world: str) -> np.ndarray:
        """Return this part, [*shape], or refuse it: numpy would broadcast or round it silently."""
        space = self.space
        try:
            found = np.asarray(self.of(observation))
        except WRONG as error:
            raise ConfigurationError(
                f"no {self.column} can be read out of an observation, and {world} has them"
            ) from error
        if found.shape != space.shape or not np.can_cast(found.dtype, space.dtype, "same_kind"):
            raise ConfigurationError(
                f"{self.column}: {found.dtype} {found.shape} was shown, "
                f"and {world} has {space.dtype} {space.shape}"
            )
        if space.sizes and not held(found - self.start, space):
            start = 0 if not np.any(self.start) else np.ravel(self.start).tolist()
            beyond = np.ravel(self.start) + space.sizes
            raise ConfigurationError(
                f"{self.column}: {found.tolist()} was shown, "
                f"and {world} counts from {start} to below {beyond.tolist()}"
            )
        return found

    def capture(self, observation: Any) -> np.ndarray:
        """Return a copy of this part of one observation, [*shape]."""
        row: np.ndarray = np.array(self.of(observation), self.space.dtype)
        if self.space.kind != "box":
            row -= self.start
        return row

    def gathering(self, into: np.ndarray) -> Callable[[Sequence[Any]], None]:
        """Return the function that copies observations of N environments, `into [N, *shape]`."""
        key, counts = self.key, self.space.kind != "box"
        copy = _joining(into) if self.space.shape else partial(np.copyto, into, casting="same_kind")

        def gather(observations: Sequence[Any]) -> None:
            copy([observation[key] for observation in observations] if key else observations)
            if counts:
                self._count(into)

        return gather

    def _count(self, into: np.ndarray) -> None:
        """Let the numbers of a discrete space count from 0, and refuse those beyond it."""
        if self.space.kind != "box":
            into -= self.start
            if not held(into, self.space):
                raise ValueError("a number beyond a discrete space")

    def copy(self, batch: Any, into: np.ndarray) -> None:
        """Copy a batch of observations, `into [N, *shape]`."""
        np.copyto(into, np.asarray(self.of(batch)), casting="same_kind")
        self._count(into)


@dataclass(frozen=True, slots=True)
class SpaceAdapter:
    """The columns of a spec on one side, what environments take and return on the other."""

    fields: tuple[ObservationField, ...]
    action: Space
    act: Callable[[np.ndarray], np.ndarray]
    """Turn actions [N, *shape] into those of the environment: a copy, which it may keep."""
    infos: tuple[Column, ...] = ()  # extra columns, read from the `info` of environments

    def rows(self, count: int) -> dict[str, np.ndarray]:
        """Return rows for so many seats by column, to be filled again and again."""
        observed = {field.column: (field.space.shape, field.space.dtype) for field in self.fields}
        infos = {column.name: (column.shape, column.dtype) for column in self.infos}
        return {
            name: np.zeros((count, *shape), dtype)
            for name, (shape, dtype) in (observed | infos).items()
        }

    def gathering(self, into: Mapping[str, np.ndarray]) -> Gather:
        """Return the function that copies one observation of each environment, and its info.

        It is called in each turn, so all that does not change between them is settled here.
        """
        fields = [field.gathering(into[field.column]) for field in self.fields]
        columns = [(column, into[column.name]) for column in self.infos]

        def gather(observations: Sequence[Any], infos: Sequence[Mapping[str, Any]]) -> None:
            for copy in fields:
                copy(observations)
            for column, rows in columns:
                _gather(column, infos, rows)

        return gather

    def copy(self, batch: Any, into: Mapping[str, np.ndarray]) -> None:
        """Copy a batch of observations."""
        for field in self.fields:
            field.copy(batch, into[field.column])

    def rewards(self, returned: Sequence[Any], into: np.ndarray) -> None:
        """Copy rewards, `into [N]`, or refuse what is no number."""
        try:
            into[:] = returned
        except WRONG as error:
            raise ConfigurationError(
                f"rewards: {[*returned]!r:.200} was shown, and a number of each environment is "
                "expected (correct the environment)"
            ) from error

    def capture(self, observation: Any, info: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Return a copy of one observation and its info by column, [*shape]."""
        seen = {field.column: field.capture(observation) for field in self.fields}
        for column in self.infos:
            seen[column.name] = np.array(_supplied(column, info), column.dtype)
        return seen

    def check(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Refuse what an environment returned if it is not of its own space."""
        for field in self.fields:
            field.checked(observation, OWN_SPACE)
        for column in self.infos:
            _supplied(column, info)


def _supplied(column: Column, info: Mapping[str, Any]) -> np.ndarray:
    """Return an extra column [*shape] of an environment's info, or refuse."""
    key = column.name.removeprefix(INFO)
    if key not in info:
        raise ConfigurationError(
            f"the learner asks for the column {column.name}, and nothing supplies it: "
            f"the world returns no {key!r} in its info"
        )
    found = _read(column, info[key])
    if found.shape != column.shape or not fits(found, column.dtype):
        raise ConfigurationError(
            f"the learner asks for the column {column.name} as {column.dtype} {column.shape}, "
            f"and the world's info has {found.dtype} {found.shape}"
            + (" with other numbers than 0 and 1" if column.dtype == "bool" else "")
        )
    return found


def _joining(into: np.ndarray) -> Callable[[Sequence[Any]], None]:
    """Return the function that copies an array for each row, `into [N, *shape]`.

    At once is faster than row by row.
    """
    joined, lengths = into.reshape((-1, *into.shape[2:])), {into.shape[1]}

    def join(parts: Sequence[Any]) -> None:
        if {*map(len, parts)} != lengths:  # two wrong ones may be as long as two others
            raise ValueError("observations of another length")
        np.concatenate(parts, out=joined, casting="same_kind")

    return join


def _gather(column: Column, infos: Sequence[Mapping[str, Any]], into: np.ndarray) -> None:
    """Copy an extra column of several infos, `into [N, *shape]`."""
    key = column.name.removeprefix(INFO)
    found = np.array([_read(column, info[key]) for info in infos])
    if found.shape != into.shape or not fits(found, column.dtype):
        raise ValueError("an extra column of another shape or dtype")
    into[...] = found


def _read(column: Column, found: Any) -> np.ndarray:
    return as_mask(found) if column.name == ACTION_MASK else np.asarray(found)


def as_mask(found: Any) -> np.ndarray:
    """Return a mask as one array. Of several choices it may be a tuple with an array for each."""
    if not isinstance(found, tuple):
        return np.asarray(found)
    return np.concatenate([np.ravel(np.asarray(part)) for part in found] or [np.zeros(0)])


def fits(found: np.ndarray, dtype: str) -> bool:
    """Return whether a column can hold these numbers.

    One of bool takes 0 and 1 of any dtype, and one of uint8 whole numbers: masks are often int8.
    """
    if np.can_cast(found.dtype, dtype, "same_kind"):
        return True
    kinds = {"bool": "iuf", "uint8": "iu"}.get(dtype, "")
    return found.dtype.kind in kinds and np.array_equal(found.astype(dtype), found)
