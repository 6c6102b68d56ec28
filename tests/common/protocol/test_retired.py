"""Retired incarnations: exact numbers in few bytes."""

import dataclasses
import random

import numpy as np
import pytest

from farflung.common.process.errors import Refused
from farflung.common.protocol import retired as module
from farflung.common.protocol.incarnation import WINDOW, Incarnation
from farflung.common.protocol.retired import Partial, RetiredIncarnations


def known(chance: random.Random) -> Incarnation:
    """Return the numbers of an incarnation: half of them have no holes."""
    count = chance.choice([0, 1, 5, 2**31, 2**32 - 1, 2**32, 2**62])
    if chance.random() < 0.5:
        return Incarnation(contiguous=count)
    above = {count + chance.randrange(2, 60) for _ in range(chance.randrange(6))}
    refused = {count + 2: "shape"} if chance.random() < 0.3 else {}
    return Incarnation(chance.randrange(1, 9), count, above, refused=refused)


def same(found: Incarnation | None, expected: Incarnation) -> bool:
    """Return whether an incarnation came back with its numbers."""
    blank = dataclasses.replace(expected, base=1).is_blank
    numbers = (expected.contiguous, expected.out_of_order, expected.refused)
    if found is None:
        return blank
    return (found.contiguous, found.out_of_order, found.refused) == numbers


def test_retired_incarnations_come_back_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order of retiring, taking, sorting and restarting, against a dict."""
    monkeypatch.setattr(module, "RECENT", 16)
    chance = random.Random(1)
    retired, model = RetiredIncarnations(), dict[tuple[str, int], Incarnation]()
    for step in range(4000):
        key = f"actor-{chance.randrange(40)}", chance.randrange(40)
        if key in model:
            assert same(retired.find(*key), model[key])
            assert same(retired.take(*key), model.pop(key))
            assert retired.find(*key) is None
        else:
            model[key] = known(chance)
            retired.add(*key, model[key])
        if step % 500 == 499:
            retired = RetiredIncarnations.restore(retired.state())
    assert all(same(retired.find(*key), numbers) for key, numbers in model.items())


def test_retired_incarnation_without_holes_takes_16_bytes() -> None:
    """In memory, in a checkpoint and at the beginning of a segment alike."""
    retired = RetiredIncarnations()
    for number in range(5000):
        retired.add("actor", number, Incarnation(contiguous=number + 1))
    state = retired.state()
    sizes = [len(state[key]) for key in ("hashes", "checks", "counts")]
    assert sizes == [40_000, 20_000, 20_000]
    assert (len(retired), state["partial"]) == (5000, [])


def test_hashes_that_share_their_first_64_bits_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the other 32 bits."""
    monkeypatch.setattr(module, "_name", lambda actor, incarnation: (2**64 - 1, incarnation))
    retired = RetiredIncarnations()
    for incarnation in (3, 1, 2):
        retired.add("actor", incarnation, Incarnation(contiguous=10 + incarnation))
    retired = RetiredIncarnations.restore(retired.state())
    found = [retired.take("actor", incarnation) for incarnation in (1, 2, 3, 4)]
    assert [one and one.contiguous for one in found] == [11, 12, 13, None]
    assert len(retired) == 0


ONE = b"x" * 12
GOOD = {
    "hashes": np.array([1, 2], "<u8").tobytes(),
    "checks": bytes(8),
    "counts": np.array([7, 8], "<u4").tobytes(),
    "partial": [(ONE, Partial(1, 3, ((5, 6),), ((5, "shape"),)))],
}


@pytest.mark.parametrize(
    "change",
    [
        {"hashes": np.array([2, 1], "<u8").tobytes()},
        {"hashes": bytes(9)},
        {"hashes": bytes(8)},
        {"checks": bytes(12)},
        {"counts": bytes(8)},
        {"counts": b""},
        {"partial": [(b"short", Partial(1, 3, (), ()))]},
        {"partial": [(ONE, Partial(0, 3, (), ()))]},
        {"partial": [(ONE, Partial(1, -1, (), ()))]},
        {"partial": [(ONE, Partial(1, 3, ((6, 5),), ()))]},
        {"partial": [(ONE, Partial(1, 3, ((3, 5), (4, 9)), ()))]},
        {"partial": [(ONE, Partial(1, 3, ((5, 4 + WINDOW),), ()))]},
    ],
)
def test_state_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    """A damaged file costs no more memory than its own size."""
    assert len(RetiredIncarnations.restore(GOOD)) == 3  # type: ignore[arg-type]
    with pytest.raises(Refused, match="retired"):
        RetiredIncarnations.restore({**GOOD, **change})  # type: ignore[typeddict-item]
