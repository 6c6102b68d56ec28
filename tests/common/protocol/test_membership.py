"""Whom an actor obeys, when it asks and rebuilds; how a learner answers those who ask, and keeps its roster."""

from itertools import count

import pytest

from farflung.common.data.spec import Graph, Space, Spec, World
from farflung.common.data.version import Version
from farflung.common.protocol.learner_tracker import Action, LearnerTracker, Verdict
from farflung.common.protocol.messages import Announcement, Beacon, State
from farflung.common.protocol.roster import Member, Presence, Roster
from farflung.common.protocol.snapshots import WAITING, Snapshots


def tracker(now: float = 0.0) -> LearnerTracker:
    """An actor's that was just connected and asks under nonce 1; later nonces count up."""
    member = LearnerTracker(count(1).__next__)
    member.connected(now)
    member.ask(now)
    return member


def joined(now: float = 0.0) -> LearnerTracker:
    """One that obeys life 1 of the run `a` in epoch 1, holds version 1.0 and has its line."""
    member = tracker(now)
    assert hear(member, now) is Verdict.FIRST
    assert member.take("a", Version(1, 0))
    assert member.arrived(1)
    member.line(now)
    return member


def hear(
    member: LearnerTracker,
    now: float,
    run: str = "a",
    life: int = 1,
    epoch: int = 1,
    version: int = 0,
    state: State = State.RUN,
) -> Verdict:
    """Let it hear a beacon."""
    return member.beacon(
        Beacon(run, "default", life, Version(epoch, version), 0, 0, state, ()), now
    )


def due(
    member: LearnerTracker, now: float, unanswered_since: float | None = None, drained: bool = True
) -> Action:
    """What it wants, of an outbox with nothing to answer unless said otherwise."""
    return member.due(now, drained=drained, unanswered_since=unanswered_since)


# ---- whom to obey


def test_the_first_learner_is_obeyed() -> None:
    """Its run, life and epoch are taken over."""
    member = tracker()
    assert not member.sends(0.0)
    assert hear(member, 1.0, life=5, epoch=3) is Verdict.FIRST
    assert (member.run, member.life, member.epoch) == ("a", 5, 3)
    assert member.sends(1.0)
    assert hear(member, 2.0, life=5, epoch=3) is Verdict.KNOWN


def test_an_announcement_is_judged_like_a_beacon() -> None:
    """Whichever comes first."""
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


def test_a_newer_epoch_is_obeyed_and_an_older_one_is_stale() -> None:
    """A learner that was started again counts; what its former life still says does not, however long it says it."""
    member = joined()
    assert hear(member, 1.0, life=2, epoch=2) is Verdict.NEWER
    assert not hear(member, 1.5).obeyed
    assert hear(member, 30.0) is Verdict.STALE
    assert hear(member, 30.0, life=2, epoch=2) is Verdict.KNOWN
    assert not member.contested(30.0)


def test_a_newer_epoch_asks_for_a_fresh_snapshot() -> None:
    """In place of one that the former life was asked for."""
    member = joined()
    member.ask(0.5)
    hear(member, 1.0, life=2, epoch=2)
    assert due(member, 1.0) is Action.ASK
    assert not member.arrived(2)


def test_a_new_run_is_obeyed_and_begins_without_weights() -> None:
    """Its version numbers have nothing to do with those before."""
    member = joined()
    member.take("a", Version(1, 9))
    assert hear(member, 1.0, run="b", life=2) is Verdict.NEW_RUN
    assert (member.run, member.held) == ("b", None)
    assert due(member, 1.0) is Action.ASK
    assert not member.take("a", Version(1, 10))
    assert member.take("b", Version(1, 0))


def test_two_learners_in_turns_are_rivals() -> None:
    """They are named, nothing is sent and nothing judged until one is silent for 10 s; ours goes on to be obeyed."""
    member = joined()
    assert hear(member, 1.0, run="b", life=2) is Verdict.NEW_RUN
    assert hear(member, 2.0) is Verdict.RIVAL
    assert not Verdict.RIVAL.obeyed
    assert member.contested(2.0)
    assert not member.sends(2.0)
    assert due(member, 2.0) is Action.NOTHING
    assert hear(member, 11.0, run="b", life=2) is Verdict.KNOWN
    assert member.sends(12.1)
    assert not member.contested(12.1)


def test_the_rival_that_is_left_wins() -> None:
    """Also if it is the one that was not obeyed."""
    member = joined()
    hear(member, 1.0, run="b", life=2)
    for now in range(2, 11):
        assert hear(member, float(now)) is Verdict.RIVAL
    assert hear(member, 11.5) is Verdict.NEW_RUN
    assert (member.run, member.sends(11.5)) == ("a", True)


def test_a_third_learner_waits_while_two_are_rivals() -> None:
    """Whoever it is."""
    member = joined()
    hear(member, 1.0, run="b", life=2)
    hear(member, 2.0)
    assert hear(member, 3.0, run="c", life=3) is Verdict.RIVAL


def test_two_lives_of_one_epoch_are_rivals_too() -> None:
    """Nothing says which is the later one; a learner that came back with the epoch it had is taken as started again."""
    member = joined()
    assert hear(member, 1.0, life=2) is Verdict.NEWER
    assert hear(member, 2.0, life=1) is Verdict.RIVAL


def of_a_copy() -> LearnerTracker:
    """It obeyed life 1 of epoch 1, and at 1 s life 2 of epoch 2: the learner was started again, or a copy of its folder was."""
    member = joined()
    assert hear(member, 1.0, life=2, epoch=2) is Verdict.NEWER
    return member


def test_a_former_epoch_that_speaks_on_in_turns_is_a_rival() -> None:
    """At 1.5, 2.5 and 3.5 s, with ours between: it lives. Nothing is sent until 10 s after its last word; ours goes on to be obeyed."""
    member = of_a_copy()
    assert hear(member, 1.5) is Verdict.STALE
    assert hear(member, 2.0, life=2, epoch=2) is Verdict.KNOWN
    assert hear(member, 2.5) is Verdict.STALE
    assert member.sends(2.5)
    assert hear(member, 3.0, life=2, epoch=2) is Verdict.KNOWN
    assert hear(member, 3.5) is Verdict.RIVAL
    assert member.contested(3.5)
    assert not member.sends(3.5)
    assert hear(member, 13.4, life=2, epoch=2) is Verdict.KNOWN
    assert not member.sends(13.4)
    assert member.sends(13.5)


def test_late_words_of_a_dead_life_are_no_rival() -> None:
    """However many were queued, in one go; or a second later, or by another way a few more, but not again and again."""
    member = of_a_copy()
    for _ in range(60):
        assert hear(member, 1.1) is Verdict.STALE
        assert hear(member, 1.1, life=2, epoch=2) is Verdict.KNOWN
    assert hear(member, 2.0) is Verdict.STALE
    assert hear(member, 2.1) is Verdict.STALE
    assert member.sends(2.1)


def test_a_former_epoch_once_in_ten_seconds_is_no_rival() -> None:
    """What is so far apart does not alternate."""
    member = of_a_copy()
    for now in range(2, 60):
        late = now % 10 == 0
        assert hear(member, now, **({} if late else {"life": 2, "epoch": 2})) is (
            Verdict.STALE if late else Verdict.KNOWN
        )


def test_a_former_epoch_alone_is_named_and_never_sent_to() -> None:
    """Ours spoke last at 1 s: it falls silent although somebody speaks, and after 8 s the connection is made anew."""
    member = of_a_copy()
    for now in range(2, 9):
        assert hear(member, float(now)) is Verdict.STALE
        assert member.outlived(now) == (now >= 4)
    assert not member.sends(9.0)
    assert due(member, 9.0) is Action.REBUILD
    hear(member, 9.5, life=2, epoch=2)
    assert not member.outlived(9.5)


def test_a_learner_that_comes_back_after_10_seconds_is_no_rival() -> None:
    """Somebody stopped one run and started another, and then the first again."""
    member = joined()
    hear(member, 1.0, run="b", life=2)
    assert hear(member, 11.5) is Verdict.NEW_RUN


def test_a_run_that_comes_back_does_not_go_back() -> None:
    """A former life of it is stale even when another run was obeyed in between, and so are weights older than those held then."""
    member = joined()
    hear(member, 1.0, life=2, epoch=2)
    member.take("a", Version(2, 5))
    hear(member, 2.0, run="b", life=3)
    assert hear(member, 20.0, life=1, epoch=1) is Verdict.STALE
    assert hear(member, 20.0, life=2, epoch=2) is Verdict.NEW_RUN
    assert not member.take("a", Version(2, 4))
    assert member.take("a", Version(2, 5))


def test_runs_are_remembered_up_to_a_bound() -> None:
    """Long-forgotten ones are as good as new."""
    member = joined()
    hear(member, 1.0, life=2, epoch=2)
    for number in range(100):
        assert (
            hear(member, 20.0 * (number + 1), run=f"r{number}", life=number + 3) is Verdict.NEW_RUN
        )
    assert hear(member, 3000.0, life=1, epoch=1) is Verdict.NEW_RUN


# ---- versions


def test_weights_only_go_forward() -> None:
    """By epoch, then by number: a rolled-back learner repeats numbers in a higher epoch."""
    member = joined()
    assert member.take("a", Version(1, 7))
    assert not member.take("a", Version(1, 7))
    assert not member.take("a", Version(1, 6))
    assert not member.take("b", Version(9, 9))
    hear(member, 1.0, life=2, epoch=2, version=3)
    assert not member.take("a", Version(1, 8))
    assert member.take("a", Version(2, 3))


def test_weights_of_a_newer_epoch_may_come_before_its_beacon() -> None:
    """They are taken; the beacon still tells that the learner was started again."""
    member = joined()
    assert member.take("a", Version(2, 0))
    assert hear(member, 1.0, life=2, epoch=2) is Verdict.NEWER
    assert member.held == Version(2, 0)


def test_an_actor_behind_for_a_second_asks() -> None:
    """A version that a beacon named has not come; when it comes, there is nothing to ask."""
    member = joined()
    hear(member, 1.0, version=4)
    member.line(1.0)
    assert due(member, 1.9) is Action.NOTHING
    assert due(member, 2.0) is Action.ASK
    member.take("a", Version(1, 4))
    assert due(member, 2.0) is Action.NOTHING


def test_being_behind_a_later_version_is_not_being_behind_for_long() -> None:
    """Where versions come fast, each must be a second late by itself."""
    member = joined()
    hear(member, 1.0, version=4)
    member.take("a", Version(1, 4))
    hear(member, 1.9, version=5)
    assert due(member, 2.5) is Action.NOTHING


def test_a_policy_is_as_old_as_a_newer_one_is_known() -> None:
    """Version 4 is announced at 1.0 and 5 at 8.5, and neither comes: at 9.5 the policy is 8.5 s old. When one of them comes it is not."""
    member = joined()
    assert member.outdated_s(0.5) == 0
    for now, version in ((1.0, 4), (3.5, 4), (6.0, 4), (8.5, 5)):
        hear(member, now, version=version)
    assert member.outdated_s(9.5) == 8.5
    member.take("a", Version(1, 4))
    assert member.outdated_s(9.5) == 0


def test_a_snapshot_with_old_weights_makes_no_policy_newer() -> None:
    """It came at 3.0, with what is held already: the age counts on, and the next question waits for 2 s."""
    member = joined()
    hear(member, 1.0, version=4)
    member.line(1.0)
    assert due(member, 2.0) is Action.ASK
    member.ask(2.0)
    hear(member, 3.0, version=4)
    member.line(3.0)
    assert not member.take("a", Version(1, 0))
    assert member.arrived(2)
    assert member.outdated_s(3.5) == 2.5
    assert due(member, 3.5) is Action.NOTHING
    assert due(member, 4.0) is Action.ASK


def test_a_policy_does_not_age_while_its_learner_is_not_heard() -> None:
    """Version 4 is announced at 1.0; silence from then to 21.0; at 22.0 one second of hearing it counts."""
    member = joined()
    hear(member, 1.0, version=4)
    assert member.outdated_s(9.5) == 0
    hear(member, 21.0, version=4)
    assert member.outdated_s(22.0) == 1


def test_a_policy_does_not_age_while_its_learner_restores() -> None:
    """It has nothing newer to give until it has made its replay again: from 1.0 to 50.0 here."""
    member = joined()
    for now in range(1, 51):
        hear(member, float(now), life=2, epoch=2, version=7, state=State.RESTORING)
    assert member.outdated_s(50.0) == 0
    hear(member, 51.0, life=2, epoch=2, version=7)
    assert member.outdated_s(53.0) == 2


# ---- asking


def test_what_is_subscribed_before_the_learner_is_there_stands() -> None:
    """Nothing is asked again while nobody is heard, nor at first contact: the subscription comes with the connection."""
    member = tracker()
    assert due(member, 5.0) is Action.NOTHING
    hear(member, 6.0)
    assert due(member, 6.1) is Action.NOTHING
    assert member.nonce == 1
    hear(member, 8.0)
    assert due(member, 8.0) is Action.ASK


def test_a_snapshot_that_does_not_come_is_asked_for_more_and_more_slowly() -> None:
    """After 2, 4, then 8 seconds: weights that take long to come must not be queued again and again."""
    member = joined()
    member.ask(0.0)
    asked = []
    for tenth in range(1, 300):
        now = tenth / 10
        hear(member, now)
        member.line(now)
        if due(member, now) is Action.ASK:
            asked.append(now)
            member.ask(now)
    assert asked == [2.0, 6.0, 14.0, 22.0]


def test_only_the_latest_nonce_counts() -> None:
    """A late answer to an earlier question is none; a hello names the one that came."""
    member = joined()
    member.ask(1.0)
    member.ask(2.0)
    assert not member.arrived(2)
    assert member.arrived(3)
    assert (member.nonce, member.confirmed) == (None, 3)
    assert not member.arrived(3)


def test_first_contact_without_having_asked_asks() -> None:
    """A link that did not subscribe beforehand is told to."""
    member = LearnerTracker(count(1).__next__)
    member.connected(0.0)
    hear(member, 1.0)
    assert due(member, 1.0) is Action.ASK


def test_beacons_without_our_line_make_us_ask() -> None:
    """After 3 s the learner does not seem to know us; while it restores, it cannot."""
    member = joined()
    for now in (1.0, 2.0, 2.9):
        hear(member, now)
    assert due(member, 2.9) is Action.NOTHING
    hear(member, 3.1, state=State.RESTORING)
    assert due(member, 3.1) is Action.NOTHING
    hear(member, 3.2)
    assert due(member, 3.2) is Action.ASK
    member.line(3.2)
    assert due(member, 3.2) is Action.NOTHING


def test_the_time_without_anybody_is_not_a_time_without_a_line() -> None:
    """When the learner is heard again after a silence, it has 3 s to name us."""
    member = joined()
    hear(member, 7.0)
    assert due(member, 7.0) is Action.NOTHING


# ---- rebuilding


def test_silence_rebuilds_the_connection_more_and_more_slowly() -> None:
    """After 8 s, then 16, then every 32."""
    member = joined()
    rebuilt = []
    for now in range(1, 130):
        if due(member, float(now)) is Action.REBUILD:
            rebuilt.append(now)
            member.connected(float(now))
            member.ask(float(now))
    assert rebuilt == [8, 24, 56, 88, 120]


def test_a_rebuilt_connection_that_works_is_as_patient_as_the_first() -> None:
    """Hearing something ends the growing."""
    member = joined()
    member.connected(8.0)
    member.connected(24.0)
    hear(member, 25.0)
    assert due(member, 25.0) is not Action.REBUILD
    assert due(member, 32.9) is not Action.REBUILD
    assert due(member, 33.0) is Action.REBUILD


def test_silence_is_judged_only_after_the_feed_was_read() -> None:
    """A process that slept has not read, and what is unread is not silence."""
    member = joined()
    assert due(member, 100.0, drained=False) is Action.NOTHING
    hear(member, 100.0)
    assert due(member, 100.0) is not Action.REBUILD


def test_no_acknowledgement_while_beacons_come_rebuilds() -> None:
    """One direction may be dead: 8 s after the last answer; but a learner that restores may take its time."""
    member = joined()
    for now in range(1, 9):
        hear(member, float(now), state=State.RESTORING)
        member.line(float(now))
    assert due(member, 8.5, unanswered_since=0.5) is Action.NOTHING
    hear(member, 8.5)
    assert due(member, 8.5, unanswered_since=0.75) is Action.NOTHING
    assert due(member, 8.5, unanswered_since=0.5) is Action.REBUILD


def test_parcels_go_only_where_somebody_was_heard_lately() -> None:
    """Else they would pile up in a socket."""
    member = joined()
    assert member.sends(7.9)
    assert not member.sends(8.0)


# ---- snapshots


def topic(actor: str, nonce: int = 1) -> str:
    """A private topic."""
    return f"z/default/{actor}/7/{nonce}"


def test_snapshots_are_given_in_order_two_at_a_time() -> None:
    """The third waits until one is confirmed."""
    snapshots = Snapshots()
    for actor in "abc":
        assert snapshots.ask(topic(actor))
    assert (snapshots.next(0.0), snapshots.next(0.0), snapshots.next(0.0)) == (
        topic("a"),
        topic("b"),
        None,
    )
    snapshots.confirm(topic("b"))
    assert (snapshots.next(0.1), snapshots.next(0.1)) == (topic("c"), None)


@pytest.mark.parametrize(
    ("message_bytes", "at_once"), [(1000, 32), (1 << 20, 32), (10 << 20, 3), (100 << 20, 2)]
)
def test_small_snapshots_are_under_way_to_many(message_bytes: int, at_once: int) -> None:
    """32 MiB of them, but at most 32 and at least two."""
    snapshots = Snapshots()
    snapshots.fit(message_bytes)
    for number in range(40):
        assert snapshots.ask(f"z/default/box-{number}/1/1")
    assert sum(snapshots.next(0.0) is not None for _ in range(40)) == at_once


def test_an_unconfirmed_snapshot_counts_for_two_seconds() -> None:
    """Then its asker is on its own: it asks again."""
    snapshots = Snapshots()
    for actor in "abc":
        snapshots.ask(topic(actor))
    snapshots.next(0.0)
    snapshots.next(1.0)
    assert (snapshots.next(1.9), snapshots.next(2.0), snapshots.next(2.0)) == (
        None,
        topic("c"),
        None,
    )


def test_an_asker_waits_once() -> None:
    """A fresh nonce takes the place of the one before; a subscription that goes leaves the queue."""
    snapshots = Snapshots()
    snapshots.ask(topic("a"))
    snapshots.ask(topic("b"))
    snapshots.ask(topic("a", 2))
    snapshots.confirm(topic("a", 1))
    snapshots.confirm(topic("b"))
    assert (snapshots.next(0.0), snapshots.next(0.0)) == (topic("a", 2), None)


def test_the_queue_is_bounded() -> None:
    """Whoever is turned away asks again by itself; whoever waits may still change the nonce."""
    snapshots = Snapshots()
    assert all(snapshots.ask(topic(str(number))) for number in range(WAITING))
    assert not snapshots.ask(topic("more"))
    assert snapshots.ask(topic("5", 2))


# ---- the roster


def places(roster: Roster) -> list[tuple[str, int, int]]:
    """Everybody's place."""
    return [(member.actor, member.index, member.start) for member in roster]


def test_indexes_follow_the_order_of_joining() -> None:
    """The same life has the same place however often it asks."""
    roster = Roster()
    for actor in ("b", "a", "b"):
        roster.join(actor, 7, 0.0)
    assert places(roster) == [("b", 0, 0), ("a", 1, 0)]


def test_a_restarted_actor_keeps_its_index_and_starts_once_more() -> None:
    """So that it does not repeat its random streams."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    assert roster.join("a", 8, 1.0).start == 1
    assert places(roster) == [("a", 0, 1)]


def test_the_index_of_one_who_left_is_given_out_again() -> None:
    """With another start: no two lives share a place. Who comes back later gets a free one."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    roster.join("b", 7, 0.0)
    roster.leave("a", 7)
    assert (roster.join("c", 7, 1.0).index, roster.join("c", 7, 1.0).start) == (0, 1)
    roster.join("a", 7, 2.0)
    assert places(roster) == [("c", 0, 1), ("b", 1, 0), ("a", 2, 0)]


def test_presence_in_a_word() -> None:
    """Joining until it speaks; silent after 8 s, or three times its longest step; left when it says so; back when it speaks."""
    roster = Roster()
    member = roster.join("a", 7, 0.0)
    assert member.presence(1.0) is Presence.JOINING
    roster.hear("a", 7, 2.0, longest_step_s=5.0)
    assert [member.presence(now) for now in (3.0, 16.9, 17.0)] == [
        Presence.ACTIVE,
        Presence.ACTIVE,
        Presence.SILENT,
    ]
    assert (roster.present(16.9), roster.present(17.0)) == (1, 0)
    roster.leave("a", 7)
    assert member.presence(3.0) is Presence.LEFT
    roster.hear("a", 7, 18.0)
    assert member.presence(18.0) is Presence.ACTIVE
    assert Member("b", 7, 1, 0, 0.0).presence(8.0) is Presence.SILENT


def test_a_late_word_of_a_former_life_changes_nothing() -> None:
    """Neither its place nor its presence."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    roster.join("a", 8, 1.0)
    roster.hear("a", 7, 5.0)
    roster.leave("a", 7)
    assert [(member.incarnation, member.heard_at, member.left) for member in roster] == [
        (8, 1.0, False)
    ]


def test_an_actor_that_speaks_without_having_joined_is_a_member() -> None:
    """The learner was started again and knows it no more."""
    roster = Roster()
    roster.hear("a", 7, 0.0)
    assert places(roster) == [("a", 0, 0)]


def test_a_roster_outlives_its_learner() -> None:
    """Places stand, starts go on, and everybody has as long as ever to be heard."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    roster.join("b", 7, 0.0)
    again = Roster.restore(roster.state(), 100.0)
    assert again.join("c", 7, 105.0).index == 2
    assert (again.join("a", 7, 105.0).start, again.join("b", 8, 105.0).start) == (0, 1)
    assert again.present(105.0) == 3


def test_the_place_of_one_who_fell_silent_is_found_while_a_crowd_joins() -> None:
    """A hundred names in each second: after eight the first hundred are silent; from then on indexes are given anew, in order."""
    roster = Roster()
    indexes = [roster.join(f"actor{number}", 7, number // 100).index for number in range(1100)]
    assert indexes == [*range(800), *range(300)]


def test_a_crowd_costs_no_more_for_each_name_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of names must not hold up the thread that reads them: each is looked at about once, not once for each that follows."""
    looks = count()
    presence = Member.presence
    monkeypatch.setattr(
        Member, "presence", lambda member, now: (next(looks), presence(member, now))[1]
    )
    roster = Roster()
    for number in range(2000):
        roster.join(f"actor{number}", 7, 0.0)
    assert [member.index for member in roster] == list(range(2000))
    assert next(looks) <= 4000


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_no_place_is_ever_given_out_twice(order: tuple[int, ...]) -> None:
    """Over many joins, departures and restarts."""
    roster, seen = Roster(), set()
    for number in range(60):
        actor = f"actor{order[number % 3]}"
        member = roster.join(actor, number, float(number))
        seen.add((member.index, member.start))
        if number % 4 == 0:
            roster.leave(actor, number)
        if number % 7 == 0:
            roster = Roster.restore(roster.state(), float(number))
    assert len(seen) == 60
