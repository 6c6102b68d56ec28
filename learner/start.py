"""The first moments of a learner: ports are asked for, and a run that goes on can be heard, before anything that takes long is loaded."""

import logging
import time
from contextlib import ExitStack
from pathlib import Path

from farflung.common.net import sockets
from farflung.common.process import descriptors
from farflung.common.process import log as logs
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import interruptible
from farflung.common.process.plugins import import_packages
from farflung.common.process.settings_file import resolved_toml
from farflung.learner import talk
from farflung.learner.config import LearnerConfig
from farflung.learner.doors import Doors
from farflung.learner.processors import local_actors
from farflung.learner.storage import manifest
from farflung.learner.storage.recover import Recovered, recover
from farflung.learner.storage.run_folder import Run, new_run, open_run, unfinished_run

log = logging.getLogger(__name__)


def start(loaded: Loaded[LearnerConfig]) -> int:
    """Train until the goal is reached or somebody says stop; gives the exit code."""
    started_at = time.monotonic()
    config = loaded.config
    with interruptible(), ExitStack() as stack:
        import_packages(config.imports)
        if config.mode == "async":
            require_descriptors(config)
            sockets.require_free(config.address)
        run = choose_run(config, resolved_toml(config, loaded.origins))
        stack.enter_context(run.locked())
        with run.attempt():
            logger = logs.start("learner", run.name, config.log_level)
            stack.callback(logger.stop)
            logger.copy_to(run.file("logs", "learner.log"))
            past = recover(run, durable=config.durability == "fsync") if run.resumed else None
            if config.init and past is None:
                require_weights(Path(config.init))
            doors = early(config, run, past)
            if doors is not None:
                stack.enter_context(doors)
            from farflung.learner.train import (
                train,  # torch and all that rests on it: more than a second
            )

        return train(run, config, started_at, logger.who, past, doors)


def require_descriptors(config: LearnerConfig) -> None:
    """Room for its own actors, each with a pipe, for those that dial in, and for what it has open itself."""
    own = local_actors(config) + bool(config.evaluate_every)
    needed = descriptors.OWN + own + descriptors.LINE * (own + descriptors.ACTORS)
    descriptors.require(
        needed, f"a learner with {own} actors here and {descriptors.ACTORS} elsewhere"
    )


def require_weights(folder: Path) -> None:
    """Refuse to begin with the weights of a run that has none, before anything that takes long is loaded."""
    if not manifest.kept(folder):
        what = "has no checkpoint" if folder.is_dir() else "is not there"
        raise ConfigurationError(f"--init {folder}: that folder {what}; name the folder of a run")


def choose_run(config: LearnerConfig, settings: str) -> Run:
    """The run to go on with, else a new one."""
    if config.resume and config.resume != "auto":
        return open_run(Path(config.resume))
    unfinished = (
        unfinished_run(config.run_dir, config.name, config.environment) if config.resume else None
    )
    return unfinished or new_run(
        config.run_dir, config.name, config.environment, settings, again=bool(config.resume)
    )


def early(config: LearnerConfig, run: Run, past: Recovered | None) -> Doors | None:
    """The doors of a run whose acting graph is in its folder: actors find their learner again while it is still restoring."""
    spec = talk.kept(config, run) if past is not None else None
    if past is None or spec is None:
        return None
    doors = Doors(config, run, talk.talk(spec, past.inbox, past.roster), past)
    log.info(
        "run %s goes on: epoch %d, %d steps; restoring", run.identity, doors.talk.epoch, past.rows
    )
    return doors
