"""An actor's share of the rounds: when it plays, and which parcel ends a round."""

from dataclasses import replace

import pytest
from support.makers import a_parcel, a_spec
from support.playing import Parrot, Wheel, a_version

from farflung.actor.play import Player
from farflung.actor.rounds import Share
from farflung.common.data.parcel import Place
from farflung.common.data.spec import Exploration, Rounds
from farflung.common.data.weights import Version

ONE, TWO = Version(1, 1), Version(1, 2)


def a_window(version=ONE):
    """The parcels of a window of five steps."""
    return [replace(a_parcel((5,)), version=version)]


def ends(share, window):
    """Return whether the last parcel of a window ends the round; none before it does."""
    *before, last = [parcel.place for parcel in share.placed(window)] or [Place(0, False)]
    assert not any(place.ends for place in before)
    assert last.actor_index == 0
    return last.ends


def test_actor_outside_of_rounds_always_plays():
    """There is no share."""
    share = Share(None, 7)
    for _ in range(3):
        assert share.wants(ONE)
        share.begin(ONE)


def test_share_is_so_many_windows_under_each_version():
    """Two windows, then it waits for the next version."""
    share = Share(Rounds(actors=1, windows=2), 0)
    for version in (ONE, TWO):
        assert share.wants(version)
        share.begin(version)
        assert not ends(share, a_window(version))
        assert share.wants(version)
        share.begin(version)
        assert ends(share, a_window(version))
        assert not share.wants(version)


def test_share_is_so_many_episodes():
    """Three episodes: two end in the first window, two at once in the second, which is cut."""
    share = Share(Rounds(actors=1, episodes=3), 0)
    share.begin(ONE)
    assert [share.is_over(ended) for ended in (1, 0, 1, 0)] == [False] * 4
    assert not ends(share, a_window())
    share.begin(ONE)
    assert [share.is_over(ended) for ended in (0, 2)] == [False, True]
    assert ends(share, a_window())
    assert not share.wants(ONE)


def test_window_without_steps_of_its_version_is_played_again():
    """All its steps were lost, or belong to the version that chose them."""
    share = Share(Rounds(actors=1), 0)
    share.begin(TWO)
    assert not ends(share, [])
    assert not ends(share, a_window(ONE))
    assert share.wants(TWO)
    assert ends(share, a_window(TWO))


def test_round_goes_on_after_a_restart_of_the_learner():
    """The same number under a higher epoch is no new round, and a lower number has to wait."""
    share = Share(Rounds(actors=1, windows=2), 0)
    share.begin(TWO)
    ends(share, a_window(TWO))
    assert not share.wants(Version(2, 1))
    again = Version(2, 2)
    assert share.wants(again)
    share.begin(again)
    assert ends(share, a_window(again))
    assert not share.wants(again)
    assert share.wants(Version(2, 3))


def test_last_part_of_a_window_ends_the_round():
    """A window of many rows is several parcels."""
    share = Share(Rounds(actors=1), 0)
    share.begin(ONE)
    parts = share.placed([*a_window(), *a_window()])
    assert [part.place for part in parts] == [Place(0, False), Place(0, True)]


def test_newer_version_ends_a_round_that_was_not_finished():
    """The learner does not wait for it any more: all windows of the new round are to be played."""
    share = Share(Rounds(actors=1, windows=2), 0)
    share.begin(ONE)
    share.begin(TWO)
    assert not ends(share, a_window(TWO))
    assert ends(share, a_window(TWO))


@pytest.mark.parametrize(
    ("changes", "progress"),
    [
        ({}, [900, 900]),  # as the beacon says
        ({"rounds": Rounds(1)}, [10, 40]),  # as the version says
        ({"rounds": Rounds(1), "exploration": Exploration(per="round")}, [0, 1]),
    ],
)
def test_exploration_of_a_round_is_alike_at_all_actors(changes, progress):
    """In rounds it follows from the version alone, by its steps or by its number."""
    wheel, spec = Wheel(), a_spec(**changes)
    player = Player(spec, 1, Parrot(), wheel)
    for number, steps in ((1, 10), (2, 40)):
        player.begin(a_version(number, steps), 900)
    assert [steps for _, steps in wheel.begun] == progress


def test_actor_without_a_place_waits():
    """The third of two."""
    assert not Share(Rounds(actors=2), 2).wants(ONE)


def test_spare_windows_have_no_place_and_end_no_round() -> None:
    """A policy without its learner plays them beside others; its rounds go on afterwards."""
    share = Share(Rounds(1, windows=1, episodes=0), 0)
    share.begin(ONE)
    (own,) = share.placed([a_parcel()])
    assert own.place == Place(0, ends=True)
    share.begin(ONE)
    assert share.placed([a_parcel()])[0].place is None
    assert not share.is_over(5)
    assert not share.wants(ONE)
    share.begin(TWO)
    (own,) = share.placed([a_parcel(version=2)])
    assert own.place == Place(0, ends=True)
