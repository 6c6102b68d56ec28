"""The time of an update by its parts."""

from farflung.learner.core.split import Split


def test_each_part_has_the_mean_of_its_times() -> None:
    """Two updates: 1 and 3 s of sampling, 2 and 2 s of gradients. Time between them is no part."""
    times = iter([0.0, 1.0, 3.0, 10.0, 13.0, 15.0])
    split = Split(lambda: next(times))
    for _ in range(2):
        split.begin()
        split.lap("sample")
        split.lap("gradients")
    assert split.seconds == {"sample": 2.0, "gradients": 2.0}


def test_without_a_clock_nothing_is_measured() -> None:
    """As in a core of its own."""
    split = Split()
    split.begin()
    split.lap("sample")
    assert split.seconds == {}
