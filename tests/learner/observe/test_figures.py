"""The figures of the panel about steering."""

from farflung.learner.observe.figures import figures
from farflung.learner.observe.status import CommandStatus, Status, from_document, to_document


def test_changed_settings_and_refused_commands_have_a_line_each():
    """Nothing is shown of a run that was never steered; a command that was done is no news."""
    labels = dict(figures(Status(run="one", commands=CommandStatus(received=1, done=1))))
    assert not {"as set", "commands"} & labels.keys()
    steered = {"learning-rate": 1e-4, "log-level": "debug"}
    books = CommandStatus(5, 2, 0, 1, {"role": 1, "epoch": 1})
    status = Status(run="one", steered=steered, commands=books)
    shown = dict(figures(from_document(to_document(status))))
    assert shown["as set"] == "learning-rate 0.0001, log-level debug"
    assert shown["commands"] == "2 done, 2 refused"
