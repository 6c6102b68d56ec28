"""The schedule of acknowledgements: news at once, the others in turn."""

from collections import Counter
from collections.abc import Callable

import pytest

from farflung.common.protocol import acknowledgements as module
from farflung.common.protocol.acknowledgements import AcknowledgementSchedule, Key, grant
from farflung.common.protocol.incarnation import WINDOW
from farflung.common.protocol.messages import Credit

PLENTY, NOTHING = Credit(99, 9), Credit(0, 0)


def same(key: Key) -> Credit:
    """Grant the same to all."""
    return PLENTY


def nothing(key: Key) -> Credit:
    """Pause all."""
    return NOTHING


def sent(
    schedule: AcknowledgementSchedule, now: float, credit: Callable[[Key], Credit] = same
) -> list[str]:
    """Return the actors that are acknowledged now."""
    return [key[0] for key, _ in schedule.due(now, credit)]


def seen(count: int, now: float = 0.0) -> AcknowledgementSchedule:
    """Return a schedule that heard so many actors, and acknowledged each once."""
    schedule = AcknowledgementSchedule()
    for number in range(count):
        schedule.note_message((f"{number}", 1), now)
    assert len(sent(schedule, now)) == count
    return schedule


def later(
    schedule: AcknowledgementSchedule,
    start: float,
    end: float,
    credit: Callable[[Key], Credit] = same,
) -> list[tuple[float, str]]:
    """Return the time and actor of each acknowledgement, in rounds of 10 ms."""
    times = [start + step / 100 for step in range(1, 1 + round(100 * (end - start)))]
    return [(now, actor) for now in times for actor in sent(schedule, now, credit)]


def test_an_actor_that_is_short_of_credit_is_acknowledged_at_once() -> None:
    """Half of its credit is settled: it may soon wait. One with credit for 7 waits anyway."""
    schedule = AcknowledgementSchedule()

    def credit(key: Key) -> Credit:
        return Credit(7 if key[0] == "poor" else 8, 9)

    for actor in ("poor", "short", "rich"):
        schedule.note_message((actor, 1), 0.0)
    assert sent(schedule, 0.0, credit) == ["poor", "short", "rich"]
    assert not schedule.hurried
    for number in range(1, 8):
        for actor in ("poor", "short") if number <= 4 else ("poor", "rich")[: 8 - number]:
            schedule.add_news((actor, 1))
        assert sent(schedule, 0.001, credit) == (["short"] if number == 4 else [])
        assert schedule.hurried == (number == 4)
    assert sent(schedule, 0.01, credit) == ["poor", "rich"]
    assert not schedule.hurried


def test_news_is_sent_within_ten_milliseconds_and_once() -> None:
    """Several parcels of one actor within a round are one acknowledgement; others get none."""
    schedule = seen(3)
    for _ in range(5):
        schedule.add_news(("1", 1))
    assert sent(schedule, 0.005) == []
    assert sent(schedule, 0.01) == ["1"]
    assert sent(schedule, 0.02) == []


def test_news_of_all_goes_out_in_one_round() -> None:
    """A thousand actors that send at the same time are acknowledged at the same time."""
    schedule = seen(1000)
    for number in range(1000):
        schedule.add_news((f"{number}", 1))
    assert len(set(sent(schedule, 0.01))) == 1000


def test_news_of_an_unknown_incarnation_is_nothing() -> None:
    """It was not heard lately, so it does not listen."""
    schedule = seen(1)
    schedule.add_news(("0", 2))
    assert sent(schedule, 0.5) == []


def test_each_actor_is_acknowledged_about_every_second() -> None:
    """A thousand that fell due at once are spread over half a second, from then on for good."""
    schedule = seen(1000)
    assert later(schedule, 0.0, 0.99) == []
    for second in range(5):
        found = later(schedule, 0.99 + second, 1.99 + second)
        for _, actor in found:
            schedule.note_message((actor, 1), 2.0 + second)
        assert 660 <= len(found) <= 1001
        assert max(Counter(now for now, _ in found).values()) <= 21
    assert {actor for _, actor in found} == {f"{number}" for number in range(1000)}


def test_another_credit_reaches_all_in_turn() -> None:
    """A thousand a second: of 200 actors each has it after 0.2 s, and no one twice."""
    schedule = seen(200)
    found = later(schedule, 0.0, 0.21, lambda key: NOTHING)
    assert Counter(Counter(actor for _, actor in found).values()) == {1: 200}


def test_credit_that_changes_all_the_time_is_shared_fairly() -> None:
    """In half a second 500 of 1,000 actors hear of it, then the other 500."""
    schedule = seen(1000)
    grants = iter(range(10**9))

    def credit(key: Key) -> Credit:
        return Credit(next(grants), 1)

    first = [actor for _, actor in later(schedule, 0.1, 0.5, credit)]
    second = [actor for _, actor in later(schedule, 0.5, 0.9, credit)]
    assert len(first) == len(set(first)) <= 500
    assert not set(first) & set(second)


@pytest.mark.parametrize(
    ("with_share", "others", "after_s"),
    [(1, 0, 0.01), (1, 3000, 0.01), (100, 0, 0.1), (100, 3000, 0.1), (1000, 1000, 1.0)],
)
def test_another_credit_reaches_those_with_a_share_before_a_crowd(
    with_share: int, others: int, after_s: float
) -> None:
    """A thousand a second of them, however many others there are; and a thousand others."""
    schedule = seen(with_share + others)

    def has_share(key: Key) -> bool:
        return int(key[0]) < with_share

    list(schedule.due(0.0, same, has_share))
    for step in range(1, 10 + (with_share + others) // 10):  # each is looked at, and in its queue
        list(schedule.due(step / 100, same, has_share))
    start, heard = step / 100, Counter[str]()
    for step in range(1, 1 + round(100 * after_s)):
        heard.update(key[0] for key, _ in schedule.due(start + step / 100, nothing, has_share))
    assert all(heard[f"{number}"] for number in range(with_share))
    crowd = sum(heard[f"{number}"] for number in range(with_share, with_share + others))
    assert crowd >= min(others, 1000 * after_s) - 1


def test_share_that_is_lost_leaves_its_queue() -> None:
    """A name without its share waits with all others from its next look on, and no longer twice."""
    schedule = seen(2)
    for step in range(1, 5):
        list(schedule.due(step / 100, same, lambda key: True))
    for step in range(5, 9):
        list(schedule.due(step / 100, same, lambda key: False))
    assert [len(queue) for queue in schedule._credits] == [2, 0]
    schedule.forget(("0", 1))
    schedule.forget(("1", 1))
    assert [len(queue) for queue in schedule._credits] == [0, 0]


def test_round_without_news_does_not_visit_all() -> None:
    """Its work does not grow with the number of actors: ten looks in 10 ms."""
    schedule, looks = seen(4000), list[Key]()

    def credit(key: Key) -> Credit:
        looks.append(key)
        return PLENTY

    sent(schedule, 0.1, credit)
    looks.clear()
    for step in range(1, 11):
        sent(schedule, 0.1 + step / 100, credit)
    assert len(looks) <= 101


def test_actor_that_left_or_fell_silent_is_sent_nothing() -> None:
    """It is acknowledged again when it is heard again."""
    schedule = seen(2)
    schedule.forget(("0", 1))
    schedule.add_news(("0", 1))
    schedule.note_message(("1", 1), 1.0)
    assert {actor for _, actor in later(schedule, 1.0, 40.0)} == {"1"}
    assert len(schedule) == 0
    schedule.note_message(("0", 1), 41.0)
    assert sent(schedule, 41.0) == ["0"]


def test_schedule_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a flood of names those that were acknowledged longest ago are dropped."""
    monkeypatch.setattr(module, "LISTENERS", 3)
    schedule = seen(2)
    for number in range(100):
        schedule.note_message(("flood", number), 0.001)
    assert len(schedule) == 3
    assert sent(schedule, 0.02) == ["flood"] * 3


def test_hurry_lets_news_be_due_now() -> None:
    """As for the last messages of a learner."""
    schedule = seen(1)
    schedule.add_news(("0", 1))
    assert sent(schedule, 0.001) == []
    schedule.hurry()
    assert sent(schedule, 0.001) == ["0"]


def test_credit_is_shared_between_actors() -> None:
    """Four actors with parcels of 32 rows share a total of bytes and the room for rows."""
    assert grant(0, 4, 32) == Credit(0, 0)
    assert grant(-5, 4, 32) == Credit(0, 0)
    assert grant(1, 4, 32) == Credit(1, 64 << 20)
    assert grant(1280, 4, 32) == Credit(10, 64 << 20)
    assert grant(10**9, 4, 32).messages == 1024
    assert grant(10**9, 4, 32, messages=10**6).messages == WINDOW
    assert grant(1280, 4, 32, total_bytes=4000) == Credit(10, 1000)
    assert grant(1280, 0, 32) == Credit(40, 64 << 20)
