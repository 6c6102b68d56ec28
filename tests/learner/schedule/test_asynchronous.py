"""The loop of the async mode: insert, update, publish, and wait only where there is nothing to do."""

from types import SimpleNamespace

import pytest
from support.makers import a_parcel, an_evaluation

from farflung.learner.core.pacing import Pacing
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.schedule import asynchronous
from farflung.learner.schedule.asynchronous import insert, train
from farflung.learner.storage.journal.folder import START
from farflung.learner.transport.network_thread import NetworkView

ROUND_S = 0.02


class Counting:
    """Training, pacing, session, link and clock in one: it has experience for so many updates and goes on for so many rounds."""

    def __init__(self, updates=0, rounds=0, room=1000):
        self.left, self.rounds, self.room = updates, rounds, room
        self.rows_wanted, self.view, self.outlook = 1000, NetworkView(), None
        self.now = 0.0
        self.updates = self.published_updates = 0
        self.parcels, self.published, self.waits = [], [], 0
        self.queue = ParcelQueue()
        self.queue.wait = self.waited
        self.pacing = self

    def goes_on(self, view):
        self.now += ROUND_S
        self.rounds -= 1
        return self.rounds >= 0

    def check(self):
        """All is well."""

    def waited(self, timeout_s):
        self.waits += 1

    @property
    def steps(self):
        return sum(parcel.rows for parcel in self.parcels)

    @property
    def unpublished(self):
        return self.updates - self.published_updates

    @property
    def may_update(self):
        return self.left > 0

    def may_insert(self, rows):
        return rows <= self.room

    def insert(self, parcels):
        before = len(self.parcels)
        self.parcels.extend(parcels)
        return len(self.parcels) - before

    def update(self):
        self.updates += 1
        self.left -= 1

    def publish(self, weights=None):
        """Of training without an argument, of the link with one."""
        if weights is None:
            self.published_updates = self.updates
            return SimpleNamespace(updates=self.updates)
        self.published.append(weights.updates)
        return None


@pytest.fixture
def run(monkeypatch):
    """Runs the loop over a counting stand-in, and gives it back."""

    def run(counting, publish_every=1):
        monkeypatch.setattr(asynchronous, "time", SimpleNamespace(monotonic=lambda: counting.now))
        train(counting, counting, counting, counting.queue, publish_every)
        return counting

    return run


def test_the_first_and_the_last_version_are_always_published(run):
    """Actors need weights before there is an update, and keep what was learned last."""
    assert run(Counting(updates=1, rounds=1), publish_every=100).published == [0, 1]


def test_versions_are_at_least_50_ms_apart(run):
    """Rounds of 20 ms with an update each, to be published after every one: after 60, 120 and 180 ms, and at the end."""
    assert run(Counting(updates=10, rounds=10)).published == [0, 3, 6, 9, 10]


def test_versions_are_so_many_updates_apart(run):
    """Every 4 updates of 20 ms each."""
    assert run(Counting(updates=10, rounds=10), publish_every=4).published == [0, 4, 8, 10]


def test_what_is_learned_is_published_when_learning_pauses(run):
    """Two updates, then none to come: they do not wait for the eight that are missing."""
    assert run(Counting(updates=2, rounds=5), publish_every=10).published == [0, 2, 2]


def test_nothing_new_is_not_published(run):
    """Without an update there is no new version, however long it takes."""
    assert run(Counting(rounds=50)).published == [0, 0]


def test_it_waits_only_where_there_is_nothing_to_do(run):
    """Of five rounds two update; the other three wait for experience."""
    assert run(Counting(updates=2, rounds=5)).waits == 3


def test_a_parcel_is_something_to_do(run):
    """A round that inserted looks for more without waiting."""
    counting = Counting(rounds=2)
    counting.queue.put([(a_parcel(), START)])
    assert run(counting).waits == 1
    assert counting.steps == 3


def test_training_tells_the_network_how_it_stands(run):
    """Room for rows, steps and updates."""
    counting = run(Counting(updates=3, rounds=3, room=50))
    assert counting.outlook == (50, 0, 2)
    assert counting.queue.free == 50


def test_enough_is_enough(run):
    """Once all steps are there nobody gets credit for more."""
    counting = Counting(rounds=1)
    counting.rows_wanted = 0
    assert run(counting).queue.free == 0


def test_nobody_is_asked_for_more_rows_than_are_wanted(run):
    """The last rows of --steps bound the credit, so that little is collected in vain."""
    counting = Counting(rounds=1)
    counting.rows_wanted = 3
    assert run(counting).queue.free == 3


def test_what_was_acknowledged_is_kept_to_the_last():
    """What still waits when the network thread has ended enters the replay, whatever the pace."""
    counting = Counting()
    counting.room = 0
    for _ in range(3):
        counting.queue.put([(a_parcel((4,)), START)])
    asynchronous.settle(counting, counting.queue)
    assert counting.steps == 12
    assert counting.queue.first() is None


def test_a_dead_network_ends_training(run):
    """What ended the thread is raised here."""
    counting = Counting(rounds=5)

    def check():
        raise RuntimeError("the network thread ended")

    counting.check = check
    with pytest.raises(RuntimeError, match="network thread"):
        run(counting)


def test_parcels_wait_where_pacing_has_no_room():
    """With room for 4 rows the first of two parcels enters, the second of 5 stays, and so does what is behind it."""
    counting = Counting(room=4)
    for rows in (4, 5, 1):
        counting.queue.put([(a_parcel((rows,)), START)])
    assert insert(counting, counting.queue)
    assert counting.steps == 4
    assert not insert(counting, counting.queue)


def test_each_parcel_counts_before_the_next_is_let_in():
    """Room for 12 rows: of parcels of 5, 5 and 5, taken together, two enter, and the third when there is room again."""
    training, taken = Counting(), []

    def insert_counted(parcels):
        before = len(taken)
        for parcel in parcels:
            taken.append(parcel.rows)
            training.pacing.inserted(parcel.rows)
        return len(taken) - before

    training.pacing, training.insert = Pacing(1.0, 1, 0, 5, tolerance=12), insert_counted
    for _ in range(3):
        training.queue.put([(a_parcel((5,)), START)])
    assert insert(training, training.queue)
    assert taken == [5, 5]
    training.pacing.sampled(3)
    assert insert(training, training.queue)
    assert taken == [5, 5, 5]


def test_evaluations_never_wait_for_room():
    """They bring no rows."""
    counting = Counting(room=-1)
    counting.queue.put([(an_evaluation([1.0]), START)])
    assert insert(counting, counting.queue)
