"""An actor's contact with its learner: the file for health checks, and the end of patience."""

import os
from pathlib import Path

import pytest

from farflung.actor.heartbeat import RENEW_S, Heartbeat
from farflung.common.process.errors import ConfigurationError


def test_the_heartbeat_is_renewed_only_while_a_learner_sends(tmp_path: Path):
    """It appears with the first word, is renewed every few seconds, and grows old in silence."""
    file = tmp_path / "acting"
    contact = Heartbeat(heartbeat=str(file))
    contact.lost(False, 0.0)
    assert not file.exists()
    contact.lost(True, 1.0)
    os.utime(file, (0, 0))
    contact.lost(True, 1.0 + RENEW_S - 0.1)
    assert file.stat().st_mtime == 0
    contact.lost(False, 1.0 + RENEW_S)
    assert file.stat().st_mtime == 0
    contact.lost(True, 1.1 + RENEW_S)
    assert file.stat().st_mtime > 0


def test_the_heartbeat_of_a_former_life_does_not_count(tmp_path: Path):
    """A container that is started again keeps its files."""
    file = tmp_path / "acting"
    file.touch()
    Heartbeat(heartbeat=str(file))
    assert not file.exists()


def test_a_heartbeat_that_cannot_be_written_ends_the_actor(tmp_path: Path):
    """Else a health check would end it, again and again, and nobody would know why."""
    contact = Heartbeat(heartbeat=str(tmp_path / "missing" / "acting"))
    with pytest.raises(
        ConfigurationError, match=r"--heartbeat .*acting cannot be written: No such file"
    ):
        contact.lost(True, 0.0)


def test_patience_ends_after_one_long_silence_not_after_several_short_ones():
    """Each word begins the count anew."""
    contact = Heartbeat(patience_s=10.0)
    assert not contact.lost(False, 0.0)
    assert not contact.lost(False, 9.9)
    assert not contact.lost(True, 9.95)
    assert not contact.lost(False, 10.0)
    assert not contact.lost(False, 19.9)
    assert contact.lost(False, 20.0)


def test_without_a_number_patience_has_no_end():
    """An actor waits for its learner, however long that takes."""
    contact = Heartbeat()
    contact.lost(False, 0.0)
    assert not contact.lost(False, 1e9)
