"""Rounds of several policies and several actors: they end together, and none waits for ever."""

import random
from collections import defaultdict

import pytest
from msgspec import structs
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.turns import Habits, Table

from farflung.actor.play import Fixed, Play, exploring
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Rounds, Spec, World

POLICIES = ("red", "blue")
IN_TURN = Habits(0.2, 0.1, 0.3, in_turn=True)
ROUNDS = 12


def a_spec(policy: str, rounds: Rounds) -> Spec:
    """Return the spec of one policy of a world with two."""
    seats = {"red": ("agent_0",), "blue": ("agent_1",)}
    world = World("table", seats=seats)
    return a_stamp_spec(policy=policy, world=world, rounds=rounds, horizon=5)


class Learners:
    """The learners of both policies: each publishes a version when all actors have its round."""

    def __init__(self, actors: int) -> None:
        self.specs = {policy: a_spec(policy, Rounds(actors, windows=2)) for policy in POLICIES}
        self.rows: dict[str, dict[int, list[Parcel]]] = {
            policy: defaultdict(list) for policy in POLICIES
        }
        self.dropped = 0
        self._actors, self._ended = actors, {policy: set[int]() for policy in POLICIES}
        self.versions = dict.fromkeys(POLICIES, 1)

    def sources(self) -> dict[str, Fixed]:
        """Return the newest weights of each policy."""
        return {
            policy: Fixed(some_weights(self.specs[policy], number, best=number % 2), 0)
            for policy, number in self.versions.items()
        }

    def take(self, policy: str, parcels: list[Parcel]) -> None:
        """Take what an actor has played."""
        for parcel in parcels:
            if parcel.place is None:
                self.dropped += parcel.rows
                continue
            self.rows[policy][parcel.place.actor_index].append(parcel)
            if parcel.place.ends:
                self._ended[policy].add(parcel.place.actor_index)
        if len(self._ended[policy]) == self._actors:
            self._ended[policy].clear()
            self.versions[policy] += 1


def played(actors: int, seed: int) -> Learners:
    """Let actors play rounds, each when it can, in an order by chance."""
    learners, chance = Learners(actors), random.Random(seed)
    plays = []
    for index in range(actors):
        table = Table(POLICIES, 1, IN_TURN, seed=index, masks=False)
        players = {policy: exploring(learners.specs[policy], 1, index, 0) for policy in POLICIES}
        plays.append(Play(table, players))  # type: ignore[arg-type]
        plays[-1].reset()
    in_vain = 0
    while min(learners.versions.values()) <= ROUNDS:
        play = chance.choice(plays)
        if not play.begin_each(learners.sources()):
            in_vain += 1
            assert in_vain < 200, f"all wait for each other in rounds {learners.versions}"
            continue
        in_vain = 0
        while not play.full:
            play.step()
        for policy in [policy for policy, player in play.players.items() if player.full]:
            learners.take(policy, play.players[policy].parcels())
        for policy in play.spare:
            learners.take(policy, play.players[policy].parcels())
    return learners


def contents(learners: Learners) -> object:
    """Return all rows of the rounds that each run has, by policy and actor."""
    return {
        (policy, index): [
            (one.version, {name: rows.tobytes() for name, rows in one.columns.items()})
            for one in parcels
            if one.version.number <= ROUNDS
        ]
        for policy, actors in learners.rows.items()
        for index, parcels in actors.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("actors", [1, 2, 3])
def test_rows_of_rounds_do_not_depend_on_who_plays_first(actors: int) -> None:
    """Windows of agents that take turns end independently, and actors wait for each other."""
    first = contents(played(actors, 0))
    for seed in range(1, 5):
        assert contents(played(actors, seed)) == first


def test_an_actor_alone_drops_no_rows() -> None:
    """Each policy has rounds of its own: its learner waits for no other actor."""
    assert played(1, 0).dropped == 0


def test_a_policy_that_has_played_its_round_goes_on_with_spare_windows() -> None:
    """Until the others have played theirs; those rows belong to no round."""
    learners = played(2, 0)
    assert learners.dropped > 0
    assert abs(learners.versions["red"] - learners.versions["blue"]) <= 1


def test_rounds_of_one_version_are_whole() -> None:
    """Each actor plays two windows under each version, of five steps of its own."""
    learners = played(2, 3)
    for policy in POLICIES:
        for parcels in learners.rows[policy].values():
            ends = [one.version.number for one in parcels if one.place and one.place.ends]
            assert ends[:ROUNDS] == [*range(1, ROUNDS + 1)]


def test_worlds_in_the_async_mode_have_no_spare_windows() -> None:
    """There each policy begins its own windows."""
    specs = {policy: structs.replace(a_spec(policy, Rounds(2)), rounds=None) for policy in POLICIES}
    table = Table(POLICIES, 1, IN_TURN, seed=1, masks=False)
    players = {policy: exploring(spec, 1, 0, 0) for policy, spec in specs.items()}
    play = Play(table, players)  # type: ignore[arg-type]
    play.reset()
    assert play.begin_each({policy: Fixed(some_weights(spec), 0) for policy, spec in specs.items()})
    while not play.full:
        play.step()
    assert play.spare == []
