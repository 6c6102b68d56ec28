"""The spec that actors receive: described from the settings, and kept in the run's folder."""

import json
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from farflung.actor.scripts import registered
from farflung.actor.worlds import families
from farflung.actor.worlds.description import Description
from farflung.common.data.learning import Learning
from farflung.common.data.selfplay import Selfplay
from farflung.common.data.spec import Evaluation, Graph, Spec, World, column_name
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Announcement
from farflung.learner.config import LearnerConfig
from farflung.learner.schedule.rounds import rounds_of
from farflung.learner.selfplay import pooling
from farflung.learner.storage.policies import SPEC, STARTS, stored_spec
from farflung.learner.storage.run_folder import Run
from farflung.learner.team import groups, opponents

log = logging.getLogger(__name__)

UNWRITTEN = Graph(b"", (), (), ())
NO_STARTS: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def world_of(config: LearnerConfig) -> World:
    """Return the world of these settings."""
    return World(config.environment, config.arguments, config.wrappers, config.seed)


def shared_world(config: LearnerConfig) -> World:
    """Return the world of these settings with the agents of each policy."""
    world = world_of(config)
    if not config.policies:
        return world
    shared = groups.seats(config.policies, families.agents(world))
    if config.policy not in shared:
        raise ConfigurationError(
            f"--policy {config.policy} plays no agent: --policies names {', '.join(shared)}"
        )
    opponents.require_known(config, shared)
    scripts = opponents.scripts(config)
    if config.policy in scripts:
        raise ConfigurationError(
            f"--opponent {config.policy}={scripts[config.policy]}: a script plays it at actors, so "
            "it needs no learner: name another --policy"
        )
    return structs.replace(world, seats=shared, scripts=scripts)


def describe(
    config: LearnerConfig,
    run: Run,
    head: str,
    world: World | None = None,
    described: Description | None = None,
) -> Spec:
    """Return the spec that these settings describe, without an acting graph."""
    world = world or shared_world(config)
    described = described or families.describe(world, config.policy)
    if described.agents and not world.seats:
        world = structs.replace(world, seats={config.policy: described.agents})
    images = [
        key
        for key, leaf in described.observation.items()
        if leaf.dtype == "uint8" and len(leaf.shape) >= 2
    ]
    return Spec(
        run=run.identity,
        policy=config.policy,
        mode=config.mode,
        world=world,
        observation=described.observation,
        action=described.action,
        head=head,
        horizon=config.horizon,
        stack=config.stack,
        graph=UNWRITTEN,
        exploration=config.exploration,
        evaluation=Evaluation(
            config.evaluate_every, config.evaluate_episodes, config.evaluate_max_steps
        ),
        compression={column_name(key): "lz4" for key in images if config.compress},
        rounds=rounds_of(config),
        learning=learning_of(config),
        selfplay=selfplay_of(config, described.agents),
    )


def selfplay_of(config: LearnerConfig, agents: Sequence[str]) -> Selfplay | None:
    """Return the rules of games against the pool; None without one."""
    if not config.pool:
        return None
    if len(agents) < 2:
        raise ConfigurationError(
            f"--pool: {config.environment} has no second agent for an opponent to play: leave it "
            "out, or name a world of several agents"
        )
    scripts = pooling.parse(config.pool).scripts
    for name in scripts:
        registered(name)
    return Selfplay(scripts, config.pool_exploration)


def learning_of(config: LearnerConfig) -> Learning | None:
    """Return the learning that workers take part in; None if the learner takes no gradients."""
    if config.gradients == "none":
        return None
    try:
        settings: dict[str, Any] = msgspec.to_builtins(config.settings)
    except TypeError as error:
        raise ConfigurationError(
            f"--gradients {config.gradients}: workers get the settings of {config.algorithm} as "
            f"plain values, and these are not: {error}"
        ) from error
    return Learning(
        algorithm=config.algorithm,
        settings=settings,
        model=config.model,
        batch=config.batch_size,
        capacity=config.capacity,
        warmup=config.warmup,
        ratio=float(config.replay_ratio),
        staleness=config.max_staleness,
        publish_every=config.publish_every,
        alone=config.gradients == "only",
    )


def save_spec(run: Run, spec: Spec, starts: Mapping[str, tuple[int, ...]] = NO_STARTS) -> None:
    """Write spec and acting graph: a resumed run need not spend seconds on the graph again.

    The graph has no weights in it, so it is no ONNX file to open: `learner export` writes one.
    """
    atomic_file.make_folder(run.folder / "policy")
    if starts:
        atomic_file.write(run.file(*STARTS), json.dumps(dict(starts)).encode())
    atomic_file.write(run.file(*SPEC), bytes(wire.encode(Announcement(spec, 0, 0, -1, -1))))


def saved_spec(config: LearnerConfig, run: Run) -> Spec | None:
    """Return the spec of these settings with the run's acting graph.

    Return None if the folder has no graph, or one for other observations or actions.
    """
    try:
        before = stored_spec(run.file(*SPEC))
    except FileNotFoundError:
        return None
    except (OSError, Refused) as error:
        log.warning(
            "the acting graph in %s cannot be read and is written again: %s", run.folder, error
        )
        return None
    described = describe(config, run, before.head)
    now = structs.replace(described, graph=before.graph, extras=before.extras)
    seen = [(spec.observation, spec.action, spec.stack) for spec in (before, now)]
    return now if seen[0] == seen[1] else None
