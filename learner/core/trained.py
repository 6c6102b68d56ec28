"""The check that gradients of workers train all of a policy."""

from torch import nn

from farflung.common.data.spec import Graph
from farflung.common.process.errors import ConfigurationError


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
