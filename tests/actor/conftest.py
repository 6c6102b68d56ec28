"""Fixtures that the tests of the actor share."""

from collections.abc import Callable, Iterator

import pytest
from support.contexts import ANYWHERE
from support.learner_double import LearnerDouble, ServedLearner
from support.stamps import a_linear_graph

from farflung.common.data.spec import (
    Graph,
)
from farflung.common.net import sockets
from farflung.common.net.address import Address


@pytest.fixture(scope="session")
def linear() -> Graph:
    """An acting graph as a learner writes it.

    Q [N, 6] = observations [N, 4] times a matrix, plus a bias.
    """
    return a_linear_graph((4,), 6)


@pytest.fixture
def serve() -> Iterator[Callable[..., ServedLearner]]:
    """Puts learner doubles behind sockets, at free ports or at an address that was free a moment
    ago.
    """
    served: list[ServedLearner] = []
    with sockets.context() as context:

        def make(double: LearnerDouble, address: Address = ANYWHERE) -> ServedLearner:
            served.append(ServedLearner(context, double, address))
            return served[-1]

        yield make
        for one in served:
            one.network_thread.close()
