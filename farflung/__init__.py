"""Farflung: far-flung actors, one learner. Message-passing reinforcement learning over ZeroMQ.

The import itself loads nothing else: each function brings what it needs.
"""

TYPE_CHECKING = False  # type checkers take it for true; the import of `typing` takes time

if TYPE_CHECKING:
    from os import PathLike

    from farflung.actor.acting.loaded import LoadedPolicy

__all__ = ["load"]


def load(path: "str | PathLike[str]", checkpoint: str = "", *, seed: int = 0) -> "LoadedPolicy":
    """Return the policy of a run's folder, or of a file that `learner export` wrote.

    The checkpoint is `best`, `last` or the number of one; by default the best, or the last where no
    evaluation has ended. `policy.act(observation)` returns the action.
    """
    from pathlib import Path

    from farflung.learner.policies.loading import load

    return load(Path(path), checkpoint, seed)
