"""Policies from a run's folder or from an exported file. Without torch, and on any system."""

from pathlib import Path

from farflung.actor.acting.loaded import LoadedPolicy
from farflung.actor.acting.policy import Policy
from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies.named import checkpoint_of
from farflung.learner.storage import policies
from farflung.learner.storage.manifest import BEST, FOLDER


def load(path: str | Path, checkpoint: str = "", seed: int = 0) -> LoadedPolicy:
    """Return the policy of a run's folder, or of a file that `learner export` wrote.

    The checkpoint is `best`, `last`, the number of one, or an archived version such as `2.120`; by
    default the best, or the last where no evaluation has ended. `RUN@CHECKPOINT` names both. `seed`
    is for actions that explore.
    """
    path, checkpoint = checkpoint_of(Path(path), checkpoint)
    if path.is_file():
        from farflung.learner.policies.exported import load_exported

        if checkpoint:
            raise ConfigurationError(f"{path} has one checkpoint: name the folder of a run")
        return load_exported(path, seed)
    spec = policies.read_spec(path)
    weights = policies.read_weights(path, spec, checkpoint or default_checkpoint(path))
    graph = Policy(spec.graph)
    graph.load(weights)
    starts = policies.read_starts(path)
    return LoadedPolicy(spec, graph, starts, weights.steps, str(weights.version), seed)


def default_checkpoint(run_folder: Path) -> str:
    """Return the best checkpoint if there is one, else the last."""
    return BEST if (run_folder / FOLDER / BEST).exists() else policies.LAST
