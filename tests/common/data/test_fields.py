"""The form of names: they stand in topics, paths and log lines."""

import pytest

from farflung.common.data.fields import ACTOR, NAME


@pytest.mark.parametrize("name", ["a", "default", "_x", "CartPole-v1.2_3", "x" * 64])
def test_ordinary_names_are_valid(name):
    """Letters, digits and _ . - up to 64."""
    assert NAME.fullmatch(name)
    assert ACTOR.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "-rf", "a/b/c", "a b", "a\n", "é", "x" * 65, "a:b", "a\x1b[2J", "../a"]
)
def test_harmful_names_are_invalid(name):
    """No path, no flag, no hidden file, no control character, nothing that ends a topic."""
    assert not NAME.fullmatch(name)
    assert not ACTOR.fullmatch(name)


def test_actor_name_may_have_a_label():
    """One, before its own name."""
    assert ACTOR.fullmatch("farm/box-1")
    assert not NAME.fullmatch("farm/box-1")
