"""The backward pass of a perceptron by hand, with the bits of autograd's.

Autograd makes a node for each map, norm and nonlinearity. Here only the loss has nodes, so it is an
equation of the network's outputs as before; from their gradient on the layers go back by hand.
`choose` compares both ways first. Networks with any other layer keep autograd's.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from farflung.learner.algorithms.flat_parameters import FlatParameters, FlatTensors, TargetNetwork
from farflung.learner.algorithms.networks import Dueling, QNetwork

log = logging.getLogger(__name__)

ROWS = 32  # of the batch that both ways are compared with
TOLERANCE = 1e-4  # of the largest number of autograd's
EPSILON = 1e-5  # of norms: torch's default

Pair = tuple[Tensor, tuple[Tensor, ...]]  # outputs, and what the backward pass reads
Found = tuple[Tensor | None, tuple[Tensor, ...]]  # gradients of inputs and of parameters


class Passes(NamedTuple):
    """A kind of layers: the tensors of one, and both passes as functions of tensors."""

    tensors: Callable[[Any], tuple[Tensor, ...]]
    forward: Callable[..., Pair]  # of inputs and those tensors
    backward: Callable[..., Found]  # of outputs' gradients, True for those of inputs, and the kept


class Autograd:
    """The backward pass of any network."""

    def __init__(self, parameters: FlatParameters) -> None:
        self.gradients = parameters.gradients

    def taped(self) -> AbstractContextManager[None]:
        """Do nothing: autograd keeps what it needs."""
        return nullcontext()


class ByHand:
    """The layers of a network, from features to outputs, and from gradients to gradients.

    Calls inside of `taped()` are kept on a tape, and `gradients` goes back along it.
    """

    def __init__(self, network: QNetwork, parameters: FlatParameters) -> None:
        self._places = parameters.places
        layers = (*network.body, network.head)
        kinds = [PASSES[type(layer)] for layer in layers]
        self._steps = [  # views into the vector of parameters
            (kind.forward, kind.backward, tuple(each.detach() for each in kind.tensors(layer)))
            for kind, layer in zip(kinds, layers, strict=True)
        ]
        self._is_taped = False
        self._tape: list[tuple[Tensor, list[Any]]] = []  # outputs, and what each layer kept

    @contextmanager
    def taped(self) -> Iterator[None]:
        """Keep the calls in this block."""
        self._is_taped = True
        try:
            yield
        finally:
            self._is_taped = False
            self._tape.clear()

    @property
    def serves(self) -> bool:
        """True where a call needs no gradients, or has them from the tape."""
        return self._is_taped or not torch.is_grad_enabled()

    def __call__(self, features: Tensor) -> Tensor:  # [N, width] float32
        """Return the outputs, `[N, outs] float32`."""
        if not torch.is_grad_enabled():
            for forward, _, tensors in self._steps:
                features, _ = forward(features, *tensors)
            return features
        kept = []
        with torch.no_grad():
            for forward, backward, tensors in self._steps:
                features, read = forward(features, *tensors)
                kept.append((backward, read))
        outputs = features.requires_grad_()
        self._tape.append((outputs, kept))
        return outputs

    def gradients(self, loss: Tensor) -> FlatTensors:
        """Return the gradients of a loss, which is a function of outputs on the tape."""
        called = [outputs for outputs, _ in self._tape]
        gradients = torch.autograd.grad(loss, called, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            found = [
                _back(kept, gradient)
                for (_, kept), gradient in zip(self._tape, gradients, strict=True)
            ]
        vector = found[0] if len(found) == 1 else torch.stack(found).sum(dim=0)
        return FlatTensors(vector, self._places)

    def __deepcopy__(self, _: object) -> None:
        """Return None: a copied network has its parameters elsewhere."""


def _back(kept: list[Any], gradient: Tensor) -> Tensor:  # [N, outs] float32
    """Return the gradient of all parameters `[P] float32` by that of the outputs."""
    found: list[Tensor] = []
    for place in range(len(kept) - 1, -1, -1):
        backward, read = kept[place]
        gradient, own = backward(gradient, place > 0, *read)
        found[:0] = own
    return torch.cat([each.ravel() for each in found])


def choose(
    network: nn.Module, parameters: FlatParameters, target: TargetNetwork
) -> Autograd | ByHand:
    """Return the way by hand through a built-in network, if it has the gradients of autograd.

    The network then takes it, and its target network too. Else return autograd.
    """
    followed, copies = target.module, target.copies
    if type(network) is not QNetwork or type(followed) is not QNetwork or not known(network):
        return Autograd(parameters)
    by_hand = ByHand(network, parameters)
    apart = difference(network, parameters, by_hand)
    if apart > TOLERANCE:
        log.warning(
            "gradients by hand are %.1g of the largest apart from those of autograd: this run has "
            "autograd's, and longer updates",
            apart,
        )
        return Autograd(parameters)
    network.by_hand, followed.by_hand = by_hand, ByHand(followed, copies)
    return by_hand


def known(network: QNetwork) -> bool:
    """Return True if all its parameters are those of layers known here, which nothing changes."""
    changed = any(
        "forward" in vars(each)
        or each._forward_hooks
        or each._forward_pre_hooks
        or each._backward_hooks
        for each in network.modules()
    )
    layers = (*network.body, network.head)
    passed = [id(each) for layer in layers for each in layer.parameters() if each.requires_grad]
    whole = passed == [id(each) for each in network.parameters()]
    return whole and not changed and all(map(_known, layers))


def difference(network: QNetwork, parameters: FlatParameters, by_hand: ByHand) -> float:
    """Return the largest difference of outputs and gradients between both ways, as a share of the
    largest number of autograd's. It is infinite where one has NaN.

    No global generator is used, so that a run has the same numbers with and without this.
    """
    generator = torch.Generator().manual_seed(0)
    width = next(network.parameters()).shape[1]  # the first map's
    features = torch.randn(ROWS, width, generator=generator).to(parameters.vector.device)

    def numbers(way: Autograd | ByHand, forward: Callable[[Tensor], Tensor]) -> Tensor:
        with way.taped():
            outputs = forward(features)
            gradients = way.gradients(outputs.square().mean())
        return torch.cat([outputs.detach().ravel(), gradients.vector])

    first = numbers(Autograd(parameters), nn.Sequential(*network.body, network.head))
    second = numbers(by_hand, by_hand)
    share = float((first - second).abs().max() / first.abs().max())
    return share if math.isfinite(share) else math.inf


def _map(inputs: Tensor, weight: Tensor, turned: Tensor, bias: Tensor) -> Pair:
    return torch.addmm(bias, inputs, turned), (inputs, weight)


def _map_back(gradient: Tensor, further: bool, inputs: Tensor, weight: Tensor) -> Found:
    before = gradient.mm(weight) if further else None
    return before, (gradient.t().mm(inputs), gradient.sum(dim=0))


def _norm(inputs: Tensor, weight: Tensor, bias: Tensor) -> Pair:
    outputs, mean, scale = torch.native_layer_norm(inputs, inputs.shape[1:], weight, bias, EPSILON)
    return outputs, (inputs, mean, scale, weight, bias)


def _norm_back(
    gradient: Tensor, _: bool, inputs: Tensor, mean: Tensor, scale: Tensor, *own: Tensor
) -> Found:
    before, *found = norm_backward(
        gradient, inputs, inputs.shape[1:], mean, scale, *own, [True, True, True]
    )
    return before, tuple(found)


def _relu(inputs: Tensor) -> Pair:
    outputs = inputs.relu()
    return outputs, (outputs,)


def _relu_back(gradient: Tensor, _: bool, outputs: Tensor) -> Found:
    return relu_backward(gradient, outputs, 0), ()


def _dueling(inputs: Tensor, *tensors: Tensor) -> Pair:
    value, _ = _map(inputs, *tensors[:3])
    advantages, _ = _map(inputs, *tensors[3:])
    return value + advantages - advantages.mean(1, keepdim=True), (inputs, tensors[0], tensors[3])


def _dueling_back(
    gradient: Tensor, further: bool, inputs: Tensor, value: Tensor, advantage: Tensor
) -> Found:
    sums = gradient.sum(dim=1, keepdim=True)
    before, of_value = _map_back(sums, further, inputs, value)
    advantages = gradient - sums / gradient.shape[1]
    also, of_advantage = _map_back(advantages, further, inputs, advantage)
    both = None if before is None or also is None else before + also
    return both, (*of_value, *of_advantage)


norm_backward = torch.ops.aten.native_layer_norm_backward.default
relu_backward = torch.ops.aten.threshold_backward.default


def _of_map(layer: nn.Linear) -> tuple[Tensor, Tensor, Tensor]:
    return layer.weight, layer.weight.t(), layer.bias


PASSES: dict[type[nn.Module], Passes] = {
    nn.Linear: Passes(_of_map, _map, _map_back),
    nn.LayerNorm: Passes(lambda layer: (layer.weight, layer.bias), _norm, _norm_back),
    nn.ReLU: Passes(lambda layer: (), _relu, _relu_back),
    Dueling: Passes(
        lambda layer: (*_of_map(layer.value), *_of_map(layer.advantage)), _dueling, _dueling_back
    ),
}


def _known(layer: nn.Module) -> bool:
    """Return True if the passes above are all that this layer does."""
    if type(layer) is Dueling:
        maps = type(layer.value) is nn.Linear and type(layer.advantage) is nn.Linear
        return maps and layer.shape[1] == 1 and _known(layer.value) and _known(layer.advantage)
    if type(layer) is nn.Linear:
        return layer.bias is not None
    if type(layer) is nn.LayerNorm:
        own = layer.elementwise_affine and layer.bias is not None and layer.eps == EPSILON
        return own and len(layer.normalized_shape) == 1
    return type(layer) is nn.ReLU
