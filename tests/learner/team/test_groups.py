"""The agents of policies as `--policies` names them."""

import pytest

from farflung.common.process.errors import UsageError
from farflung.learner.team import groups

AGENTS = ("a0", "a1", "a2")


@pytest.mark.parametrize(
    ("text", "seats"),
    [
        ("auto", {"a0": ("a0",), "a1": ("a1",), "a2": ("a2",)}),
        ("red=a2,a0; blue=a1", {"red": ("a0", "a2"), "blue": ("a1",)}),
        ("red = a0 ;blue = * ;", {"red": ("a0",), "blue": ("a1", "a2")}),
        ("shared=*", {"shared": AGENTS}),
        ("red=a1,*; blue=a0,a2", {"red": ("a1",), "blue": ("a0", "a2")}),
    ],
)
def test_each_policy_has_its_agents_in_the_order_of_the_world(text, seats):
    """Their own names for `auto`; `*` is what the others leave."""
    assert groups.seats(text, AGENTS) == seats


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("red=a0,a3; blue=*", "there is no agent a3, but a0, a1, a2."),
        ("red=a0; blue=a0,*", "a0 is named twice, for red and for blue"),
        ("red=a0,a0,*", "a0 is named twice, for red and for red"),
        ("red=a0", "no policy plays a1, a2"),
        ("red=*; blue=*", "stands once"),
        ("red=a0,a1,a2; blue=*", "no agent is left for"),
        ("red=a0; red=*", "names red twice"),
        ("red", "'red' is no policy: write auto, or"),
        ("red=; blue=*", "'red=' is no policy"),
        ("=a0", "'=a0' is no policy"),
        (";", "names no policy"),
        ("my red=*", "'my red' is no name"),
        ("default=*", "choose another name"),
    ],
)
def test_agents_and_policies_that_do_not_fit_are_named(text, says):
    """Unknown, missing and doubled ones, and texts that are none."""
    with pytest.raises(UsageError) as refusal:
        groups.seats(text, AGENTS)
    assert says in str(refusal.value)


def test_agents_whose_names_are_no_names_of_policies_need_groups():
    """`auto` takes agents' names as they are."""
    with pytest.raises(UsageError, match="'north west' is no name"):
        groups.seats("auto", ("north west",))
    assert groups.seats("one=*", ("north west",)) == {"one": ("north west",)}


def test_more_than_an_actor_takes_are_refused():
    """Before any learner begins, in a sentence that names both numbers."""
    crowd = tuple(f"a{number}" for number in range(1000))
    with pytest.raises(UsageError, match="1,000 policies, and an actor takes 64"):
        groups.seats("auto", crowd)
    assert groups.seats("shared=*", crowd) == {"shared": crowd}
    with pytest.raises(UsageError, match="5,000 agents, and an actor takes 1,024"):
        groups.seats("shared=*", 5 * crowd)
