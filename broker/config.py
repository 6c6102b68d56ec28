"""The configuration of a broker: its learners, and the address it listens on."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from farflung.common.data.fields import NAME, RULE
from farflung.common.net.address import Address, listening, parse_address
from farflung.common.process.config import MOST_USED, require
from farflung.common.protocol.wire import MAX_GRADIENTS_BYTES, MAX_MESSAGE_BYTES

MOST = Parameter(group=MOST_USED)
LEARNERS = Parameter(group=Group("Learners", sort_key=1))
NETWORK = Parameter(group=Group("Network", sort_key=2))
PROCESS = Parameter(group=Group("Process", sort_key=3))


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The options of a broker."""

    upstreams: Annotated[
        tuple[str, ...], MOST, Parameter(metavar="HOST:PORT", show_default=False)
    ] = ()
    """Learners, or brokers in front of them, as HOST, HOST:PORT or [IPV6]:PORT; one or several."""
    _: KW_ONLY
    upstream_feed_ports: Annotated[
        tuple[int, ...],
        LEARNERS,
        Parameter(metavar="PORT", name="--upstream-feed-port", show_default=False),
    ] = ()
    """Port of a learner's feed (default: the next one); repeat it for each learner, in order."""
    upstream_keys: Annotated[str, MOST, Parameter(metavar="FILE", show_default=False)] = ""
    """This broker's own key file, made with --role broker; needed if the learners use keys."""
    queue: Annotated[int, MOST, Parameter(metavar="BYTES")] = 64 << 20
    """Bytes that may wait for each learner; the rest is dropped, and the actors send it again."""
    largest_message: Annotated[int, LEARNERS, Parameter(metavar="BYTES")] = MAX_MESSAGE_BYTES
    """Bytes of the largest message to pass on; gradients of workers are as large as the weights."""
    bind: Annotated[str, MOST, Parameter(metavar="ADDRESS")] = "127.0.0.1"
    """Address to listen on."""
    keys: Annotated[str, MOST, Parameter(metavar="FOLDER", show_default=False)] = ""
    """Folder made by `learner keys`: admit only clients with one of its keys, and encrypt all."""
    insecure: Annotated[bool, NETWORK, Parameter(negative=())] = False
    """Listen beyond this machine without keys: no encryption, and any machine may send."""
    port: Annotated[int, MOST, Parameter(metavar="PORT")] = 5555
    """Port for experience; 0: any free one."""
    feed_port: Annotated[int | None, NETWORK, Parameter(metavar="PORT")] = None
    """Port of the feed (default: the next one)."""
    name: Annotated[str, MOST, Parameter(metavar="NAME", show_default=False)] = ""
    """This broker's name (default: host and a random number)."""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], PROCESS, Parameter(metavar="LEVEL")
    ] = "info"
    """Least important level of log lines to show."""
    until_stdin_closes: Annotated[bool, PROCESS, Parameter(show=False, negative=())] = False
    """Exit when standard input closes, so that the broker of a team never outlives it."""

    def __post_init__(self) -> None:
        require(
            len(self.upstream_feed_ports) in (0, len(self.upstreams)),
            f"--upstream-feed-port is needed once for each learner or not at all: there are "
            f"{len(self.upstream_feed_ports)} for {len(self.upstreams)} learners",
        )
        require(
            len(self.upstreams) == len({(learner.host, learner.port) for learner in self.learners}),
            "a learner is named twice: name each once",
        )
        require(self.queue >= 1 << 20, "--queue must be at least 1048576, a megabyte")
        require(
            MAX_MESSAGE_BYTES <= self.largest_message <= MAX_GRADIENTS_BYTES,
            f"--largest-message must lie between {MAX_MESSAGE_BYTES}, which any parcel may have, "
            f"and {MAX_GRADIENTS_BYTES}",
        )
        require(
            not self.name or NAME.fullmatch(self.name) is not None, f"--name {self.name!r}: {RULE}"
        )
        require(
            self.port == 0 or self.address not in self.learners,
            f"{self.address} would be its own upstream: choose another --port",
        )

    @property
    def learners(self) -> tuple[Address, ...]:
        """Return the learners' addresses."""
        feed_ports = self.upstream_feed_ports or (None,) * len(self.upstreams)
        return tuple(
            parse_address(text, port) for text, port in zip(self.upstreams, feed_ports, strict=True)
        )

    @property
    def address(self) -> Address:
        """Return the address to listen on."""
        return listening(
            self.bind, self.port, self.feed_port, self.insecure, self.keys, "broker HOST"
        )
