"""The words of commands: what they mean, and what is refused in a sentence."""

import math

import pytest
from support.makers import a_command

from farflung.common.process.errors import Refused
from farflung.learner.steering.orders import (
    AS_BEGUN,
    FIELDS,
    Name,
    Steering,
    arguments,
    changes,
    read,
)


def order(name, **values):
    """Return the order of a command with these arguments."""
    named = {key.replace("_", "-"): value for key, value in values.items()}
    return read(a_command(name=name, arguments=named))


def test_pause_and_resume_change_one_thing():
    """All else stays as it was set."""
    steering = order("set", weight=2).applied(AS_BEGUN)
    paused = order("pause").applied(steering)
    assert (paused.paused, paused.weight) == (True, 2.0)
    assert order("resume").applied(paused) == steering


def test_set_takes_several_settings_and_takes_them_back():
    """None, typed as `default`, is the value that the run's settings have."""
    asked = order("set", learning_rate=1e-4, replay_ratio=2, publish_every=3, log_level="debug")
    steering = asked.applied(AS_BEGUN)
    assert steering == Steering(
        learning_rate=1e-4, replay_ratio=2.0, publish_every=3, log_level="debug"
    )
    assert list(steering.settings) == [
        "learning-rate",
        "replay-ratio",
        "publish-every",
        "log-level",
    ]
    assert str(asked) == (
        "set learning-rate=0.0001 replay-ratio=2.0 publish-every=3 log-level=debug"
    )
    back = order("set", learning_rate=None, weight=None).applied(steering)
    assert back.settings == {"replay-ratio": 2.0, "publish-every": 3, "log-level": "debug"}
    assert changes(steering, back) == {"learning-rate": None}


@pytest.mark.parametrize("name", ["checkpoint", "evaluate", "stop"])
def test_things_to_do_change_no_setting(name):
    """They take no arguments."""
    assert order(name).applied(AS_BEGUN) == AS_BEGUN
    with pytest.raises(Refused, match=r"^key: .* takes no settings, such as 'weight'$"):
        order(name, weight=2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weight", 0.0),
        ("weight", 1000.0),
        ("weight", math.nan),
        ("weight", math.inf),
        ("weight", True),
        ("weight", "2"),
        ("weight", [2.0]),
        ("weight", {"a": {"b": 1}}),
        ("weight", 10**400),
        ("learning-rate", 0.0),
        ("learning-rate", -1e-3),
        ("learning-rate", 11.0),
        ("replay-ratio", math.inf),
        ("replay-ratio", math.nan),
        ("publish-every", 0),
        ("publish-every", 1.5),
        ("publish-every", 2**53),
        ("log-level", "loud"),
        ("log-level", 3),
        ("log-level", "x" * 60_000),
    ],
)
def test_values_beyond_their_bounds_are_refused_in_one_short_sentence(key, value):
    """Of the right type, finite, and of a size that a run can bear."""
    with pytest.raises(Refused, match=r"^value: ") as refused:
        read(a_command(arguments={"weight": 1.0, key: value}))
    assert len(str(refused.value)) < 200
    assert key in str(refused.value)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ({"name": "launch", "arguments": {}}, "command"),
        ({"name": "Pause", "arguments": {}}, "command"),
        ({"arguments": {}}, "key"),
        ({"arguments": {"gamma": 0.9}}, "key"),
        ({"arguments": {"learning_rate": 0.1}}, "key"),
        ({"arguments": {"x" * 60_000: 1.0}}, "key"),
        ({"arguments": {"\x1b[2J\n": 1.0}}, "key"),
        ({"name": "pause", "arguments": {"x" * 60_000: 1.0}}, "key"),
    ],
)
def test_unknown_words_are_refused_in_one_short_sentence(command, reason):
    """Nothing of another process is repeated at length, or steers a terminal."""
    with pytest.raises(Refused) as refused:
        read(a_command(**command))
    assert refused.value.reason == reason
    assert len(str(refused.value)) < 200
    assert str(refused.value).isprintable()


def test_words_of_a_command_line_become_arguments():
    """Whole numbers, others, texts, and `default`."""
    assert arguments(
        ["weight=2", "learning-rate=1e-4", "log-level=debug", "replay-ratio=default"]
    ) == {
        "weight": 2,
        "learning-rate": 1e-4,
        "log-level": "debug",
        "replay-ratio": None,
    }


@pytest.mark.parametrize("words", [["weight"], ["weight="], ["=2"], ["weight=1", "weight=2"]])
def test_words_without_a_key_or_a_value_are_refused(words):
    """So are two values of one key."""
    with pytest.raises(Refused):
        read(a_command(arguments=arguments(words)))


def test_every_setting_has_a_field():
    """And every command a name."""
    assert set(FIELDS.values()) <= set(Steering.__struct_fields__)
    assert {name.value for name in Name} == {
        *("pause", "resume", "checkpoint", "evaluate", "set", "stop")
    }
