"""The status document: what is written is what is read."""

import json
import math

import pytest

from farflung.common.process.errors import Refused
from farflung.learner.observe.status import (
    ActorState,
    ActorStatus,
    EvaluationStatus,
    Status,
    from_document,
    to_document,
)

FULL = Status(
    run="brave-otter",
    steps=500,
    steps_target=2000,
    steps_per_second=100.0,
    return_history=(1.0, 2.5),
    evaluation=EvaluationStatus(496.0, 20, 3400, 500.0),
    refused={"schema": 3},
    actors=(ActorStatus("cpu01", ActorState.RUNNING, seats=16, steps_per_second=2300.5),),
    problems=("cpu01: it fell over",),
    metrics={"q_mean": 1.5},
)


def test_a_document_comes_back_equal() -> None:
    """Every field survives, nested ones too."""
    assert from_document(to_document(FULL)) == FULL
    assert from_document(to_document(Status(run="empty"))) == Status(run="empty")


def test_a_document_is_one_line_of_strict_json() -> None:
    """What is not finite becomes null: machines that read JSON know no NaN."""
    document = to_document(Status(run="r", loss=math.nan, metrics={"q_mean": math.inf}))
    assert "\n" not in document
    plain = json.loads(document, parse_constant=pytest.fail)
    assert plain["loss"] is None
    assert from_document(document).metrics == {"q_mean": None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"run": 5}',
        "[" * 100_000,
        to_document(FULL).replace("500", '"many"'),
        to_document(FULL).replace("0.0", "1" * 400),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """Telemetry comes over the network: odd text is a refusal, never another error."""
    with pytest.raises(Refused):
        from_document(text)


def test_progress_and_time_left_follow_from_steps_and_rate() -> None:
    """500 of 2000 steps are a quarter; 1500 more at 100 per second take 15 s."""
    assert FULL.progress == 0.25
    assert FULL.seconds_left == pytest.approx(15.0)


def test_without_a_target_or_a_rate_nothing_is_promised() -> None:
    """None, where progress or the time left cannot be said."""
    assert Status(run="r", steps=5, steps_per_second=1.0).progress is None
    assert Status(run="r", steps=5, steps_per_second=1.0).seconds_left is None
    assert Status(run="r", steps=5, steps_target=10).seconds_left is None


def test_more_steps_than_wanted_are_complete() -> None:
    """The last parcels may overshoot."""
    status = Status(run="r", steps=12, steps_target=10, steps_per_second=1.0)
    assert (status.progress, status.seconds_left) == (1.0, 0.0)
