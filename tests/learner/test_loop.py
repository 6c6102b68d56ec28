"""The loop of the training thread: it does what the schedule decides."""

from types import SimpleNamespace

import pytest
from support.makers import a_parcel, an_evaluation, an_item

from farflung.common.data.weights import Version
from farflung.common.protocol.spans import NOTHING, Taker, Tracer, unpack
from farflung.learner.core.pacing import CoreState, Pacing
from farflung.learner.core.split import Split
from farflung.learner.endpoint.items import ItemQueue
from farflung.learner.loop import Loop
from farflung.learner.schedule.schedule import Asynchronous
from farflung.learner.storage.journal.record import Position

ROUND_S = 0.02


class Counting:
    """Core, endpoint, transport, supervisor and clock in one.

    `rounds` actions of 20 ms each, then over.
    """

    def __init__(self, updates=0, rounds=0, room=1000):
        self.left, self.room = rounds, room
        pacing = Pacing(1.0, 1, 0, 1, tolerance=float(updates + room))
        pacing.rows = updates
        self.state = CoreState(pacing, Version(1, 0))
        self.rows_wanted, self.now = 1000, 0.0
        self.told = None
        self.inserted, self.published, self.waits = [], [], 0
        self.queue = ItemQueue()
        self.spans, self.split = Tracer("training", lambda: self.now), Split()

    @property
    def over(self):
        return self.left < 0

    def tick(self):
        self.left -= 1
        self.now += ROUND_S

    def check(self):
        """All is well."""

    def wait(self):
        self.waits += 1

    def insert(self, parcels):
        for parcel in parcels:
            self.state.pacing.inserted(parcel.rows)
            self.inserted.append(parcel.rows)

    def progress(self, steps, updates, room):
        self.told = steps, updates, room
        self.queue.room = room

    def update(self):
        self.state.updates += 1
        self.state.pacing.sampled(1)

    def publish(self, weights=None):
        """Of the core without an argument, of the endpoint with one."""
        if weights is None:
            self.state.published_updates = self.state.updates
            return SimpleNamespace(updates=self.state.updates)
        self.published.append(weights.updates)
        return None


def a_loop(counting, publish_every=1):
    """A loop over a stand-in for everything around it."""
    schedule = Asynchronous(publish_every)
    return Loop(counting, schedule, counting, counting, clock=lambda: counting.now)


def run(counting, publish_every=1):
    """Run the loop to its end."""
    a_loop(counting, publish_every).run(counting)
    return counting


def test_loop_publishes_a_first_and_a_last_version():
    """Actors need weights before there is an update, and keep what was learned last."""
    assert run(Counting(updates=1, rounds=2), publish_every=100).published == [0, 1]


def test_loop_publishes_at_most_every_50_ms():
    """Actions of 20 ms, a version after each update wanted: every third update is published."""
    assert run(Counting(updates=10, rounds=12)).published == [0, 2, 4, 6, 8]


def test_loop_publishes_after_so_many_updates():
    """Every 4 updates of 20 ms each."""
    assert run(Counting(updates=10, rounds=15), publish_every=4).published == [0, 4, 8, 10]


def test_loop_publishes_when_learning_pauses():
    """Two updates, then none to come: they do not wait for the eight that are missing."""
    assert run(Counting(updates=2, rounds=6), publish_every=10).published == [0, 2]


def test_loop_publishes_nothing_that_is_not_new():
    """Without an update there is no new version, however long it takes."""
    assert run(Counting(rounds=50)).published == [0]


def test_loop_waits_only_where_there_is_nothing_to_do():
    """Of six actions one publishes, two update, and one publishes those; two wait."""
    assert run(Counting(updates=2, rounds=6)).waits == 2


def test_loop_records_each_action_while_spans_are_asked_for():
    """Of six actions one publishes, two update, and one publishes those; two wait."""
    counting = Counting(updates=2, rounds=6)
    taker = Taker(counting.spans)
    taker.take(100)
    run(counting)
    names = [span.name for span in unpack(*taker.take(100))]
    assert sorted(names) == ["publish", "publish", "update", "update", "waiting", "waiting"]


def test_loop_notes_no_times_while_no_spans_are_asked_for(monkeypatch):
    """Each of six actions asks once, and gets one and the same context, which does nothing."""
    asked, span = [], Tracer.span
    monkeypatch.setattr(Tracer, "add", lambda *words: pytest.fail("a time was noted"))
    monkeypatch.setattr(Tracer, "span", lambda *words: asked.append(span(*words)) or asked[-1])
    run(Counting(updates=2, rounds=6))
    assert asked == [NOTHING] * 6


def test_loop_inserts_before_it_waits():
    """A parcel that waits is something to do."""
    counting = Counting(rounds=2)
    counting.queue.put([an_item()])
    counting.queue.put([an_item(an_evaluation([1.0]))])
    run(counting)
    assert (counting.inserted, counting.waits) == ([3, 0], 0)


def test_loop_tells_the_endpoint_how_far_training_is():
    """Steps, updates, and room for rows."""
    assert run(Counting(updates=3, rounds=10, room=50)).told == (0, 3, 53)


def test_loop_notes_the_part_of_the_journal_that_it_inserted():
    """A checkpoint refers to the end of the last parcel in the replay."""
    counting = Counting(rounds=3)
    loop, item = a_loop(counting), an_item()
    item.end = Position(2, 300)
    counting.queue.put([item, an_item()])
    loop.run(counting)
    assert (counting.inserted, loop.extent.position) == ([3, 3], Position(2, 300))


def test_loop_drains_what_was_acknowledged_whatever_the_pace():
    """Parcels that still wait when the network thread has ended enter the replay."""
    counting = Counting(room=2)
    counting.queue.put([an_item(a_parcel((4,)))] * 3)
    a_loop(counting).drain()
    assert (counting.inserted, len(counting.queue.parcels)) == ([4, 4, 4], 0)


def test_loop_ends_with_the_error_of_the_transport():
    """The error that ended the network thread is raised in the training thread."""
    counting = Counting(rounds=5)

    def check():
        raise RuntimeError("the network thread ended")

    counting.check = check
    with pytest.raises(RuntimeError, match="network thread"):
        run(counting)


def test_time_of_each_action_is_counted_as_its_own():
    """Three updates of 20 ms, each with a publication, then waits; all of it has a part."""
    counting = Counting(updates=3, rounds=9)
    loop = a_loop(counting)
    loop.run(counting)
    spent = {part: round(seconds / ROUND_S) for part, seconds in loop.seconds.items()}
    assert spent["update"] == 3
    assert spent["publish"] == len(counting.published)
    assert spent["experience"] == counting.waits > 0
    assert spent["insert"] == 0
    assert sum(spent.values()) * ROUND_S == pytest.approx(counting.now - ROUND_S)
