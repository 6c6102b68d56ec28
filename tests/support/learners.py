"""Small learners, made within milliseconds once an acting graph of their architecture exists."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from farflung.common.data.parcel import Results
from farflung.common.process.config import Loaded
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.config import LearnerConfig
from farflung.learner.core.build import build_core
from farflung.learner.core.core import Core
from farflung.learner.endpoint.endpoint import FIRST_EPOCH, Endpoint
from farflung.learner.graph import acting_graph
from farflung.learner.learner import Learner
from farflung.learner.storage import policies
from farflung.learner.storage.run_folder import Run, new_run
from farflung.learner.storage.saver import Saver
from farflung.learner.transport.network_thread import NetworkThread

KNOWN: dict[Any, Any] = {}  # acting graphs exported so far in this process


class CoreAndEndpoint(NamedTuple):
    """A learner without transport and supervision."""

    core: Core
    endpoint: Endpoint


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
        "evaluate_every": 0,
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
    """Return a learner's core and endpoint as the command makes them, on the CPU."""
    with shared_graphs():
        core = build_core(config, a_run(folder, name), torch.device("cpu"), FIRST_EPOCH)
    return CoreAndEndpoint(core, Endpoint(core.spec))


def a_policy_run(folder, name="one", returns=(1.0, 3.0), **changes):
    """Return the folder of a run with a best evaluation under version 1.1 and a last checkpoint.

    Weights are random, so that each action is best somewhere. The last ones are others.
    """
    core = a_learner(a_config(**changes), folder, name).core
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in core.algorithm.policy().parameters():
            if parameter.ndim > 1:
                parameter.normal_(generator=generator)
    run = folder / name
    results = Results(np.array(returns), np.full(len(returns), 5, np.int32))
    policies.write_best(run, core.publish(), results)
    with torch.no_grad():
        for parameter in core.algorithm.policy().parameters():
            parameter.mul_(-1)
    Saver(Run(name, core.spec.run, run), core).finish()
    return run


@contextmanager
def restoring(config: LearnerConfig) -> Iterator[NetworkThread]:
    """A resumed learner as far as it gets without torch: it listens, and is restoring."""
    learner = Learner(Loaded(config, {}))
    with learner.resources, pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner, "_load", lambda who: None)
        learner.startup()
        assert learner.network is not None
        yield learner.network


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
