"""The counts in parcel messages as recovery reads them."""

import pytest
from support.makers import a_frame, a_parcel, a_spec, rewritten

from farflung.common.protocol import wire
from farflung.learner.storage.journal import payloads


@pytest.mark.parametrize("shape", [[""], ["3"], [3.0], [True], [-1], [None], [[3]], [], "3", None])
@pytest.mark.parametrize("name", ["rewards", "result_returns"])
def test_column_table_with_odd_shapes_counts_nothing(name, shape):
    """Without a number of rows there are no steps. Found by fuzzing."""
    frame = a_frame(a_spec(), a_parcel(results=((1.0, 2), (2.0, 3))))
    assert payloads.counts_of(wire.open_frame(frame)) == (3, 2)

    def change(fields):
        for row in fields["columns"]:
            row[2] = shape if row[0] == name else row[2]

    odd = wire.open_frame(rewritten(frame, change))
    assert payloads.counts_of(odd) == ((0, 0) if name == "rewards" else (3, 0))


def test_column_table_with_odd_names_counts_nothing():
    """A list cannot be a name."""
    table = [[["rewards"], 1, [3], 1, 1, ""], ["rewards"], 7]
    odd = wire.open_frame(rewritten(a_frame(a_spec()), lambda fields: fields.update(columns=table)))
    assert payloads.counts_of(odd) == (0, 0)
