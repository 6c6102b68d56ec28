"""Garbage collection rests for a while, and is then as it was."""

import gc

import pytest

from farflung.common.process.uncollected import SELDOM, collect_seldom, uncollected


def test_collection_rests_within_a_block():
    """It is back after an error, too."""
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), uncollected():
        raise ImportError
    assert gc.isenabled()


def test_collection_that_was_off_stays_off():
    """A script that owns the process may have switched it off."""
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collection_becomes_seldom():
    """All that is here stays, and many objects may come before the next look at them."""
    threshold, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        collect_seldom()
        assert gc.get_freeze_count() > frozen
        assert gc.get_threshold() == (SELDOM, *threshold[1:])
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
