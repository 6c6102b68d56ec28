"""The memory of an actor by its parts, as it reports it."""

import mmap

from support.learner_double import LearnerDouble
from support.stamps import a_stamp_spec

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import Work
from farflung.actor.holding import PARTS, PREFIX, grows, holding
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Report
from farflung.learner.endpoint.seen import SHOWN
from farflung.learner.observe.endpoint_status import endpoint_status

MEBIBYTES = 64


def test_part_is_what_the_process_grew_by():
    """64 MiB that are written to; a process that shrank took nothing.

    They are mapped: memory of Python may be some that an earlier test had.
    """
    work, kept = Work(), mmap.mmap(-1, MEBIBYTES << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with grows(work, "environments"):
        for _ in range(MEBIBYTES):
            kept.write(bytes([1]) * (1 << 20))
    with grows(work, "session"):
        kept.close()
    assert 0.9 * MEBIBYTES <= work.memory["environments"] / (1 << 20) <= 2 * MEBIBYTES
    assert work.memory["session"] == 0


def test_counters_have_every_part_and_are_those_that_are_kept():
    """A process of Python is larger than 10 MB, and a part of that is libraries."""
    counters = holding(10, 20, {"environments": 30, "session": 40})
    assert set(counters) == {PREFIX + part for part in PARTS} <= SHOWN
    assert counters["memory.resident"] > 1e7
    assert 0 < counters["memory.libraries"] < counters["memory.resident"]
    assert counters["memory.weights"] == 10
    assert counters["memory.session"] == 40


def test_report_carries_the_memory_to_the_status():
    """The weights that came, by their bytes."""
    learner, client = LearnerDouble(a_stamp_spec()), PolicyClient("p", "a", 1)
    client.rebuilt(0.0)
    client.ask(0.0)
    learner.send_to(client, 0.0)
    client.due(0.0)
    frames = learner.receive_from(client, 0.0)
    [report] = [
        message
        for message in (wire.read(wire.open_frame(frame)) for frame in frames)
        if isinstance(message, Report)
    ]
    size = len(client.weights.block)
    assert report.counters["memory.weights"] == size > 0
    [actor] = endpoint_status(learner.endpoint, 0.0).actors
    assert actor.memory["weights"] == size
    assert actor.memory["resident"] > 1e7
