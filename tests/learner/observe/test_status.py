"""The status document: what is written is what is read."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from farflung.common.process.errors import Refused
from farflung.learner.observe import screen
from farflung.learner.observe.metrics import metrics
from farflung.learner.observe.panel import draw
from farflung.learner.observe.status import (
    ActorState,
    ActorStatus,
    EvaluationStatus,
    Status,
    WaitingStatus,
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
    """A number that is not finite becomes null: readers of JSON know no NaN."""
    metrics = {"loss": math.nan, "q_mean": math.inf}
    document = to_document(Status(run="r", metrics=metrics, return_history=(1.0, math.nan)))
    assert "\n" not in document
    plain = json.loads(document, parse_constant=pytest.fail)
    assert plain["metrics"] == {"loss": None, "q_mean": None}
    assert from_document(document).return_history == (1.0, None)


def any_figures(whole: int, real: float) -> Status:
    """Return a status with one whole number and one real number in every place."""
    actor = ActorStatus(
        "a",
        ActorState.RUNNING,
        seats=whole,
        steps_per_second=real,
        episodes=whole,
        version=whole,
        acknowledged=whole,
        waiting=whole,
    )
    return Status(
        run="r",
        steps=whole,
        steps_target=whole,
        return_mean=real,
        return_history=(real, 1.0, -real),
        length_mean=real,
        evaluation=EvaluationStatus(real, whole, whole, -real, real),
        metrics={"loss": real},
        steps_per_second=real,
        lag_p50=-whole,
        lost=whole,
        refused={"range": whole},
        actors=(actor,),
    )


@pytest.mark.parametrize("bits", [0, 62, 64, 80, 1000])
@pytest.mark.parametrize("real", [0.0, 1e308, -1e308, math.inf, -math.inf, math.nan])
def test_documents_and_all_that_is_drawn_survive_any_figure(
    bits: int, real: float, tmp_path: Path
) -> None:
    """On both sides: to write, to read, to draw, as a line, in the metrics."""
    whole = (1 << bits) - 1
    status = any_figures(whole, real)
    read = from_document(to_document(status))
    assert from_document(to_document(read)) == read
    assert read.steps == min(whole, (1 << 63) - 1)
    assert read.return_mean == (real if math.isfinite(real) else None)
    for one in (status, read):
        assert "learner" in str(draw(one, 100, 40).title)
        assert screen.line(one).isprintable()
    sink = metrics(tmp_path)
    sink.close(read)
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["time/total_timesteps"] >= 0


def test_texts_of_a_document_steer_no_terminal() -> None:
    """On both sides, in values and in names; JSON itself escapes no C1 and no mark of direction."""
    evil = "a\x1b[2J\x9b\u2028\u202e\nb" + "x" * (3 << 20)
    status = Status(
        evil,
        metrics={evil: 1.0},
        refused={evil: 1},
        actors=(ActorStatus(evil, evil),),
        problems=(evil,),
    )
    document = to_document(status)
    assert document.isprintable()
    assert len(document) < 20_000
    raw = json.dumps({"run": evil, "metrics": {evil: 1}, "problems": [evil]}, ensure_ascii=False)
    read = from_document(raw)
    assert (read.run, read.metrics, read.problems) == (
        status_text := "a [2J    b" + "x" * 1989 + "…",
        {status_text: 1.0},
        (status_text,),
    )


def test_document_that_an_older_learner_wrote_of_such_figures_is_read() -> None:
    """It wrote null for an infinite mean, and counters of actors as they were reported."""
    older = json.loads(to_document(FULL))
    older["evaluation"] |= {"mean": None, "best": None, "version": (1 << 64) - 1}
    older["actors"][0] |= {"episodes": -5, "waiting": (1 << 64) - 1}
    status = from_document(json.dumps(older))
    assert status.evaluation is not None
    assert (status.evaluation.mean, status.evaluation.version) == (None, (1 << 63) - 1)
    assert (status.actors[0].episodes, status.actors[0].waiting) == (-5, (1 << 63) - 1)


def test_status_of_a_newer_learner_is_read_without_what_it_adds() -> None:
    """Unknown fields are ignored at every level, unknown words of known fields are kept."""
    newer = json.loads(to_document(FULL))
    newer["teams"] = {"red": [1, 2]}
    newer["actors"][0]["battery"] = 0.5
    newer["actors"][0]["state"] = "charging"
    newer["evaluation"]["spread"] = 3.0
    newer["waiting"] = {"cause": "moon phase", "number": 3, "share": 1.0, "until": "full"}
    status = from_document(json.dumps(newer))
    assert status == dataclasses.replace(
        FULL,
        actors=(dataclasses.replace(FULL.actors[0], state="charging"),),
        waiting=WaitingStatus("moon phase", 3, 1.0),
    )


def test_status_of_an_older_learner_is_filled_in_with_defaults() -> None:
    """Only the run, and the name and state of an actor, have no default."""
    older = from_document('{"run": "r", "actors": [{"name": "a", "state": "running"}]}')
    assert older == Status(run="r", actors=(ActorStatus("a", "running"),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"run": 5}',
        '{"run": "r", "steps": true}',
        '{"run": "r", "steps": 1.5}',
        '{"run": "r", "steps": -1}',
        '{"run": "r", "steps": 1%s}' % ("0" * 5000),
        '{"run": "r", "seconds": 1e999}',
        '{"run": "r", "seconds": NaN}',
        '{"run": "r", "metrics": {"loss": "low"}}',
        '{"run": "r", "refused": {"schema": null}}',
        '{"run": "r", "problems": "one"}',
        '{"run": "r", "actors": [{"name": "a"}]}',
        '{"run": "r", "later": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"run": "\ud800"}',
        "[" * 100_000,
        to_document(FULL).replace(":500,", ':"many",'),
        to_document(FULL).replace("0.0", "1" * 400),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """Telemetry comes over the network: odd text is a refusal in a sentence, no other error."""
    with pytest.raises(Refused, match="this is not the status of a learner"):
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
