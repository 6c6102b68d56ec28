"""The weights that a late result of an evaluation is about."""

from support.makers import a_spec, some_weights

from farflung.common.data.spec import Evaluation
from farflung.common.data.weights import Version
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Hello, Report
from farflung.learner.endpoint import recent
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.recent import RecentWeights

SPEC = a_spec()
SIZE = len(some_weights(SPEC).block)


def filled(count, **options):
    """Return what is kept after so many publications."""
    kept = RecentWeights(**options)
    for number in range(1, count + 1):
        kept.add(some_weights(SPEC, number))
    return kept


def found(kept, count):
    """Return the numbers that are still there."""
    return [n for n in range(1, count + 1) if kept.find(Version(1, n)) is not None]


def test_newest_versions_are_kept():
    """As many as there is room for by number, or by bytes, and always the last one."""
    assert found(filled(recent.RECENT + 3), recent.RECENT + 3) == [*range(4, recent.RECENT + 4)]
    assert found(filled(9, most_bytes=3 * SIZE), 9) == [7, 8, 9]
    assert found(filled(9, most_bytes=1), 9) == [9]


def test_named_version_outlives_any_number_of_others():
    """It is the very object that was published, long after it was."""
    kept, weights = RecentWeights(), some_weights(SPEC, 1, value=3.0)
    kept.add(weights)
    kept.name(weights.version)
    for number in range(2, 1000):
        kept.add(some_weights(SPEC, number))
    assert kept.find(weights.version) is weights
    assert found(kept, 999)[:2] == [1, 1000 - recent.RECENT]


def test_named_versions_are_bounded():
    """A peer that names all of them keeps a few: those named last."""
    kept = RecentWeights()
    for number in range(1, 400):
        kept.add(some_weights(SPEC, number))
        kept.name(Version(1, number))
    expected = recent.RECENT  # the newest; the last ones named are among them
    assert len(found(kept, 399)) == expected
    kept.name(Version(7, 7))  # of no publication
    for number in range(400, 500):
        kept.add(some_weights(SPEC, number))
    assert len(found(kept, 499)) == recent.RECENT + recent.NAMED
    small = filled(1, most_bytes=2 * SIZE)
    for number in range(2, 30):
        small.name(Version(1, number - 1))
        small.add(some_weights(SPEC, number))
    assert len(found(small, 29)) <= 2


def test_version_named_again_counts_as_named_last():
    """An evaluator repeats itself with every report, and may play for an hour."""
    kept = RecentWeights()
    kept.add(some_weights(SPEC, 1))
    for number in range(2, 200):
        kept.name(Version(1, 1))
        kept.add(some_weights(SPEC, number))
        kept.name(Version(1, number))
    kept.name(Version(1, 1))
    assert kept.find(Version(1, 1)) is not None


def test_endpoint_keeps_the_version_that_an_evaluator_reports():
    """An actor that collects keeps none of the versions that it reports."""
    for evaluates in (True, False):
        spec = a_spec(evaluation=Evaluation(10, 2))
        endpoint = Endpoint(spec)
        endpoint.publish(some_weights(spec, 1))
        who = "run-1", "default", "box-1", 7
        hello = Hello(*who, 1, Version(1, 1), 1, 1, evaluates)
        report = Report(*who, 1, Version(1, 1))
        for message in (hello, report):
            endpoint.receive([(bytes(wire.encode(message)), ANY_CLIENT)], 0.0)
        for number in range(2, 200):
            endpoint.publish(some_weights(spec, number))
        assert (endpoint.recent.find(Version(1, 1)) is not None) == evaluates


def test_endpoint_without_evaluations_keeps_the_newest_version():
    """It may be archived; memory for older ones is for those who evaluate."""
    endpoint = Endpoint(a_spec())
    for number in (1, 2):
        endpoint.publish(some_weights(endpoint.spec, number))
    assert endpoint.recent.find(Version(1, 1)) is None
    assert endpoint.recent.find(Version(1, 2)) is not None
