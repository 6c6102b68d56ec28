"""The roster of actors."""

from itertools import count

import pytest

from farflung.common.protocol.roster import SILENT_S, Member, Presence, Roster


def places(roster: Roster) -> list[tuple[str, int, int]]:
    """Return the places of all members."""
    return [(member.actor, member.index, member.start) for member in roster]


def test_roster_numbers_actors_in_the_order_of_joining() -> None:
    """The same incarnation has the same place however often it asks."""
    roster = Roster()
    for actor in ("b", "a", "b"):
        roster.join(actor, 7, 0.0)
    assert places(roster) == [("b", 0, 0), ("a", 1, 0)]


def test_roster_keeps_the_index_of_a_restarted_actor() -> None:
    """So that it does not repeat its random streams."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    assert roster.join("a", 8, 1.0).start == 1
    assert places(roster) == [("a", 0, 1)]


def test_roster_reuses_the_index_of_an_actor_that_left() -> None:
    """It has another start, so no two incarnations share a place; a late return gets a free one."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    roster.join("b", 7, 0.0)
    roster.leave("a", 7)
    assert (roster.join("c", 7, 1.0).index, roster.join("c", 7, 1.0).start) == (0, 1)
    roster.join("a", 7, 2.0)
    assert places(roster) == [("c", 0, 1), ("b", 1, 0), ("a", 2, 0)]


def test_roster_names_the_presence_of_an_actor() -> None:
    """Joining until it speaks; silent after 8 s or three longest steps; left if it says so."""
    roster = Roster()
    member = roster.join("a", 7, 0.0)
    assert member.presence(1.0) is Presence.JOINING
    roster.note_message("a", 7, 2.0, longest_step_s=5.0, has_parcels=True)
    assert [member.presence(now) for now in (3.0, 16.9, 17.0)] == [
        Presence.ACTIVE,
        Presence.ACTIVE,
        Presence.SILENT,
    ]
    assert (member.is_there(16.9), member.is_there(17.0)) == (True, False)
    roster.leave("a", 7)
    assert member.presence(3.0) is Presence.LEFT
    roster.note_message("a", 7, 18.0)
    assert member.presence(18.0) is Presence.ACTIVE
    assert Member("b", 7, 1, 0, 0.0).presence(8.0) is Presence.SILENT


def test_roster_ignores_a_late_message_of_a_former_incarnation() -> None:
    """Neither its place nor its presence changes."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    roster.join("a", 8, 1.0)
    roster.note_message("a", 7, 5.0)
    roster.leave("a", 7)
    assert [(member.incarnation, member.seen_at, member.left) for member in roster] == [
        (8, 1.0, False)
    ]


def test_roster_takes_in_an_actor_that_speaks_without_having_joined() -> None:
    """The learner was started again and knows it no more: it has a place from a parcel on."""
    roster = Roster()
    roster.note_message("a", 7, 0.0)
    roster.note_message("b", 7, 0.0, has_parcels=True)
    assert places(roster) == [("b", 0, 0), ("a", -1, 0)]


def test_names_that_only_speak_take_no_index() -> None:
    """However many there are, and they are forgotten when they fall silent."""
    roster = Roster()
    for number in range(3000):
        roster.note_message(f"name-{number}", 7, 0.0)
    assert [roster.join(actor, 7, 1.0).index for actor in ("a", "b")] == [0, 1]
    roster.note_message("a", 7, 2.0, has_parcels=True)
    assert len(list(roster)) == 3002
    roster.note_message("a", 7, 10.0, has_parcels=True)
    assert places(roster) == [("a", 0, 0)]


def test_roster_gives_the_name_of_a_silent_incarnation_to_another() -> None:
    """An actor that was started again while the learner was away says hello, and asks nothing."""
    roster = Roster()
    roster.note_message("a", 7, 0.0, has_parcels=True)
    roster.note_message("a", 8, SILENT_S - 0.1)
    assert [member.incarnation for member in roster] == [7]
    roster.note_message("a", 8, SILENT_S)
    assert [(member.incarnation, member.index, member.start) for member in roster] == [(8, 0, 1)]


def test_roster_believes_no_step_of_hours() -> None:
    """A member that claims one is absent half an hour after its last word."""
    roster = Roster()
    roster.note_message("a", 7, 0.0, longest_step_s=1e300, has_parcels=True)
    (member,) = roster
    assert (member.is_there(1799.0), member.is_there(1800.0)) == (True, False)


def test_restored_roster_keeps_places_and_starts() -> None:
    """Places stand, starts go on, and each actor has the usual time to be heard."""
    roster = Roster()
    roster.note_message("a", 7, 0.0, has_parcels=True)
    roster.note_message("b", 7, 0.0, has_parcels=True)
    again = Roster.restore(roster.state(), 100.0)
    assert again.join("c", 7, 105.0).index == 2
    assert (again.join("a", 7, 105.0).start, again.join("b", 8, 105.0).start) == (0, 1)


def test_restored_roster_knows_the_actors_that_left() -> None:
    """An actor that said goodbye before a restart is not expected back; another one is."""
    roster = Roster()
    roster.note_message("gone", 7, 0.0, has_parcels=True)
    roster.note_message("there", 7, 0.0, has_parcels=True)
    roster.join("without a parcel", 7, 0.0)
    roster.leave("gone", 7)
    gone, there = Roster.restore(roster.state(), 100.0)
    assert (gone.presence(100.0), there.presence(100.0)) == (Presence.LEFT, Presence.JOINING)
    assert there.presence(100.0 + SILENT_S) is Presence.SILENT


def test_roster_reuses_silent_places_while_a_crowd_joins() -> None:
    """A hundred join each second; after eight the first are silent and their indexes are free."""
    roster = Roster()
    indexes = [roster.join(f"actor{number}", 7, number // 100).index for number in range(1100)]
    assert indexes == [*range(800), *range(300)]


def test_roster_looks_about_once_at_each_name_of_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of names must not hold up the thread that reads them."""
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
def test_roster_never_assigns_a_place_twice(order: tuple[int, ...]) -> None:
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


def test_roster_forgets_the_longest_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table is bounded however many names come and go; no place is given out twice."""
    monkeypatch.setattr("farflung.common.protocol.roster.ABSENT", 3)
    roster, seen = Roster(), set()
    for number in range(50):
        for other in range(5):
            name = f"actor-{number}-{other}"
            member = roster.join(name, 7, 10.0 * number)
            roster.note_message(name, 7, 10.0 * number, has_parcels=True)
            seen.add((member.index, member.start))
        assert len(list(roster)) <= 5 + 3
    assert len(seen) == 250


def test_forgotten_member_gives_its_index_back() -> None:
    """Another incarnation of its name stays."""
    roster = Roster()
    for actor in "ab":
        roster.join(actor, 7, 0.0)
    roster.forget("a", 8)
    roster.forget("b", 7)
    assert (roster.join("c", 7, 0.0).index, len(list(roster))) == (1, 2)


def test_evaluator_leaves_the_places_of_players_alone() -> None:
    """It joins first, and has the first index from 2 on."""
    roster = Roster()
    assert roster.join("evaluator", 7, 0.0, least=2).index == 2
    assert [roster.join(name, 7, 0.0).index for name in "ab"] == [0, 1]
    assert roster.join("another", 7, 0.0, least=2).index == 3


def test_actor_keeps_the_place_that_an_earlier_learner_gave_it() -> None:
    """A roster that does not know it yet follows its claim, unless another one is there."""
    roster = Roster()
    roster.join("b", 7, 0.0)
    for actor in ("a", "c"):
        roster.note_message(actor, 7, 0.0)
    assert roster.claim("a", 7, 3, 0.0)
    assert roster.claim("a", 7, 3, 1.0)
    assert not roster.claim("a", 7, 2, 1.0)
    assert not roster.claim("c", 7, 0, 1.0)
    assert not roster.claim("c", 8, 5, 1.0)
    assert not roster.claim("unknown", 7, 6, 1.0)
    assert places(roster) == [("b", 0, 0), ("a", 3, 0), ("c", -1, 0)]


def test_actor_joins_at_the_index_that_it_asks_for() -> None:
    """Unless another one that is there has it; then it has none, its own one neither."""
    roster = Roster()
    roster.join("a", 7, 0.0)
    assert roster.join_at("b", 7, 3, 0.0).index == 3
    assert roster.join_at("b", 7, 3, 1.0).start == 0
    assert roster.join_at("b", 7, 0, 1.0).index == -1
    assert roster.join_at("a", 7, 3, 1.0).index == 3
    assert roster.join_at("b", 7, 0, 1.0).index == 0
    assert places(roster) == [("b", 0, 1), ("a", 3, 1)]


def test_index_of_an_absent_actor_can_be_asked_for() -> None:
    """Of one that has left, has been silent for long, or is another start of the same name."""
    roster = Roster()
    for number, actor in enumerate("abc"):
        roster.join(actor, number, 0.0)
    roster.leave("a", 0)
    assert roster.join_at("d", 7, 0, 1.0).index == 0
    assert roster.join_at("b", 7, 1, 1.0).index == 1
    assert roster.join_at("e", 7, 2, SILENT_S).index == 2
    assert {member.start for member in roster} == {1}


def test_an_actor_that_is_met_keeps_the_place_of_its_name() -> None:
    """One that is new has none."""
    roster = Roster()
    assert roster.meet("a", 7, 0.0).index == -1
    roster.join("a", 7, 0.0)
    assert roster.meet("a", 7, 1.0).index == 0
    assert (roster.meet("a", 8, 1.0).index, roster.meet("a", 8, 1.0).start) == (0, 1)


def test_roster_tells_who_follows_whom_in_a_place() -> None:
    """Another start of a name, and another name once the first one has left; nothing else."""
    roster, told = Roster(), []
    roster.on_succession = lambda former, member: told.append(
        (former.actor, former.index, former.start, member.actor, member.index, member.start)
    )
    for actor in "ab":
        roster.join(actor, 7, 0.0)
        roster.note_message(actor, 7, 1.0, has_parcels=True)
        roster.join(actor, 7, 2.0)
    assert told == []
    roster.note_message("a", 8, 20.0)
    roster.join("a", 8, 20.0)
    roster.leave("b", 7)
    roster.join("c", 7, 21.0)
    assert told == [("a", 0, 0, "a", 0, 1), ("b", 1, 0, "c", 1, 1)]
