"""A network of values for small grids of planes, such as the games of MinAtar (`--model`)."""

from torch import nn

from farflung.common.data.spec import Spec
from farflung.learner.algorithms.images import Convolutions, Image
from farflung.learner.algorithms.networks import Flat, OneHot, QNetwork

CONVOLUTIONS: Convolutions = ((16, 3, 1),)
HIDDEN = (128,)


def q_network(spec: Spec) -> nn.Module:
    """Return the network of Young and Tian, 2019: 16 filters of 3 by 3, then 128 units."""
    encoders: dict[str, OneHot | Image | Flat] = {
        key: Image(space.shape, spec.stack, CONVOLUTIONS, scale=1)
        for key, space in spec.observation.items()
    }
    return QNetwork(encoders, spec.action.sizes[0], HIDDEN, dueling=False, layer_norm=False)
