"""The spec that actors receive: described from the settings, and kept in the run's folder."""

import json
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from farflung.actor.worlds import gymnasium
from farflung.actor.worlds.gymnasium import Description
from farflung.common.data.learning import Learning
from farflung.common.data.spec import Evaluation, Graph, Spec, World, column_name
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Announcement
from farflung.learner.config import LearnerConfig
from farflung.learner.schedule.rounds import rounds_of
from farflung.learner.storage.policies import SPEC, STARTS, stored_spec
from farflung.learner.storage.run_folder import Run

log = logging.getLogger(__name__)

UNWRITTEN = Graph(b"", (), (), ())
NO_STARTS: Mapping[str, tuple[int, ...]] = MappingProxyType({})


def world_of(config: LearnerConfig) -> World:
    """Return the world of these settings."""
    return World(config.environment, config.arguments, config.wrappers, config.seed)


def describe(
    config: LearnerConfig, run: Run, head: str, described: Description | None = None
) -> Spec:
    """Return the spec that these settings describe, without an acting graph."""
    world = world_of(config)
    described = described or gymnasium.describe(world)
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
    )


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
