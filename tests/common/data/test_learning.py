"""The numbers that follow from the settings of workers."""

from support.makers import a_learning


def test_steps_along_one_version_are_bounded_by_staleness():
    """With two updates in a version and one version of patience, the fourth is the last."""
    assert a_learning(publish_every=2, staleness=1).may_owe == 4
    assert a_learning(publish_every=1, staleness=0).may_owe == 1


def test_steps_between_two_messages_are_bounded():
    """100 rows of warm-up, 15 more for a batch of 30 at a ratio of 2, and one window of 8."""
    assert a_learning().most_steps(8) == 123
    assert a_learning(warmup=0, batch=10, ratio=4.0).most_steps(0) == 3
