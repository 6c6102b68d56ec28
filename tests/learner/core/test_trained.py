"""Policies with tensors that no gradient trains are refused where workers learn."""

import pytest
from torch import nn

from farflung.common.data.spec import Graph, Tensor
from farflung.common.process.errors import ConfigurationError
from farflung.learner.core.trained import require_trained


def graph(*names):
    """Return an acting graph with weights of these names."""
    return Graph(b"", (), (), tuple(Tensor(name, "float32", (1,)) for name in names))


def test_policy_of_parameters_alone_is_taken():
    """Each is sent, and each has a gradient."""
    require_trained(nn.Linear(2, 1), graph("weight", "bias"))


def test_batch_statistics_are_refused_by_name():
    """Each worker would have its own, and the learner none."""
    module = nn.BatchNorm1d(1)
    weights = graph("weight", "bias", "running_mean", "running_var")
    with pytest.raises(ConfigurationError, match=r"has running_mean besides: leave batch"):
        require_trained(module, weights)


def test_fixed_parameters_are_refused_by_name():
    """An optimizer does not touch them."""
    module = nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    with pytest.raises(ConfigurationError, match="has bias besides"):
        require_trained(module, graph("weight", "bias"))


def test_parameters_that_do_not_act_are_refused_by_name():
    """A worker gets the weights of the acting graph, and no others."""
    with pytest.raises(ConfigurationError, match="trains bias besides"):
        require_trained(nn.Linear(2, 1), graph("weight"))
