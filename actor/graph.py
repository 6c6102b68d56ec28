"""The check of an acting graph, which is untrusted input: it passes before a session is built from it."""

from common.spec import Graph

LOCATION = "weights"  # the one place where a graph's external data may lie: the blob of the weights message


def check(graph: Graph) -> None:
    """Refuse a graph that holds anything but ordinary arithmetic on its own inputs and weights."""
