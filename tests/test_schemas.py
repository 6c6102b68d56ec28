"""The shipped JSON schemas are those of the code, and what a learner writes fits them."""

import importlib.util
import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from farflung.learner.observe.metrics import metrics, scalars
from farflung.learner.observe.status import (
    ActorState,
    ActorStatus,
    EvaluationStatus,
    FigureStatus,
    GamesStatus,
    GradientStatus,
    OpponentStatus,
    ProblemStatus,
    RealTimeStatus,
    Status,
    to_document,
)

ROOT = Path(__file__).parents[1]
FULL = Status(
    run="one-1",
    epoch=2,
    steps_target=9,
    goal_seconds=1.5,
    return_mean=2.0,
    return_spread=0.5,
    return_history=(1.0, None),
    length_mean=3.0,
    evaluation=EvaluationStatus(4.0, 20, 3, 5.0, 6.0),
    metrics={"loss": 0.5, "bad": math.nan, "arm/force": 1.0},
    figures={"eval/success_rate": FigureStatus(0.5, 0.1, 20)},
    steps_per_second=1.0,
    updates_per_second=1.0,
    ratio_wanted=1.0,
    ratio_held=1.0,
    lag_p50=1.0,
    lag_p95=1.0,
    update_split={"sample": 0.1},
    memory_parts={"replay": 9},
    checkpoint_pause_s=0.1,
    refused={"nonfinite": 2},
    gradients=GradientStatus(3, 1, 1, 0, {"stale": 1}),
    games=GamesStatus(2, 1, 1, 0, 0.75, 20.0, 3.0, (OpponentStatus("random", 1, 1, 0),)),
    archived=3,
    actors=(
        ActorStatus(
            "lab/a",
            ActorState.RUNNING,
            steps_per_second=2.0,
            real_time=RealTimeStatus(50.0),
            memory={"resident": 9},
        ),
        ActorStatus("b", ActorState.LEFT),
    ),
    problems=("lab/a: a sentence",),
    problem_texts=(ProblemStatus("lab/a: a sentence", ("Traceback", "a sentence")),),
)


def writer() -> Any:
    """Return docs/schemas.py."""
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "docs/schemas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def schema(name: str) -> Any:
    """Return a shipped schema, checked by its own standard, as a validator."""
    jsonschema = pytest.importorskip("jsonschema")
    found = json.loads((ROOT / f"docs/{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def test_schemas_are_written_from_the_code() -> None:
    """`python docs/write.py` after a change of the status or of a curve."""
    write = writer()
    assert write.text(write.status()) == write.STATUS.read_text(), "run python docs/write.py"
    assert write.text(write.metrics()) == write.METRICS.read_text(), "run python docs/write.py"


def test_every_field_of_a_status_is_described_and_no_other() -> None:
    """A new field has a line in docs/schemas.py."""
    write = writer()
    parts = write.status()["$defs"]
    assert {name: set(part["properties"]) for name, part in parts.items()} == {
        name: set(described) for name, described in write.FIELDS.items()
    }
    assert set(parts["Status"]["properties"]) == {field.name for field in fields(Status)}


def test_every_curve_of_a_learner_is_described_and_no_other() -> None:
    """Beside those of its algorithm, its callbacks and its environments."""
    named = scalars(replace(FULL, metrics={}, figures={}))
    assert set(named) == set(writer().CURVES)


def test_a_status_fits_its_schema() -> None:
    """A full one, an empty one, and one of a later release; others do not fit."""
    check = schema("status")
    document = json.loads(to_document(FULL))
    for good in (document, json.loads(to_document(Status(run="r"))), document | {"later": 1}):
        check.validate(good)
    lonely = dict(document)
    del lonely["run"]
    bad = [lonely, document | {"steps": "many"}, document | {"steps": -1}, document | {"actors": 3}]
    assert not any(map(check.is_valid, bad))


def test_lines_of_metrics_fit_their_schema(tmp_path: Path) -> None:
    """Those with an evaluation, with null, and with names of one's own; others do not fit."""
    outlet = metrics(tmp_path, lambda: 1_700_000_000.25)
    outlet.show(Status(run="r"))
    outlet.close(replace(FULL, seconds=10.0))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    assert lines[1]["train/bad"] is None
    assert lines[1]["eval/mean_reward"] == 4.0
    check = schema("metrics")
    for line in lines:
        check.validate(line)
    bad = [lines[0] | {"epoch": "one"}, lines[0] | {"arm/force": "high"}, {"epoch": 1}]
    assert not any(map(check.is_valid, bad))
