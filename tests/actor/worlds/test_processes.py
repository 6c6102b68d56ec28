"""Slow environments in processes of their own, where threads are no faster."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest
from support import worlds
from support.playing import spec_of
from support.waiting import eventually

from farflung.actor.worlds import at_once, gymnasium, process_environment
from farflung.actor.worlds.lockstep import ListWorld
from farflung.actor.worlds.process_environment import (
    CallRecorder,
    Order,
    ProcessEnvironment,
    Raised,
)
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.world import Turn
from farflung.common.data.spec import Column, World

pytestmark = pytest.mark.slow

SEATS = 3
TRIAL = 2 * at_once.MEASURED + 3  # turns until threads are given up
TURNS = 3 * at_once.MEASURED + 20  # the trials of threads and of processes, and some
SUCCESS = Column("result.is_success", "float32", (), "result")


def opened(
    arguments: dict[str, Any] | None = None,
    processes: int = 0,
    problems: list[str] | None = None,
    clock: Callable[[], float] = lambda: worlds.Heavy.spent_s,
) -> ListWorld:
    """Open a world of slow environments."""
    note = pytest.fail if problems is None else problems.append
    around = Surroundings(
        lambda kind, text: note(text),
        lambda _: None,
        clock,
        threads=8 if processes else 0,
        processes=processes,
        imports=("support.worlds",),
    )
    spec = spec_of(World("toys/Heavy-v0", arguments or {}, seed=7), extras=(SUCCESS,))
    found = gymnasium.open_world(spec, SEATS, key=("actor", 0, 0), around=around)
    assert isinstance(found, ListWorld)
    return found


def children() -> set[int]:
    """Return the processes of environments."""
    return {
        child.pid
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE
        and process_environment.PROGRAM in " ".join(child.cmdline())
    }


def bits(turn: Turn) -> list[object]:
    """Return all that a turn tells, as bytes."""
    told: list[object] = [each.tobytes() for each in turn.due["policy"].columns.values()]
    if (outcomes := turn.outcomes.get("policy")) is not None:
        told += [outcomes.rewards.tobytes(), [*outcomes.lost]]
        for seat, end in outcomes.ended.items():
            last = [column.tobytes() for column in end.columns.values()]
            told.append((seat, end.ending, last, np.array(end.metrics).tobytes()))
    return told


def played(world: ListWorld, turns: int = TURNS) -> list[list[object]]:
    """Return what so many turns tell."""
    told = [bits(world.reset())]
    row = np.arange(SEATS) % 4
    return told + [bits(world.step({"policy": row})) for _ in range(turns)]


def test_processes_go_on_with_the_rows_of_the_list() -> None:
    """Environments remember their episodes, so one in a process is brought as far before."""
    world, plain = opened(processes=SEATS), opened()
    before = children()
    assert played(world) == played(plain)
    found = children() - before
    assert len(found) == SEATS
    assert bits(world.reset()) == bits(plain.reset())
    world.close()
    assert not found & children()


def test_environments_come_back_where_processes_are_no_faster() -> None:
    """By a clock on which each turn takes as long, wherever it is made."""
    ticks = itertools.count(0.0, 0.1)
    world, before = opened(processes=SEATS, clock=lambda: next(ticks)), children()
    told = played(world)
    assert children() == before
    assert told == played(opened())
    world.close()


def test_environments_that_cannot_catch_up_stay_in_processes() -> None:
    """They show the number of their process, from a step of the second trial on."""
    ticks = itertools.count(0.0, 0.1)
    before = children()
    world = opened({"tells": TRIAL + 3}, SEATS, clock=lambda: next(ticks))
    told = played(world)
    found = children() - before
    assert len(found) == SEATS
    assert told[: TRIAL + 2] == played(opened(), TRIAL + 1)
    assert not world.step({"policy": np.zeros(SEATS, np.int64)}).outcomes["policy"].lost
    world.close()
    assert children() == before


def test_threads_stay_where_they_pay() -> None:
    """No process starts, and nothing is noted any more."""
    world, before = opened({"aside": True}, SEATS), children()
    assert played(world) == played(opened({"aside": True}))
    assert children() == before
    assert not any(isinstance(one, CallRecorder) for one in world._environments)
    world.close()


@pytest.mark.parametrize("processes", [0, SEATS - 1])
def test_processes_are_wished_for_all_or_none(processes: int) -> None:
    """With fewer than there are environments, none starts."""
    world, before = opened(processes=processes), children()
    played(world)
    assert children() == before


def test_environment_that_differs_in_a_process_stays(caplog: pytest.LogCaptureFixture) -> None:
    """It shows the number of its process."""
    with caplog.at_level("INFO"):
        world, before = opened({"tells": 1}, SEATS), children()
        assert played(world) == played(opened({"tells": 1}))
    assert "returns something else in a process" in caplog.text
    assert children() == before


def test_error_in_a_process_loses_the_step_and_names_the_line() -> None:
    """As in the list, another environment begins an episode."""
    problems: list[str] = []
    arguments = {"breaks": TURNS - 3}
    world = opened(arguments, SEATS, problems)
    assert played(world) == played(opened(arguments, problems=[]))
    assert len(problems) == SEATS
    assert all("in the process" in text and "worlds.py" in text for text in problems)
    assert all("RuntimeError: the arm is stuck" in text for text in problems)
    world.close()


def test_killed_process_loses_its_step_alone() -> None:
    """Another process takes its place, and the seat begins an episode."""
    problems: list[str] = []
    world, before = opened(None, SEATS, problems), children()
    played(world)
    found = children() - before
    victim = min(found)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: victim not in children(), "a killed process", 30.0)
    outcomes = world.step({"policy": np.zeros(SEATS, np.int64)}).outcomes["policy"]
    assert len(outcomes.lost) == 1
    assert f"the process {victim} of an environment ended with exit code -9" in problems[0]
    assert len((children() - before) - found) == 1
    assert not world.step({"policy": np.zeros(SEATS, np.int64)}).outcomes["policy"].lost
    world.close()
    assert children() == before


ACTOR = """
import sys
from farflung.actor.worlds.process_environment import ProcessEnvironment, Order
from farflung.common.data.spec import World
one = ProcessEnvironment(Order(World("toys/Heavy-v0", {"stuck": 1}), ("support.worlds",), ()))
one.ready()
one.reset(seed=0)
print(one.pid, flush=True)
one.step(0)
"""


def test_process_ends_with_the_actor_in_the_middle_of_a_step() -> None:
    """Although nothing ever wakes that step up."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", ACTOR], stdout=subprocess.PIPE, env=environment
    ) as actor:
        assert actor.stdout is not None
        child = psutil.Process(int(actor.stdout.readline()))
        assert child.is_running()
        actor.kill()
    eventually(
        lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "an end", 30.0
    )


@pytest.fixture
def one() -> Any:
    """Return an environment in a process."""
    found = ProcessEnvironment(Order(World("toys/Heavy-v0"), ("support.worlds",), ("is_success",)))
    found.ready()
    yield found
    found.close()


def test_ctrl_c_is_for_the_actor_alone(one: ProcessEnvironment) -> None:
    """The signal goes to all processes of a terminal; the actor then closes them."""
    one.reset(seed=0)
    os.kill(one.pid, signal.SIGINT)
    assert one.step(0)[0].tolist()[1:] == [0.0, 1.0]


def test_only_what_a_spec_names_leaves_the_process(one: ProcessEnvironment) -> None:
    """An info may hold anything; the rest is as it was, dtypes included."""
    one.reset(seed=0)
    seen, reward, terminated, truncated, info = one.step(0)
    assert (seen.dtype, seen.shape, reward) == (np.float32, (3,), 0.0)
    assert (terminated, truncated, info) == (True, False, {"is_success": True})


def test_environment_that_cannot_be_made_says_why() -> None:
    """The traceback is the message."""
    found = ProcessEnvironment(
        Order(World("toys/Heavy-v0", {"weight": 3}), ("support.worlds",), ())
    )
    with pytest.raises(Raised, match="unexpected keyword argument 'weight'"):
        found.ready()
    found.close()


@pytest.mark.parametrize(
    "value",
    [1, 2.5, True, np.float32(3), np.arange(6, dtype=np.uint8).reshape(2, 3), np.zeros((0, 2))],
)
def test_values_come_back_as_they_were(value: Any) -> None:
    """Alone, in a dictionary, and in a tuple."""
    for found in (
        process_environment.unpacked(process_environment.packed(value)),
        process_environment.unpacked(process_environment.packed({"x": {"y": value}}))["x"]["y"],
        process_environment.unpacked(process_environment.packed((value, 1)))[0],
    ):
        assert np.asarray(found).dtype == np.asarray(value).dtype
        np.testing.assert_array_equal(found, value)


def test_objects_do_not_leave_their_process() -> None:
    """Numbers do."""
    with pytest.raises(TypeError, match="cannot leave its process"):
        process_environment.packed(object())
