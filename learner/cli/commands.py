"""The subcommands of `learner`: each is a function whose parameters are its flags."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

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
    """Show how a running learner is doing; exit code 1 if nothing is heard or nothing moves.

    Parameters
    ----------
    address
        The learner: HOST, HOST:PORT or [IPv6]:PORT.
    keys
        Any key file that this learner allows; by default ~/.config/farflung/actor.key if that is there and the learner is elsewhere.
    feed_port
        Its feed, where it is not the next port.
    json
        Print the whole status as one line of JSON.
    stalled_after
        Seconds without a step or an update after which nothing moves; 0: it only has to answer.
    """
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


def keys(folder: Path, /, *, add: str = "", role: Literal["actor", "broker"] = "actor") -> int:
    """Make the keys of a learner or broker and of whoever dials it. What is there is kept.

    Remove a file from the folder `allowed` to shut its owner out, at once; take a `.key` file to whoever is to use it, and nowhere else.

    Parameters
    ----------
    folder
        Where they are, or shall be: server.key, actor.key, and allowed/actor.pub.
    add
        Label of another client: LABEL.key and allowed/LABEL.pub. The names of its actors begin with LABEL/.
    role
        broker: it may pass on what actors of any name say.
    """
    from farflung.common.net.keys import make

    for sentence in make(folder, add, role):
        sys.stdout.write(sentence + "\n")
    return 0


def audit(run: Path, /, *, against: Files = (), actor: str = "") -> int:
    """Check offline that what a run left on disk adds up: journal, checkpoints, ledger. Exit code 0 only if all of it does.

    Parameters
    ----------
    run
        The folder of the run.
    against
        Files that actors wrote with --acknowledged: everything in them must be in the journal once, byte for byte.
    actor
        List everything that this actor sent.
    """
    from farflung.learner.storage.audit import audit as run_audit

    return run_audit(run, against, actor, sys.stdout)


def self_test() -> int:
    """Say in half a minute whether this installation works: a real learner and a real actor, a wrong message, and learning."""
    from farflung.learner.cli.self_test import self_test as run

    return run(sys.stdout)
