"""Checks of what an algorithm trains: its state, and all of a policy by gradients of workers."""

from collections.abc import Mapping

from torch import Tensor, nn

from farflung.common.data.spec import Graph
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.protocol import Algorithm


def require_tensors(state: Mapping[str, object]) -> None:
    """Refuse a state that no checkpoint could keep."""
    for name, each in state.items():
        if not isinstance(each, Tensor):
            raise ConfigurationError(
                f"state() has {name!r}, which is {type(each).__name__}: a checkpoint keeps tensors "
                "by name. `Trained.state()` has those of a network and its optimizer "
                "(docs/algorithms.md)"
            )


def require_follower(algorithm: Algorithm, name: str) -> None:
    """Refuse an algorithm that workers cannot use: they send gradients of the acting policy."""
    if not hasattr(algorithm, "follow"):
        raise ConfigurationError(
            f"{name} takes no gradients of workers: it trains more than the policy that acts, or "
            "has no method `follow` (docs/algorithms.md). Leave --gradients out"
        )


def require_trained(module: nn.Module, graph: Graph) -> None:
    """Refuse a policy with tensors that no gradient changes, or that workers would not get.

    Batch statistics are such: each worker would have its own, and the learner none.
    """
    trained = {name for name, tensor in module.named_parameters() if tensor.requires_grad}
    sent = {tensor.name for tensor in graph.weights}
    if fixed := sorted(sent - trained):
        raise ConfigurationError(
            f"gradients of workers change parameters only, and the policy has {fixed[0]} besides: "
            "leave batch statistics and fixed tensors out of it (--dqn.layer-norm needs neither), "
            "or learn without --gradients"
        )
    if lost := sorted(trained - sent):
        raise ConfigurationError(
            f"workers get the weights that act, and the policy trains {lost[0]} besides: "
            "this network needs a learner without --gradients"
        )
