"""Receipts: what an actor was told is safe, in a file that a kill leaves readable."""

import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.receipts import Receipt, Receipts, read

FIRST = Receipt("run-1", "default", "label/box-1", 7, 1, 0xABC)


def test_receipts_come_back_and_add_to_what_is_there(tmp_path):
    """Every field; a file of an earlier life is continued."""
    path = tmp_path / "receipts"
    second = Receipt("run-1", "default", "box-2", (1 << 63) - 1, 12, 0xFFFFFFFF)
    for receipt in (FIRST, second):
        receipts = Receipts(path)
        receipts.add(receipt)
        receipts.close()
    assert list(read(path)) == [FIRST, second]


def test_a_line_that_was_being_written_does_not_count(tmp_path):
    """Its parcel had not been released."""
    path = tmp_path / "receipts"
    receipts = Receipts(path)
    receipts.add(FIRST)
    receipts.close()
    path.write_bytes(path.read_bytes() + b"run-1 default box-1 00000")
    assert list(read(path)) == [FIRST]


def test_what_is_no_receipt_is_named(tmp_path):
    """File and line; and a place that cannot be written is said at the start."""
    path = tmp_path / "receipts"
    path.write_text("hello\n")
    with pytest.raises(ConfigurationError, match="line 1, is no receipt"):
        list(read(path))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        list(read(tmp_path / "nothing"))
    with pytest.raises(ConfigurationError, match=r"--acknowledged .* cannot be written"):
        Receipts(tmp_path)
