"""The two sides of a match by their names: random actions, a script, or a version of a run."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farflung.actor.acting.policy import Policy
from farflung.actor.evaluator import Evaluator
from farflung.actor.playing import Playing
from farflung.actor.scripts import Script, Scripted, any_action
from farflung.actor.worlds import own
from farflung.common import heads
from farflung.common.data.pool import RANDOM, SCRIPT
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Weights
from farflung.common.process.config import suggestion
from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies.imports import import_packages_of
from farflung.learner.policies.loading import default_checkpoint
from farflung.learner.policies.named import checkpoint_of
from farflung.learner.runs.reading import is_run
from farflung.learner.storage import policies


@dataclass(frozen=True)
class ByPolicy:
    """The policy of a run, under the weights of one version."""

    name: str  # RUN@CHECKPOINT
    spec: Spec
    weights: Weights

    def player(self, spec: Spec, seats: int, rng: np.random.Generator, as_trained: bool) -> Playing:
        """Return a player for so many seats of a spec's policy: greedy, or as it explored then."""
        heads.require(spec)
        head = heads.find(spec.head)
        chooser = head.explorer(spec, seats, 0, rng) if as_trained else head.greedy(spec)
        player = Evaluator(spec, seats, Policy(spec.graph), chooser)
        player.begin(self.weights, self.weights.steps)
        return player


@dataclass(frozen=True)
class ByScript:
    """Random actions, or a function of a user's."""

    name: str
    script: Script | None = None  # None: random actions
    spec: None = None  # it plays in any world
    weights: None = None

    def player(self, spec: Spec, seats: int, rng: np.random.Generator, as_trained: bool) -> Playing:
        """Return a player for the seats of a spec's policy."""
        return Scripted(spec, self.script or any_action(spec.action), self.name, rng)


Entrant = ByPolicy | ByScript


def find(text: str) -> Entrant:
    """Return the side of a name: random, package.module:function, or RUN[@CHECKPOINT]."""
    if text == str(RANDOM):
        return ByScript(text)
    run, checkpoint = checkpoint_of(Path(text))
    if ":" in text and not is_run(run):
        return ByScript(text, own.find_script(text.removeprefix(SCRIPT)))
    _require_run(run)
    spec = policies.read_spec(run)
    import_packages_of(run)
    # A policy of both seats was evaluated against itself, and its best is any one of its versions.
    checkpoint = checkpoint or (policies.LAST if spec.agents > 1 else default_checkpoint(run))
    weights = policies.read_weights(run, spec, checkpoint)
    return ByPolicy(f"{run}@{checkpoint}", spec, weights)


def _require_run(run: Path) -> None:
    """Refuse a folder that is no run, and name those beside it."""
    if is_run(run):
        return
    beside = run.parent.iterdir() if run.parent.is_dir() else ()
    known = sorted(path.name for path in beside if is_run(path))
    have = f"{run.parent} has the runs {', '.join(known)}." if known else "Name the folder of one."
    raise ConfigurationError(
        f"there is no run {run}: {have}{suggestion(run.name, known)} A side of a match may also be "
        f"{RANDOM}, or a script as package.module:function"
    )
