"""The schedule of rounds with several actors, as tables; and the settings that describe rounds."""

import math
from dataclasses import replace

import pytest
from msgspec import structs
from support.learners import a_config
from support.makers import a_parcel, an_evaluation, an_item

from farflung.common.data.parcel import Place
from farflung.common.data.spec import Rounds
from farflung.common.data.weights import Version
from farflung.common.process.errors import UsageError
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.core.build import pacing
from farflung.learner.core.pacing import CoreState, Pacing
from farflung.learner.endpoint.items import ItemQueue, by_place
from farflung.learner.schedule.rounds import rounds_of, sentence
from farflung.learner.schedule.schedule import (
    NEVER,
    PUBLISH,
    STOP,
    UPDATE,
    InRounds,
    Insert,
    Moment,
    Wait,
    schedule_of,
)

NOW = Moment(published_at=0.0)


def an_item_of(index, sequence=1, ends=True, version=1, actor=""):
    """A parcel of five rows from the actor with an index, its last one of a round or not."""
    parcel = replace(
        a_parcel((5,)), version=Version(1, version), place=Place(actor_index=index, ends=ends)
    )
    item = an_item(parcel, sequence)
    item.envelope = structs.replace(item.envelope, actor=actor or f"actor-{index}")
    return item


def a_queue(*items):
    """A queue with these items."""
    queue = ItemQueue()
    queue.put(items)
    return queue


def a_state(rows=0, published=0, updates=0, number=1):
    """One sample a row, batches of 5; all updates of a version have left with it."""
    pacing = Pacing(1.0, 5, 0, 5, rows=rows, samples=5 * updates)
    return CoreState(pacing, Version(1, number), rows, updates, published)


@pytest.mark.parametrize(
    ("items", "action"),
    [
        ((), Wait),
        ((an_item_of(0),), Wait),
        ((an_item_of(0, ends=False), an_item_of(1)), Wait),
        ((an_item_of(1), an_item_of(0)), Insert(2, in_order=True)),
        ((an_item_of(0), an_item_of(1), an_item_of(0, version=2)), Insert(2, in_order=True)),
        ((an_item(an_evaluation([1.0])), an_item_of(0)), Insert(1, in_order=True)),
        ((an_item_of(0), an_item(an_evaluation([1.0])), an_item_of(1)), Insert(3, in_order=True)),
        ((an_item_of(0, version=2), an_item_of(1, version=2)), Wait),
    ],
    ids=[
        "no parcel",
        "one of two",
        "one is in the middle of its round",
        "whole",
        "whole, and one is ahead",
        "an evaluation waits for no round",
        "whole with an evaluation",
        "both are ahead",
    ],
)
def test_round_enters_the_replay_as_a_whole(items, action):
    """Two actors, and version 1 is out."""
    decided = InRounds(2).decide(a_state(), a_queue(*items), NOW)
    assert isinstance(decided, Wait) if action is Wait else decided == action


@pytest.mark.parametrize(
    ("state", "moment", "action"),
    [
        (a_state(), Moment(published_at=NEVER), PUBLISH),
        (a_state(10), NOW, UPDATE),
        (a_state(10), Moment(published_at=NEVER), UPDATE),
        (a_state(10, updates=2), NOW, PUBLISH),
        (a_state(10, updates=2), Moment(published_at=0.0, over=True), STOP),
        (a_state(10, 10, 2), Moment(published_at=0.0, over=True), STOP),
    ],
    ids=[
        "first version",
        "updates of a round",
        "the rest of them after a restart",
        "next round",
        "over",
        "over while a round is played",
    ],
)
def test_round_is_learned_from_before_the_next_one(state, moment, action):
    """Ten rows allow two updates."""
    assert InRounds(2).decide(state, a_queue(), moment) == action


def test_round_has_its_number_of_updates():
    """Three of them for any number of rows, and none before the warm-up."""
    schedule = InRounds(1, updates=3)
    pacing = Pacing(float("inf"), 5, 20, 1, rows=10)
    state = CoreState(pacing, Version(1, 1), 10, 0, 0)
    assert schedule.decide(state, a_queue(), NOW) == PUBLISH
    pacing.rows = state.steps = 30
    for updates in range(3):
        state.updates = updates
        assert schedule.decide(state, a_queue(), NOW) == UPDATE
    state.updates = 3
    assert schedule.decide(state, a_queue(), NOW) == PUBLISH


def test_missing_actors_are_those_that_have_not_ended_their_round():
    """The first of three is in the middle of it, the third has not sent anything."""
    queue = a_queue(an_item_of(0, ends=False), an_item_of(1))
    assert InRounds(3).missing(a_state(), queue) == [0, 2]
    assert InRounds(3).missing(a_state(10), queue) == []


def test_parcels_of_a_round_are_in_the_order_of_indices_and_numbers():
    """They may arrive in another one; a second incarnation of an index follows the first."""
    late = an_item_of(0, 1, actor="restarted")
    items = [an_item_of(1, 4), an_item_of(0, 3), an_item_of(1, 2), late, an_item_of(0, 2)]
    evaluation = an_item(an_evaluation([1.0]))
    ordered = by_place([evaluation, *items])
    assert ordered == [items[4], items[1], late, items[2], items[0], evaluation]


@pytest.mark.parametrize(
    ("flags", "rounds"),
    [
        ({"mode": "async", "actors": 3}, None),
        ({"mode": "sequential", "actors": 3}, None),
        ({"mode": "sync", "actors": 3}, Rounds(3)),
        ({"mode": "sync", "actors": 1, "round_actors": 4}, Rounds(4)),
        ({"mode": "sync", "actors": 1, "horizon": 8, "round_steps": 24}, Rounds(1, 3)),
        ({"mode": "sequential", "actors": 2, "round_episodes": 4}, Rounds(2, 1, 4)),
    ],
)
def test_rounds_follow_from_the_settings(flags, rounds):
    """The schedule waits for as many actors as the spec names."""
    config = a_config(**flags)
    assert rounds_of(config) == rounds
    if config.mode != "async":
        assert schedule_of(config).actors == (rounds.actors if rounds else 0)


def test_sentence_derives_what_was_not_set():
    """4 actors, 2 environments, 32 steps are 256 rows; a ratio of 8 means 16 updates of 128."""
    config = a_config(mode="sync", actors=4, environments=2, horizon=32, batch_size=128)
    config = replace(config, replay_ratio=8.0)
    assert sentence(config) == (
        "a round: 4 actors x 2 environments x 32 steps = 256 rows; then 16 updates of 128: each "
        "row is sampled 8 times"
    )


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            {"horizon": 4_000_000, "round_updates": 1},
            "1 actor x 1 environment x 4000000 steps = 4000000 rows; then 1 update of 128: each "
            "row is sampled 3.2e-05 times",
        ),
        (
            {"horizon": 1, "round_updates": "steps", "settings": DQNSettings(n_step=1)},
            "1 actor x 1 environment x 1 step = 1 row; then 1 update of 128: each row is sampled "
            "128 times",
        ),
        (
            {"actors": 3, "round_episodes": 4, "round_updates": "episodes"},
            "3 actors x 1 environment, 4 episodes each = 12 episodes; then 12 updates of 128",
        ),
        (
            {"round_episodes": 1, "round_updates": "steps"},
            "1 actor x 1 environment, 1 episode each = 1 episode; then 1 update of 128 for each "
            "step",
        ),
        (
            {"round_episodes": 2, "replay_ratio": 16.0},
            "1 actor x 1 environment, 2 episodes each = 2 episodes; then a replay ratio of 16",
        ),
    ],
)
def test_sentence_counts_one_and_many(flags, says):
    """In the words of the option: a number, one for each episode, one for each step."""
    for mode in ("sync", "sequential"):
        config = a_config(**({"mode": mode, "actors": 1, "batch_size": 128} | flags))
        assert sentence(config) == f"a round: {says}"


@pytest.mark.parametrize(
    ("flags", "updates", "ratio"),
    [
        ({"round_updates": 3}, 3, math.inf),
        ({"actors": 2, "round_episodes": 4, "round_updates": "episodes"}, 8, math.inf),
        ({"round_updates": "steps", "batch_size": 32}, 0, 32.0),
        ({"replay_ratio": 5.0}, 0, 5.0),
    ],
)
def test_updates_of_a_round_follow_from_its_words(flags, updates, ratio):
    """One for each episode is a number; one for each step is a replay ratio of the batch size."""
    config = a_config(**({"mode": "sync", "actors": 1} | flags))
    assert schedule_of(config).updates == updates
    assert pacing(config).ratio == ratio


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"mode": "sync", "actors": 0}, "waits for a fixed number of actors"),
        ({"mode": "async", "round_updates": 1}, "--round-updates is for --mode sync"),
        ({"mode": "sync", "actors": 1, "horizon": 32, "round_steps": 40}, "no multiple of"),
        ({"mode": "sync", "actors": 1, "round_steps": 32, "round_episodes": 1}, "either"),
        ({"mode": "sync", "actors": 1, "round_actors": -1}, "must not be negative"),
        ({"mode": "sync", "actors": 3, "round_actors": 2}, "some would never play"),
        ({"mode": "sync", "actors": 1, "round_updates": "episodes"}, "add --round-episodes"),
        ({"mode": "async", "round_updates": "steps"}, "--round-updates is for --mode sync"),
        ({"mode": "async", "exploration_rounds": 9}, "--exploration-rounds is for --mode sync"),
        ({"mode": "sync", "actors": 1, "exploration_rounds": 9, "exploration_steps": 50}, "one of"),
        ({"mode": "sync", "actors": 1, "replay_ratio": float("inf")}, "train for ever"),
    ],
)
def test_rounds_that_cannot_be_are_refused(flags, says):
    """Each in a sentence that names the option."""
    with pytest.raises(UsageError, match=says):
        a_config(**({"horizon": 32} | flags))
