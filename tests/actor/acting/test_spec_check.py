"""A spec from the network is bounded before anything is allocated for it."""

import math
from typing import Any

import pytest
from msgspec import structs
from support.learner_double import LearnerDouble
from support.makers import a_spec, some_weights
from support.stamps import a_stamp_spec

from farflung.actor.acting.spec_check import SPEC_BYTES, require_bounded, table_bytes
from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.data.selfplay import Selfplay
from farflung.common.data.spec import (
    METRICS,
    Column,
    Evaluation,
    Exploration,
    Graph,
    Space,
    Spec,
    Tensor,
    World,
    metric_column,
)
from farflung.common.process.errors import Refused
from farflung.common.protocol import tensors, wire
from farflung.common.protocol.messages import Announcement

HUGE = 1 << 62
STATE = Tensor("state.sum", "float32", (2,))


def a_graph(
    shape: tuple[int, ...] = (2,), outputs: tuple[Tensor, ...] = (), dtype: str = "float32"
) -> Graph:
    """Return a graph with a state."""
    return Graph(b"", (Tensor(STATE.name, dtype, shape),), outputs, ())


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "horizon": ({"horizon": HUGE}, "a horizon of 4611686018427387904"),
    "horizon of memory": ({"horizon": 1 << 40}, "an actor has 4 GiB for them"),
    "horizon of nothing": ({"horizon": 0}, "makes no sense"),
    "stack": ({"stack": 1 << 40}, "an actor has 4 GiB for them"),
    "stack below": ({"stack": -1}, "makes no sense"),
    "product": ({"horizon": 1 << 20, "stack": 1 << 12}, "an actor has 4 GiB"),
    "observation": (
        {"observation": {"": Space("box", "float32", (1 << 20, 1 << 20))}},
        "an actor has 4 GiB",
    ),
    "negative side": ({"observation": {"": Space("box", "uint8", (-4,))}}, "makes no sense"),
    "dimensions": ({"observation": {"": Space("box", "uint8", (1,) * 9)}}, "makes no sense"),
    "dtype": ({"observation": {"": Space("box", "object", ())}}, "makes no sense"),
    "actions": ({"action": Space("discrete", "int64", (), (1 << 60,))}, "makes no sense"),
    "no actions": ({"action": Space("discrete", "int64", (), ())}, "the space of the actions"),
    "unbounded actions": ({"action": Space("box", "float32", (2,))}, "without bounds"),
    "bounds of another shape": (
        {"action": Space("box", "float32", (2,), (), (0.0,), (1.0,))},
        "the space of the actions",
    ),
    "bounds that are no numbers": (
        {"action": Space("box", "float32", (1,), (), (math.nan,), (1.0,))},
        "the space of the actions",
    ),
    "outputs": (
        {"graph": Graph(b"", (), (Tensor("q", "float32", (1 << 40,)),), ())},
        "an actor has 4 GiB",
    ),
    "weights": ({"graph": Graph(b"", (), (), (Tensor("w", "float7", (1,)),))}, "makes no sense"),
    "epsilon": ({"exploration": Exploration(math.nan)}, "an epsilon of nan"),
    "last epsilon": ({"exploration": Exploration(1.0, math.inf)}, "an epsilon of inf"),
    "exploration steps": ({"exploration": Exploration(steps=-1)}, "makes no sense"),
    "ladder": ({"exploration": Exploration(ladder=HUGE)}, "a ladder of"),
    "episodes": ({"evaluation": Evaluation(1, 1 << 40)}, "episodes of an evaluation"),
    "evaluations": ({"evaluation": Evaluation(-1, 1)}, "between evaluations"),
    "head": ({"head": "q" * 5000}, "a name has more than 256 letters"),
    "environment": ({"world": World("x" * 5000)}, "a name has more than 256 letters"),
    "escapes": ({"world": World("x\x1b[2J")}, "others than text"),
    "wrapper": ({"world": World("x", wrappers=(("w" * 300, {}),))}, "more than 256 letters"),
    "agent": ({"world": World("x", seats={"default": ("a" * 300,)})}, "more than 256 letters"),
    "policies": (
        {"world": World("x", seats={f"p{n}": () for n in range(1000)})},
        "its world has 1000 policies, and an actor takes 64",
    ),
    "policy of a topic": (
        {"world": World("x", seats={"default": ("a",), "red/": ("b",)})},
        "'red/' is no name of a policy",
    ),
    "agents": (
        {"world": World("x", seats={"default": tuple(f"a{n}" for n in range(5000))})},
        "its world has 5000 agents, and an actor takes 1024",
    ),
    "agent of two": (
        {"world": World("x", seats={"default": ("a",), "red": ("a",)})},
        "two policies play one agent",
    ),
    "script": (
        {"world": World("x", seats={"default": ("a",), "red": ("b",)}, scripts={"red": "a/b"})},
        "a script 'a/b' plays 'red'",
    ),
    "own script": (
        {"world": World("x", seats={"default": ("a",)}, scripts={"default": "random"})},
        "a script 'random' plays 'default'",
    ),
    "script of none": (
        {"world": World("x", seats={"default": ("a",)}, scripts={"green": "random"})},
        "a script 'random' plays 'green'",
    ),
    "policy without an agent": (
        {"world": World("x", seats={"red": ("a",)})},
        "its own policy default plays no agent",
    ),
    "scripts": (
        {"selfplay": Selfplay(tuple(f"s{n}" for n in range(1000)))},
        "it names 1000 scripts as opponents, and a pool has 256",
    ),
    "exploration of archived versions": (
        {"selfplay": Selfplay(exploration=1.5)},
        "archived versions with an epsilon of 1.5",
    ),
    "exploration that is no number": (
        {"selfplay": Selfplay(exploration=math.nan)},
        "archived versions with an epsilon of nan",
    ),
    "column": ({"extras": (Column("c" * 300, "uint8", (), "step"),)}, "more than 256 letters"),
    "state that does not come back": (
        {"graph": a_graph(outputs=())},
        "takes state.sum, and returns no next_state.sum of its dtype and shape",
    ),
    "state that comes back as another": (
        {"graph": a_graph(outputs=(Tensor("next_state.sum", "float32", (3,)),))},
        "returns no next_state.sum",
    ),
    "state of memory": (
        {"graph": a_graph(shape=(1 << 30,), outputs=())},
        "returns no next_state.sum",
    ),
    "states of memory": (
        {"graph": a_graph((1 << 30,), (Tensor("next_state.sum", "float32", (1 << 30,)),))},
        "an actor has 4 GiB for them",
    ),
    "state of another type": ({"graph": a_graph(dtype="object")}, "makes no sense"),
    "state twice": (
        {"graph": Graph(b"", (STATE, STATE), (Tensor("next_state.sum", "float32", (2,)),), ())},
        "two inputs have one name",
    ),
    "input from nowhere": (
        {"graph": Graph(b"", (Tensor("secrets", "float32", (2,)),), (), ())},
        "the graph takes secrets, no observation and no state",
    ),
    "column of no state": (
        {"extras": (Column("state.sum", "float32", (2,), "trajectory"),)},
        "the column state.sum is float32 .* per trajectory, and the graph has no such state",
    ),
    "episodes of another form": (
        {"extras": (Column("episode", "int64", (1 << 40,), "step"),)},
        "the column episode is int64",
    ),
    "metrics": (
        {"extras": tuple(metric_column(f"m{n}") for n in range(METRICS + 1))},
        "more than 64 metrics",
    ),
    "metric of another name": (
        {"extras": (Column("is_success", "float64", (), "result"),)},
        "is no metric of an episode",
    ),
    "metric of another type": (
        {"extras": (Column("result.is_success", "float64", (1 << 40,), "result"),)},
        "makes no sense",
    ),
    "metric with escapes": ({"extras": (metric_column("\x1b[2J"),)}, "makes no sense"),
    "metric twice": ({"extras": (metric_column("m"),) * 2}, "is no metric of an episode"),
    "columns": (
        {"extras": tuple(Column(f"c{n}", "uint8", (), "step") for n in range(300))},
        "more than 256 columns",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_spec_is_refused_in_one_sentence(name: str) -> None:
    """The sentence names the number and its bound, and stays short."""
    changes, says = HOSTILE[name]
    with pytest.raises(Refused, match=says) as refusal:
        require_bounded(structs.replace(a_spec(), **changes), 1)
    assert refusal.value.reason == "spec"
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize(
    ("spec", "seats"),
    [
        (a_spec(), 4096),
        (a_stamp_spec(stack=4), 64),
        (
            a_spec(
                observation={"": Space("box", "uint8", (84, 84))},
                stack=4,
                horizon=128,
            ),
            128,
        ),
        (a_spec(horizon=1 << 20), 1),
    ],
)
def test_an_honest_spec_passes(spec: Spec, seats: int) -> None:
    """So do 128 screens of Atari for 128 steps, and an hour of a robot at 250 Hz."""
    require_bounded(spec, seats)


def test_seats_count() -> None:
    """One seat of the same spec fits, a million do not: the tables grow with them."""
    spec = a_spec(horizon=1 << 12)
    assert table_bytes(spec, 2) == 2 * table_bytes(spec, 1)
    require_bounded(spec, 1)
    with pytest.raises(Refused, match="lower --horizon or --stack of the learner, or --envs here"):
        require_bounded(spec, SPEC_BYTES // table_bytes(spec, 1) + 1)


def told(client: PolicyClient, learner: LearnerDouble, announcement: Announcement) -> None:
    """Answer the client's question with another announcement, then with weights."""
    assert client.snapshot_topic is not None
    client.receive(client.snapshot_topic, bytes(wire.encode(announcement)), 0.0)
    weights = some_weights(learner.spec)
    client.receive(client.snapshot_topic, bytes(tensors.encode_weights(weights)), 0.0)


def test_a_client_raises_the_refusal_of_its_learners_spec() -> None:
    """It is not joined. The owner of the connection learns why, and ends."""
    learner, client = LearnerDouble(a_stamp_spec()), PolicyClient("p", "a", 1)
    client.ask(0.0)
    hostile = structs.replace(learner.spec, horizon=HUGE)
    told(client, learner, Announcement(hostile, 7, 1, 0, 0))
    assert client.newest.joined is None
    with pytest.raises(Refused, match="a horizon of"):
        client.due(0.0)


def test_the_spec_of_another_run_ends_no_client() -> None:
    """A second learner at the address cannot end the actors of the first."""
    learner, client = LearnerDouble(a_stamp_spec()), PolicyClient("p", "a", 1)
    client.ask(0.0)
    learner.send_to(client, 0.0)
    client.ask(1.0)
    hostile = structs.replace(learner.spec, run="other", horizon=HUGE)
    told(client, learner, Announcement(hostile, 9, 1, 0, 0))
    client.due(1.0)
    assert client.newest.joined is not None


@pytest.mark.parametrize("place", [{"index": 1 << 60}, {"start": 1 << 60}, {"index": -2}])
def test_a_place_that_no_seed_tree_has_is_refused(place: dict[str, int]) -> None:
    """Its product with the seats would not fit into numpy's integers."""
    announcement = Announcement(a_stamp_spec(), 7, 1, **({"index": 0, "start": 0} | place))
    with pytest.raises(Refused, match="malformed"):
        wire.read(wire.open_frame(bytes(wire.encode(announcement))))
