"""The suspicion that a step hangs."""

from farflung.actor.connection.port import Work
from farflung.actor.hangs import Suspicion


class Told:
    """Counts the reports of a hang, with the seconds at that moment."""

    def __init__(self) -> None:
        self.work = Work()
        self.told: list[float] = []

    def hangs(self) -> None:
        """Note the report."""
        self.told.append(self.work.hangs_s)


def test_step_is_suspect_after_a_while_and_reported_again(caplog) -> None:
    """At 5 s, then every 5 s; the log has the line at once. A step that ends is none."""
    connection = Told()
    suspicion = Suspicion(connection)
    for seconds in (0.0, 4.9, 5.0, 6.0, 9.9, 10.0, 15.5):
        suspicion.look(seconds)
    assert connection.told == [5.0, 10.0, 15.5]
    assert caplog.text.count("an environment step has taken 5 s so far, at ") == 1
    suspicion.look(0.0)
    assert connection.work.hangs_s == 0.0
    suspicion.look(5.0)
    assert connection.told[-1] == 5.0


def test_long_steps_are_usual_where_others_were_long() -> None:
    """After one of 2 s, a step is suspect at 10 s."""
    connection = Told()
    connection.work.longest_step_s = 2.0
    suspicion = Suspicion(connection)
    for seconds in (5.0, 9.9, 10.0):
        suspicion.look(seconds)
    assert connection.told == [10.0]
