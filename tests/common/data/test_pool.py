"""Pools, the refusal of hostile ones, and draws from them."""

from collections import Counter

import msgspec
import pytest

from farflung.common.data.draw import Episode, live_seat, opponent
from farflung.common.data.pool import (
    ENTRIES,
    LIVE,
    RANDOM,
    UNKNOWN,
    Entry,
    Opponent,
    Pool,
    archived,
    label,
    of_number,
    scripted,
)
from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.common.protocol.packing import from_plain, pack, to_plain, unpack

POOL = Pool(
    (
        Entry(RANDOM, 0.25),
        Entry(scripted("block"), 0.25),
        Entry(archived(Version(1, 40)), 0.5),
        Entry(LIVE, 0.0),
    )
)


def of(kind, probability=0.1, **fields):
    """Return an entry as a message has it."""
    known = {"kind": kind, "name": None, "version": None}
    return {"opponent": known | fields, "probability": probability}


def test_pool_is_read_as_it_was_written():
    """Through msgpack, with its versions."""
    again = from_plain(Pool, unpack(pack(to_plain(POOL)), "pool"))
    assert again == POOL
    assert again.versions == ((1, 40),)
    assert list(map(str, (entry.opponent for entry in again.entries))) == [
        "random",
        "script:block",
        "archive:1.40",
        "live",
    ]


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([], "1 to 256 opponents"),
        ([of("random", 1 / 1000)] * 1000, "has 1000"),
        ([of("random", 0.5)], r"add up to 0\.5, and not to 1"),
        ([of("random", 0.5), of("live", 0.75)], r"add up to 1\.25"),
        ([of("random", 1.5)], "<= 1"),
        ([of("random", -0.5), of("live", 1.0)], ">= 0"),
        ([of("random", float("nan"))], "add up to nan|>= 0"),
        ([of("random", 0.5), of("random", 0.5)], "twice"),
        ([of("chess", 1.0)], "chess"),
        ([of("scripted", 1.0)], "a scripted opponent has a name"),
        ([of("random", 1.0, name="block")], "a scripted opponent has a name"),
        ([of("scripted", 1.0, name="../x")], "matching regex"),
        ([of("scripted", 1.0, name="x" * 65)], "matching regex"),
        ([of("archived", 1.0)], "an archived opponent has a version"),
        ([of("live", 1.0, version=[1, 2])], "an archived opponent has a version"),
        ([of("archived", 1.0, version=[0, 2])], r"no learner archives a version 0\.2"),
        ([of("archived", 1.0, version=[1, 0])], r"version 1\.0"),
        ([of("archived", 1.0, version=[1, 1 << 32])], "no learner archives"),
        ([of("archived", 1.0, version=[1 << 20, 1])], "no learner archives"),
        ([of("archived", 1.0, version=[1])], "length"),
        ("pool", "array"),
        ([of("random", 1.0) | {"code": "x"}], "code"),
    ],
)
def test_hostile_pool_is_refused_in_a_sentence(entries, sentence):
    """Its size is bounded, its kinds are known, and it can be drawn from."""
    with pytest.raises(Refused, match=sentence):
        from_plain(Pool, {"entries": entries})


def test_unknown_script_is_refused():
    """The names that are registered are named, since code never comes over the network."""
    POOL.require_scripts({"block", "other"})
    with pytest.raises(Refused, match="the script block, and those registered here are: a, b"):
        POOL.require_scripts({"b", "a"})
    with pytest.raises(Refused, match="are: none"):
        POOL.require_scripts(())


def test_names_with_one_number_are_refused(monkeypatch):
    """Results name an opponent by its number, so two of the same would be one."""
    monkeypatch.setattr(Opponent, "number", property(lambda _: 7))
    with pytest.raises(ValueError, match="random and live have one number"):
        Pool((Entry(RANDOM, 0.5), Entry(LIVE, 0.5)))


def test_numbers_are_held_by_a_double():
    """Each is another one, and is the same after a trip through float64."""
    largest = archived(Version((1 << 20) - 1, (1 << 32) - 1))
    found = [RANDOM, LIVE, scripted("a"), scripted("b"), archived(Version(1, 1)), largest]
    numbers = [each.number for each in found]
    assert len(set(numbers)) == len(numbers)
    assert [int(float(number)) for number in numbers] == numbers
    assert archived(Version(2, 5)).number == (2 << 32) + 5
    assert 2 <= scripted("a").number < 1 << 32


def test_number_leads_back_to_the_opponent():
    """Scripts are known by their names; a number of a world's own has a word too."""
    scripts = ("other", "block")
    for entry in POOL.entries:
        number = entry.opponent.number
        assert of_number(number, scripts) == entry.opponent
        assert label(number, scripts) == str(entry.opponent)
    assert of_number(scripted("block").number) is None
    assert [label(7), label(UNKNOWN), label(5 << 32)] == ["opponent 7", "others", OWN]


OWN = f"opponent {5 << 32}"  # no learner publishes a version 5.0


def test_draw_is_the_same_everywhere():
    """Known opponents of known episodes: another release or machine must draw them too."""
    drawn = [str(opponent(POOL, 7, Episode(1, 1, 0, number))) for number in range(6)]
    assert drawn == [
        "script:block",
        "archive:1.40",
        "random",
        "script:block",
        "random",
        "archive:1.40",
    ]
    assert opponent(POOL, 7, Episode(1, 1, 0, 0)) == opponent(POOL, 7, Episode(1, 1, 0, 0))


def test_draws_follow_the_probabilities():
    """4,000 episodes: each count is within 5 deviations, and what has no share is never drawn."""
    places = [Episode(i, 1, e, n) for i in range(4) for e in range(10) for n in range(100)]
    counts = Counter(str(opponent(POOL, 3, place)) for place in places)
    for name, share in (("random", 0.25), ("script:block", 0.25), ("archive:1.40", 0.5)):
        assert abs(counts[name] - 4000 * share) < 5 * (4000 * share * (1 - share)) ** 0.5
    assert counts["live"] == 0


def test_each_part_of_the_place_has_draws_of_its_own():
    """Actor, start, environment, episode, seat and seed each have draws of their own."""
    many = Pool(tuple(Entry(scripted(f"s{number}"), 1 / 200) for number in range(200)))
    base = Episode(0, 1, 0, 0)
    places = [base, Episode(1, 1, 0, 0), Episode(0, 2, 0, 0), Episode(0, 1, 1, 0)]
    drawn = [opponent(many, 0, place) for place in (*places, Episode(0, 1, 0, 1))]
    drawn += [opponent(many, 1, base), opponent(many, 0, base, seat=1)]
    assert len(set(map(str, drawn))) == len(drawn)


def test_rounded_probabilities_are_drawn_from():
    """A sum a little below 1 leaves no episode without an opponent."""
    third = Pool(tuple(Entry(scripted(name), 0.3333333) for name in "abc"))
    assert all(opponent(third, 0, Episode(0, 1, 0, n)).kind == "scripted" for n in range(100))


def test_seats_alternate_exactly():
    """In each environment the live policy takes all seats in turn, and all at once over several."""
    for environment in range(3):
        turns = [live_seat(Episode(0, 1, environment, number), 2) for number in range(10)]
        assert Counter(turns) == {0: 5, 1: 5}
        assert turns[::2] == turns[:1] * 5
    assert {live_seat(Episode(0, 1, e, 0), 3) for e in range(3)} == {0, 1, 2}
    assert live_seat(Episode(5, 1, 2, 9), 1) == 0


def test_bound_is_what_the_sentences_say():
    """The text of a refusal names it."""
    assert ENTRIES == 256
    assert msgspec.json.decode(msgspec.json.encode(POOL), type=Pool) == POOL
