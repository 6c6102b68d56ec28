"""Curves in Weights & Biases: `--log-to wandb`, extra `wandb`.

Its own variables choose account, project and mode: WANDB_API_KEY, WANDB_PROJECT, WANDB_MODE.
"""

import logging
import os

import wandb

from farflung.common.process.errors import ConfigurationError
from farflung.learner.observe.outlets import Moment, RunFacts

log = logging.getLogger(__name__)

PROJECT = "farflung"
STEPS = "time/total_timesteps"  # the horizontal axis


class WandbOutlet:
    """A run of W&B with the identity of ours, so that a resumed run goes on in it."""

    def __init__(self, facts: RunFacts) -> None:
        # It would ask at the terminal for an account, behind the panel.
        online = os.environ.get("WANDB_MODE", "online") == "online"
        if online and not wandb.login(prompt=False):
            raise ConfigurationError("W&B knows no account: `wandb login`, or WANDB_MODE=offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=facts.identity,
            name=facts.name,
            resume="allow",
            dir=str(facts.folder),
            config=dict(facts.settings),
            settings=wandb.Settings(console="off", silent=True),  # the screen is ours
        )
        self._run.define_metric("*", step_metric=STEPS)
        log.info("W&B has the curves: %s", self._run.url if online else self._run.dir)

    def write(self, moment: Moment) -> None:
        """Log the figures over environment steps."""
        self._run.log({**moment.figures, STEPS: moment.steps})

    def close(self) -> None:
        """End the run, which uploads the rest."""
        self._run.finish()
