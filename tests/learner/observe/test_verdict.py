"""The verdict on figures worked by hand."""

import pytest

from farflung.learner.observe.verdict import Bound, Figures, judge

MIDDLE = {"room": 0.05, "delivery": 0.6, "environment": 0.35}  # actors wait for what they sent
STARVED = {"experience": 0.7, "update": 0.3}  # training waits


def sentence(**figures):
    """Return the sentence on these figures."""
    return judge(Figures(**figures)).sentence


@pytest.mark.parametrize(
    ("figures", "bound", "share"),
    [
        # Nothing is known of one side.
        (Figures(), Bound.UNKNOWN, 0.0),
        (Figures(learner=STARVED), Bound.UNKNOWN, 0.0),
        (Figures(actors=MIDDLE), Bound.UNKNOWN, 0.0),
        # One side waits: 63 % against 4 %, then 71 % against 6 %.
        (Figures({"experience": 0.04, "update": 0.96}, {"room": 0.63}), Bound.LEARNER, 0.63),
        (Figures({"experience": 0.71}, {"room": 0.06, "environment": 0.9}), Bound.ACTOR, 0.71),
        # Waits for room and for acknowledgements count together where training does not wait.
        (Figures({"update": 1.0}, {"room": 0.15, "delivery": 0.15}), Bound.LEARNER, 0.3),
        # Both wait while something is on its way: a disk that is busy half of the time, or less.
        (Figures(STARVED, MIDDLE, disk=0.5), Bound.DISK, 0.6),
        (Figures(STARVED, MIDDLE, disk=0.49), Bound.NETWORK, 0.6),
        (Figures(STARVED, {"delivery": 0.2}, disk=0.9), Bound.DISK, 0.2),
        # Less than a fifth of its time is no wait; nor is it slow if the others wait as long.
        (Figures({"experience": 0.19}, {"room": 0.02}), Bound.BALANCED, 0.19),
        (Figures({"experience": 0.05}, {"room": 0.19}), Bound.BALANCED, 0.19),
        (Figures(STARVED, {"delivery": 0.19}), Bound.ACTOR, 0.7),
        (Figures({"experience": 0.5}, {"room": 0.45}), Bound.BALANCED, 0.5),
        (Figures({"experience": 0.3}, {"room": 0.5, "delivery": 0.1}), Bound.LEARNER, 0.6),
        # The disk alone holds up no run.
        (Figures({"update": 1.0}, {"environment": 1.0}, disk=1.0), Bound.BALANCED, 0.0),
        # What hangs comes first.
        (Figures(STARVED, MIDDLE, hanging={"box": 9.0}), Bound.HANGS, 1.0),
    ],
)
def test_verdict_follows_from_the_shares(figures, bound, share):
    """Each case by its figures, at the limits too."""
    found = judge(figures)
    assert (found.bound, found.share) == (bound, pytest.approx(share))
    assert (bound == Bound.UNKNOWN) is (found.sentence == "")
    assert bound in found.sentence or bound == Bound.UNKNOWN


def test_learner_bound_names_the_setting_to_lower():
    """The replay ratio, the epochs of a rollout, or the updates of a round."""
    slow = {"learner": {"update": 0.9, "insert": 0.06}, "actors": {"room": 0.63}}
    assert sentence(**slow) == (
        "learner-bound: actors wait 63 % of their time for the replay ratio, and 90 % of "
        "training's goes to updates; lower --replay-ratio, or use a faster device"
    )
    assert "; lower --ppo.epochs, or" in sentence(**slow, knob="--ppo.epochs")
    published = {"learner": {"update": 0.3, "publish": 0.6}, "actors": {"room": 0.63}}
    assert sentence(**published).endswith("60 % of training's goes to publishing; " + RARER)


RARER = "raise --publish-every"


@pytest.mark.parametrize(
    ("actors", "processors", "words"),
    [
        ({"environment": 0.8}, 0.3, "80 % of theirs on environment steps; start more actors"),
        ({"inference": 0.6}, 0.3, "60 % of theirs on choosing actions; raise --envs of actors"),
        ({"environment": 0.8}, 0.8, "start actors on another machine: the processors of this one"),
    ],
)
def test_actor_bound_names_what_actors_do(actors, processors, words):
    """The remedy depends on it, and on the processors of the learner's machine."""
    said = sentence(learner=STARVED, actors=actors, processors=processors)
    assert said.startswith("actor-bound: the learner waits 70 % of its time for experience, and ")
    assert words in said


def test_disk_bound_names_a_weaker_promise_only_where_there_is_one():
    """A run with --durability process does not sync."""
    said = sentence(learner=STARVED, actors=MIDDLE, disk=0.97)
    assert said == (
        "disk-bound: the journal's disk is busy 97 % of the time, and actors wait 60 % of theirs "
        "for it; put --run-dir on a faster disk, or take --durability process"
    )
    assert sentence(learner=STARVED, actors=MIDDLE, disk=0.97, synced=False).endswith("disk")


def test_network_bound_tells_the_line_from_the_learners_machine():
    """Its thread or its processors are at work for 80 % of the time: a line would not help."""
    said = sentence(learner=STARVED, actors=MIDDLE)
    assert said == (
        "network-bound: actors wait 60 % of their time for messages on their way, and the learner "
        "70 % for experience; use a faster line, or let actors be further ahead: --tolerance"
    )
    busy = {"learner": STARVED, "actors": MIDDLE, "processors": 0.8}
    assert sentence(**busy).endswith("machine are busy: run fewer actors there")
    assert "raise --horizon" in sentence(**busy, network=0.8)


def test_environment_that_hangs_is_named_with_its_actor():
    """Of several the one that hangs longest."""
    said = sentence(hanging={"a": 6.0, "b": 12.4}, environment="Arm-v0")
    assert said == (
        "environment Arm-v0 hangs on actor b and 1 more: a step has taken 12 s so far; the "
        "actor's log names the line, and --step-timeout ends it"
    )
