"""The record of commands: each counts once, in the epoch that it names."""

import pytest
from support.makers import a_command

from farflung.common.process.errors import Refused
from farflung.learner.steering.orders import Steering
from farflung.learner.steering.record import KEPT, Record, decide

WEIGHT = {"weight": 2.0}


def test_executed_command_is_known_and_its_change_stays():
    """Another number of the same sender is another command."""
    command = a_command(arguments=WEIGHT)
    record = Record()
    assert record.find(command) is None
    order = decide(command, "run-1", 1, {})
    record = record.executed(command, order, 1, "lab at 10.0.0.7", "2026-01-01T00:00:00+00:00")
    assert record.steering == Steering(weight=2.0)
    answer = record.find(command)
    assert (answer.refused, answer.order, answer.by) == ("", "set weight=2.0", "lab at 10.0.0.7")
    for other in ({"sequence": 2}, {"incarnation": 8}, {"actor": "box-2"}):
        assert record.find(a_command(arguments=WEIGHT, **other)) is None


def test_refused_command_changes_nothing_and_keeps_its_answer():
    """One who asks again receives the same reason."""
    command = a_command(name="x" * 64, arguments={})
    record = Record(Steering(paused=True))
    after = record.refused(command, Refused("command", "none"), 1, "lab", "now")
    assert after.steering == record.steering
    assert (after.find(command).refused, len(after.find(command).order)) == ("command", 40)


def test_command_of_another_epoch_or_run_is_refused():
    """A replay of yesterday's is of an epoch that is over; 0 is any, for those in the folder."""
    for epoch in (1, 3):
        with pytest.raises(Refused, match=r"^epoch: it is for epoch"):
            decide(a_command(arguments=WEIGHT, epoch=epoch), "run-1", 2, {})
    decide(a_command(arguments=WEIGHT, epoch=0), "run-1", 2, {})
    with pytest.raises(Refused, match=r"^run: "):
        decide(a_command(arguments=WEIGHT), "run-2", 1, {})


def test_command_without_an_effect_in_this_run_is_refused():
    """By its name, or by the name of a setting."""
    unable = {"weight": "weight has no effect", "evaluate": "none can"}
    for command in (a_command(arguments=WEIGHT), a_command(name="evaluate", arguments={})):
        with pytest.raises(Refused, match=r"^no effect: "):
            decide(command, "run-1", 1, unable)
    decide(a_command(arguments={"log-level": "debug"}), "run-1", 1, unable)


def test_the_newest_answers_are_kept():
    """Older ones are refused for their epoch after a restart, and by their number before."""
    record = Record()
    for number in range(1, KEPT + 11):
        command = a_command(arguments=WEIGHT, sequence=number, base=number)
        record = record.executed(command, decide(command, "run-1", 1, {}), 1, "lab", "now")
    assert len(record.answers) == KEPT
    assert record.find(a_command(sequence=10)) is None
    assert record.find(a_command(sequence=11)) is not None
