"""The subcommands of `learner`: each is a function whose parameters are its flags."""

import sys


def status(address: str = "127.0.0.1", /, *, feed_port: int | None = None, json: bool = False) -> int:
    """Show how a running learner is doing; exit code 1 if nothing is heard or nothing moves.

    Parameters
    ----------
    address
        The learner: HOST, HOST:PORT or [IPv6]:PORT.
    feed_port
        Its feed, where it is not the next port.
    json
        Print the whole status as one line of JSON.
    """
    from common import sockets
    from common.address import parse_address
    from learner.watch import watch

    with sockets.context() as context:
        watch(context, parse_address(address, feed_port), sys.stdout, as_json=json)
    return 0


def self_test() -> int:
    """Say in half a minute whether this installation works: a real learner and a real actor, a wrong message, and learning."""
    from learner.self_test import self_test as run

    return run(sys.stdout)
