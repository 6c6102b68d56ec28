"""Players: the actors of the sequential mode, which take turns with training in its process."""

from collections.abc import Generator

from farflung.actor.collect import Collector, Evaluator
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.worker import Means, Place, collector, evaluator
from farflung.actor.worlds.seats import Seats
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Weights


class LocalCollector:
    """A collector in this process: one window a turn."""

    def __init__(self, client: PolicyClient, means: Means) -> None:
        self.client = client
        self.seats: Seats | None = None
        self._means = means
        self._collector: Collector | None = None

    def turn(self, weights: Weights) -> Parcel:
        """Collect one window."""
        if self._collector is None:
            self._collector, self.seats = collector(*_joined(self.client), self._means)
        self._collector.use(weights)
        return finished(self._collector.window())

    def close(self) -> None:
        """Close the environments."""
        if self.seats is not None:
            self.seats.close()


class LocalEvaluator:
    """An evaluator in this process: its episodes whenever they are due."""

    def __init__(self, client: PolicyClient, means: Means) -> None:
        self.client = client
        self.seats: Seats | None = None
        self._means = means
        self._evaluator: Evaluator | None = None

    def turn(self, weights: Weights) -> Parcel | None:
        """Play the wanted episodes, if enough steps have passed since the last ones."""
        if self._evaluator is None:
            self._evaluator, self.seats = evaluator(*_joined(self.client), self._means)
        due = self._evaluator.is_due(weights)
        return finished(self._evaluator.evaluate(weights)) if due else None

    def close(self) -> None:
        """Close the environments."""
        if self.seats is not None:
            self.seats.close()


def finished(steps: Generator[None, None, Parcel]) -> Parcel:
    """Run a window or an evaluation to its end and return its parcel."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            parcel: Parcel = ended.value
            return parcel


def _joined(client: PolicyClient) -> tuple[Spec, Place]:
    joined = client.joined
    assert joined is not None
    return joined.spec, Place(joined.index, joined.start)
