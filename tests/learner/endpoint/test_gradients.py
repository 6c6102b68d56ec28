"""Gradients that come in: bounds against a hostile worker, and books that balance."""

import math

import pytest
from msgspec import structs
from support.learner_double import LearnerDouble
from support.makers import a_frame, a_gradients_frame, a_learning, a_spec, an_evaluation, rewritten

from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Report
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.items import RefusedNumber
from farflung.learner.endpoint.publisher import WORKER
from farflung.learner.observe.endpoint_status import gradient_status
from farflung.learner.observe.status import GradientStatus

KEY = "box-1", 7
TAKES = frozenset({Kind.PARCEL, Kind.GRADIENTS})


@pytest.fixture
def learner():
    """Return a learner of workers alone, with two versions. A message has at most 627 steps."""
    return LearnerDouble(a_spec(learning=a_learning()), learner_id=5, versions=2, takes=TAKES)


def books(learner):
    """Return the books of gradients, which must balance."""
    found = gradient_status(learner.receiver.inboxes.gradients)
    refused = sum(found.refused.values())
    assert found.received == found.applied + found.waiting + found.repeated + refused
    return found


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("epoch", {"version": Version(2, 1)}),
        ("epoch", {"version": Version(0, 1)}),
        ("version", {"version": Version(1, 3)}),
        ("range", {"samples": 31}),
        ("range", {"samples": 1 << 60}),
        ("range", {"steps": 628}),
        ("range", {"steps": 1 << 60}),
        ("metrics", {"metrics": {f"m{number}": 0.0 for number in range(65)}}),
        ("metrics", {"metrics": {"x" * 65: 0.0}}),
        ("metrics", {"metrics": {"a\nb": 0.0}}),
        ("nonfinite", {"metrics": {"loss": math.nan}}),
        ("nonfinite", {"norm": math.inf}),
        ("schema", {"schema": "0" * 16}),
    ],
)
def test_gradients_that_no_honest_worker_sends_are_refused_and_counted(learner, reason, changes):
    """Under their number, so that the sender learns the reason and the books have it."""
    made = a_gradients_frame(learner.spec)
    frame = rewritten(made, lambda fields: fields.update(_plain(changes)))
    item = learner.receiver.receive(frame, 0.0)
    assert item.content == RefusedNumber(reason, survives=False)
    assert books(learner).refused == {reason: 1}
    item.settle()
    learner.endpoint.settle()
    assert learner.receiver.inboxes.received(*KEY).refused == ((1, reason),)
    assert learner.receiver.inbox.ledger.received == 0


def _plain(changes):
    return {
        name: list(value) if isinstance(value, Version) else value
        for name, value in changes.items()
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda column: column.__setitem__(0, "other"), "columns"),
        (lambda column: column.__setitem__(2, [4, 1]), "columns"),
        (lambda column: column.__setitem__(2, [1 << 40, 2]), "columns"),
        (lambda column: column.__setitem__(1, "float64"), "columns"),
        (lambda column: column.__setitem__(3, 1 << 40), "columns"),
    ],
    ids=["name", "shape", "huge shape", "dtype", "beyond its message"],
)
def test_a_table_of_other_tensors_is_refused(learner, change, reason):
    """Before memory is taken: the table must be exactly that of the learner's tensors."""
    made = a_gradients_frame(learner.spec)
    frame = rewritten(made, lambda fields: change(fields["columns"][0]))
    learner.receiver.receive(frame, 0.0)
    assert books(learner).refused == {reason: 1}


@pytest.mark.parametrize("episodes", [1 << 20, 1 << 60, -1])
def test_claimed_episodes_take_no_memory(learner, episodes):
    """The message must have them, and no more than its steps can end."""

    def change(fields):
        for column in fields["columns"][-2:]:
            column[2] = [episodes]

    learner.receiver.receive(rewritten(a_gradients_frame(learner.spec), change), 0.0)
    assert books(learner).refused == {"columns": 1}


def test_repeated_gradients_count_once(learner):
    """Of three copies one waits for its step, and two are repeated; then it is applied."""
    items = [learner.receiver.receive(a_gradients_frame(learner.spec), 0.0) for _ in range(3)]
    assert items[1:] == [None, None]
    assert books(learner) == GradientStatus(received=3, waiting=1, repeated=2)
    items[0].settle()
    learner.endpoint.settle()
    assert books(learner) == GradientStatus(received=3, applied=1, repeated=2)


def test_stale_gradients_are_refused_when_their_turn_comes(learner):
    """The loop decides, and the books of the endpoint follow."""
    item = learner.receiver.receive(a_gradients_frame(learner.spec), 0.0)
    item.settle("stale")
    learner.endpoint.settle()
    assert books(learner) == GradientStatus(received=1, refused={"stale": 1})


def test_damaged_gradients_are_in_the_books(learner):
    """One byte was turned over on the way; so they have no number."""
    frame = bytearray(a_gradients_frame(learner.spec))
    frame[-1] ^= 1
    assert learner.receiver.receive(bytes(frame), 0.0) is None
    assert books(learner) == GradientStatus(received=1, refused={"checksum": 1})


def test_incarnation_sends_rows_or_gradients(learner):
    """Both under one incarnation would mix what is durable with what is not."""
    evaluation = a_frame(learner.spec, an_evaluation([1.0]), sequence=2)
    learner.receiver.receive(a_gradients_frame(learner.spec), 0.0)
    learner.receiver.receive(evaluation, 0.0)
    assert learner.receiver.inbox.ledger.refused == {"kind": 1}
    other = LearnerDouble(learner.spec, takes=TAKES)
    other.receiver.receive(evaluation, 0.0)
    other.receiver.receive(a_gradients_frame(other.spec), 0.0)
    assert books(other).refused == {"kind": 1}


@pytest.mark.parametrize("alone", [True, False])
def test_learner_of_workers_alone_takes_results_of_evaluations_and_no_rows(alone):
    """Beside rows of its own it takes both."""
    spec = a_spec(learning=a_learning(alone=alone))
    learner = LearnerDouble(spec, takes=TAKES)
    learner.receiver.receive(a_frame(spec, an_evaluation([1.0])), 0.0)
    learner.receiver.receive(a_frame(spec, sequence=2), 0.0)
    assert learner.receiver.inbox.ledger.refused == ({"kind": 1} if alone else {})


def test_worker_has_a_credit_of_its_own(learner):
    """However little room there is for rows, and however many take part."""
    learner.room = 0
    learner.receiver.receive(a_gradients_frame(learner.spec), 0.0)
    learner.endpoint.settle()
    (acknowledgement,) = [
        wire.read(wire.open_frame(frame))
        for _, frame in learner.due(1.0)
        if wire.kind_of(frame) == Kind.ACKNOWLEDGEMENT
    ]
    assert acknowledgement.credit == WORKER


def test_base_of_a_worker_is_that_of_its_gradients(learner):
    """After 70,000 gradients its reports name a base that no blank incarnation could have."""
    for sequence in range(1, 70_002, 1000):
        frame = a_gradients_frame(learner.spec, sequence=sequence, base=max(1, sequence - 999))
        learner.receiver.receive(frame, 0.0).settle()
        learner.endpoint.settle()
    report = Report("run-1", "default", *KEY, 70_001, Version(1, 1))
    learner.receiver.receive(bytes(wire.encode(report)), 0.0)
    assert learner.receiver.inbox.ledger.refused == {}


def test_large_weights_make_room_for_large_messages():
    """As many bytes as the weights and 1 MiB, or 64 MiB if that is more."""
    large = structs.replace(a_spec().graph.weights[0], shape=(4096, 8192))  # 128 MiB
    graph = structs.replace(a_spec().graph, weights=(large,))
    small = LearnerDouble(a_spec(learning=a_learning()), versions=0)
    without = LearnerDouble(a_spec(graph=graph), versions=0)
    whole = LearnerDouble(a_spec(graph=graph, learning=a_learning()), versions=0)
    found = [double.endpoint.most_bytes >> 20 for double in (small, without, whole)]
    assert found == [64, 64, 129]
