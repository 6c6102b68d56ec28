"""The command `learner check`."""

import json

import pytest

from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.main import command

TOYS = ("--import", "support.worlds", "--steps", "50")


def check(capsys, *words):
    """Return exit code and output of a check."""
    code = command(["check", *words, "--step-timeout", "0"])  # a watchdog wants a real stderr
    return code, capsys.readouterr().out


def test_sound_environment_is_fit_for_a_run(capsys):
    """With warnings of Gymnasium, and no error: exit code 0."""
    code, said = check(capsys, "CartPole-v1", "--steps", "200")
    assert code == 0
    assert "  played 200 random steps, " in said
    assert "warning: Gymnasium: A Box observation space" in said
    assert said.splitlines()[-1] == "0 errors, 2 warnings: fit for a run"


def test_environment_with_masks_is_played_by_legal_actions(capsys):
    """It raises at others. One in which nothing is legal, and an action is due, is not fit."""
    assert check(capsys, "Taxi-v4", *TOYS)[0] == 0
    assert "it raised" not in check(capsys, "toys/Gates-v0", *TOYS)[1]
    assert "it raised" not in check(capsys, "toys/Locks-v0", *TOYS)[1]
    combined = check(capsys, "toys/Locks-v0", "--env-args", "form=combinations", *TOYS)
    assert combined[0] == 1
    assert "error: toys/Locks-v0 has an action_mask in its info for the comb" in combined[1]
    shut = ("toys/Gates-v0", "--env-args", '{"shut": 3}')
    code, said = check(capsys, *shut, *TOYS)
    assert code == 1
    assert "error: an action is due, and the action mask in the info allows none" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("toys/Lies-v0", "--env-args", '{"what": [[0, 0, 0, 0, 0]]}'),
            "error: observations: int64 (5,) was shown, and the space that the environment",
        ),
        (
            ("toys/Numbers-v0", "--env-args", '{"what": [9]}'),
            "error: observations: 9 was shown, and the space",
        ),
        (
            ("toys/Lies-v0", "--env-args", '{"reward": "much"}'),
            "error: a reward is 'much', expected a number",
        ),
        (
            ("toys/Lies-v0", "--env-args", '{"reward": NaN}'),
            "error: a reward is nan: a learner refuses it",
        ),
        (("toys/Faulty-v0", "--env-args", '{"steps": [7]}'), "error: it raised RuntimeError("),
        (("toys/Declared-v0",), "error: it raised TypeError("),
    ],
)
def test_environment_that_would_fail_is_named_with_its_mistake(capsys, words, says):
    """Exit code 1; the last line has the sum."""
    from support import worlds

    worlds.Faulty.counts.clear()
    code, said = check(capsys, *words, *TOYS)
    assert code == 1
    assert says in said
    assert said.splitlines()[-1].endswith(": correct the errors")
    assert "Traceback" not in said


def test_episodes_that_never_end_are_suspicious(capsys):
    """Only where no limit of steps is registered."""
    code, said = check(capsys, "CliffWalking-v1", "--steps", "50")
    assert code == 0
    assert "warning: no episode ended in 50 random steps, and it has no limit" in said
    assert "no episode ended" not in check(capsys, "CartPole-v1", "--steps", "5")[1]


def test_findings_are_printed_as_one_line_of_json(capsys):
    """For programs."""
    words = ("toys/Lies-v0", "--env-args", '{"reward": "much"}', *TOYS, "--json")
    code, said = check(capsys, *words)
    facts = json.loads(said)
    assert (code, facts["environment"]) == (1, "toys/Lies-v0")
    assert facts["errors"] == sum(each["severity"] == "error" for each in facts["findings"]) > 0


def test_unknown_environment_and_no_steps_are_refused():
    """In the sentence that a learner would have."""
    with pytest.raises(ConfigurationError, match="no environment is registered as 'CartPole-v9'"):
        command(["check", "CartPole-v9"])
    with pytest.raises(UsageError, match="--steps must be at least 1"):
        command(["check", "CartPole-v1", "--steps", "0"])
