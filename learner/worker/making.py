"""The algorithm of a run as a worker makes it. No name that came over the network is imported."""

from typing import Any

import msgspec

from farflung.common.data import seeds
from farflung.common.data.learning import Learning
from farflung.common.data.spec import Spec
from farflung.common.process import plugins
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.learner.algorithms.builtin import BUILT_IN, load
from farflung.learner.algorithms.protocol import Algorithm, AlgorithmClass
from farflung.learner.core import device
from farflung.learner.core.trained import require_trained
from farflung.learner.worker.config import WorkerConfig


def algorithm_of(spec: Spec, asked: WorkerConfig) -> Any:
    """Return the algorithm with the learner's settings, or refuse it in a sentence."""
    learning = spec.learning
    if learning is None:
        raise ConfigurationError(
            f"the learner of {spec.run} takes no gradients: start it with --gradients only or also"
        )
    found = algorithm_class(learning, asked)
    model = _own("--model", learning.model, asked.model)
    where, _ = device.choose(asked.device)
    made: Algorithm = found(
        spec,
        settings_of(learning, found),
        device=where,
        seed=seeds.number(spec.world.seed, "network", *spec.world.branch(spec.policy)),
        model=model,
    )
    if not hasattr(made, "follow"):
        raise ConfigurationError(
            f"{learning.algorithm} has no method `follow`: a worker cannot tell its target network "
            "of the learner's updates (docs/algorithms.md)"
        )
    require_trained(made.policy(), spec.graph)
    return made


def algorithm_class(learning: Learning, asked: WorkerConfig) -> AlgorithmClass:
    """Return the class of the algorithm: built in, or named on this worker's own command line."""
    if learning.algorithm in BUILT_IN and asked.algorithm in ("", learning.algorithm):
        return load(learning.algorithm)
    found: AlgorithmClass = _own("--algorithm", learning.algorithm, asked.algorithm)
    return found


def settings_of(learning: Learning, found: AlgorithmClass) -> Any:
    """Return the learner's settings, which came as plain values."""
    try:
        return msgspec.convert(learning.settings, found.Settings)
    except (msgspec.ValidationError, TypeError) as error:
        raise Refused(
            "spec", f"the settings of {learning.algorithm} do not fit this release: {error}"
        ) from error


def _own(flag: str, wanted: str, asked: str) -> Any:
    """Return the user's object if learner and worker name the same one; None if neither does."""
    if wanted != asked:
        is_own = ":" in wanted
        raise ConfigurationError(
            f"the learner has {flag} {wanted or '(none)'}, and this worker {asked or 'none'}: "
            f"{f'add {flag} {wanted}, with its module here' if is_own else f'leave {flag} out'}"
        )
    return plugins.find(asked) if asked else None
