"""The recurrent state of a policy: tensors that the acting graph takes and returns with each step.

An input `state.NAME` has an output `next_state.NAME` of the same dtype and shape. It is zero where
an episode begins, and the output of the decision before everywhere else.
"""

from farflung.common.data.spec import Column, Graph, Tensor

STATE = "state."  # in front of a state's name: the graph's input, and the column that records it
NEXT = "next_"  # in front of that: the graph's output

# Of the trajectory: a random number of its episode, and the number of its first step in it. Two
# trajectories of one episode follow one another if the second begins where the first one ends.
EPISODE = Column("episode", "int64", (2,), "trajectory")


def states(graph: Graph) -> tuple[Tensor, ...]:
    """Return the states that a graph takes; none for a policy without memory."""
    return tuple(tensor for tensor in graph.inputs if tensor.name.startswith(STATE))


def next_name(state: str) -> str:
    """Return the name of the output that is a state after the step."""
    return NEXT + state


def state_columns(graph: Graph) -> tuple[Column, ...]:
    """Return the columns that record the state before each trajectory's first step."""
    return tuple(
        Column(tensor.name, tensor.dtype, tensor.shape, "trajectory") for tensor in states(graph)
    )


def next_columns(graph: Graph) -> tuple[Column, ...]:
    """Return columns for the state after each trajectory's last step. They do not travel."""
    return tuple(
        Column(next_name(state.name), state.dtype, state.shape, "trajectory")
        for state in states(graph)
    )


def next_places(graph: Graph) -> dict[str, int]:
    """Return the place among the graph's outputs of each state after the step, by its output."""
    places = {output.name: place for place, output in enumerate(graph.outputs)}
    return {column.name: places[column.name] for column in next_columns(graph)}
