"""The pool that settings and archive make."""

from typing import Any

import pytest
from support.learners import a_config

from farflung.common.data.pool import ENTRIES, LIVE, RANDOM, archived, scripted
from farflung.common.data.weights import Version
from farflung.common.process.errors import UsageError
from farflung.learner.config_checks import MOST_ARCHIVED
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.pooling import MOST_NAMED, Pooling, parse

WORDS = ("random=0.25", "block=0.25", "archive=0.5")
VERSIONS = [Version(1, 10), Version(1, 20), Version(2, 5)]


def shares(versions: Any = (), games: Any = None, **options: Any) -> dict[str, float]:
    """Return the pool by its opponents."""
    rules = {"sampling": "uniform", "newest": 0} | options
    words = parse(rules.pop("words", WORDS))
    pooling = Pooling(words, rules["sampling"], rules["newest"], lambda: versions, lambda: games)
    return {str(e.opponent): round(e.probability, 6) for e in pooling.pool().entries}


def test_words_name_opponents_and_shares() -> None:
    """Shares are relative; any other name is that of a script."""
    found = parse(WORDS)
    assert found.named == {RANDOM: 0.25, scripted("block"): 0.25}
    assert (found.archive, found.scripts) == (0.5, ("block",))
    assert parse(["live=3"]).named == {LIVE: 3.0}


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("random", "write OPPONENT=SHARE"),
        ("random=0", "above 0"),
        ("random=-1", "above 0"),
        ("random=nan", "above 0"),
        ("random=inf", "above 0"),
        ("random=much", "write OPPONENT=SHARE"),
        ("a/b=1", "letters, digits"),
        ("=1", "letters, digits"),
    ],
)
def test_odd_words_are_refused(word: str, sentence: str) -> None:
    """In a sentence that quotes them."""
    with pytest.raises(UsageError, match=sentence):
        parse([word])


def test_share_of_an_empty_archive_goes_to_the_others() -> None:
    """Until the first version is on disk; a pool of the archive alone begins with the policy."""
    assert shares() == {"random": 0.5, "script:block": 0.5}
    assert shares(words=["archive=1"]) == {"live": 1.0}


def test_archive_shares_its_part_evenly() -> None:
    """All versions, or the newest ones."""
    third = round(0.5 / 3, 6)
    assert shares(VERSIONS, {}) == {
        "random": 0.25,
        "script:block": 0.25,
        "archive:1.10": third,
        "archive:1.20": third,
        "archive:2.5": third,
    }
    newest = shares(VERSIONS, {}, newest=1)
    assert newest == {"random": 0.25, "script:block": 0.25, "archive:2.5": 0.5}


def test_prioritised_sampling_goes_by_results() -> None:
    """The version that is hard to beat is played most."""
    lost = {archived(VERSIONS[1]).number: Games(0, 0, 20)}
    found = shares(VERSIONS, lost, sampling="hard")
    assert found["archive:1.20"] > 2 * found["archive:1.10"]


def test_largest_pool_is_within_its_bound() -> None:
    """All opponents that settings may name, and the largest archive."""
    words = [f"script{n}=1" for n in range(MOST_NAMED)] + ["archive=1"]
    versions = [Version(1, n) for n in range(1, MOST_ARCHIVED + 1)]
    assert len(shares(versions, {}, words=words)) == MOST_NAMED + MOST_ARCHIVED <= ENTRIES
    with pytest.raises(UsageError, match="at most 50 opponents"):
        parse([*words, "one_more=1"])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"pool": ("archive=1",)}, "no versions to play: add --archive-every"),
        ({"pool": ("random=1",), "pool_exploration": 2.0}, "--pool-exploration is a share"),
        ({"pool": ("random=1",), "pool_newest": -1}, "--pool-newest must be at least 0"),
        ({"pool": ("random=1",), "policies": "default=a; b=c"}, "--policies names policies"),
        ({"pool": ("random=1",), "gradients": "only", "mode": "async"}, "--pool is for actors"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: Any, sentence: str) -> None:
    """Before anything is made."""
    with pytest.raises(UsageError, match=sentence):
        a_config(**settings)
