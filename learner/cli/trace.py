"""`learner trace` and `learner memory`: where time and memory of all processes go."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from farflung.learner.cli.at_work import on_terminal

FILE = Path("trace.json")


def trace(
    address: str = "127.0.0.1",
    file: Path = FILE,
    /,
    *,
    seconds: float = 10.0,
    open_it: Annotated[bool, Parameter(name="--open", negative=())] = False,
    keys: str = "",
    feed_port: int | None = None,
) -> int:
    """Record what learner and actors do for a while, each thread a row of one time line.

    The file is a Chrome trace, which Perfetto opens. Its times are those of the learner's clock;
    the clocks of actors are compared to it, and the error is stated.

    Parameters
    ----------
    address
        The learner, or a broker in front of it: HOST, HOST:PORT or [IPv6]:PORT.
    file
        The file to write.
    seconds
        How long to record: up to 60.
    open_it
        Open the file in Perfetto: a page of ui.perfetto.dev reads it from this machine, in your
        browser.
    keys
        A key file that this learner allows; by default ~/.config/farflung/actor.key, if it exists
        and the learner is on another machine.
    feed_port
        The learner's feed port, if it is not the next one.
    """
    with on_terminal("trace", f"recording {address} for {seconds:g} s"):
        from farflung.common.net import sockets
        from farflung.common.net.address import parse_address
        from farflung.common.net.keys import client_keys_for
        from farflung.learner.observe.perfetto import show
        from farflung.learner.observe.trace import trace as write_trace

        where = parse_address(address, feed_port)
        with sockets.context() as context:
            write_trace(
                context, where, file, seconds, sys.stdout, keys=client_keys_for(where, keys)
            )
        if open_it:
            show(file, sys.stdout)
    return 0


def memory(
    address: str = "127.0.0.1",
    /,
    *,
    keys: str = "",
    feed_port: int | None = None,
    json: bool = False,
) -> int:
    """Show what holds memory in a learner, its actors and the brokers between them.

    Parameters
    ----------
    address
        The learner, or a broker in front of it: HOST, HOST:PORT or [IPv6]:PORT.
    keys
        A key file that this learner allows; by default ~/.config/farflung/actor.key, if it exists
        and the learner is on another machine.
    feed_port
        The learner's feed port, if it is not the next one.
    json
        Print the bytes as one line of JSON.
    """
    with on_terminal("memory", f"asking {address}"):
        from farflung.common.net import sockets
        from farflung.common.net.address import parse_address
        from farflung.common.net.keys import client_keys_for
        from farflung.learner.observe.memory import show_memory

        where = parse_address(address, feed_port)
        with sockets.context() as context:
            show_memory(context, where, sys.stdout, json, client_keys_for(where, keys))
    return 0
