"""The next step of a trial: each phase of each of its runs."""

import pytest

from farflung.common.process.errors import Exit
from farflung.learner.sweeps.state import (
    RESTARTS,
    Complete,
    Fail,
    Phase,
    Seen,
    Start,
    Wait,
    decide,
    hopeless,
    phase,
    wanted,
)

NEW, WORKING = Seen(Phase.ABSENT), Seen(Phase.WORKING, 7.0)
DONE, OTHER = Seen(Phase.FINISHED, 4.0), Seen(Phase.FINISHED, 9.0)


@pytest.mark.parametrize(
    ("runs", "step"),
    [
        ([NEW], Start(0)),
        ([WORKING], Wait(0)),
        ([DONE], Complete(4.0)),
        ([DONE, NEW, NEW], Start(1)),
        ([DONE, WORKING], Wait(1)),
        ([DONE, OTHER], Complete(6.5)),
        ([Seen(Phase.CUT, 99.0)], Start(0)),
        ([Seen(Phase.CUT, 99.0, starts=RESTARTS)], Start(0)),
        ([Seen(Phase.FAILED, 99.0, "diverged")], Fail("diverged")),
        ([DONE, Seen(Phase.FAILED, 99.0, "diverged")], Fail("diverged")),
    ],
)
def test_step(runs, step):
    """One run at a time, in the order of the seeds; a figure counts at a goal only."""
    assert decide(runs) == step


def test_run_that_ends_again_and_again_fails():
    """It would be started for ever."""
    step = decide([Seen(Phase.CUT, 9.0, "ended by SIGKILL", RESTARTS + 1)])
    assert step == Fail("its run ended 3 times before its goal: ended by SIGKILL")


def test_finished_run_without_a_figure_fails():
    """It is never the best, and no figure is made up."""
    step = decide([OTHER, Seen(Phase.FINISHED)])
    assert isinstance(step, Fail)
    assert "without a figure" in step.reason


@pytest.mark.parametrize(
    ("working", "there", "finished", "code", "expected"),
    [
        (True, True, False, None, Phase.WORKING),
        (False, False, False, None, Phase.ABSENT),
        (False, True, False, None, Phase.CUT),  # an earlier sweep was killed
        (False, True, True, None, Phase.FINISHED),
        (False, True, True, 0, Phase.FINISHED),
        (False, True, True, Exit.DISK, Phase.FINISHED),  # after its goal
        (False, True, False, 0, Phase.CUT),  # stopped by hand
        (False, True, False, -9, Phase.CUT),
        (False, False, False, -9, Phase.CUT),  # before it had a folder
        (False, True, False, Exit.AGAIN, Phase.CUT),
        (False, True, False, Exit.DATA, Phase.FAILED),  # diverged
        (False, False, False, Exit.CONFIGURATION, Phase.FAILED),
        (False, True, False, Exit.SOFTWARE, Phase.FAILED),
    ],
)
def test_phase(working, there, finished, code, expected):
    """A run is started again where that may help."""
    assert phase(working=working, there=there, finished=finished, exit_code=code) is expected


@pytest.mark.parametrize(
    ("trials", "begun", "active", "leaving", "at_once", "expected"),
    [
        (8, 0, 0, 0, 2, 2),
        (8, 7, 0, 0, 2, 1),
        (8, 8, 1, 0, 2, 0),
        (8, 4, 1, 1, 2, 0),
        (8, 4, 3, 0, 2, 0),
    ],
)
def test_trials_that_begin(trials, begun, active, leaving, at_once, expected):
    """Those that are pruned keep their place until their processes have ended."""
    assert wanted(trials, begun, active, leaving, at_once) == expected


def test_three_failures_and_no_success_are_hopeless():
    """One success shows that trials can work."""
    assert not hopeless(2, 0)
    assert hopeless(3, 0)
    assert not hopeless(9, 1)
