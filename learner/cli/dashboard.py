"""`learner dashboard`: runs in a browser. The parameters of the function are its flags."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop

END_S = 5.0  # once its learner has ended

Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]


def dashboard(
    *places: str,
    bind: str = "127.0.0.1",
    port: int = 8555,
    host_name: Names = (),
    token_file: Path | None = None,
    keys: str = "",
    feed_port: int | None = None,
    read_only: Annotated[bool, Parameter(negative=())] = False,
    until_stdin_closes: Annotated[bool, Parameter(show=False, negative=())] = False,
) -> int:
    """Show runs in a browser: those at work, by their feeds, and ended ones, by their folders.

    It needs no torch. Its buttons steer a learner on this machine, or any by an operator's key.

    Parameters
    ----------
    places
        Addresses of learners or brokers, and folders of runs or of one run; by default the learner
        on this machine and the folder runs.
    bind
        Address to serve on. Another than loopback needs a token: one is drawn and shown.
    port
        Port to serve on (0: any that is free).
    host_name
        Names that a proxy or a DNS entry has for this machine; requests under others are refused.
    token_file
        File with the token, readable by its owner alone.
    keys
        A key file that the learners allow; by default ~/.config/farflung/actor.key, if it exists
        and a learner is on another machine.
    feed_port
        The feed port of the addresses, if it is not the next one.
    read_only
        Show no buttons, and pass no command on.
    until_stdin_closes
        End with the learner that started this process.
    """
    from farflung.common.process import lifecycle
    from farflung.common.process import log as logs

    stop = Stop()
    if until_stdin_closes:
        os.nice(19)  # the learner goes first
        lifecycle.stop_when_closed(stop, sys.stdin.fileno(), END_S)
    with logs.start("learner", "dashboard"), lifecycle.signals(stop):
        return _serve(
            *(places, bind, port, host_name, token_file, keys, feed_port, read_only),
            stop=stop,
        )


def _serve(*options: Any, stop: Stop) -> int:
    """Serve with these options, in their order; name the extra where its packages are missing."""
    try:
        from farflung.learner.dashboard import command
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the dashboard needs the package {error.name}, which is not installed here: "
            "pip install 'farflung[dashboard]'"
        ) from error
    return command.run(command.Options(*options), stop)
