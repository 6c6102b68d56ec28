"""Players take turns with training."""

from farflung.learner.players import finished


def test_finished_runs_a_window_to_its_end():
    """A window that is not interrupted returns its parcel."""

    def steps():
        yield
        yield
        return "parcel"

    assert finished(steps()) == "parcel"
