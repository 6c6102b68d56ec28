"""The names that peers open."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from farflung.common.net.keys import ACTOR, ANY_CLIENT, BROKER, Client
from farflung.common.process.errors import Refused
from farflung.common.protocol import names as names_module
from farflung.common.protocol.names import (
    ALL_OPENED,
    ALL_WORDS,
    FEW,
    FEW_WORDS,
    FORGOTTEN_S,
    OPENED,
    OPENED_PER_S,
    SILENT_S,
    UNTIL_SHARE,
    WITHOUT_PARCELS,
    WORDS,
    Key,
    Names,
)


def connection(number: int) -> Client:
    """Return a client without a key."""
    return Client("", BROKER, number)


def opened(names: Names, client: Client, count: int, now: float = 0.0, name: str = "x") -> int:
    """Return how many of so many new names a client could open."""
    refused = 0
    for number in range(count):
        try:
            names.note_message(client, (f"{name}{number}", round(now * 100)), now)
        except Refused as refusal:
            refused += refusal.reason == "names"
    return count - refused


def earn(names: Names, key: Key, rows: int = 8) -> None:
    """Bring as many parcels as a share takes."""
    for _ in range(UNTIL_SHARE):
        names.note_parcel(key, rows)


@pytest.mark.parametrize(
    "client", [connection(1), Client("fleet", ACTOR, 1), Client("edge", BROKER, 1), ANY_CLIENT]
)
def test_fleet_that_starts_twice_meets_no_bound(client: Client) -> None:
    """1,024 actors behind one key or one broker, started and a moment later started again."""
    forgotten: list[Key] = []
    names = Names(forgotten.append)
    for incarnation in (1, 2):
        for number in range(1024):
            key = f"robot-{number}", incarnation
            for _ in range(4):
                names.spend_word(client, 0.1 * incarnation, 100)
                names.note_message(client, key, 0.1 * incarnation)
            earn(names, key)
    assert (forgotten, names.sharers(1.0)) == ([], 2048)
    assert names.sharers(0.2 + SILENT_S + 1) == 0


def test_peer_opens_so_many_names_at_once_and_so_many_a_second() -> None:
    """Also if it says goodbye in between; another peer has a budget of its own."""
    names = Names()
    assert opened(names, connection(1), 60_000) == OPENED
    assert opened(names, connection(1), 1000, now=10.0) == 10 * OPENED_PER_S
    assert opened(names, connection(2), 100, now=10.0) == 100
    assert len(names) <= WITHOUT_PARCELS + 100
    for number in range(100):
        names.forget((f"x{number}", 1000))
    assert opened(names, connection(1), 10, now=10.0, name="y") == 0


def test_labels_budget_is_for_all_its_connections() -> None:
    """With keys a peer is a key, however often it connects."""
    names = Names()
    for number in range(5):
        opened(names, Client("mallory", ACTOR, number), 1000, name=f"{number}-")
    assert opened(names, Client("mallory", ACTOR, 9), 100, name="y") == 0


def test_peers_together_open_so_many_names() -> None:
    """50 peers flood; an actor, which has one name, joins at any time."""
    names = Names()
    count = sum(opened(names, connection(number), 2000, name=f"{number}-") for number in range(50))
    assert count <= ALL_OPENED + 50 * FEW
    assert opened(names, connection(99), FEW) == FEW


def test_peer_says_so_many_words() -> None:
    """The refusal is shown once for each peer."""
    names, peer = Names(), connection(1)
    for _ in range(WORDS):
        names.spend_word(peer, 0.0, 100)
    with pytest.raises(Refused, match="rate"):
        names.spend_word(peer, 0.0, 100)
    assert [names.is_first_refusal(peer, "rate", 0.0) for _ in range(2)] == [True, False]
    assert names.is_first_refusal(connection(2), "rate", 0.0)
    names.spend_word(connection(2), 0.0, 100)
    names.spend_word(peer, 0.1, 100)


def test_long_word_counts_as_several() -> None:
    """A flood of long reports took the learner for seconds, since each counted as a hello."""
    names, peer, size = Names(), connection(1), 35_436
    for _ in range(WORDS // 35):
        names.spend_word(peer, 0.0, size)
    with pytest.raises(Refused, match="rate"):
        names.spend_word(peer, 0.0, size)
    names.spend_word(peer, 0.0, 100)


def test_peers_together_say_so_many_words() -> None:
    """50 peers flood, each within its own bound; an actor, which says few, is heard."""
    names, taken = Names(), 0
    for number in range(50):
        for _ in range(1000):
            with suppress(Refused):
                names.spend_word(connection(number), 0.0, 100)
                taken += 1
    assert taken == ALL_WORDS + 50 * FEW_WORDS
    for _ in range(FEW_WORDS):
        names.spend_word(connection(99), 0.0, 100)


def test_names_with_parcels_stay_before_those_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 peers with thousands of names each displace none of 1,024 actors behind a broker."""
    monkeypatch.setattr(names_module, "NAMES", 2048)
    forgotten: list[Key] = []
    names, broker = Names(forgotten.append), connection(0)
    honest = [(f"robot-{number}", 1) for number in range(1024)]
    for key in honest:
        names.note_message(broker, key, 0.0)
        earn(names, key)
    for number in range(1, 51):
        opened(names, connection(number), 3000, name=f"{number}-")
    assert len(names) == 2048
    assert not set(forgotten) & set(honest)
    assert names.sharers(1.0) == 1024


def test_peer_with_most_names_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor that just joins is not displaced by a flood of another peer."""
    monkeypatch.setattr(names_module, "NAMES", 10)
    forgotten: list[Key] = []
    names = Names(forgotten.append)
    names.note_message(connection(1), ("joins", 1), 0.0)
    opened(names, connection(2), 100)
    assert (len(names), ("joins", 1) in forgotten) == (10, False)
    for number in range(100):
        names.note_message(connection(2), (f"z{number}", 1), 0.0)
        names.note_parcel((f"z{number}", 1), 1)
    assert ("joins", 1) in forgotten  # one that brings parcels goes before one that brings none


def test_name_moves_with_its_actor_to_another_connection() -> None:
    """It costs nothing: only the actor knows its incarnation."""
    names = Names()
    opened(names, connection(1), 5000)
    for number in range(2, 9):
        names.note_message(connection(number), ("x2000", 0), 1.0)
    assert names.sharers(1.0) == 0
    for number in range(UNTIL_SHARE):
        names.note_message(connection(20 + number), ("x2000", 0), 1.0)
        names.note_parcel(("x2000", 0), 3)
    assert (names.sharers(1.0), names.has_rows(("x2000", 0))) == (1, True)


def test_name_takes_no_share_before_its_sixteenth_parcel_with_rows() -> None:
    """Neither do messages and parcels without rows bring one; other names take none of it."""
    names, key = Names(), ("robot", 1)
    for number in range(1, UNTIL_SHARE + 1):
        assert (names.sharers(0.0), names.has_share(key)) == (0, False)
        names.note_message(connection(1), key, 0.0)
        names.note_parcel(key, 0)
        names.note_message(connection(1), ("robot", 1 + number), 0.0)
        names.note_parcel(("robot", 1 + number), 8)
        names.note_parcel(key, 8)
    assert (UNTIL_SHARE, names.sharers(0.0), names.has_share(key)) == (16, 1, True)


def test_parcels_before_a_share_are_an_argument() -> None:
    """Histories of the simulator are too short for sixteen."""
    names, key = Names(until_share=2), ("robot", 1)
    names.note_message(connection(1), key, 0.0)
    names.note_parcel(key, 8)
    assert not names.has_share(key)
    names.note_parcel(key, 8)
    assert names.has_share(key)


def test_peer_that_starts_again_and_again_takes_no_share() -> None:
    """A name for each parcel, as fast as a peer may open them: a share takes sixteen of one."""
    names, honest = Names(), ("honest", 1)
    names.note_message(connection(1), honest, 0.0)
    earn(names, honest)
    for start in range(OPENED):
        now = start / OPENED
        names.note_message(connection(1), honest, now)
        names.note_message(connection(2), ("restless", start), now)
        names.note_parcel(("restless", start), 8)
        assert names.sharers(now) == 1


def test_evaluator_has_parcels_and_no_share() -> None:
    """Results without rows do not wait for credit, and rows of an evaluator earn none."""
    names, key = Names(), ("judge", 1)
    names.note_message(connection(1), key, 0.0)
    assert names.note_parcel(key, 0)
    assert not names.note_parcel(key, 0)
    assert (names.has_parcels(key), names.has_rows(key)) == (True, False)
    for _ in range(UNTIL_SHARE):
        names.note_parcel(key, 8, earns=False)
    assert (names.has_rows(key), names.has_share(key), names.sharers(0.0)) == (True, False, 0)
    assert not names.note_parcel(("unknown", 1), 0)


def test_name_that_is_withdrawn_takes_no_share_until_it_earns_one_again() -> None:
    """Messages alone do not bring the share back, nor does one parcel."""
    names, key = Names(), ("greedy", 1)
    names.note_message(connection(1), key, 0.0)
    earn(names, key)
    names.withdraw(key)
    names.withdraw(("unknown", 1))
    names.note_message(connection(1), key, 0.1)
    names.note_parcel(key, 8)
    assert (names.sharers(0.1), names.has_share(key), names.has_rows(key)) == (0, False, True)
    earn(names, key)
    assert (names.sharers(0.2), names.has_share(key)) == (1, True)


@pytest.mark.parametrize(("longest_step_s", "silent_s"), [(0.0, 8.0), (60.0, 180.0), (1e9, 1800.0)])
def test_silent_name_takes_no_share_and_is_forgotten(
    longest_step_s: float, silent_s: float
) -> None:
    """Slow steps are believed up to ten minutes. One that is back takes its share at once."""
    forgotten: list[Key] = []
    names, key = Names(forgotten.append), ("robot", 1)
    names.note_message(connection(1), key, 0.0, longest_step_s)
    earn(names, key, rows=1)
    assert names.sharers(silent_s - 1) == 1
    assert names.sharers(silent_s) == 0
    names.note_message(connection(2), key, silent_s, longest_step_s)
    assert names.sharers(silent_s) == 1
    names.sharers(2 * silent_s + FORGOTTEN_S)
    assert (forgotten, len(names)) == ([key], 0)


def test_peers_are_forgotten_with_their_budgets() -> None:
    """Thousands of connections that come and go leave nothing."""
    names = Names()
    for number in range(3000):
        names.note_message(connection(number), (f"x{number}", 1), 0.0)
    names.sharers(1000.0)
    assert (len(names), len(names._peers)) == (0, 0)


def test_work_for_a_name_does_not_grow_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks, a second apart, other names are not touched."""
    names = Names()
    opened(names, connection(1), 2000)
    monkeypatch.setattr(names_module._Name, "silence_s", None)
    look: Callable[[float], int] = names.sharers
    for _ in range(1000):
        names.note_message(connection(1), ("x1999", 0), 0.5)
    assert look(0.9) == 0
