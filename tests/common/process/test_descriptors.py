"""A process has the file descriptors that it needs, or says how many those are."""

import resource

import pytest

from farflung.common.process import descriptors
from farflung.common.process.errors import ConfigurationError

NONE = resource.RLIM_INFINITY


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch):
    """Sets limits of this process; later limits are in the list."""

    def limited(soft: int, hard: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        monkeypatch.setattr(resource, "getrlimit", lambda what: (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", lambda what, limits: found.append(limits))
        return found

    return limited


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (1024, 4096, [(4096, 4096)]),  # all that is allowed
        (1024, 1 << 20, [(1 << 15, 1 << 20)]),  # all that is wanted
        (256, NONE, [(1 << 15, NONE)]),
        (40_000, 40_000, []),  # never lowered
        (NONE, NONE, []),
        (200, 200, []),  # just enough
    ],
)
def test_descriptor_limit_is_raised_as_far_as_wanted_and_allowed(limited, soft, hard, expected):
    """200 are needed."""
    found = limited(soft, hard)
    descriptors.require(200, "a broker")
    assert found == expected


def test_descriptor_limit_may_need_more_than_the_usual(limited):
    """A thousand upstreams are the user's wish."""
    found = limited(1024, 1 << 20)
    descriptors.require(50_000, "a broker")
    assert found == [(50_000, 1 << 20)]


def test_too_few_descriptors_are_refused_with_the_number(limited):
    """It is better to say so at the start than to turn actors away later, without a word."""
    found = limited(100, 199)
    with pytest.raises(
        ConfigurationError,
        match=r"a broker needs 200 file descriptors, and this system allows 199: .*ulimit -n 200",
    ) as caught:
        descriptors.require(200, "a broker")
    assert (found, caught.value.exit_code) == ([], 78)


@pytest.mark.parametrize(("soft", "expected"), [(8192, 7168), (256, 192), (NONE, 28_672)])
def test_connections_leave_a_reserve_of_descriptors(limited, soft, expected):
    """Files need it, and so do connections that are accepted just before others are closed."""
    limited(soft, NONE)
    assert descriptors.for_connections() == expected
