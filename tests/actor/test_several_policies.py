"""One actor for several policies: each has its learner, and none holds up the others for long."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support.addresses import DoubleAddress
from support.learner_double import LearnerDouble
from support.makers import a_frame, some_weights
from support.stamps import a_stamp_spec
from support.turns import Habits, Table
from support.waiting import Clock

from farflung.actor.connection import policies
from farflung.actor.connection.delivery import AWAY_S, LEARNER_AWAY, NO_ROUND
from farflung.actor.connection.inline import InlineConnection, InTurns
from farflung.actor.connection.policies import PolicyConnections
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import Joined
from farflung.actor.gathering import difference
from farflung.actor.loop import ActorLoop
from farflung.actor.play import exploring
from farflung.actor.realtime.alone import WithoutLearner
from farflung.actor.rules import Rules
from farflung.actor.worlds.world import Turn
from farflung.common.data.spec import Evaluation, Exploration, Rounds, Spec, World
from farflung.common.data.weights import Version
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State

SEATS = {"red": ("agent_0", "agent_2"), "blue": ("agent_1",)}
PARALLEL, IN_TURN = Habits(), Habits(0.2, 0.1, 0.3, in_turn=True)


def a_world_spec(policy: str, **changes: Any) -> Spec:
    """Return the spec of one policy of a world with red and blue."""
    return a_stamp_spec(**({"policy": policy, "world": World("table", seats=SEATS)} | changes))


class Stage:
    """An actor for a world of red and blue, over addresses of test doubles.

    `each(stage)` is called after each exchange; the actor ends after 4,000 of them at the latest.
    """

    def __init__(
        self,
        each: Callable[["Stage"], None],
        *learners: LearnerDouble,
        addresses: int = 1,
        habits: Habits = PARALLEL,
        answer: WithoutLearner = WithoutLearner.GO_ON,
        tick_s: float = 0.001,
        **rules: Any,
    ) -> None:
        self.clock, self.stop, self.turns = Clock(tick_s), Stop(), 0
        self.worlds: list[Table] = []
        self._each, self._habits = each, habits
        self.places = [DoubleAddress(f"place-{n}", self.clock) for n in range(addresses)]
        self.places[0]._each = self._turn
        for learner in learners:
            self.places[0].put(learner)
        evaluates = rules.get("evaluates", False)
        self.connection = PolicyConnections(
            self.places,  # type: ignore[arg-type]
            "red",
            lambda policy: PolicyClient(policy, "a", 2, evaluates),
            lambda place, client: place.connect(place, client),  # type: ignore[attr-defined]
            answer,
            self.clock,
        )
        self.who = Who("actor", "a")
        parts = self.connection, self._open, Rules(**rules), self.stop, Watchdog(0.0), self.who
        self.loop = ActorLoop(*parts, self.clock)

    def run(self) -> "Stage":
        """Run the actor to its end."""
        try:
            self.loop.run()
        finally:
            self.stop.close()
        return self

    def client(self, policy: str) -> PolicyClient:
        """Return the client that counts for a policy."""
        return self.connection.deliveries[policy].client

    def own_steps(self, policy: str) -> Counter[int]:
        """Return the serial numbers of all steps of a policy in the worlds of this actor."""
        return Counter(step.frames[-1] for world in self.worlds for step in world.complete[policy])

    def _open(self, runs: Any, role: str) -> Table:
        assert tuple(runs) == tuple(SEATS)
        serial = self.worlds[-1]._serial if self.worlds else 0
        table = Table(tuple(runs), 2, self._habits, seed=len(self.worlds), masks=False)
        table._serial = serial  # no serial number comes twice
        self.worlds.append(table)
        return table

    def _turn(self, number: int) -> None:
        self.turns = number
        self._each(self)
        assert number < 4000, "it never ends"


@pytest.fixture(autouse=True)
def several_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no sockets: an exchange with a double takes no time."""
    monkeypatch.setattr(policies, "wait_for", lambda places, s: places[0].clock.wait(s))


def until(**parcels: int) -> Callable[[Stage], None]:
    """Stop when the learners at the first address have so many parcels."""

    def each(stage: Stage) -> None:
        learners = stage.places[0].learners
        if all(len(learners[policy].accepted) >= count for policy, count in parcels.items()):
            stage.stop.set("enough")

    return each


def serials(learner: LearnerDouble) -> Counter[int]:
    """Return the serial numbers of what was decided on, in the rows that a learner has."""
    found: Counter[int] = Counter()
    for parcel in learner.parcels:
        for one in parcel.trajectories(learner.spec.columns, learner.spec.stack):
            found.update(one.columns["observations"][:-1, 0].astype(int).tolist())
    return found


def pair(**changes: Any) -> tuple[LearnerDouble, LearnerDouble]:
    """Return learners of red and blue."""
    return tuple(  # type: ignore[return-value]
        LearnerDouble(a_world_spec(policy, **changes), learner_id=number)
        for number, policy in enumerate(SEATS, 1)
    )


class TestDelivery:
    """Rows go to the learner of their own policy, and only there."""

    @pytest.mark.parametrize("habits", [PARALLEL, IN_TURN], ids=["parallel", "in turn"])
    def test_each_own_step_arrives_once_at_its_own_learner(self, habits: Habits) -> None:
        """With horizons of 4 and 7, so that windows end at different times."""
        red, blue = pair()
        blue = LearnerDouble(a_world_spec("blue", horizon=7), learner_id=2)
        stage = Stage(until(red=6, blue=5), red, blue, habits=habits).run()
        for learner in (red, blue):
            found, own = serials(learner), stage.own_steps(learner.spec.policy)
            assert found.most_common(1)[0][1] == 1
            assert found.keys() <= own.keys()
            assert len(found) >= 20
            assert learner.receiver.inbox.ledger.refused == {}
        # What is missing is of windows that were not over, or had no credit yet.
        missing = len(stage.own_steps("red")) - len(serials(red))
        assert missing <= 2 * 2 * red.spec.horizon
        assert stage.client("red").outbox.ledger.balanced

    def test_versions_are_those_of_each_learner(self) -> None:
        """Red publishes a second version, and blue does not."""

        def each(stage: Stage) -> None:
            if len(red.accepted) == 2 and red.publisher.newest.number == 1:
                red.publisher.publish(some_weights(red.spec, 2, best=3))
            until(red=5, blue=5)(stage)

        red, blue = pair()
        Stage(each, red, blue).run()
        assert {parcel.version.number for parcel in red.parcels} == {1, 2}
        assert {parcel.version.number for parcel in blue.parcels} == {1}
        assert set(red.parcels[-1].columns["actions"].tolist()) == {3}

    def test_reports_count_the_rows_of_each_policy(self) -> None:
        """Each learner is told of its own steps and episodes, and of its seats."""
        red, blue = pair()
        stage = Stage(until(red=9, blue=9), red, blue).run()
        for learner, seats in ((red, 4), (blue, 2)):
            policy = learner.spec.policy
            work, ledger = stage.client(policy).work, stage.client(policy).outbox.ledger
            assert 0 < work.steps <= ledger.collected.rows
            assert work.episodes >= sum(len(parcel.results.returns) for parcel in learner.parcels)
            assert learner.receiver.seen["a"].seats == seats
        assert stage.connection.work.steps > stage.client("red").work.steps

    def test_a_parcel_for_the_wrong_policy_is_refused_and_counted(self) -> None:
        """As when two learners of one run's name have changed their addresses."""
        red, blue = pair()
        stage = Stage(until(red=2, blue=2), red, blue).run()
        frame = a_frame(red.spec, red.parcels[0], actor="a")
        blue.endpoint.receive([(frame, ANY_CLIENT)], stage.clock())
        assert blue.receiver.inbox.ledger.refused == {"policy": 1}
        assert any("red, and this is blue" in problem for problem in blue.receiver.problems)


class TestGathering:
    """The world is played once each of its seats has a learner."""

    def test_it_waits_for_the_other_learners_and_says_for_which(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """With the agents that they would play. The learner of the first is idle meanwhile."""
        caplog.set_level("INFO")
        red, blue = pair()

        def each(stage: Stage) -> None:
            if stage.turns == 300:
                assert not stage.worlds
                stage.places[0].put(blue)
            until(red=1, blue=1)(stage)

        Stage(each, red).run()
        assert "no learner yet for blue (agent_1): looking at place-0" in caplog.messages

    def test_learners_at_two_addresses_are_found(self) -> None:
        """Each policy is looked for at each address."""
        red, blue = pair()

        def each(stage: Stage) -> None:
            stage.places[1].learners.setdefault("blue", blue)
            if len(blue.accepted) >= 3:
                stage.stop.set("enough")

        stage = Stage(each, red, addresses=2).run()
        assert serials(blue).keys() <= stage.own_steps("blue").keys()
        assert len(red.accepted) >= 2

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"arguments": {"n": 3}}, "their arguments differ in 'n': left out and 3. Start"),
            ({"environment": "chair"}, "their environment is 'table' and 'chair'"),
            ({"seed": 9}, "their seed is 0 and 9"),
            ({"seats": {"blue": ("agent_1",)}}, "their seats differ in 'red': ('"),
            ({"arguments": {"map": "x" * 5000}}, "their arguments differ in 'map': left out and"),
        ],
    )
    def test_worlds_that_differ_are_named_and_not_played(
        self, changes: dict[str, Any], says: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Both policies, the field and both values, also on the screens of both learners.

        A learner that comes back with the same world is played with.
        """
        red, blue = pair()
        other = LearnerDouble(
            a_world_spec("blue", run="s", world=structs.replace(red.spec.world, **changes)),
            learner_id=3,
        )

        def each(stage: Stage) -> None:
            if stage.turns == 400:
                assert not stage.worlds
                stage.places[0].put(blue)
            until(red=1, blue=1)(stage)

        Stage(each, red, other).run()
        assert f"the learners of red and blue have different worlds: {says}" in caplog.text
        assert any(says in problem for problem in red.receiver.problems)

    @pytest.mark.parametrize(("rounds", "says"), [(None, "2 and 0 actors"), (3, "2 and 3 actors")])
    def test_rounds_that_differ_are_named(self, rounds: int | None, says: str) -> None:
        """One learner has more actors in a round, or has none."""
        red, blue = (
            Joined(a_world_spec(policy, rounds=actors and Rounds(actors)), 0, 0)
            for policy, actors in (("red", 2), ("blue", rounds))
        )
        assert f"the rounds of red and blue have {says}" in difference({"red": red, "blue": blue})

    def test_equal_worlds_do_not_differ(self) -> None:
        """The rest of the specs may."""
        runs = {policy: Joined(a_world_spec(policy, horizon=n), n, 0) for n, policy in PLACES}
        assert difference(runs) == ""

    def test_what_serves_one_policy_refuses_such_a_world(self) -> None:
        """The sequential mode, a worker and a session have one policy."""
        connection = InlineConnection(PolicyClient("red", "a", 1), InTurns())
        connection.seek(("red",))
        with pytest.raises(ConfigurationError, match=r"other policies too \(blue\)"):
            connection.seek(SEATS)

    def test_a_second_learner_at_another_address_is_named(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The first one is obeyed, and both are told."""
        red, blue = pair()
        second = LearnerDouble(a_world_spec("red", run="s"), learner_id=9)
        at: dict[str, int] = {}

        def each(stage: Stage) -> None:
            if stage.turns > 50:
                stage.places[1].learners["red"] = second
            if stage.turns > 300 and len(red.accepted) > at.setdefault("red", len(red.accepted)):
                stage.stop.set("enough")

        Stage(each, red, blue, addresses=2, tick_s=0.02).run()
        sentence = "two learners train policy red: 1 in run r, which is obeyed, and 9 in run s"
        assert sentence in caplog.text
        for learner in (red, second):
            assert any(sentence in problem for problem in learner.receiver.problems)
        assert second.accepted == []

    def test_a_learner_that_has_moved_to_another_address_is_found(self) -> None:
        """Once the first one is silent for as long as makes it absent."""
        red, blue = pair()
        moved = LearnerDouble(a_world_spec("red", run="s"), learner_id=9)

        def each(stage: Stage) -> None:
            if len(red.accepted) >= 3 and not stage.places[1].learners:
                del stage.places[0].learners["red"]
                stage.places[1].put(moved)
            if len(moved.accepted) >= 3:
                stage.stop.set("enough")

        stage = Stage(each, red, blue, addresses=2, tick_s=0.02).run()
        assert len(stage.worlds) == 2

    def test_one_learner_at_two_addresses_has_one_actor(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As through a broker and without it."""
        red, blue = pair()

        def each(stage: Stage) -> None:
            stage.places[1].learners.setdefault("blue", blue)
            if stage.places[1].byes and len(blue.accepted) > 3:
                stage.stop.set("enough")

        Stage(each, red, blue, addresses=2).run()
        assert "the learner of blue is found at two of the addresses: one is used" in caplog.text
        assert serials(blue).most_common(1)[0][1] == 1

    def test_a_new_run_of_one_policy_costs_no_rows_of_the_other(self) -> None:
        """The world begins again, and what blue has played of its window is sent."""
        red, blue = pair()
        blue = LearnerDouble(a_world_spec("blue", horizon=50), learner_id=2)
        fresh = LearnerDouble(a_world_spec("red", run="s"), learner_id=5)

        def each(stage: Stage) -> None:
            if len(red.accepted) == 3:
                stage.places[0].put(fresh)
            if len(fresh.accepted) >= 3:
                until(red=3, blue=1)(stage)

        stage = Stage(each, red, blue).run()
        assert len(stage.worlds) == 2
        first = {step.frames[-1] for step in stage.worlds[0].complete["blue"]}
        assert first <= serials(blue).keys()
        assert serials(blue).most_common(1)[0][1] == 1
        assert serials(fresh).keys().isdisjoint(serials(red))


PLACES = list(enumerate(SEATS, 1))


class TestAbsence:
    """A learner that takes nothing does not hold up the others for long."""

    @pytest.mark.parametrize("silent", [True, False], ids=["killed", "without room"])
    def test_the_others_go_on(self, silent: bool, caplog: pytest.LogCaptureFixture) -> None:
        """Red's agents act on the last weights, and its rows are dropped and counted.

        Once red is back its rows come again.
        """
        caplog.set_level("INFO")
        red, blue = pair()
        at: dict[str, Any] = {}

        def each(stage: Stage) -> None:
            if len(red.accepted) == 4 and "left" not in at:
                at["left"] = stage.clock.now
                if silent:
                    del stage.places[0].learners["red"]
                red.room = 0
            if "left" in at and "back" not in at and stage.clock.now > at["left"] + 3 * AWAY_S:
                at["blue"], at["back"] = len(blue.accepted), stage.clock.now
                at["ledger"] = stage.client("red").outbox.ledger.figures()
                red.room = 1 << 20
                stage.places[0].put(red)
                at["red"] = len(red.accepted)
            if "back" in at and len(red.accepted) >= at["red"] + 5:
                stage.stop.set("enough")

        stage = Stage(each, red, blue, tick_s=0.02).run()
        ledger = stage.client("red").outbox.ledger
        assert ledger.balanced
        assert at["ledger"][f"dropped.{LEARNER_AWAY}.rows"] > 20
        assert at["ledger"]["waiting.rows"] == 0
        assert at["blue"] > 20
        assert "the learner of red has taken nothing for 10 s: its agents go on" in caplog.text
        assert "the learner of red is back" in caplog.text
        assert {parcel.version for parcel in red.parcels} == {Version(1, 1)}
        assert serials(red).most_common(1)[0][1] == 1
        assert set(serials(blue)) <= set(stage.own_steps("blue"))

    def test_an_actor_that_ends_says_what_it_dropped(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """For a learner that is still away."""
        red, blue = pair()
        at: dict[str, float] = {}

        def each(stage: Stage) -> None:
            if len(red.accepted) == 4 and "left" not in at:
                at["left"] = stage.clock.now
                del stage.places[0].learners["red"]
            if "left" in at and stage.clock.now > at["left"] + 2 * AWAY_S:
                stage.stop.set("enough")

        stage = Stage(each, red, blue, tick_s=0.02).run()
        stage.connection.close("enough", 0.0)
        dropped = stage.client("red").outbox.ledger.dropped[LEARNER_AWAY].rows
        assert dropped > 0
        assert f"the learner of red is still away: {dropped:,} rows were dropped" in caplog.text
        assert "the learner of blue is still away" not in caplog.text

    def test_until_then_its_rows_wait(self) -> None:
        """A learner that is back within ten seconds has all of them."""
        red, blue = pair()
        at: dict[str, float] = {}

        def each(stage: Stage) -> None:
            if len(red.accepted) == 4 and "left" not in at:
                at["left"], at["blue"] = stage.clock.now, len(blue.accepted)
                del stage.places[0].learners["red"]
            if "left" in at and stage.clock.now > at["left"] + 0.8 * AWAY_S:
                stage.places[0].learners.setdefault("red", red)
                at.setdefault("gained", len(blue.accepted) - at["blue"])
                if stage.client("red").outbox.idle and len(red.accepted) > 8:
                    stage.stop.set("enough")

        stage = Stage(each, red, blue, tick_s=0.02).run()
        assert stage.client("red").outbox.ledger.dropped == {}
        assert at["gained"] > 5  # from the third second on

    def test_the_world_can_wait_instead(self) -> None:
        """`--without-learner stop`: no steps without red, and none of its rows are dropped."""
        red, blue = pair()
        at: dict[str, float] = {}

        def each(stage: Stage) -> None:
            if len(red.accepted) == 4 and "left" not in at:
                at["left"] = stage.clock.now
                del stage.places[0].learners["red"]
            if "left" in at and stage.clock.now > at["left"] + AWAY_S:
                at.setdefault("steps", stage.connection.work.steps)
            if "left" in at and stage.clock.now > at["left"] + 4 * AWAY_S:
                at.setdefault("still", stage.connection.work.steps)
                stage.places[0].put(red)
                until(red=9)(stage)

        stage = Stage(each, red, blue, answer=WithoutLearner.STOP, tick_s=0.02).run()
        assert at["steps"] == at["still"]
        assert stage.client("red").outbox.ledger.dropped == {}

    def test_a_learner_of_one_policy_is_waited_for_as_ever(self) -> None:
        """With one policy there is nothing to go on for."""
        red = LearnerDouble(a_stamp_spec(policy="red", world=World("table")))
        at: dict[str, float] = {}

        def each(stage: Stage) -> None:
            if len(red.accepted) == 4 and "left" not in at:
                at["left"] = stage.clock.now
                del stage.places[0].learners["red"]
            if "left" in at and stage.clock.now > at["left"] + 2 * AWAY_S:
                at.setdefault("steps", stage.connection.work.steps)
                if stage.clock.now > at["left"] + 5 * AWAY_S:
                    stage.stop.set("enough")

        stage = Stage(each, red, tick_s=0.02)
        stage.loop._open_world = lambda runs, role: Table(
            tuple(runs), 2, PARALLEL, seed=0, masks=False
        )
        stage.run()
        assert stage.connection.work.steps == at["steps"]
        assert stage.client("red").outbox.ledger.dropped == {}

    def test_once_ends_when_all_runs_are_over(self) -> None:
        """The end of red's run alone is no end."""
        red, blue = pair()
        at: dict[str, int] = {}

        def each(stage: Stage) -> None:
            if len(red.accepted) == 3:
                red.publisher.state = State.STOP
            if len(blue.accepted) > 60:
                at.setdefault("blue", stage.turns)
                blue.publisher.state = State.STOP

        stage = Stage(each, red, blue, once=True).run()
        assert stage.stop.reason == "the run is over"
        assert at["blue"] > 0


def test_evaluations_of_all_policies_end_together() -> None:
    """Each learner has the results of its own seats."""
    learners = tuple(
        LearnerDouble(a_world_spec(policy, evaluation=Evaluation(1, episodes)), learner_id=episodes)
        for policy, episodes in (("red", 3), ("blue", 8))
    )
    Stage(until(red=1, blue=1), *learners, evaluates=True).run()
    for learner, episodes in zip(learners, (3, 8), strict=True):
        (parcel,) = learner.parcels[:1]
        assert parcel.evaluation
        assert len(parcel.results.returns) == episodes


def test_policies_of_one_world_do_not_explore_alike() -> None:
    """They have one seed and the same places, and streams of their own."""
    chosen = []
    for policy in SEATS:
        spec = a_world_spec(policy, exploration=Exploration(1.0, 1.0, 1), horizon=40)
        player = exploring(spec, 1, 0, 0)
        player.begin(some_weights(spec), 0)
        table = Table((policy,), 1, Habits(dies=0.0), seed=0, masks=False)
        turn = table.reset()
        player.record(None, turn.due[policy])
        while not player.full:
            turn = table.step({policy: player.act(turn.due[policy])})
            player.record(turn.outcomes.get(policy), turn.due.get(policy))
        chosen.append(player.parcels()[0].columns["actions"].tolist())
    assert chosen[0] != chosen[1]


class TestRounds:
    """In the sync mode each policy has its own rounds."""

    @pytest.mark.parametrize("answer", [None, *WithoutLearner])
    def test_rounds_of_two_policies_follow_each_other(self, answer: WithoutLearner | None) -> None:
        """A learner publishes when it has its round. One that was away goes on with its round.

        Meanwhile the other one has further rounds, or waits, as it was told.
        """
        red, blue = pair(rounds=Rounds(1))
        at: dict[str, float] = {}

        def each(stage: Stage) -> None:
            publish_rounds(red, blue)
            if answer and len(red.accepted) == 3 and "left" not in at:
                at["left"] = stage.clock.now
                del stage.places[0].learners["red"]
            if "left" in at and stage.clock.now > at["left"] + 3 * AWAY_S:
                at.setdefault("blue", len(blue.accepted))
                stage.places[0].put(red)
            if min(len(learner.accepted) for learner in (red, blue)) >= 6:
                stage.stop.set("enough")

        stage = Stage(each, red, blue, tick_s=0.02, answer=answer or WithoutLearner.STOP).run()
        for learner in (red, blue):
            numbers = [parcel.version.number for parcel in learner.parcels]
            assert numbers == list(range(1, len(numbers) + 1))
            assert learner.receiver.inbox.ledger.refused == {}
        dropped = stage.client("red").outbox.ledger.dropped
        if answer is WithoutLearner.GO_ON:
            assert at["blue"] > 10
            assert LEARNER_AWAY in dropped
            assert dropped.keys() <= {LEARNER_AWAY, NO_ROUND}
        else:
            assert at.get("blue", 0) <= 4
            assert dropped == {}

    @pytest.mark.parametrize("fate", ["nan", "1e9", "killed"])
    def test_rows_of_one_policy_do_not_depend_on_the_other(self, fate: str) -> None:
        """Its agents do not act on each other: in rounds blue's rows are the same to the bit."""
        assert rows_of_blue(fate) == rows_of_blue("")


def publish_rounds(*learners: LearnerDouble) -> None:
    """Publish a version for each round that is whole."""
    for learner in learners:
        if len(learner.accepted) >= learner.publisher.newest.number:
            learner.publish(len(learner.accepted) + 1)


class Paid(Table):
    """A table at which red has other rewards."""

    reward: float | None = None

    def step(self, actions: Any) -> Turn:
        turn = super().step(actions)
        if self.reward is not None and "red" in turn.outcomes:
            turn.outcomes["red"].rewards[:] = self.reward
        return turn


def rows_of_blue(fate: str) -> list[dict[str, bytes]]:
    """Return the columns of blue's first rounds, in a world in which this becomes of red."""
    red, blue = pair(rounds=Rounds(1))

    def each(stage: Stage) -> None:
        publish_rounds(red, blue)
        if fate == "killed" and len(red.accepted) == 3:
            stage.places[0].learners.pop("red", None)
        if len(blue.accepted) >= 12:
            stage.stop.set("enough")

    stage = Stage(each, red, blue, tick_s=0.02)

    def open_world(runs: Any, role: str) -> Table:
        world = Paid(tuple(runs), 2, PARALLEL, seed=0, masks=False)
        world.reward = float(fate) if fate in ("nan", "1e9") else None
        return world

    stage.loop._open_world = open_world
    stage.run()
    refused = red.receiver.inbox.ledger.refused
    assert bool(refused) == (fate in ("nan", "1e9") and not np.isfinite(float(fate)))
    return [
        {name: column.tobytes() for name, column in parcel.columns.items()}
        for parcel in blue.parcels[:12]
    ]
