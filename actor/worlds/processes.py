"""The trial of processes: for slow environments that are no faster in threads, and the way back."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from farflung.actor.worlds.at_once import AtOnce
from farflung.actor.worlds.failures import Environment, Failures
from farflung.actor.worlds.process_environment import (
    CallRecorder,
    Order,
    ProcessEnvironment,
    brought,
    digest,
    made,
    sendable,
)
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import INFO, Spec
from farflung.common.process.errors import FarflungError

log = logging.getLogger(__name__)


class Going(NamedTuple):
    """The environments of a world after a trial, and the way to step them."""

    environments: list[Environment]
    at_once: AtOnce | None
    tried: bool = True  # there is no further trial
    make: Callable[[], Environment] | None = None  # another one, if not as before


class Processes:
    """A process for each environment, tried where threads are no faster.

    Environments note what they are asked until the choice. Those in processes are then asked the
    same, so that rows go on as they were. If they are no faster, the first ones catch up.
    """

    def __init__(self, order: Order, around: Surroundings, failures: Failures) -> None:
        self._order, self._around, self._failures = order, around, failures
        self._left: list[Environment] = []  # here, while processes are tried

    def noted(self, environments: Sequence[Environment]) -> list[Environment]:
        """Return environments that note what they are asked."""
        return [CallRecorder(one, self._order.infos) for one in environments]

    def after(self, at_once: AtOnce, environments: list[Environment]) -> Going:
        """Return how to go on once a trial is over."""
        if self._left:
            return self._after_processes(at_once, environments)
        moved = self._moved(environments) if at_once.holds_lock else None
        if moved is None:
            return Going(_bare(environments), at_once if at_once.chosen else None)
        self._left = environments
        return Going(moved, at_once.again("processes"), tried=False)

    def close(self) -> None:
        """Close the environments that were left."""
        for one in self._left:
            self._failures.close(one)
        self._left = []

    def _after_processes(self, at_once: AtOnce, environments: list[Environment]) -> Going:
        if at_once.chosen or not self._catch_up(environments):
            self.close()
            way = at_once if at_once.chosen else at_once.kept()
            return Going(_bare(environments), way, make=self._make)
        left, self._left = self._left, environments
        self.close()
        return Going(_bare(left), None)

    def _make(self) -> Environment:
        one = ProcessEnvironment(self._order)
        try:
            one.ready()
        except BaseException:
            one.close()
            raise
        return one

    def _moved(self, environments: Sequence[Environment]) -> list[Environment] | None:
        """Return environments in processes that are as far as these, if that can be."""
        apart: list[ProcessEnvironment] = []
        why = "an environment of the trial has failed"
        try:
            for _ in environments:
                apart.append(ProcessEnvironment(self._order))  # all of them start side by side
            for one in apart:
                self._around.beat()
                one.ready()
            for one, before in zip(apart, environments, strict=True):
                self._around.beat()
                if not (isinstance(before, CallRecorder) and brought(one, before.asked)):
                    why = "an environment returns something else in a process"
                    break
            else:
                return self.noted(apart)
        except FarflungError:
            raise
        except Exception as error:  # a user's code
            why = f"{error}"
        for one in apart:
            one.close()
        log.info("environments stay in this process: %s", why)
        return None

    def _catch_up(self, environments: Sequence[Environment]) -> bool:
        """Ask those that were left what others were asked; return whether they are as far."""
        try:
            for left, moved in zip(self._left, environments, strict=True):
                if not isinstance(moved, CallRecorder):
                    return False
                for call, returned in moved.asked:
                    self._around.beat()
                    if (
                        digest(sendable(made(_bare([left])[0], call), self._order.infos))
                        != returned
                    ):
                        return False
        except FarflungError:
            raise
        except Exception:  # a user's code
            log.debug("environments stay in processes", exc_info=True)
            return False
        return True


def processes(spec: Spec, count: int, around: Surroundings, failures: Failures) -> Processes | None:
    """Return the trial of processes for so many environments, if that is wished and may pay."""
    if not 1 < count <= around.processes or _processors() < 2:
        return None
    infos = *(column.name.removeprefix(INFO) for column in spec.infos), *spec.metrics
    return Processes(Order(spec.world, around.imports, infos), around, failures)


def _bare(environments: Sequence[Environment]) -> list[Environment]:
    """Return environments that note nothing."""
    return [one.environment if isinstance(one, CallRecorder) else one for one in environments]


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
