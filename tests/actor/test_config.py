from typing import Any

import pytest

from farflung.actor.config import ActorConfig
from farflung.common.data.fields import ACTOR, default_name
from farflung.common.net.address import Address
from farflung.common.process.config import load
from farflung.common.process.errors import UsageError


def test_an_actor_needs_nothing() -> None:
    """By default its learner is on this machine and it has one environment."""
    config = load("actor", ActorConfig, []).config
    assert config == ActorConfig()
    assert config.learner == Address("127.0.0.1", 5555, 5556)


def test_an_actor_needs_one_address_at_most() -> None:
    """The address is positional wherever it stands; repeated flags take one word at a time."""
    config = load(
        "actor",
        ActorConfig,
        [
            "--import",
            "worlds",
            "gpu-box:7000",
            "--import",
            "more",
            "--envs",
            "16",
            "--feed-port",
            "80",
        ],
    ).config
    assert config.learner == Address("gpu-box", 7000, 80)
    assert (config.imports, config.environments) == (("worlds", "more"), 16)


def test_the_address_may_be_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container would have it."""
    monkeypatch.setenv("FARFLUNG_ACTOR_ADDRESS", "learner:7000")
    assert load("actor", ActorConfig, []).config.learner == Address("learner", 7000, 7001)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"addresses": ("host:x",)}, "write HOST"),
        ({"rate": -1.0}, "between 0 and 10,000 Hz"),
        ({"rate": 50.0, "evaluate": True}, "choose one of them"),
        ({"feed_ports": (5555,)}, "--feed-port"),
        ({"addresses": ("a", "b"), "feed_ports": (1,)}, "there are 1 for 2"),
        ({"addresses": ("a", "a:5555")}, "an address is named twice"),
        ({"addresses": ("a", "b"), "rate": 50.0}, "--rate plays for one policy"),
        (
            {"rate": 50.0, "without_learner": "wait"},
            "choose go-on, stop, or a function of yours as package.module:function",
        ),
        ({"without_learner": "my_robot:hold"}, "a function acts at a fixed rate: add --rate"),
        ({"environments": 0}, "--envs"),
        ({"step_timeout": -1.0}, "--step-timeout"),
        ({"max_policy_age": 9.9}, "--max-policy-age must be 0 or at least 10"),
        ({"policy": "a b"}, "--policy 'a b'"),
        ({"name": "a b"}, "--name 'a b'"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(changes: dict[str, Any], says: str) -> None:
    """Each names its flag."""
    with pytest.raises(UsageError, match=says):
        ActorConfig(**changes)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("box", "box-00002a"), ("b ö x.lan", "b---x.lan-00002a"), ("x" * 90, "x" * 40 + "-00002a")],
)
def test_a_default_name_is_always_a_name(host: str, expected: str) -> None:
    """The name is valid for every host name."""
    name = default_name(host, 42)
    assert name == expected
    assert ACTOR.fullmatch(name)
