"""The subcommands of `learner`. The parameters of each function are its flags."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from farflung.learner.cli.at_work import at_work, on_terminal

Files = Annotated[tuple[Path, ...], Parameter(consume_multiple=True)]


def status(
    address: str = "127.0.0.1",
    /,
    *,
    keys: str = "",
    feed_port: int | None = None,
    json: bool = False,
    stalled_after: float = 60.0,
) -> int:
    """Show the status of a running learner; exit code 1 if it is silent or makes no progress.

    Parameters
    ----------
    address
        The learner: HOST, HOST:PORT or [IPv6]:PORT.
    keys
        A key file that this learner allows; by default ~/.config/farflung/actor.key, if it exists
        and the learner is on another machine.
    feed_port
        The learner's feed port, if it is not the next one.
    json
        Print the whole status as one line of JSON.
    stalled_after
        Fail after this many seconds without a step or an update (0: any answer will do).
    """
    with on_terminal("status", f"asking {address}"):
        from farflung.common.net import sockets
        from farflung.common.net.address import parse_address
        from farflung.common.net.keys import client_keys_for
        from farflung.learner.observe.watch import watch

        where = parse_address(address, feed_port)
        with sockets.context() as context:
            watch(
                context,
                where,
                sys.stdout,
                as_json=json,
                keys=client_keys_for(where, keys),
                stalled_s=stalled_after,
            )
    return 0


def keys(
    folder: Path, /, *, add: str = "", role: Literal["actor", "broker", "operator"] = "actor"
) -> int:
    """Make the keys of a learner or broker and of its clients. Existing keys are kept.

    Copy a `.key` file to the machine that uses it, and nowhere else. Remove a file from the folder
    `allowed` to revoke a key; this works at once.

    Parameters
    ----------
    folder
        The folder of the keys: server.key, actor.key and allowed/actor.pub.
    add
        Label of another client: makes LABEL.key and allowed/LABEL.pub. The names of its actors
        begin with LABEL/.
    role
        Role of that client; a broker may relay actors of any name, an operator sends commands.
    """
    from farflung.common.net.keys import make

    for sentence in make(folder, add, role):
        sys.stdout.write(sentence + "\n")
    return 0


def audit(run: Path, /, *, against: Files = (), actor: str = "") -> int:
    """Check a run's journal, checkpoints and ledger offline; exit code 0 only if all agree.

    Parameters
    ----------
    run
        The folder of the run.
    against
        Files that actors wrote with --acknowledged: each parcel in them must be in the journal
        once, byte for byte.
    actor
        List all parcels of this actor.
    """
    with on_terminal("audit", f"reading {run}"):
        from farflung.learner.storage.audit import audit as run_audit

        return run_audit(run, against, actor, sys.stdout)


def self_test() -> int:
    """Check this installation in half a minute: networks, repetition, a learner and an actor."""
    with at_work("self-test", "loading PyTorch") as say:
        from farflung.learner.cli.self_test import self_test as run

        return run(sys.stdout, say=say)
