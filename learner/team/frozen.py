"""A learner that learns nothing: it publishes the policy of another run, as it was."""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from farflung.actor.worlds import families
from farflung.actor.worlds.own import import_own
from farflung.common.data.spec import Evaluation, Exploration, Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.net import sockets
from farflung.common.net.keys import server_keys
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop, signals, stop_when_closed
from farflung.common.protocol.messages import State
from farflung.learner.config import LearnerConfig
from farflung.learner.core.spec import shared_world
from farflung.learner.endpoint.endpoint import FIRST_EPOCH, Endpoint
from farflung.learner.local.actors import join_command
from farflung.learner.policies.imports import import_packages_of
from farflung.learner.policies.loading import default_checkpoint
from farflung.learner.policies.named import checkpoint_of
from farflung.learner.schedule.rounds import rounds_of
from farflung.learner.storage import policies
from farflung.learner.team import opponents
from farflung.learner.transport.network_thread import NetworkThread

log = logging.getLogger(__name__)

CHECK_S = 0.5
END_S = 10.0  # once standard input is closed


def serve(config: LearnerConfig) -> int:
    """Publish the policy until a signal comes; return the exit code."""
    import_own(config.imports)
    sockets.require_free(config.address)
    endpoint, stop = frozen(config), Stop()
    if config.until_stdin_closes:
        stop_when_closed(stop, 0, END_S)
    with signals(stop), _listening(config, endpoint) as network:
        address = network.address
        log.info(
            "listening: %s (feed on port %d)", join_command(config, address), address.feed_port
        )
        while not stop.wait(CHECK_S):
            network.check()
    stop.close()
    return stop.exit_code


def frozen(config: LearnerConfig) -> Endpoint:
    """Return the endpoint of a policy that `--opponent` takes from a run, with its weights."""
    named = opponents.frozen(config)[config.policy]
    spec, weights = read(config, named)
    log.info("policy %s is that of %s, and learns nothing", config.policy, named)
    endpoint = Endpoint(spec)
    endpoint.publish(weights)
    return endpoint


def read(config: LearnerConfig, named: str) -> tuple[Spec, Weights]:
    """Return spec and weights as actors of this world receive them, as of a new run."""
    folder, checkpoint = checkpoint_of(Path(named))
    kept = policies.read_spec(folder)
    import_packages_of(folder)
    weights = policies.read_weights(folder, kept, checkpoint or default_checkpoint(folder))
    world, policy, share = shared_world(config), config.policy, config.pool_exploration
    described = families.describe(world, policy, masked=kept.mask is not None)
    for what, here, there in (
        ("observations", described.observation, kept.observation),
        ("actions", described.action, kept.action),
        ("action masks", described.mask, kept.mask),
    ):
        if here != there:
            raise ConfigurationError(
                f"--opponent {policy}={named}: the {what} of {policy} in {config.environment} are "
                f"{here!r}, and that run has {there!r}: name a run of such a policy"
            )
    run = f"{policy[:50]}-{secrets.token_hex(4)}"
    spec = structs.replace(
        kept,
        run=run,
        policy=policy,
        mode=config.mode,
        world=world,
        horizon=config.horizon,
        exploration=Exploration(share, share, 0),
        evaluation=Evaluation(
            config.evaluate_every, config.evaluate_episodes, config.evaluate_max_steps
        ),
        extras=() if kept.mask is None else (kept.mask,),
        rounds=rounds_of(config),
        learning=None,
        selfplay=None,
        frozen=True,
    )
    return spec, replace(
        weights, run=run, policy=policy, version=Version(FIRST_EPOCH, 1), steps=0, pool=None
    )


@contextmanager
def _listening(config: LearnerConfig, endpoint: Endpoint) -> Iterator[NetworkThread]:
    keys = server_keys(Path(config.keys)) if config.keys else None
    with sockets.context() as context:
        network = NetworkThread(context, config.address, endpoint, keys)
        try:
            network.start()
            yield network
        finally:
            network.close(State.AWAY)
