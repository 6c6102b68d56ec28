"""Outlets for curves beside the run's own files: W&B, MLflow, or a class of the user's.

An outlet has a thread of its own and a bounded queue before it. One that fails, hangs or is slow
loses moments, which are counted and named; training never waits for it before its end.
"""

import importlib.util
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from farflung.common.process import plugins
from farflung.common.process.config import suggestion
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.common.process.text import printable

log = logging.getLogger(__name__)

WAITING = 256  # moments before an outlet; at one each two seconds that is 8 minutes
AGAIN_S = 60.0  # after an outlet could not be made
CLOSE_S = 15.0  # at the end of a run, for what still waits
BUILT_IN = {  # by name: the class, and the package that it needs
    "wandb": ("farflung.learner.observe.wandb_outlet:WandbOutlet", "wandb"),
    "mlflow": ("farflung.learner.observe.mlflow_outlet:MlflowOutlet", "mlflow"),
}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The run, as an outlet may name and describe it."""

    identity: str  # of this run and no other; the same after --resume
    name: str
    folder: Path
    settings: Mapping[str, Any]  # plain values by name


@dataclass(frozen=True, slots=True)
class Moment:
    """The figures of one moment."""

    figures: Mapping[str, float]  # by the names of their curves
    steps: int  # environment steps of the run so far
    epoch: int  # starts of the learner
    wall_time: float  # seconds since 1970


class Outlet(Protocol):
    """A destination of curves. Make it with `RunFacts`; one thread makes it and calls it.

    What it raises is named in the log, and the run goes on.
    """

    def write(self, moment: Moment) -> None:
        """Take the figures of a moment. Those of an evaluation are there once."""

    def close(self) -> None:
        """Pass on what is held back, and end."""


def find(name: str) -> Callable[[RunFacts], Outlet]:
    """Return the class of an outlet, or refuse. A built-in one is imported when it is made."""
    if name in BUILT_IN:
        path, package = BUILT_IN[name]
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:  # a folder of its name is no package
            raise ConfigurationError(
                f"--log-to {name} needs a package that is not installed here: "
                f"pip install 'farflung[{name}]'"
            )
        return lambda facts: plugins.find(path)(facts)
    if ":" not in name:
        raise UsageError(
            f"--log-to {name!r}: write {', '.join(BUILT_IN)}, or package.module:Class."
            f"{suggestion(name, BUILT_IN)}"
        )
    made: Callable[[RunFacts], Outlet] = plugins.find(name)
    if not callable(made):
        raise ConfigurationError(f"--log-to {name}: it cannot be called with the facts of a run")
    return made


class OutletThread:
    """An outlet at work behind its queue. Training calls `offer` and `close`, and never waits."""

    def __init__(self, name: str, make: Callable[[], Outlet], again_s: float = AGAIN_S) -> None:
        self._name, self._make, self._again_s = f"outlet {name}", make, again_s
        self._outlet: Outlet | None = None
        self._queue: deque[Moment] = deque()
        self._wake, self._over = threading.Event(), threading.Event()
        self._dropped = self._failed = 0  # moments: before it, and by it
        self._problem = ""  # the last that was named
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    @property
    def lost(self) -> int:
        """Moments that the outlet did not take."""
        return self._dropped + self._failed

    def offer(self, moment: Moment) -> None:
        """Hand over a moment; the oldest that waits makes room for it."""
        if len(self._queue) >= WAITING:
            self._queue.popleft()
            self._dropped += 1
            if self._dropped == 1:
                log.warning("%s is too slow: its oldest figures are left out", self._name)
        self._queue.append(moment)
        self._wake.set()
        if self._thread.ident is None:
            self._thread.start()

    def close(self, within_s: float = CLOSE_S) -> None:
        """Let it pass on the rest, and wait for that so long."""
        if self._thread.ident is None:
            return
        self._over.set()
        self._wake.set()
        self._thread.join(min(1.0, within_s))
        if self._thread.is_alive() and within_s > 1:
            log.info("waiting for %s, %g s at most", self._name, within_s)
            self._thread.join(within_s - 1.0)
        if self._thread.is_alive():
            log.warning("%s has not ended: its last figures may be missing", self._name)
        elif self.lost or self._queue:
            log.warning("%s lost %d moments", self._name, self.lost + len(self._queue))

    def _run(self) -> None:
        while not self._over.is_set() or (self._queue and self._outlet is not None):
            if self._outlet is None and not self._succeeds(self._open):
                self._over.wait(self._again_s)
                continue
            self._wake.wait()
            self._wake.clear()
            self._pass_on()
        if self._outlet is not None:
            self._succeeds(self._outlet.close)

    def _open(self) -> None:
        self._outlet = self._make()

    def _pass_on(self) -> None:
        assert self._outlet is not None
        while self._queue:
            try:
                moment = self._queue.popleft()
            except IndexError:  # it made room for another meanwhile
                return
            self._failed += not self._succeeds(partial(self._outlet.write, moment))

    def _succeeds(self, function: Callable[[], object]) -> bool:
        """Call a function; return whether it raised nothing. Name each new failure."""
        try:
            function()
        except Exception as error:  # another's code, and another machine
            problem = printable(f"{type(error).__name__}: {error}")
            if problem != self._problem:
                log.warning("%s failed, the run goes on: %s", self._name, problem)
            self._problem = problem
            return False
        return True


def started(names: Sequence[str], facts: RunFacts) -> list[OutletThread]:
    """Return the outlets of these names, at work from their first moment on."""
    return [OutletThread(name, partial(find(name), facts)) for name in names]
