"""What a broker can be told: which learners it stands for, and where it listens."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from farflung.common.data.names import NAME, RULE
from farflung.common.net.address import Address, listening, parse_address
from farflung.common.process.config import require

LEARNERS = Parameter(group=Group("Learners", sort_key=1))
FRONT = Parameter(group=Group("Front", sort_key=2))
PROCESS = Parameter(group=Group("Process", sort_key=3))


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Everything a broker can be told."""

    upstreams: Annotated[tuple[str, ...], LEARNERS, Parameter(show_default=False)] = ()
    """Learners, or brokers in front of them: HOST, HOST:PORT or [IPV6]:PORT, one or several."""
    _: KW_ONLY
    upstream_feed_ports: Annotated[
        tuple[int, ...], LEARNERS, Parameter(name="--upstream-feed-port", show_default=False)
    ] = ()
    """Port of their feed, where it is not the next one; repeated, one for each of them in the same order."""
    upstream_keys: Annotated[str, LEARNERS, Parameter(show_default=False)] = ""
    """This broker's own key file, of role broker, where the learners have keys."""
    queue: Annotated[int, LEARNERS] = 64 << 20
    """Bytes that may wait for each of them; what does not fit is dropped, and sent again by the actors."""
    bind: Annotated[str, FRONT] = "127.0.0.1"
    """Address to listen on."""
    keys: Annotated[str, FRONT, Parameter(show_default=False)] = ""
    """Folder that `learner keys` made: only whoever has one of its keys is let in, and everything is encrypted."""
    insecure: Annotated[bool, FRONT, Parameter(negative=())] = False
    """Listen beyond this machine although nothing is encrypted and everybody may send."""
    port: Annotated[int, FRONT] = 5555
    """Port for experience; 0: any that is free."""
    feed_port: Annotated[int | None, FRONT] = None
    """Port of the feed; by default the next one."""
    name: Annotated[str, PROCESS, Parameter(show_default=False)] = ""
    """This broker's name; by default host and a random number."""
    log_level: Annotated[Literal["debug", "info", "warning", "error"], PROCESS] = "info"
    """The least important lines to show."""

    def __post_init__(self) -> None:
        require(
            len(self.upstream_feed_ports) in (0, len(self.upstreams)),
            f"--upstream-feed-port is given once for each learner or not at all: {len(self.upstream_feed_ports)} for {len(self.upstreams)}",
        )
        require(
            len(self.upstreams) == len({(learner.host, learner.port) for learner in self.learners}),
            "an upstream is named twice",
        )
        require(self.queue >= 1 << 20, "--queue must be at least 1048576, a megabyte")
        require(
            not self.name or NAME.fullmatch(self.name) is not None, f"--name {self.name!r}: {RULE}"
        )
        require(
            self.port == 0 or self.address not in self.learners,
            f"{self.address} would be its own upstream: choose another --port",
        )

    @property
    def learners(self) -> tuple[Address, ...]:
        """Whom it stands for."""
        feed_ports = self.upstream_feed_ports or (None,) * len(self.upstreams)
        return tuple(
            parse_address(text, port) for text, port in zip(self.upstreams, feed_ports, strict=True)
        )

    @property
    def address(self) -> Address:
        """Where to listen."""
        return listening(
            self.bind, self.port, self.feed_port, self.insecure, self.keys, "broker HOST"
        )
