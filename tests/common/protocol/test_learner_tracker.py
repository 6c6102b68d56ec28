"""An actor's view of learners: the one it follows, its requests and its rebuilds."""

from itertools import count

import pytest

from farflung.common.data.spec import Graph, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.common.protocol.learner_tracker import Action, LearnerTracker, Verdict
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Beacon,
    Credit,
    State,
)

NOW = 0.0  # of weights, where it does not matter


def tracker(now: float = 0.0) -> LearnerTracker:
    """Return a tracker that just connected and asked under nonce 1; later nonces count up."""
    member = LearnerTracker(count(1).__next__)
    member.connected(now)
    member.ask(now)
    return member


def joined(now: float = 0.0) -> LearnerTracker:
    """Return a tracker that follows learner_id 1 of run `a` in epoch 1 and holds version 1.0."""
    member = tracker(now)
    assert receive(member, now) is Verdict.FIRST
    assert member.take("a", Version(1, 0), NOW)
    assert member.arrived(1)
    acknowledge(member, now)
    return member


def receive(
    member: LearnerTracker,
    now: float,
    run: str = "a",
    learner_id: int = 1,
    epoch: int = 1,
    version: int = 0,
    state: State = State.RUN,
) -> Verdict:
    """Let the tracker receive a beacon."""
    return member.beacon(
        Beacon(run, "default", learner_id, Version(epoch, version), 0, 0, state), now
    )


def acknowledge(member: LearnerTracker, now: float, highest: int = 0) -> None:
    """Let the tracker receive an acknowledgement of the learner that it obeys."""
    origin = ("default", "actor", 7, member.learner_id, member.epoch)
    numbers = (highest, (), (), Credit(1, 1))
    assert member.acknowledgement(Acknowledgement(member.run, *origin, *numbers), now)


@pytest.mark.parametrize("origin", [("b", 1, 1), ("a", 2, 1), ("a", 1, 2), ("a", 1, 0)])
def test_tracker_obeys_the_acknowledgements_of_its_learner_only(
    origin: tuple[str, int, int],
) -> None:
    """Not those of another run, process or epoch: not even of a newer one, before its beacon."""
    member, (run, learner_id, epoch) = joined(), origin
    other = Acknowledgement(run, "default", "actor", 7, learner_id, epoch, 3, (), (), Credit(1, 1))
    for now in (1.0, 2.0, 2.9):
        receive(member, now)
        assert not member.acknowledgement(other, now)
    receive(member, 3.1)
    assert (member.run, member.learner_id, member.epoch) == ("a", 1, 1)
    assert due(member, 3.1) is Action.ASK


def due(
    member: LearnerTracker, now: float, unanswered_since: float | None = None, drained: bool = True
) -> Action:
    """Return the wanted action, with nothing to answer unless said otherwise."""
    return member.due(now, drained=drained, unanswered_since=unanswered_since)


def test_tracker_follows_the_first_learner() -> None:
    """Its run, learner_id and epoch are taken over."""
    member = tracker()
    assert not member.sends(0.0)
    assert receive(member, 1.0, learner_id=5, epoch=3) is Verdict.FIRST
    assert (member.run, member.learner_id, member.epoch) == ("a", 5, 3)
    assert member.sends(1.0)
    assert receive(member, 2.0, learner_id=5, epoch=3) is Verdict.KNOWN


def test_tracker_judges_an_announcement_like_a_beacon() -> None:
    """The order of the two does not matter."""
    space = Space("box", "float32", (1,))
    spec = Spec(
        "a",
        "default",
        "async",
        World("Nothing-v0"),
        {"": space},
        space,
        "q",
        1,
        1,
        Graph(b"", (), (), ()),
    )
    member = tracker()
    assert member.announcement(Announcement(spec, 1, 2), 0.0) is Verdict.FIRST
    assert member.announcement(Announcement(spec, 9, 1), 0.0) is Verdict.STALE


def test_tracker_follows_a_newer_epoch_and_not_an_older_one() -> None:
    """A learner that was started again counts; beacons of its former process never do."""
    member = joined()
    assert receive(member, 1.0, learner_id=2, epoch=2) is Verdict.NEWER
    assert not receive(member, 1.5).obeyed
    assert receive(member, 30.0) is Verdict.STALE
    assert receive(member, 30.0, learner_id=2, epoch=2) is Verdict.KNOWN
    assert not member.contested(30.0)


def test_tracker_asks_a_newer_epoch_for_a_fresh_snapshot() -> None:
    """In place of one that the former learner_id was asked for."""
    member = joined()
    member.ask(0.5)
    receive(member, 1.0, learner_id=2, epoch=2)
    assert due(member, 1.0) is Action.ASK
    assert not member.arrived(2)


def test_tracker_follows_a_new_run_without_weights() -> None:
    """Its version numbers have nothing to do with those before."""
    member = joined()
    member.take("a", Version(1, 9), NOW)
    assert receive(member, 1.0, run="b", learner_id=2) is Verdict.NEW_RUN
    assert (member.run, member.held) == ("b", None)
    assert due(member, 1.0) is Action.ASK
    assert not member.take("a", Version(1, 10), NOW)
    assert member.take("b", Version(1, 0), NOW)


def test_tracker_sends_nothing_while_two_learners_alternate() -> None:
    """Both are named and nothing is sent until one is silent for 10 s; the followed one stays."""
    member = joined()
    assert receive(member, 1.0, run="b", learner_id=2) is Verdict.NEW_RUN
    assert receive(member, 2.0) is Verdict.RIVAL
    assert not Verdict.RIVAL.obeyed
    assert member.contested(2.0)
    assert not member.sends(2.0)
    assert due(member, 2.0) is Action.NOTHING
    assert receive(member, 11.0, run="b", learner_id=2) is Verdict.KNOWN
    assert member.sends(12.1)
    assert not member.contested(12.1)


def test_tracker_follows_the_rival_that_is_left() -> None:
    """Also if it is the one that was not obeyed."""
    member = joined()
    receive(member, 1.0, run="b", learner_id=2)
    for now in range(2, 11):
        assert receive(member, float(now)) is Verdict.RIVAL
    assert receive(member, 11.5) is Verdict.NEW_RUN
    assert (member.run, member.sends(11.5)) == ("a", True)


def test_tracker_ignores_a_third_learner_while_two_are_rivals() -> None:
    """Its beacons count for nothing."""
    member = joined()
    receive(member, 1.0, run="b", learner_id=2)
    receive(member, 2.0)
    assert receive(member, 3.0, run="c", learner_id=3) is Verdict.RIVAL


def test_tracker_takes_another_learner_of_its_epoch_for_a_copy() -> None:
    """Nothing is sent until it was silent for 10 s; then the obeyed one goes on."""
    member = joined()
    assert receive(member, 1.0, learner_id=2) is Verdict.RIVAL
    assert receive(member, 1.5) is Verdict.KNOWN
    assert (member.learner_id, member.sends(10.9)) == (1, False)
    assert due(member, 10.9) is Action.NOTHING
    assert receive(member, 11.0) is Verdict.KNOWN
    assert member.sends(11.0)


def test_tracker_never_obeys_a_copy_of_the_learner_that_acknowledged() -> None:
    """Not even if only the copy is left, and for however long. A higher epoch ends it."""
    member = joined()
    acknowledge(member, 0.5, highest=3)
    for now in range(1, 60):
        assert receive(member, float(now), learner_id=2) is Verdict.RIVAL
        assert not member.sends(float(now))
    assert "only learner 2 of run a is received" in member.rivalry("a", 2, 1, 59.0)
    assert "continue with --resume" in member.rivalry("a", 2, 1, 59.0)
    assert receive(member, 60.0, learner_id=3, epoch=2) is Verdict.NEWER
    assert member.sends(60.0)


def test_tracker_goes_over_if_its_learner_is_silent_and_acknowledged_nothing() -> None:
    """As an actor that starts now would; ours, which comes back, is then the other one."""
    member = joined()
    for now in range(1, 10):
        assert receive(member, float(now), learner_id=2) is Verdict.RIVAL
    assert receive(member, 10.0, learner_id=2) is Verdict.NEWER
    assert member.sends(10.0)
    assert receive(member, 11.0, learner_id=1) is Verdict.RIVAL


def test_tracker_asks_for_weights_again_after_a_copy() -> None:
    """Those held may be of the copy: none of this epoch is taken until only one learner is left."""
    member = joined()
    assert member.take("a", Version(1, 9), 0.9)
    assert receive(member, 1.0, learner_id=2, version=9) is Verdict.RIVAL
    assert not member.take("a", Version(1, 10), 1.5)
    receive(member, 11.0, version=4)
    assert due(member, 11.0) is Action.ASK
    assert member.take("a", Version(1, 4), 11.0)


def test_tracker_doubts_weights_that_its_learner_never_names() -> None:
    """They came from a copy that said nothing else; late beacons of ours alone do not do it."""
    member = joined()
    assert member.take("a", Version(1, 9), 0.5)
    for _ in range(50):
        receive(member, 1.0, version=4)
    acknowledge(member, 3.9)
    assert (member.held, due(member, 3.9)) == (Version(1, 9), Action.NOTHING)
    receive(member, 4.0, version=4)
    assert (member.held, due(member, 4.0)) == (None, Action.ASK)
    assert member.take("a", Version(1, 4), 4.1)


def of_a_copy() -> LearnerTracker:
    """Return a tracker that follows epoch 2 since 1 s, after learner_id 1 of epoch 1."""
    member = joined()
    assert receive(member, 1.0, learner_id=2, epoch=2) is Verdict.NEWER
    return member


def test_tracker_takes_a_former_epoch_that_alternates_for_a_rival() -> None:
    """It speaks at 1.5, 2.5 and 3.5 s: it lives, so nothing is sent until 10 s after that."""
    member = of_a_copy()
    assert receive(member, 1.5) is Verdict.STALE
    assert receive(member, 2.0, learner_id=2, epoch=2) is Verdict.KNOWN
    assert receive(member, 2.5) is Verdict.STALE
    assert member.sends(2.5)
    assert receive(member, 3.0, learner_id=2, epoch=2) is Verdict.KNOWN
    assert receive(member, 3.5) is Verdict.RIVAL
    assert member.contested(3.5)
    assert not member.sends(3.5)
    assert receive(member, 13.4, learner_id=2, epoch=2) is Verdict.KNOWN
    assert not member.sends(13.4)
    assert member.sends(13.5)


def test_tracker_takes_queued_beacons_of_a_dead_learner_for_no_rival() -> None:
    """Many may come at once, or a few a second later, but not again and again."""
    member = of_a_copy()
    for _ in range(60):
        assert receive(member, 1.1) is Verdict.STALE
        assert receive(member, 1.1, learner_id=2, epoch=2) is Verdict.KNOWN
    assert receive(member, 2.0) is Verdict.STALE
    assert receive(member, 2.1) is Verdict.STALE
    assert member.sends(2.1)


def test_tracker_takes_a_former_epoch_every_ten_seconds_for_no_rival() -> None:
    """Messages so far apart do not alternate."""
    member = of_a_copy()
    for now in range(2, 60):
        late = now % 10 == 0
        assert receive(member, now, **({} if late else {"learner_id": 2, "epoch": 2})) is (
            Verdict.STALE if late else Verdict.KNOWN
        )


def test_tracker_never_sends_to_a_former_epoch_alone() -> None:
    """The followed learner spoke last at 1 s; after 8 s the connection is rebuilt."""
    member = of_a_copy()
    for now in range(2, 9):
        assert receive(member, float(now)) is Verdict.STALE
        assert member.outlived(now) == (now >= 4)
    assert not member.sends(9.0)
    assert due(member, 9.0) is Action.REBUILD
    receive(member, 9.5, learner_id=2, epoch=2)
    assert not member.outlived(9.5)


def test_tracker_takes_a_learner_back_after_10_seconds_for_no_rival() -> None:
    """A user stopped one run, started another, and then the first again."""
    member = joined()
    receive(member, 1.0, run="b", learner_id=2)
    assert receive(member, 11.5) is Verdict.NEW_RUN


def test_tracker_never_goes_back_within_a_run() -> None:
    """Its former epochs stay stale after another run was followed, and so do older weights."""
    member = joined()
    receive(member, 1.0, learner_id=2, epoch=2)
    member.take("a", Version(2, 5), NOW)
    receive(member, 2.0, run="b", learner_id=3)
    assert receive(member, 20.0, learner_id=1, epoch=1) is Verdict.STALE
    assert receive(member, 20.0, learner_id=2, epoch=2) is Verdict.NEW_RUN
    assert not member.take("a", Version(2, 4), NOW)
    assert member.take("a", Version(2, 5), NOW)


def test_tracker_remembers_a_bounded_count_of_runs() -> None:
    """A run forgotten long ago is as good as new."""
    member = joined()
    receive(member, 1.0, learner_id=2, epoch=2)
    for number in range(100):
        assert (
            receive(member, 20.0 * (number + 1), run=f"r{number}", learner_id=number + 3)
            is Verdict.NEW_RUN
        )
    assert receive(member, 3000.0, learner_id=1, epoch=1) is Verdict.NEW_RUN


def test_tracker_takes_only_newer_weights() -> None:
    """By epoch, then by number: a rolled-back learner repeats numbers in a higher epoch."""
    member = joined()
    assert member.take("a", Version(1, 7), NOW)
    assert not member.take("a", Version(1, 7), NOW)
    assert not member.take("a", Version(1, 6), NOW)
    assert not member.take("b", Version(9, 9), NOW)
    receive(member, 1.0, learner_id=2, epoch=2, version=3)
    assert not member.take("a", Version(1, 8), NOW)
    assert member.take("a", Version(2, 3), NOW)


def test_tracker_takes_weights_of_a_newer_epoch_before_its_beacon() -> None:
    """They are taken; the beacon still tells that the learner was started again."""
    member = joined()
    assert member.take("a", Version(2, 0), NOW)
    assert receive(member, 1.0, learner_id=2, epoch=2) is Verdict.NEWER
    assert member.held == Version(2, 0)


def test_tracker_asks_after_being_a_second_behind() -> None:
    """A version that a beacon named has not come; when it comes, there is nothing to ask."""
    member = joined()
    receive(member, 1.0, version=4)
    acknowledge(member, 1.0)
    assert due(member, 1.9) is Action.NOTHING
    assert due(member, 2.0) is Action.ASK
    member.take("a", Version(1, 4), NOW)
    assert due(member, 2.0) is Action.NOTHING


def test_tracker_times_each_version_by_itself() -> None:
    """With frequent versions, each must be a second late by itself."""
    member = joined()
    receive(member, 1.0, version=4)
    member.take("a", Version(1, 4), NOW)
    receive(member, 1.9, version=5)
    assert due(member, 2.5) is Action.NOTHING


def test_tracker_counts_a_policys_age_from_the_first_newer_version() -> None:
    """Version 4 is announced at 1.0 s and 5 at 8.5 s; neither comes until one arrives at 9.5 s."""
    member = joined()
    assert member.outdated_s(0.5) == 0
    for now, version in ((1.0, 4), (3.5, 4), (6.0, 4), (8.5, 5)):
        receive(member, now, version=version)
    assert member.outdated_s(9.5) == 8.5
    member.take("a", Version(1, 4), NOW)
    assert member.outdated_s(9.5) == 0


def test_tracker_counts_the_age_on_after_a_snapshot_of_old_weights() -> None:
    """It came at 3.0 s with the version already held; the next request waits for 2 s."""
    member = joined()
    receive(member, 1.0, version=4)
    acknowledge(member, 1.0)
    assert due(member, 2.0) is Action.ASK
    member.ask(2.0)
    receive(member, 3.0, version=4)
    acknowledge(member, 3.0)
    assert not member.take("a", Version(1, 0), NOW)
    assert member.arrived(2)
    assert member.outdated_s(3.5) == 2.5
    assert due(member, 3.5) is Action.NOTHING
    assert due(member, 4.0) is Action.ASK


def test_tracker_counts_no_age_while_the_learner_is_silent() -> None:
    """Version 4 is announced at 1.0 s; silence lasts to 21.0 s; at 22.0 s one second counts."""
    member = joined()
    receive(member, 1.0, version=4)
    assert member.outdated_s(9.5) == 0
    receive(member, 21.0, version=4)
    assert member.outdated_s(22.0) == 1


def test_tracker_counts_no_age_while_the_learner_restores() -> None:
    """It has nothing newer to offer until its replay is rebuilt: from 1.0 to 50.0 s here."""
    member = joined()
    for now in range(1, 51):
        receive(member, float(now), learner_id=2, epoch=2, version=7, state=State.RESTORING)
    assert member.outdated_s(50.0) == 0
    receive(member, 51.0, learner_id=2, epoch=2, version=7)
    assert member.outdated_s(53.0) == 2


def test_tracker_does_not_ask_again_before_the_learner_is_there() -> None:
    """The subscription comes with the connection, so first contact needs no request."""
    member = tracker()
    assert due(member, 5.0) is Action.NOTHING
    receive(member, 6.0)
    assert due(member, 6.1) is Action.NOTHING
    assert member.nonce == 1
    receive(member, 8.0)
    assert due(member, 8.0) is Action.ASK


def test_tracker_asks_for_a_missing_snapshot_more_and_more_slowly() -> None:
    """After 2, 4, then 8 s: weights that take long to come must not be queued again and again."""
    member = joined()
    member.ask(0.0)
    asked = []
    for tenth in range(1, 300):
        now = tenth / 10
        receive(member, now)
        acknowledge(member, now)
        if due(member, now) is Action.ASK:
            asked.append(now)
            member.ask(now)
    assert asked == [2.0, 6.0, 14.0, 22.0]


def test_tracker_accepts_only_the_latest_nonce() -> None:
    """A late answer to an earlier question is none; a hello names the one that came."""
    member = joined()
    member.ask(1.0)
    member.ask(2.0)
    assert not member.arrived(2)
    assert member.arrived(3)
    assert (member.nonce, member.confirmed) == (None, 3)
    assert not member.arrived(3)


def test_tracker_asks_at_first_contact_if_it_did_not_before() -> None:
    """A connection that did not subscribe beforehand is told to."""
    member = LearnerTracker(count(1).__next__)
    member.connected(0.0)
    receive(member, 1.0)
    assert due(member, 1.0) is Action.ASK


def test_tracker_asks_after_beacons_without_its_acknowledgement() -> None:
    """After 3 s the learner does not seem to know us; while it restores, it cannot."""
    member = joined()
    for now in (1.0, 2.0, 2.9):
        receive(member, now)
    assert due(member, 2.9) is Action.NOTHING
    receive(member, 3.1, state=State.RESTORING)
    assert due(member, 3.1) is Action.NOTHING
    receive(member, 3.2)
    assert due(member, 3.2) is Action.ASK
    acknowledge(member, 3.2)
    assert due(member, 3.2) is Action.NOTHING


def test_tracker_does_not_count_silence_as_missing_acknowledgements() -> None:
    """When the learner is heard again after a silence, it has 3 s to name us."""
    member = joined()
    receive(member, 7.0)
    assert due(member, 7.0) is Action.NOTHING


def test_tracker_rebuilds_a_silent_connection_more_and_more_slowly() -> None:
    """After 8 s, then 16, then every 32."""
    member = joined()
    rebuilt = []
    for now in range(1, 130):
        if due(member, float(now)) is Action.REBUILD:
            rebuilt.append(now)
            member.connected(float(now))
            member.ask(float(now))
    assert rebuilt == [8, 24, 56, 88, 120]


def test_tracker_resets_its_patience_when_a_rebuilt_connection_works() -> None:
    """Hearing something ends the growing."""
    member = joined()
    member.connected(8.0)
    member.connected(24.0)
    receive(member, 25.0)
    assert due(member, 25.0) is not Action.REBUILD
    assert due(member, 32.9) is not Action.REBUILD
    assert due(member, 33.0) is Action.REBUILD


def test_tracker_judges_silence_only_after_the_feed_was_drained() -> None:
    """A process that slept has not read, and what is unread is not silence."""
    member = joined()
    assert due(member, 100.0, drained=False) is Action.NOTHING
    receive(member, 100.0)
    assert due(member, 100.0) is not Action.REBUILD


def test_tracker_rebuilds_without_acknowledgements_despite_beacons() -> None:
    """One direction may be dead: 8 s after the last answer, unless the learner restores."""
    member = joined()
    for now in range(1, 9):
        receive(member, float(now), state=State.RESTORING)
        acknowledge(member, float(now))
    assert due(member, 8.5, unanswered_since=0.5) is Action.NOTHING
    receive(member, 8.5)
    assert due(member, 8.5, unanswered_since=0.75) is Action.NOTHING
    assert due(member, 8.5, unanswered_since=0.5) is Action.REBUILD


def test_tracker_sends_only_to_a_learner_seen_lately() -> None:
    """Else they would pile up in a socket."""
    member = joined()
    assert member.sends(7.9)
    assert not member.sends(8.0)
