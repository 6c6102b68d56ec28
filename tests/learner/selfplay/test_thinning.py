"""An archive stays small, and spread over the run."""

from itertools import pairwise

import pytest

from farflung.learner.selfplay.thinning import thinned


def grown(count, most):
    """Return an archive after so many versions, each added to what stayed before."""
    kept = ()
    for number in range(1, count + 1):
        kept = thinned((*kept, number), most)
    return kept


def test_a_small_archive_stays_whole():
    """Nothing goes before the bound is reached."""
    assert thinned((1, 2, 3, 4), 4) == (1, 2, 3, 4)
    assert thinned((), 4) == ()


def test_the_one_with_the_closest_neighbours_goes():
    """Of 1, 5, 6, 9 and newer ones, 5 lies between 1 and 6, and 6 between 5 and 9: the 6 goes."""
    assert thinned((1, 5, 6, 9, 10, 11), 5) == (1, 5, 9, 10, 11)
    assert thinned((1, 2, 3, 4, 5), 4) == (1, 3, 4, 5)


@pytest.mark.parametrize("most", [2, 3, 4, 7, 16])
@pytest.mark.parametrize("count", [1, 5, 20, 333])
def test_the_first_and_the_newest_stay_within_the_bound(most, count):
    """Half of the places hold the newest in a row, and the first one is never thinned out."""
    kept = grown(count, most)
    assert len(kept) == min(count, most)
    assert kept[0] == 1
    newest = min(count, (most + 1) // 2)
    assert kept[-newest:] == tuple(range(count - newest + 1, count + 1))


def test_one_place_is_for_the_newest():
    """With a bound of one there is no first one."""
    assert grown(9, 1) == (9,)


def test_old_ones_stay_spread_over_a_long_run():
    """After 1,000 versions no gap of 16 is wider than six times an even one."""
    kept = grown(1000, 32)
    older = kept[:16]
    gaps = [later - earlier for earlier, later in pairwise(older)]
    assert max(gaps) <= 6 * (1000 / 16)
