"""The subcommands that steer a run while it trains: on this machine by its folder, or by address.

None of them imports torch.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from farflung.common.process.config import require
from farflung.common.process.errors import ConfigurationError, Refused, UsageError
from farflung.learner.cli.at_work import on_terminal

UNSHOWN = Parameter(show_default=False)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The way to a learner, and patience with it."""

    keys: Annotated[str, UNSHOWN] = ""
    """A key file of role operator, for an ADDRESS; by default ~/.config/farflung/operator.key, if
    it exists and the learner is on another machine."""
    feed_port: Annotated[int | None, UNSHOWN] = None
    """The learner's feed port, if it is not the next one."""
    policy: Annotated[str, UNSHOWN] = ""
    """Policy to steer, where an ADDRESS has learners of several."""
    wait: float = 30.0
    """Seconds to wait until the learner has done it."""

    def __post_init__(self) -> None:
        require(self.wait > 0, "--wait must be above 0")


USUAL = Reach()
To = Annotated[Reach, Parameter(name="*")]


def pause(target: str, /, *, to: To = USUAL) -> int:
    """Pause the training of a run; of a team, that of one policy. Nothing is collected meanwhile.

    Parameters
    ----------
    target
        ADDRESS of its learner or of a broker (HOST, HOST:PORT or [IPv6]:PORT); or on this machine
        the folder, such as runs/lander or runs/TEAM/POLICY; runs/TEAM: all of a team.
    """
    return steer(target, "pause", {}, to)


def resume(target: str, /, *, to: To = USUAL) -> int:
    """Let a run train that was paused. To start one again that ended: learner --resume RUN.

    Parameters
    ----------
    target
        ADDRESS of its learner or of a broker, or on this machine the folder of the run.
    """
    return steer(target, "resume", {}, to)


def checkpoint(target: str, /, *, to: To = USUAL) -> int:
    """Let a learner write a checkpoint now; it is written when this returns.

    Parameters
    ----------
    target
        ADDRESS of the learner or of a broker, or on this machine the folder of the run.
    """
    return steer(target, "checkpoint", {}, to)


def stop(target: str, /, *, to: To = USUAL) -> int:
    """Let a learner write its last checkpoint and end, as SIGTERM does. The run can be resumed.

    Parameters
    ----------
    target
        ADDRESS of the learner or of a broker, or on this machine the folder of the run.
    """
    return steer(target, "stop", {}, to)


def set_values(target: str, /, *words: str, to: To = USUAL) -> int:
    """Change settings of a run while it trains; they hold after a restart too.

    Parameters
    ----------
    target
        ADDRESS of the learner or of a broker, or on this machine the folder of the run.
    words
        KEY=VALUE, one or several; `default` as the value: as the run's settings say. The keys:
        learning-rate; replay-ratio; publish-every (updates); log-level; weight (times of the
        replay ratio, 0.01 to 100: 2 samples each transition twice as often).
    """
    from farflung.learner.steering.orders import arguments

    try:
        return steer(target, "set", arguments(words), to)
    except Refused as refusal:
        raise UsageError(f"{refusal.detail or refusal.reason}") from refusal


def is_folder(target: str) -> bool:
    """Return whether a target is a folder: one that exists, or a path; else it is an address."""
    return Path(target).is_dir() or "/" in target


def steer(target: str, name: str, arguments: Mapping[str, Any], to: Reach) -> int:
    """Ask for one thing, and write what became of it."""
    _check(name, arguments)
    with on_terminal("steering", f"asking {target}"):
        for sentence in (_here if is_folder(target) else _there)(target, name, arguments, to):
            sys.stdout.write(f"{sentence}\n")
    return 0


def _check(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what every learner would refuse, with the whole sentence."""
    from farflung.common.protocol.messages import Command
    from farflung.learner.steering.orders import read

    try:
        read(Command("run", "policy", "actor", 0, 1, 1, 0, name, dict(arguments)))
    except Refused as refusal:
        raise UsageError(refusal.detail) from refusal


def _here(target: str, name: str, arguments: Mapping[str, Any], to: Reach) -> list[str]:
    """Ask through the folder of a run, or of each run of a team."""
    from farflung.learner.runs.reading import is_run, is_team
    from farflung.learner.steering.leaving import leave
    from farflung.learner.steering.naming import own_name
    from farflung.learner.storage.run_folder import FACTS

    run, order = Path(target), (name, arguments)
    runs = sorted(path.parent for path in run.glob(f"*/{FACTS}")) if is_team(run) else [run]
    if not is_run(run) and not is_team(run):
        raise ConfigurationError(f"{run} is not the folder of a run or a team")
    return [leave(one, own_name(), order, to.wait) for one in runs]


def _there(target: str, name: str, arguments: Mapping[str, Any], to: Reach) -> list[str]:
    """Ask over the network."""
    from farflung.common.net import sockets
    from farflung.common.net.address import parse_address
    from farflung.common.net.keys import OPERATOR_FILE, client_keys_for, full_name
    from farflung.learner.steering.naming import own_name
    from farflung.learner.steering.sending import ask

    where = parse_address(target, to.feed_port)
    keys = client_keys_for(where, to.keys, OPERATOR_FILE)
    actor = full_name(keys, own_name())
    with sockets.context() as context:
        return [ask(context, where, keys, actor, (name, arguments), to.policy, to.wait)]
