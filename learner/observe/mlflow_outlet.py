"""Curves in MLflow: `--log-to mlflow`, extra `mlflow`.

Its own variables choose server and experiment: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME.
"""

import logging
import os

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from farflung.learner.observe.outlets import Moment, RunFacts

log = logging.getLogger(__name__)

EXPERIMENT = "farflung"
TAG = "farflung.run"
LETTERS = 500  # of a parameter, as every release of MLflow takes it
AT_ONCE = 100  # parameters in one request


class MlflowOutlet:
    """A run of MLflow, found again by a tag, so that a resumed run goes on in it."""

    def __init__(self, facts: RunFacts) -> None:
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        known = self._client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self._client.create_experiment(name)
        found = self._client.search_runs([experiment], f"tags.`{TAG}` = '{facts.identity}'")
        if found:
            self._run = found[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
        else:
            tags = {TAG: facts.identity}
            made = self._client.create_run(experiment, run_name=facts.name, tags=tags)
            self._run = made.info.run_id
            settings = [Param(k, str(value)[:LETTERS]) for k, value in facts.settings.items()]
            for start in range(0, len(settings), AT_ONCE):
                self._client.log_batch(self._run, params=settings[start : start + AT_ONCE])
        log.info("MLflow has the curves: run %s of experiment %s", self._run, name)

    def write(self, moment: Moment) -> None:
        """Log the figures over environment steps."""
        milliseconds = int(1000 * moment.wall_time)
        named = moment.figures.items()
        metrics = [Metric(name, value, milliseconds, moment.steps) for name, value in named]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """End the run."""
        self._client.set_terminated(self._run)
