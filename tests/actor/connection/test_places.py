"""The index of an actor in rounds of several policies: the same at each learner, come what may."""

import random
from collections.abc import Callable
from itertools import permutations

import pytest
from support.addresses import DoubleAddress
from support.learner_double import LearnerDouble
from support.stamps import a_stamp_spec
from support.waiting import Clock

from farflung.actor.connection.policies import PolicyConnections
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.gathering import Gathering
from farflung.common.data.spec import Rounds, World
from farflung.common.protocol.roster import SILENT_S
from farflung.common.protocol.topics import OF_FIRST
from farflung.learner.endpoint.endpoint import Endpoint

SEATS = {"red": ("agent_0",), "blue": ("agent_1",), "green": ("agent_2",)}
TICK_S = 0.05


def a_learner(policy: str, actors: int, run: str = "r", number: int = 1) -> LearnerDouble:
    """Return the learner of a policy, with so many actors in its rounds."""
    world = World("table", seats=SEATS)
    spec = a_stamp_spec(policy=policy, run=run, world=world, rounds=Rounds(actors))
    return LearnerDouble(spec, learner_id=number)


class Line(DoubleAddress):
    """An actor's way to the address; the stage carries its messages."""

    def exchange(self, timeout_s: float) -> None:
        """Do nothing."""


class Actor:
    """An actor without a world: its connections, and what they gather."""

    def __init__(self, name: str, policy: str, clock: Clock) -> None:
        place = Line(name, clock)
        self.clients = place.clients
        self.name = name
        self.connection = PolicyConnections(
            [place],  # type: ignore[list-item]
            policy,
            lambda wanted: PolicyClient(wanted, name, 1, wish=OF_FIRST),
            lambda where, client: where.connect(where, client),  # type: ignore[attr-defined]
            clock=clock,
        )
        self.gathering = Gathering(self.connection)

    @property
    def places(self) -> set[tuple[int, int]]:
        """The indices and starts under which it plays; none while it does not."""
        return {(joined.index, joined.start) for joined in self.gathering.runs.values()}


class Stage:
    """Actors that look for three learners at one address."""

    def __init__(self, rounds: int, seed: int = 0) -> None:
        self.rounds, self.clock, self.chance = rounds, Clock(TICK_S), random.Random(seed)
        self.learners = {policy: a_learner(policy, rounds) for policy in SEATS}
        self.actors: list[Actor] = []
        self._runs = 0
        self._asked: dict[str, set[bytes]] = {}  # topics by run

    def start(self, name: str, policy: str = "red") -> Actor:
        """Start an actor; one of that name before it is killed."""
        self.kill(name)
        self.actors.append(Actor(name, policy, self.clock))
        return self.actors[-1]

    def kill(self, name: str) -> None:
        """End an actor without a word."""
        self.actors = [actor for actor in self.actors if actor.name != name]

    def resume(self, policy: str) -> None:
        """Kill a learner and start it again, with the members of which it had parcels."""
        before = self.learners[policy]
        members = before.endpoint.roster.state()
        again = a_learner(policy, self.rounds, before.spec.run, self.chance.getrandbits(40))
        inbox = before.endpoint.inbox
        inbox.epoch = again.epoch = before.epoch + 1
        again.endpoint = Endpoint.resume(again.spec, inbox, members, self.clock.now)
        again.receiver, again.publisher = again.endpoint.receiver, again.endpoint.publisher
        again.publish(1)
        self.learners[policy] = again

    def begin(self, policy: str) -> None:
        """Begin a new run of a policy."""
        self._runs += 1
        number = 100 + self._runs
        self.learners[policy] = a_learner(policy, self.rounds, f"r{self._runs}", number)

    def turn(self) -> None:
        """Let each actor exchange messages once, in any order; none plays two numbers at once."""
        self.clock.now += TICK_S
        for learner in self.learners.values():
            self._send(learner)
        for actor in self.chance.sample(self.actors, len(self.actors)):
            self._receive(actor)
            actor.connection.exchange(0.0)
            actor.gathering.changed()
            indices = {index for index, _ in actor.places}
            assert len(indices) <= 1 or min(indices) >= self.rounds

    def _send(self, learner: LearnerDouble) -> None:
        """Publish all that is due to the clients that subscribe to it."""
        clients = [client for actor in self.actors for client in actor.clients]
        for client in clients:
            topic = client.snapshot_topic or b""
            asked = self._asked.setdefault(learner.spec.run, {b""})
            if client.policy == learner.spec.policy and topic not in asked:
                asked.add(topic)
                learner.endpoint.subscribed(topic)
        for topic, frame in learner.due(self.clock.now):
            for client in clients:
                if any(topic.startswith(subscription) for subscription in client.subscriptions):
                    client.receive(topic, frame, self.clock.now)

    def _receive(self, actor: Actor) -> None:
        """Let an actor ask and send what it should."""
        for client in actor.clients:
            if client.due(self.clock.now).value != "nothing":
                client.ask(self.clock.now)
            self.learners[client.policy].receive_from(client, self.clock.now)

    def until(self, met: Callable[[], bool], within_s: float = 60.0) -> None:
        """Take turns until this is so."""
        end = self.clock.now + within_s
        while not met():
            assert self.clock.now < end, [(actor.name, actor.places) for actor in self.actors]
            self.turn()

    def all_play(self) -> bool:
        """Return whether all numbers of the rounds are played, each by one actor."""
        played = [index for actor in self.actors for index in {one for one, _ in actor.places}]
        return sorted(index for index in played if index < self.rounds) == [*range(self.rounds)]


@pytest.mark.parametrize("policies", list(permutations(SEATS)), ids=" ".join)
def test_actors_that_begin_at_different_learners_have_one_index_each(
    policies: tuple[str, ...],
) -> None:
    """The first start of each, wherever it asks first."""
    stage = Stage(3)
    actors = [stage.start(f"a{number}", policy) for number, policy in enumerate(policies)]
    stage.until(stage.all_play, 3.0)
    assert sorted(place for actor in actors for place in actor.places) == [(0, 0), (1, 0), (2, 0)]


def test_an_actor_that_died_begins_its_index_again_at_all_learners() -> None:
    """Under its name, or under another one once it is silent."""
    stage = Stage(1)
    stage.start("a")
    stage.until(stage.all_play)
    assert stage.start("a", "blue").places == set()
    stage.until(stage.all_play)
    assert stage.actors[0].places == {(0, 1)}
    stage.kill("a")
    stage.clock.now += SILENT_S
    stage.start("b", "green")
    stage.until(stage.all_play)
    assert stage.actors[0].places == {(0, 2)}


def test_a_number_that_is_taken_is_asked_for_until_it_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By one that does not play for red: meanwhile nothing is played, and the log says why."""
    caplog.set_level("INFO")
    stage = Stage(1)
    roster = stage.learners["blue"].endpoint.roster
    roster.join("other", 7, stage.clock.now)
    stage.start("a")
    until = stage.clock.now + 5.0
    stage.until(lambda: stage.clock.now > until)
    assert stage.actors[0].places == set()
    assert "number 0 of the rounds of blue is another actor still: asking again" in caplog.text
    roster.leave("other", 7)
    stage.until(stage.all_play, 4.0)


def test_a_spare_actor_has_no_place_at_any_learner() -> None:
    """It is beyond the rounds at each of them."""
    stage = Stage(1)
    for name in "ab":
        stage.start(name, "blue")
    stage.until(stage.all_play)
    stage.until(lambda: all(actor.places for actor in stage.actors))
    (spare,) = [actor for actor in stage.actors if (0, 0) not in actor.places]
    assert min(spare.places) >= (1, 0)


@pytest.mark.parametrize("policy", SEATS)
def test_a_learner_that_is_killed_and_resumed_knows_the_places(policy: str) -> None:
    """The actors keep theirs, with their starts: no episode begins again."""
    stage = Stage(2)
    for name in "ab":
        stage.start(name)
    stage.until(stage.all_play)
    before = {actor.name: actor.gathering.runs for actor in stage.actors}
    stage.resume(policy)
    roster = stage.learners[policy].endpoint.roster
    stage.until(lambda: {member.index for member in roster} == {0, 1})
    assert {actor.name: actor.gathering.runs for actor in stage.actors} == before
    numbers = {member.actor: {(member.index, 0)} for member in roster}
    assert {actor.name: actor.places for actor in stage.actors} == numbers


@pytest.mark.parametrize("policy", SEATS)
def test_actors_keep_their_numbers_in_a_new_run_of_one_policy(policy: str) -> None:
    """The learner of the first policy agrees to those that they have."""
    stage = Stage(3)
    for name in "abc":
        stage.start(name)
    stage.until(stage.all_play)
    before = {actor.name: actor.places for actor in stage.actors}
    stage.begin(policy)
    run = stage.learners[policy].spec.run
    stage.until(
        lambda: all(
            actor.gathering.runs and actor.gathering.runs[policy].spec.run == run
            for actor in stage.actors
        )
    )
    assert {actor.name: actor.places for actor in stage.actors} == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_all_numbers_are_played_after_any_history(seed: int) -> None:
    """Of kills of actors and learners, and of new runs, in any order."""
    stage = Stage(3, seed)
    for event in range(25):
        kind, name = stage.chance.random(), stage.chance.choice("abcd")
        policy = stage.chance.choice([*SEATS])
        if event < 3 or kind < 0.4:
            stage.start(name, policy)
        elif kind < 0.6:
            stage.kill(name)
        elif kind < 0.8:
            stage.resume(policy)
        else:
            stage.begin(policy)
        for _ in range(stage.chance.randrange(60)):
            stage.turn()
    for name in "abcd":
        stage.start(name, stage.chance.choice([*SEATS]))
    stage.until(stage.all_play, 120.0)
