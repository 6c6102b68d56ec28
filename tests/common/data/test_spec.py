"""The spec: what follows from it, and what its hash relies on."""

from dataclasses import replace

import pytest
from support.makers import a_spec

from farflung.common.data.spec import Column, Exploration, Space, Tensor, World, column_name


def test_columns_come_in_the_order_of_the_wire():
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


def test_a_plain_space_has_one_column():
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
    ],
)
def test_the_schema_changes_with_what_a_receiver_relies_on(change):
    """Columns, horizon, stack and the actions that there are."""
    assert a_spec(**change).schema != a_spec().schema


def test_the_schema_stays_with_what_rows_do_not_depend_on():
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


@pytest.mark.parametrize(("steps", "epsilon"), [(0, 1.0), (500, 0.55), (1000, 0.1), (10**9, 0.1)])
def test_exploration_goes_down_in_a_line(steps, epsilon):
    """At the start, in the middle, at the end and after it."""
    assert Exploration(1.0, 0.1, 1000).epsilon(steps) == pytest.approx(epsilon)


def test_exploration_without_steps_is_at_its_end():
    """There is nothing to go through."""
    assert Exploration(1.0, 0.1, 0).epsilon(0) == 0.1


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 24), ("float64", 48), ("int64", 48), ("int32", 24), ("uint8", 6), ("bool", 6)],
)
def test_a_tensor_knows_its_bytes(dtype, size):
    """Of 2 x 3 elements."""
    assert Tensor("t", dtype, (2, 3)).size == size
