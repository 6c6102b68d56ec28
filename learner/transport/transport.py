"""A transport: it drives an endpoint, and training waits on it."""

from typing import Protocol

from farflung.common.protocol.messages import State
from farflung.learner.observe.endpoint_status import EndpointStatus


class Transport(Protocol):
    """The way between an endpoint and its actors. All methods are for the training thread."""

    @property
    def status(self) -> EndpointStatus:
        """The state of the endpoint, as of a moment ago."""
        ...

    def check(self) -> None:
        """Raise the error that ended the transport, if one did."""
        ...

    def wait(self) -> None:
        """Wait a moment for items, or let the actors here collect some."""
        ...

    def close(self, state: State = State.AWAY) -> None:
        """Tell the actors in which state this learner leaves, and end."""
        ...
