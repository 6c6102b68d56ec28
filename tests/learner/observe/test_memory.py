"""`learner memory`: parts of each process, and the rest of what the system counts."""

import json
from types import SimpleNamespace

import pytest
import torch
from support.makers import a_spec, some_weights

from farflung.common.data.spec import Evaluation
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Telemetry
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.observe.endpoint_status import endpoint_status
from farflung.learner.observe.holding import LOOK_S, Holding
from farflung.learner.observe.memory import lines, of_broker, of_learner
from farflung.learner.observe.status import ActorStatus, Status


def telemetry(document):
    """Return a broker's message."""
    return bytes(wire.encode(Telemetry("", "", 5, document)))


def test_parts_and_the_rest_are_the_resident_memory():
    """Of a learner and of each actor; one of an older release says nothing."""
    status = Status(
        "run-1",
        memory=1000,
        memory_parts={"replay": 600, "libraries": 300},
        actors=(
            ActorStatus("new", "running", memory={"resident": 50, "session": 80}),
            ActorStatus("old", "running"),
        ),
    )
    assert of_learner(status) == {
        "learner": {"resident": 1000, "replay": 600, "libraries": 300, "rest": 100},
        "actor new": {"resident": 50, "session": 80, "rest": 0},
        "actor old": {},
    }


def test_broker_is_its_process_and_its_queues():
    """Of all its upstreams."""
    document = {
        "broker": "edge",
        "memory": 1000,
        "seconds": 3,
        "upstreams": [{"queued_bytes": 200}, {"queued_bytes": 100, "address": "x"}],
    }
    assert of_broker(telemetry(json.dumps(document))) == {
        "broker edge": {"resident": 1000, "queues": 300, "rest": 700}
    }


@pytest.mark.parametrize(
    "document",
    [
        "no JSON",
        "[" * 100_000,
        "{}",
        '{"broker": 3}',
        '{"broker": "a", "memory": "much"}',
        '{"broker": "a", "memory": NaN}',
        '{"broker": "a", "upstreams": [3]}',
    ],
)
def test_broker_that_cannot_be_read_is_left_out(document):
    """As one of an older or a hostile release."""
    assert of_broker(telemetry(document)) == {}
    assert of_broker(document.encode()) == {}


def test_hostile_figures_of_a_broker_are_bounded():
    """Negative and huge numbers, and a name that steers a terminal."""
    document = {
        "broker": "\x1b[2J" + "x" * 1_000_000,
        "memory": -5,
        "upstreams": [{"queued_bytes": -3}, {"queued_bytes": 1e300}, {"queued_bytes": 1 << 62}],
    }
    [(name, parts)] = of_broker(telemetry(json.dumps(document))).items()
    assert name.isprintable()
    assert len(name) < 100
    assert parts == {"resident": 0, "queues": 0, "rest": 0}


def test_lines_have_the_largest_part_first():
    """A process without figures has a dash."""
    found = lines({"learner": {"resident": 2_500_000, "a": 1000, "b": 2_000_000}, "actor old": {}})
    assert found == ["learner: 2.5 MB", "    2.0 MB  b", "    1.0 kB  a", "actor old: -"]


def test_learner_counts_tensors_in_its_own_memory_only():
    """Not those of a device; they are looked at now and then, since a state may be a copy."""
    looks = []

    def state():
        looks.append(1)
        return {"a": torch.zeros(10), "b": torch.zeros(3, device="meta")}

    core = SimpleNamespace(
        replay=SimpleNamespace(held_bytes=7), algorithm=SimpleNamespace(state=state)
    )
    holding = Holding(core)
    parts = [holding.parts({"parcels": 5}, seconds) for seconds in (0.0, 1.0, LOOK_S + 0.1)]
    assert len(looks) == 2
    assert [part["network"] for part in parts] == [40, 40, 40]
    assert (parts[0]["replay"], parts[0]["parcels"]) == (7, 5)
    assert parts[0]["libraries"] > 0


def test_endpoint_counts_the_messages_and_versions_that_it_holds():
    """Versions that evaluations may need; its owner counts those of sockets."""
    endpoint = Endpoint(a_spec(evaluation=Evaluation(100, 3)))
    for number in (1, 2):
        weights = some_weights(endpoint.spec, number)
        endpoint.publish(weights)
    held = dict(endpoint_status(endpoint, 0.0, unread=3).held)
    assert held == {"sockets": 3, "parcels": 0, "versions": 2 * len(weights.block)}
    assert len(weights.block) > 0
