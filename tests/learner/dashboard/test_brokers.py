"""Brokers on the dashboard: rates between statuses, bounds, and hostile documents."""

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.dashboards import HOSTILE, served

from farflung.common.process.errors import Refused
from farflung.common.protocol.messages import Telemetry
from farflung.common.protocol.wire import encode
from farflung.learner.dashboard.brokers import BROKERS, FORGOTTEN_S, HEARD_S
from farflung.learner.dashboard.exposition import exposition
from farflung.learner.dashboard.library import Library
from farflung.learner.observe.broker_status import LARGEST, NAME_LETTERS, broker_status


def message(**fields: Any) -> bytes:
    """Return the telemetry message of a broker."""
    document = {"broker": "edge", **fields}
    return bytes(encode(Telemetry("", "", 5, json.dumps(document))))


class Moved:
    """A library with a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.library = Library(lambda: self.now, lambda: self.now)

    def hear(self, identity: int = 5, **fields: Any) -> None:
        """Hear a broker."""
        self.library.hear_broker(identity, broker_status(message(**fields))[1], "127.0.0.1:5555")


def test_rates_are_between_two_statuses() -> None:
    """By the broker's own clock; one that comes over two feeds counts once."""
    heard = Moved()
    for seconds, received, size in ((10.0, 100, 4000), (12.0, 160, 9000), (12.0, 160, 9000)):
        up = {"address": "gpu-box:5555", "passed_bytes": size, "queued_bytes": 7, "queued": 1}
        words = {"actors": 3, "feed_messages": received, "refused": {"rate": 2}}
        heard.hear(seconds=seconds, received=received, upstreams=[up], **words)
    with served(heard.library) as dashboard:
        [found] = dashboard.ask("/api/brokers").document["brokers"]
    assert found["received_per_second"] == found["feed_messages_per_second"] == 30.0
    assert found["passed_bytes_per_second"] == 2500.0
    assert (found["queued"], found["queued_bytes"], found["refused_in_all"]) == (1, 7, 2)
    assert (found["actors"], found["upstreams"][0]["address"]) == (3, "gpu-box:5555")


def test_silent_broker_has_no_rates_and_is_forgotten() -> None:
    """First it is said to be silent; a minute later it has left the table."""
    heard = Moved()
    heard.hear(seconds=1.0)
    heard.hear(seconds=2.0, received=10)
    assert heard.library.brokers()[0]["received_per_second"] == 10.0
    heard.now += HEARD_S
    [silent] = heard.library.brokers()
    assert (silent["heard"], silent["received_per_second"]) == (False, None)
    heard.now += FORGOTTEN_S
    heard.hear(identity=6)
    assert [each["id"] for each in heard.library.brokers()] == ["6"]


def test_number_of_brokers_is_bounded() -> None:
    """An identity is a word of its sender; those that are known stay."""
    heard = Moved()
    for identity in range(BROKERS + 5):
        heard.hear(identity=identity)
    assert len(heard.library.brokers()) == BROKERS


@pytest.mark.parametrize(
    "document", ["no JSON", "[" * 100_000, "{}", '{"broker": 3}', '{"broker":"a","upstreams":[3]}']
)
def test_document_that_is_none_is_refused(document: str) -> None:
    """As one of an older or a hostile release."""
    with pytest.raises(Refused):
        broker_status(bytes(encode(Telemetry("", "", 5, document))))


def test_hostile_figures_are_bounded_and_texts_are_texts() -> None:
    """Huge and negative numbers, markup, and texts of a megabyte; Prometheus can read them too."""
    up = {"address": HOSTILE, "policies": ["x" * 200] * 300, "queued": -3, "passed": 1e300}
    heard = Moved()
    more = [up, *[{"address": HOSTILE}] * 99]
    heard.hear(broker=HOSTILE + "x" * 90_000, memory=-5, refused={HOSTILE: 1}, upstreams=more)
    [found] = heard.library.brokers()
    assert (found["memory"], found["upstreams"][0]["queued"]) == (0, 0)
    assert found["upstreams"][0]["passed"] == LARGEST
    assert (len(found["upstreams"]), len(found["upstreams"][0]["policies"])) == (64, 256)
    assert len(found["broker"]) == NAME_LETTERS
    assert found["broker"].isprintable()
    families = {
        each.name: each for each in text_string_to_metric_families(exposition(heard.library))
    }
    [refused] = families["farflung_broker_refused"].samples
    assert refused.labels["reason"].startswith("<img src=x")
    assert len(families["farflung_broker_queued_bytes"].samples) == 1
