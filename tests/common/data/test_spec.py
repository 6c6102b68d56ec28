"""The spec: what follows from it, and what its hash relies on."""

import hashlib

import pytest
from msgspec.structs import replace
from support.makers import a_spec

from farflung.common.data.spec import (
    Column,
    Exploration,
    Space,
    Tensor,
    World,
    column_name,
    metric_column,
)


def test_spec_columns_have_the_order_of_the_wire():
    """Observations by key, actions, rewards, and the optional ones."""
    mask = Column("mask", "bool", (3,), "step")
    spec = a_spec(
        observation={"camera": Space("box", "uint8", (4, 4)), "speed": Space("box", "float32", ())},
        action=Space("box", "float32", (2,)),
        extras=(mask,),
    )
    assert spec.columns == (
        Column("observations.camera", "uint8", (4, 4), "observation"),
        Column("observations.speed", "float32", (), "observation"),
        Column("actions", "float32", (2,), "step"),
        Column("rewards", "float32", (), "step"),
        mask,
    )


def test_spec_of_a_plain_space_has_one_observation_column():
    """Without a key in its name."""
    assert (column_name(""), column_name("camera")) == ("observations", "observations.camera")


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": 9},
        {"stack": 2},
        {"observation": {"": Space("box", "float64", (2,))}},
        {"observation": {"x": Space("box", "float32", (2,))}},
        {"action": Space("discrete", "int64", (), (3,))},
        {"extras": (Column("mask", "bool", (3,), "step"),)},
        {"extras": (metric_column("is_success"),)},
    ],
)
def test_schema_changes_with_everything_a_receiver_relies_on(change):
    """Columns, horizon, stack and the actions that there are."""
    assert a_spec(**change).schema != a_spec().schema


def test_schema_ignores_everything_rows_do_not_depend_on():
    """Another run, world, graph or exploration has the same rows."""
    spec = a_spec()
    other = replace(
        spec,
        run="run-2",
        world=World("Other-v0"),
        exploration=Exploration(0.5),
        compression={"observations": "lz4"},
    )
    assert other.schema == spec.schema


def schema_by_the_page(spec):
    """Write the text of docs/protocol.md, "The schema", from plain data, and hash it."""

    def word(numbers):
        return "x".join(str(number) for number in numbers) if numbers else "-"

    leaves = [
        (f"observations.{key}" if key else "observations", "observation", space)
        for key, space in spec.observation.items()
    ]
    leaves.append(("actions", "step", spec.action))
    rows = [(per, space.dtype, space.shape, name) for name, per, space in leaves]
    rows.append(("step", "float32", (), "rewards"))
    for late in (False, True):  # those per result are the last in the table
        extras = [extra for extra in spec.extras if (extra.per == "result") is late]
        rows += [(extra.per, extra.dtype, extra.shape, extra.name) for extra in extras]
    text = f"horizon {spec.horizon}\nstack {spec.stack}\n"
    for per, dtype, shape, name in rows:
        text += f"column {per} {dtype} {word(shape)} {name}\n"
    for name, _, space in leaves:
        if space.sizes:
            text += f"choices {word(space.sizes)} {name}\n"
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"horizon": 128, "stack": 4, "observation": {"": Space("box", "uint8", (84, 84))}},
        {
            "observation": {
                "camera left": Space("box", "uint8", (4, 4, 3)),
                "größe": Space("box", "float32", ()),
                "gear": Space("discrete", "int64", (), (6,)),
                "dials": Space("multidiscrete", "int32", (2, 2), (3, 4, 5, 6)),
            }
        },
        {"action": Space("box", "float32", (2,), (), (-1.0, -0.1), (1.0, 1e-7))},
        {
            "extras": (
                Column("log_probability", "float32", (), "step"),
                Column("state", "float32", (2, 64), "trajectory"),
                Column("mask", "bool", (3,), "observation"),
            )
        },
        {"extras": (Column("mask", "bool", (3,), "step"), *map(metric_column, ("win", "x.y")))},
    ],
)
def test_schema_is_what_the_protocol_page_says(changes):
    """A second implementation, written from the page, comes to the same hash."""
    spec = a_spec(**changes)
    assert schema_by_the_page(spec) == spec.schema


def test_metrics_of_episodes_are_no_columns_of_rows():
    """A replay and a recorder see the other extra columns only."""
    mask = Column("mask", "bool", (3,), "step")
    spec = a_spec(extras=(metric_column("is_success"), mask))
    assert spec.metrics == ("is_success",)
    assert (spec.row_extras, spec.result_extras) == ((mask,), (metric_column("is_success"),))
    assert [column.name for column in spec.columns] == [
        "observations",
        "actions",
        "rewards",
        "mask",
    ]


def test_schema_of_a_continuous_action_is_free_of_its_bounds():
    """Floats are written differently by every language, and a receiver does not check them."""
    low, high = (-1.0,), (1.0,)
    action = Space("box", "float32", (1,), (), low, high)
    wider = Space("box", "float32", (1,), (), (-2.0,), high)
    assert a_spec(action=action).schema == a_spec(action=wider).schema


@pytest.mark.parametrize(("steps", "epsilon"), [(0, 1.0), (500, 0.55), (1000, 0.1), (10**9, 0.1)])
def test_exploration_falls_linearly(steps, epsilon):
    """At the start, in the middle, at the end and after it."""
    assert Exploration(1.0, 0.1, 1000).epsilon(steps) == pytest.approx(epsilon)


@pytest.mark.parametrize(("per", "progress"), [("step", 700), ("round", 4)])
def test_exploration_follows_steps_or_rounds(per, progress):
    """Version 5 is that of the fifth round: four were played before it."""
    assert Exploration(per=per).progress(700, 5) == progress
    assert Exploration(per=per).progress(0, 0) == 0


def test_exploration_without_steps_is_at_its_end():
    """There is nothing to go through."""
    assert Exploration(1.0, 0.1, 0).epsilon(0) == 0.1


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 24), ("float64", 48), ("int64", 48), ("int32", 24), ("uint8", 6), ("bool", 6)],
)
def test_tensor_counts_its_bytes(dtype, size):
    """Of 2 x 3 elements."""
    assert Tensor("t", dtype, (2, 3)).size == size
