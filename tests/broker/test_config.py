"""The options of a broker."""

import pytest

from farflung.broker.config import BrokerConfig
from farflung.broker.main import memory
from farflung.common.net.address import Address
from farflung.common.process.config import load
from farflung.common.process.errors import ConfigurationError, UsageError


def loaded(*argv: str) -> BrokerConfig:
    """The configuration of these words."""
    return load("broker", BrokerConfig, argv).config


def test_one_address_is_all_it_needs() -> None:
    """It stands on loopback at the ports where a learner would be."""
    config = loaded("gpu-box")
    assert config.learners == (Address("gpu-box", 5555, 5556),)
    assert config.address == Address("127.0.0.1", 5555, 5556)


def test_several_upstreams() -> None:
    """Each is one word, IPv6 in brackets; flags may follow."""
    config = loaded("red:1000", "[::1]:2000", "--port", "3000", "--feed-port", "4000")
    assert config.learners == (Address("red", 1000, 1001), Address("::1", 2000, 2001))
    assert config.address == Address("127.0.0.1", 3000, 4000)


def test_a_feed_may_be_at_another_port() -> None:
    """As tunnels and port maps have it; one for each upstream, in their order."""
    config = loaded("red:1000", "blue", "--upstream-feed-port", "7", "--upstream-feed-port", "8")
    assert config.learners == (Address("red", 1000, 7), Address("blue", 5555, 8))


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (
            ["a", "b", "--upstream-feed-port", "7"],
            "once for each learner or not at all: there are 1 for 2",
        ),
        (["a:7", "--upstream-feed-port", "7"], "the feed cannot have port 7"),
        (["a", "a", "--upstream-feed-port", "7", "--upstream-feed-port", "8"], "named twice"),
        (["a", "a"], "named twice"),
        (["127.0.0.1:7000", "--port", "7000"], "its own upstream"),
        (["a", "--queue", "1000"], "--queue must be at least"),
        (["a", "--largest-message", "1000"], "--largest-message must lie between 67108864"),
        (["a", "--largest-message", str(1 << 31)], "--largest-message must lie between"),
        (["a", "--name", "a/b"], "--name"),
        (["a:b"], "not an address"),
        (["a", "--port", "-1"], "--port must lie"),
        (["a", "--port", "70", "--feed-port", "70"], "must differ"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(argv: list[str], sentence: str) -> None:
    """Each names the flag and what it may be."""
    with pytest.raises(UsageError, match=sentence):
        loaded(*argv)


def test_beyond_loopback_only_on_purpose() -> None:
    """The same rule as a learner's."""
    with pytest.raises(ConfigurationError, match="--insecure"):
        loaded("a", "--bind", "0.0.0.0")
    assert loaded("a", "--bind", "0.0.0.0", "--insecure").bind == "0.0.0.0"


def test_the_memory_it_may_take_is_a_formula() -> None:
    """Two upstreams of 64 MiB."""
    assert memory(loaded("a", "b")).startswith("2 × 64 MiB queued")
