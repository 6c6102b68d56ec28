"""A command for a run on this machine: left in its folder, and its answer read there. No torch."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farflung.common.data.fields import DEFAULT_POLICY, draw_identity
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.messages import Command
from farflung.learner.steering.orders import Name, Order, read
from farflung.learner.steering.record import ANY_EPOCH
from farflung.learner.storage import steering as files
from farflung.learner.storage.run_folder import is_locked, open_run

LOOK_S = 0.1
LASTING = (Name.PAUSE, Name.RESUME, Name.SET)  # they count where no learner is at work yet


def leave(folder: Path, actor: str, order: tuple[str, Mapping[str, Any]], wait_s: float) -> str:
    """Leave a command for a run, and wait for its answer; return a sentence about it."""
    name, arguments = order
    command = Command(
        run=open_run(folder).identity,
        policy=DEFAULT_POLICY,  # a folder has one run: no learner looks at it
        actor=actor,
        incarnation=draw_identity(),
        sequence=1,
        base=1,
        epoch=ANY_EPOCH,
        name=name,
        arguments=dict(arguments),
    )
    asked = read(command)
    if not is_locked(folder):
        if asked.name not in LASTING:
            raise ConfigurationError(f"{folder}: no learner is at work there, so none can {name}")
        files.leave(folder, command, time.time_ns())
        return f"{folder}: no learner is at work; {asked} counts from the next one"
    path = files.leave(folder, command, time.time_ns())
    return _answered(folder, path, command, asked, wait_s)


def _answered(folder: Path, path: Path, command: Command, asked: Order, wait_s: float) -> str:
    """Wait for the answer; take back what would come as a surprise later."""
    pause, end = threading.Event(), time.monotonic() + wait_s  # the event is never set
    while time.monotonic() < end and is_locked(folder):
        if (answer := files.read(folder).find(command)) is not None:
            if answer.refused:
                refusal = Refused(answer.refused, answer.detail)
                raise ConfigurationError(f"{folder}: refused ({refusal})")
            return f"{folder}: {asked}: done"
        pause.wait(LOOK_S)
    if (answer := files.read(folder).find(command)) is not None and not answer.refused:
        return f"{folder}: {asked}: done"
    if asked.name in LASTING:
        return f"{folder}: {asked}: waits in {path}; it counts as soon as a learner trains there"
    files.remove(path)
    raise ConfigurationError(
        f"{folder}: {asked} was not done within {wait_s:g} s, and is taken back; "
        "its log tells if it was begun"
    )
