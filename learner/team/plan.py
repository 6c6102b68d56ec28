"""The processes of a team, with their command lines."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from farflung.common.net.address import Address
from farflung.learner.config import TEAM_SETTINGS, LearnerConfig
from farflung.learner.local.actors import EVALUATION_SEATS, EVALUATOR
from farflung.learner.local.children import actor_command
from farflung.learner.local.processors import local_actors
from farflung.learner.local.programs import program
from farflung.learner.storage.policies import LAST
from farflung.learner.storage.run_folder import has_journal
from farflung.learner.team.folder import init_of

BROKER = "broker"
LOCAL = "127.0.0.1"  # learners of a team listen here; the broker, where --bind says


@dataclass(frozen=True, slots=True)
class Places:
    """The addresses of a team: of each policy's learner, and of the broker in front of them."""

    learners: Mapping[str, Address]
    broker: Address


@dataclass(frozen=True, slots=True)
class Keys:
    """The key files of a team; empty: its clients need none."""

    client: str = ""  # of its actors, and of its panel
    broker: str = ""


NO_KEYS = Keys()

Commands = dict[str, tuple[str, ...]]


def learners(
    config: LearnerConfig, folder: Path, places: Places, done: Collection[str] = ()
) -> Commands:
    """Return the command line of each policy's learner. It is the same at each of its starts.

    Those that are `done` only publish their last weights.
    """
    commands = {
        policy: _learner(config, folder, policy, number, address)
        for number, (policy, address) in enumerate(places.learners.items())
    }
    for policy in done:
        opponents = (*config.opponent, f"{policy}={folder / policy}@{LAST}")
        words = [word for each in opponents for word in ("--opponent", each)]
        commands[policy] = (*commands[policy], *words)
    return commands


def others(config: LearnerConfig, places: Places, keys: Keys = NO_KEYS) -> Commands:
    """Return the command lines of the broker, of the actors behind it, and of the evaluator."""
    commands = {BROKER: _broker(config, places, keys)}
    names = {f"local-{index}": config.environments for index in range(local_actors(config))}
    if config.evaluate_every:
        names[EVALUATOR] = min(config.evaluate_episodes, EVALUATION_SEATS)
    for name, environments in names.items():
        commands[name] = actor_command(
            places.broker.seen_from_here,
            name,
            environments=environments,
            policy=next(iter(places.learners)),
            imports=config.imports,
            evaluate=name == EVALUATOR,
            keys=keys.client,
        )
    return commands


def _learner(
    config: LearnerConfig, folder: Path, policy: str, number: int, address: Address
) -> tuple[str, ...]:
    run = folder / policy
    words = [*program("learner"), "--config", str(folder / TEAM_SETTINGS), "--policy", policy]
    words += ["--run-dir", str(folder), "--name", policy]
    # A run that has ended goes on only by its name. One that is new has the name from now on.
    words += ["--resume", str(run) if has_journal(run) else "auto"]
    words += ["--bind", address.host, "--port", str(address.port)]
    words += ["--feed-port", str(address.feed_port), "--actors", "0", "--ui", "lines"]
    words += ["--dashboard", "off"]  # the team has one for all
    if config.mode == "sync":
        words += ["--round-actors", str(config.round_actors or local_actors(config))]
    if config.device == "auto":
        words += ["--device", f"auto:{number}"]
    if (init := init_of(config, policy)) != config.init:
        words += ["--init", init]
    return tuple(words)


def _broker(config: LearnerConfig, places: Places, keys: Keys) -> tuple[str, ...]:
    learners = places.learners.values()
    words = [*program("broker"), *map(str, learners)]
    for address in learners:
        words += ["--upstream-feed-port", str(address.feed_port)]
    broker = places.broker
    words += ["--bind", broker.host, "--port", str(broker.port)]
    words += ["--feed-port", str(broker.feed_port), "--name", BROKER]
    words += ["--insecure"] if config.insecure else []
    if config.keys:
        words += ["--keys", config.keys, "--upstream-keys", keys.broker]
    return tuple(words)
