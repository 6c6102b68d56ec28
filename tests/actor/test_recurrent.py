"""A recurrent policy at actors: each seat's state goes on from step to step within its episode."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support import worlds
from support.learner_double import LearnerDouble, ServedLearner
from support.makers import some_weights
from support.playing import Wheel, a_version, finish, playing, spec_of, window
from support.stamps import a_linear_graph, a_stamp_spec
from support.turns import Habits, Table

from farflung.actor.evaluator import Evaluator
from farflung.actor.play import Play, Player
from farflung.actor.selfplay.opponents import Opponents
from farflung.actor.session import ActorSession
from farflung.actor.worlds.world import Due
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.pool import archived
from farflung.common.data.selfplay import Selfplay
from farflung.common.data.spec import Column, Evaluation, Graph, Spec, Tensor, World
from farflung.common.data.states import EPISODE, state_columns
from farflung.common.data.weights import Weights
from farflung.learner.graph.model import serialized

VALUE = Column("value", "float32", (), "observation")
HABITS = {
    "parallel, some skip": Habits(skips=0.3, is_lost=0.05),
    "in turn, with all that can happen": Habits(0.3, 0.2, 0.6, 0.1, in_turn=True),
}


def a_graph(further: tuple[Tensor, ...] = (Tensor("value", "float32", ()),)) -> Graph:
    """Return a graph with a state that counts."""
    count = Tensor("state.count", "float32", (2,))
    return Graph(
        b"",
        (Tensor("observations", "float32", (3,)), count),
        (Tensor("q", "float32", (4,)), *further, Tensor("next_state.count", "float32", (2,))),
        (),
    )


def extras_of(graph: Graph) -> tuple[Column, ...]:
    """Return all columns that follow from a state, and one per observation that depends on it."""
    return *state_columns(graph), EPISODE, VALUE


class Counter:
    """A policy that counts its decisions in the episode: that is its state, and its value."""

    def __init__(self) -> None:
        self.shown: list[tuple[np.ndarray, np.ndarray]] = []  # newest stamp, count

    def load(self, weights: Weights) -> None:
        """Any weights will do."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return values, the count, and one more of it."""
        seen, count = inputs["observations"], inputs["state.count"]
        newest = seen[:, -1] if seen.ndim == 3 else seen
        self.shown.append((newest.copy(), count.copy()))
        return [np.zeros((len(seen), 4), np.float32), count[:, 0].copy(), count + 1]


def require_counted(parcel: Parcel, spec: Spec) -> list[tuple[int, int, int]]:
    """Check states and values against the place in the episode; return place and length of each."""
    found = []
    for trajectory in parcel.trajectories(spec.columns, spec.stack):
        number, first = trajectory.columns["episode"][0].tolist()
        assert trajectory.columns["state.count"].tolist() == [[first, first]]
        counts = [*[first] * (spec.stack - 1), *range(first, first + trajectory.length + 1)]
        assert trajectory.columns["value"].tolist() == counts
        found.append((number, first, trajectory.length))
    return found


@pytest.mark.parametrize("world", ["toys/Stamp-v0", "toys/StampSameStep-v0", "faulty"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("stack", [1, 2])
def test_state_goes_on_across_windows_and_begins_with_each_episode(
    world: str, count: int, stack: int
) -> None:
    """It is recorded at the first step of each trajectory, in lists and in vector environments."""
    worlds.Faulty.counts.clear()
    toy = World(world, {"longest": 23})
    if world == "faulty":
        toy = World("toys/Faulty-v0", {"longest": 23, "steps": list(range(40, 9000, 41))})
    graph = a_graph()
    spec = spec_of(toy, 7, stack, graph=graph, extras=extras_of(graph))
    player = Player(spec, count, Counter(), Wheel())
    play = playing(spec, count, player, vector="Same" in world)
    stamps = {}
    for number in range(1, 25):
        for parcel in window(play, a_version(number)):
            require_counted(parcel, spec)
            for trajectory in parcel.trajectories(spec.columns, stack):
                life, episode, step = trajectory.columns["observations"][stack - 1].tolist()
                place = trajectory.columns["episode"][0].tolist()
                assert step == place[1]
                stamps.setdefault((life, episode), set()).add(place[0])
    assert all(len(numbers) == 1 for numbers in stamps.values())
    assert len({number for numbers in stamps.values() for number in numbers}) == len(stamps) > 5


@pytest.mark.parametrize("habits", HABITS)
def test_turns_of_a_seat_are_joined_by_the_place_in_the_episode(habits: str) -> None:
    """Also where a step is complete only after its window, under another version."""
    graph = a_graph()
    spec = a_stamp_spec(1, horizon=5, graph=graph, extras=extras_of(graph))
    table = Table((spec.policy,), 3, HABITS[habits], seed=1, masks=False)
    player = Player(spec, 3, Counter(), Wheel())
    play = Play(table, {spec.policy: player})
    play.reset()
    places: dict[tuple[int, int], list[float]] = {}
    ends: dict[tuple[int, int], list[float]] = {}
    for number in range(1, 40):
        assert play.begin(a_version(number), 0)
        finish(play)
        for parcel in player.parcels():
            found = require_counted(parcel, spec)
            trajectories = parcel.trajectories(spec.columns, 1)
            for (episode, first, length), each in zip(found, trajectories, strict=True):
                seen = each.columns["observations"]
                places[episode, first] = seen[0].tolist()
                if each.ending == Ending.OPEN:
                    ends[episode, first + length] = seen[-1].tolist()
    joined = places.keys() & ends.keys()
    assert all(places[place] == ends[place] for place in joined)
    assert len(joined) > 20
    assert {place for place in places if place[1] > 0} <= ends.keys()


def test_an_evaluation_has_a_state_of_its_own() -> None:
    """It begins with zeros in each episode, and again in the next evaluation."""
    graph = a_graph(())
    changes = {"graph": graph, "extras": state_columns(graph), "evaluation": Evaluation(1, 6)}
    spec = spec_of(World("toys/Stamp-v0", {"longest": 9}), 7, **changes)

    class Last(Counter):
        def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
            q, _, after = super().answer(inputs)
            return [q, after]

    policy = Last()
    evaluator = Evaluator(spec, 2, policy, Wheel())
    play = playing(spec, 2, evaluator)
    for number in (1, 2):
        assert play.begin(a_version(number, steps=number), number)
        play.reset()
        while not play.full:
            play.step()
    for stamps, counts in policy.shown:
        assert counts[:, 0].tolist() == stamps[:, 2].tolist()


def test_opponents_of_a_pool_have_a_state_for_each_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions take over where a game begins, each with the state of its own seats."""
    graph = a_graph(())
    spec = a_stamp_spec(1, graph=graph, extras=state_columns(graph), selfplay=Selfplay((), 0.0))
    monkeypatch.setattr(
        "farflung.actor.selfplay.opponents.Policy",
        lambda graph: type("Last", (Counter,), {"answer": _last})(),
    )
    opponents = Opponents(spec, 3, 0, np.random.default_rng(0))
    for number in (1, 2):
        opponents.hold(some_weights(spec, number), ())
    first, second = (archived(some_weights(spec, number).version) for number in (1, 2))
    seen = np.zeros((2, 3), np.float32)
    for step in range(3):
        opponents.act(Due({"observations": seen}, np.array([0, 2])), (first, second))
        state = opponents._memory.state(None)["state.count"][:, 0]
        assert state.tolist() == [step + 1, 0, step + 1]
    opponents.forget([2])
    assert opponents._memory.state(None)["state.count"][:, 0].tolist() == [3, 0, 0]


def _last(self: Counter, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
    q, _, after = Counter.answer(self, inputs)
    return [q, after]


def a_written_graph() -> Graph:
    """Return a graph that a session runs: its state counts, and the first action is the best."""
    linear = a_linear_graph((3,), 4)
    count = Tensor("state.count", "float32", (1,))
    after = Tensor("next_state.count", "float32", (1,))
    model = onnx.load_model_from_string(linear.model)
    one = numpy_helper.from_array(np.ones(1, np.float32), ".one")
    nodes = [*model.graph.node, helper.make_node("Add", [count.name, ".one"], [after.name])]
    inputs, outputs = (*linear.inputs, count), (*linear.outputs, after)
    constants = [each for each in model.graph.initializer if not each.external_data]
    written = serialized(nodes, [*constants, one], inputs, outputs, linear.weights)
    return Graph(written, inputs, outputs, linear.weights)


def test_a_session_keeps_a_state_for_each_seat(serve: Callable[..., ServedLearner]) -> None:
    """Through windows, newer weights and greedy acts; a lost step begins another episode."""
    graph = a_written_graph()
    spec = a_stamp_spec(graph=graph, extras=(*state_columns(graph), EPISODE))
    served = serve(LearnerDouble(spec))
    places: dict[tuple[int, int], tuple[int, float]] = {}
    with ActorSession(str(served.address), policy="p", name="a", seats=2) as session:
        for step in range(10):
            for seat in (0, 1) if step % 2 else (0,):
                session.act([seat, 0, step], seat=seat, explore=step % 3 > 0)
                session.record(1.0, step == 6, False, [seat, 0, step + 1], seat=seat)
            if step == 4:
                served.double.publish(2)
            if step == 7:
                assert session.lost("slipped", seat=0)
    for parcel in served.take(session.ledger.acknowledged.parcels):
        for each in parcel.trajectories(spec.columns, 1):
            seat, _, step = each.columns["observations"][0].astype(int).tolist()
            number, first = each.columns["episode"][0].tolist()
            assert each.columns["state.count"][0] == [first]
            places[seat, step] = first, number
    assert [places[0, step][0] for step in (0, 4, 8)] == [0, 4, 0]
    assert places[0, 0][1] == places[0, 4][1] != places[0, 8][1]
    assert places[1, 1][0] == 0
