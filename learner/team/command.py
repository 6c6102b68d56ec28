"""`learner --policies …` without `--policy`: a learner for each policy, started by one command."""

import logging
import shutil
import socket
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from farflung.actor.worlds import families
from farflung.actor.worlds.own import import_own
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import client_keys
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.invocation import command
from farflung.common.process.lifecycle import Stop, signals, stop_when_closed
from farflung.common.process.log import LASTING, Log
from farflung.learner.config import LearnerConfig
from farflung.learner.core.spec import world_of
from farflung.learner.local.actors import join_command
from farflung.learner.local.children import Children
from farflung.learner.local.page import open_page
from farflung.learner.local.processors import local_actors
from farflung.learner.local.programs import end_survivor
from farflung.learner.observe.screen import Views, shown
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.presets import preset
from farflung.learner.schedule.goal import Goal
from farflung.learner.team import groups, opponents, plan
from farflung.learner.team.folder import Folder, choose
from farflung.learner.team.groups import Seats
from farflung.learner.team.plan import NO_KEYS, Keys, Places
from farflung.learner.team.status import TeamStatus, document, line
from farflung.learner.team.team import END_S, Team
from farflung.learner.team.watching import Watching

if TYPE_CHECKING:
    from rich.panel import Panel

log = logging.getLogger(__name__)

BROKER_KEY = "broker.key"  # in the folder of --keys


def run(loaded: Loaded[LearnerConfig], started: Log) -> int:
    """Train all policies until their goals are reached or a signal comes; return the exit code."""
    config, stop = loaded.config, Stop()
    in_turns = config.mode == "sequential"
    keys = NO_KEYS if in_turns else keys_of(config)
    import_own(config.imports)
    seats = groups.seats(config.policies, families.agents(world_of(config)))
    opponents.require_known(config, seats)
    if config.port and not in_turns:
        sockets.require_free(config.address)
    folder, code = choose(config), 0
    fixed = opponents.parse(config.opponent)
    _say(seats, fixed)
    seats = {policy: seats[policy] for policy in seats if policy not in fixed}
    with signals(stop), folder.locked():
        folder.write(preset.resolved(config, loaded.origins))
        started.copy_to(folder.path / "logs" / "team.log")
        if config.until_stdin_closes:
            stop_when_closed(stop, sys.stdin.fileno(), END_S)
        for policy in seats:
            end_survivor(folder.path / policy, stop, log.info)
        try:
            if in_turns:
                code = _train_in_turns(loaded, seats, folder, started, stop)
            else:
                _train(config, seats, folder, keys, stop)
        finally:
            if not folder.begun(seats):  # refused by its learners: the name stays free
                shutil.rmtree(folder.path, ignore_errors=True)
    sys.stdout.write(summary(seats, folder, stop))
    return stop.exit_code or code


def keys_of(config: LearnerConfig) -> Keys:
    """Return the key files in the folder of `--keys`, or refuse a folder without one."""
    if not config.keys:
        return Keys()
    broker = Path(config.keys) / BROKER_KEY
    if not broker.exists():
        raise ConfigurationError(
            f"--keys {config.keys}: the broker in front of the learners has no key. Make one: "
            f"learner keys {config.keys} --add broker --role broker"
        )
    return Keys(str(client_keys(Path(config.keys)).path), str(broker))


def places_of(config: LearnerConfig, policies: Collection[str]) -> Places:
    """Return free addresses for learners, and the one that is asked for, for their broker."""
    ports = iter(free_ports(2 * len(policies) + 2))
    learners = {policy: Address(plan.LOCAL, next(ports), next(ports)) for policy in policies}
    broker = config.address
    if not broker.port:
        broker = Address(broker.host, next(ports), broker.feed_port or next(ports))
    return Places(learners, broker)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that are free now."""
    with ExitStack() as bound:
        listeners = [bound.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind((plan.LOCAL, 0))
        return [listener.getsockname()[1] for listener in listeners]


def _train(config: LearnerConfig, seats: Seats, folder: Folder, keys: Keys, stop: Stop) -> None:
    done = [policy for policy in seats if folder.reached(policy, str(Goal(config)))]
    done = done if len(done) < len(seats) else []  # then there is nothing to do
    seats = {policy: agents for policy, agents in seats.items() if policy not in done}
    frozen = [*opponents.frozen(config), *done]
    places = places_of(config, [*seats, *frozen])
    join = join_command(config, places.broker, next(iter(seats)))
    log.info("listening: %s (feed on port %d)", join, places.broker.feed_port)
    lasting = TeamStatus(config.environment, config.algorithm, str(folder.path), join)
    own = client_keys(Path(keys.client)) if keys.client else None
    with ExitStack() as resources:
        context = resources.enter_context(sockets.context())
        learners = {policy: places.learners[policy] for policy in seats}
        watching = Watching(context, learners, own)
        resources.callback(watching.close)
        children = resources.enter_context(Children(folder.path / "logs"))
        sink = _sink(config)
        team = Team(seats, folder, children, watching, lasting, sink, stop)
        commands = plan.learners(config, folder.path, places, done)
        fixed = {f"learner-{policy}": commands.pop(policy) for policy in frozen}
        team.start(commands, fixed, plan.others(config, places, keys))
        resources.callback(open_page(config, places.broker.seen_from_here, folder.path))
        if not local_actors(config):
            log.info("waiting for the first actor: %s", join, extra=LASTING)
        try:
            team.run()
        finally:
            team.end()


def _train_in_turns(
    loaded: Loaded[LearnerConfig], seats: Seats, folder: Folder, started: Log, stop: Stop
) -> int:
    """Train all policies in this process."""
    log.info("loading PyTorch", extra=LASTING)
    from farflung.learner.team import in_turns

    config = loaded.config
    lasting = TeamStatus(config.environment, config.algorithm, str(folder.path))
    return in_turns.train(
        loaded,
        seats,
        folder,
        started,
        stop,
        lambda members: in_turns.View(members, lasting, _sink(config)),
    )


def _say(seats: Seats, fixed: Mapping[str, str]) -> None:
    for policy, agents in seats.items():
        which = f" as {fixed[policy]}, and learns nothing" if policy in fixed else ""
        log.info("policy %s plays %s%s", policy, ", ".join(agents), which)


def _sink(config: LearnerConfig) -> StatusSink[TeamStatus]:
    return shown(config.ui, sys.stdout, Views(line, document, _draw))


def summary(seats: Seats, folder: Folder, stop: Stop) -> str:
    """Return how the team ended, and the command that continues it."""
    lines = [f"stopped: {stop.reason}"] if stop else []
    for policy in seats:
        if verdict := folder.verdict(policy):
            lines.append(f"{policy}: {verdict}")
    if folder.begun(seats):
        lines += [
            f"runs: {folder.path}",
            "To go on:",
            "  # continue all of them",
            f"  {command('learner')} --resume {folder.path}",
        ]
    return "".join(f"{each}\n" for each in lines)


def _draw(team: TeamStatus, width: int, height: int, hint: str) -> "Panel":
    from farflung.learner.team.panel import draw  # plain lines need no rich

    return draw(team, width, height, hint)
