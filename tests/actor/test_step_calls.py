"""The work of a step that does not grow with seats: with one environment it is most of the time."""

import sys
from types import FrameType

from support.makers import some_weights
from support.playing import playing
from support.stamps import a_stamp_spec

from farflung.actor.play import Play, exploring

CALLS = 17  # more cost an actor of one environment a hundredth of its speed each: bench/actor.py


def started(environments: int) -> Play:
    """Return a play within a window."""
    spec = a_stamp_spec(horizon=100)
    play = playing(spec, environments, exploring(spec, environments, 0, 0))
    assert play.begin(some_weights(spec), 0)
    play.step()
    return play


def calls_of_ours(play: Play) -> list[str]:
    """Step once; return the functions of this project that it called."""
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_globals["__name__"].startswith("farflung."):
            names.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        play.step()
    finally:
        sys.setprofile(before)
    return names


def test_a_step_settles_nothing_that_all_steps_share() -> None:
    """One environment and one policy: from the turn to the recorded row in so many calls.

    The first step of a window and the last of an episode may take more.
    """
    play = started(1)
    steps = [calls_of_ours(play) for _ in range(30)]
    usual = sorted(steps, key=len)[len(steps) // 2]
    assert len(usual) <= CALLS, usual


def test_seats_share_all_calls_but_the_beat() -> None:
    """The watchdog hears of each environment. All else is done for all seats at once."""
    alone, others = started(1), started(8)
    one, eight = (min(len(calls_of_ours(play)) for _ in range(30)) for play in (alone, others))
    assert eight == one + 7
