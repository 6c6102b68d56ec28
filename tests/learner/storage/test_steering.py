"""The files of steering: the record that a learner writes, and commands that wait in the folder."""

import json

import pytest
from support.makers import a_command

from farflung.common.process.errors import ConfigurationError
from farflung.learner.steering.orders import Steering
from farflung.learner.steering.record import Record
from farflung.learner.storage import steering


def test_record_is_read_as_it_was_written(tmp_path):
    """Without a file it is another one, such as that of a checkpoint."""
    assert steering.read(tmp_path) == Record()
    assert steering.read(tmp_path, Record(Steering(weight=2.0))).steering.weight == 2.0
    steering.write(tmp_path, Record(Steering(paused=True, learning_rate=1e-4)))
    assert steering.read(tmp_path).steering == Steering(paused=True, learning_rate=1e-4)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", json.dumps({"steering": 3}), '{"steering": {"weight": 1e9}}', "\x00", "[" * 9999],
)
def test_damaged_record_is_named(tmp_path, text):
    """A run does not go on as if it had never been steered."""
    (tmp_path / steering.FILE).write_text(text)
    with pytest.raises(ConfigurationError, match=r"steering\.json cannot be used .*: remove it"):
        steering.read(tmp_path)


def test_commands_wait_in_the_order_of_their_times(tmp_path):
    """Until they are removed."""
    assert list(steering.waiting(tmp_path)) == []
    for at in (2, 1, 3):
        steering.leave(tmp_path, a_command(incarnation=at), at)
    assert [each.command.incarnation for each in steering.waiting(tmp_path)] == [1, 2, 3]
    steering.remove(next(steering.waiting(tmp_path)).path)
    assert [each.command.incarnation for each in steering.waiting(tmp_path)] == [2, 3]


def test_file_that_is_no_command_is_named_and_removed(tmp_path, caplog):
    """So is one that is too large; drafts and other files are left alone."""
    folder = tmp_path / steering.COMMANDS
    steering.leave(tmp_path, a_command(), 5)
    for name, text in (("1.json", "{"), ("2.json", "[]"), ("3.json", '"' + "x" * 70_000 + '"')):
        (folder / name).write_text(text)
    (folder / ".4.json").write_text("{")
    (folder / "note.txt").write_text("{")
    assert [each.command for each in steering.waiting(tmp_path)] == [a_command()]
    assert caplog.text.count("is no command, and is removed") == 3
    assert len(list(folder.iterdir())) == 3
