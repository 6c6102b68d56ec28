"""Small learners, made within milliseconds once an acting graph of their architecture exists."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from farflung.learner import build
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.config import LearnerConfig
from farflung.learner.graph import acting_graph
from farflung.learner.storage.run_folder import Run, new_run

KNOWN: dict[Any, Any] = {}  # acting graphs exported so far in this process


def a_config(**changes):
    """Return the settings of a small sequential CartPole run.

    Windows of 8 steps, a tiny network, one checkpoint at the end.
    """
    small = {
        "mode": "sequential",
        "horizon": 8,
        "warmup": 16,
        "batch_size": 8,
        "replay_ratio": 1.0,
        "capacity": 500,
        "checkpoint_every": 0.0,
        "settings": DQNSettings(hidden=(4,)),
        "ui": "json",
    }
    return LearnerConfig(**{**small, **changes})


def a_run(folder, name="one"):
    """Return a fresh run in a folder."""
    return new_run(str(folder), name, "CartPole-v1", "# nothing\n")


def an_empty_run(folder):
    """Return a run with an empty folder."""
    return Run("one", "one-1", Path(folder))


def a_learner(config, folder, name="one"):
    """Return a learner as the command makes it, on the CPU."""
    with shared_graphs():
        return build.learner(config, a_run(folder, name), torch.device("cpu"))


@contextmanager
def shared_graphs() -> Iterator[None]:
    """Export and prove an acting graph once per architecture.

    A graph holds no weights, so learners of one architecture share it.
    """
    export, prove = acting_graph.export, acting_graph.prove

    def once(module, inputs, outputs):
        key = repr(module), inputs, outputs
        if key not in KNOWN:
            KNOWN[key] = export(module, inputs, outputs)
            prove(module, KNOWN[key])
        return KNOWN[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acting_graph, "export", once)
        patch.setattr(acting_graph, "prove", lambda module, acting: None)
        yield
