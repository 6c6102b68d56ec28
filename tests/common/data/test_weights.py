"""Versions and their blocks: where each tensor lies, and what is newer."""

import numpy as np
import pytest

from farflung.common.data.layout import ALIGNMENT, layout
from farflung.common.data.spec import Tensor
from farflung.common.data.weights import Version, Weights, pack

TENSORS = (
    Tensor("a", "float32", (3, 2)),
    Tensor("scalar", "float64", ()),
    Tensor("none", "int64", (0,)),
    Tensor("flag", "bool", (65,)),
)
ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(3, 2),
    "scalar": np.float64(0.1),
    "none": np.zeros(0, np.int64),
    "flag": np.arange(65) % 2 == 0,
}


def test_layout_aligns_each_column():
    """24, 8, 0 and 65 bytes: at 0, 64, 128 and 128, the block ends at 193."""
    assert ALIGNMENT == 64
    assert layout([24, 8, 0, 65]) == ((0, 64, 128, 128), 193)
    assert layout([]) == ((), 0)
    assert layout([64, 1]) == ((0, 64), 65)


def test_weights_are_unpacked_as_they_were_packed():
    """Shapes, types and values come out as they went in, scalars and empty tensors among them."""
    block = pack(TENSORS, ARRAYS)
    assert len(block) == 193
    out = Weights("r", "p", Version(1, 1), 0, 0, TENSORS, block).arrays
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(out[name], array)
        assert out[name].dtype == array.dtype
        assert out[name].shape == array.shape


def test_pack_refuses_a_tensor_of_another_shape():
    """numpy would not broadcast it into place silently."""
    with pytest.raises(ValueError, match="broadcast"):
        pack(TENSORS, ARRAYS | {"a": np.zeros((2, 3), np.float32)})


def test_version_compares_the_epoch_before_the_number():
    """A rollback can repeat a number, never a pair."""
    assert Version(2, 1) > Version(1, 99)
    assert Version(1, 2) > Version(1, 1)
    assert str(Version(2, 7)) == "2.7"
