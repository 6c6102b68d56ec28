"""The built-in network takes every supported observation; it has one value for each action."""

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from support.playing import spec_of
from torch import nn

from farflung.common.data.spec import Space, World
from farflung.learner.algorithms import grids
from farflung.learner.algorithms.images import Image
from farflung.learner.algorithms.networks import Dueling, Flat, OneHot, encoder, q_network

VECTOR = Space("box", "float32", (4,))


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("space", "stack", "kind", "width"),
    [
        (VECTOR, 1, Flat, 4),
        (VECTOR, 3, Flat, 12),
        (Space("box", "float32", ()), 1, Flat, 1),
        (Space("box", "float32", (2, 3)), 2, Flat, 12),
        (Space("box", "uint8", (128,)), 1, Flat, 128),
        (Space("box", "uint8", (35, 84, 3)), 1, Flat, 35 * 84 * 3),
        (Space("box", "float32", (84, 84)), 1, Flat, 84 * 84),
        (Space("discrete", "int64", (), (16,)), 1, OneHot, 16),
        (Space("discrete", "int64", (), (16,)), 2, OneHot, 32),
        (Space("multidiscrete", "int64", (3,), (2, 3, 4)), 2, OneHot, 18),
        (Space("box", "uint8", (84, 84)), 4, Image, 3136),
        (Space("box", "uint8", (84, 84, 3)), 1, Image, 3136),
        (Space("box", "uint8", (3, 84, 84)), 1, Image, 3136),
        (Space("box", "uint8", (36, 36)), 1, Image, 64),
        (Space("box", "uint8", (44, 36, 1)), 1, Image, 128),
    ],
)
def test_encoder_follows_from_kind_dtype_and_shape(
    space: Space, stack: int, kind: type[nn.Module], width: int
) -> None:
    """Its promised width is the width of its features, for one seat and for several."""
    encode = encoder(space, stack)
    frames = (stack,) if stack > 1 else ()
    assert type(encode) is kind
    assert encode.width == width
    for seats in (1, 5):
        features = encode(
            torch.ones((seats, *frames, *space.shape), dtype=getattr(torch, space.dtype))
        )
        assert features.shape == (seats, width)
        assert features.dtype == torch.float32


def test_encoder_of_choices_is_one_hot() -> None:
    """Two frames of choices out of two and three."""
    encode = OneHot((2, 3) * 2)
    np.testing.assert_array_equal(
        encode(torch.tensor([[[1, 2], [0, 0]]])), [[0, 1, 0, 0, 1, 1, 0, 1, 0, 0]]
    )


def test_encoder_scales_bytes_and_keeps_numbers() -> None:
    """255 is 1 in a leaf of bytes."""
    numbers = encoder(Space("box", "float32", (2,)), 1)
    fractions = encoder(Space("box", "uint8", (2,)), 1)
    np.testing.assert_array_equal(numbers(torch.tensor([[255.0, -3.0]])), [[255, -3]])
    np.testing.assert_array_equal(
        fractions(torch.tensor([[255, 51]], dtype=torch.uint8)), np.float32([[1, 0.2]])
    )


def test_encoder_takes_channels_first_or_last() -> None:
    """The same picture in either order, and stacked, has the same features."""
    torch.manual_seed(0)
    picture = torch.randint(256, (2, 4, 40, 36, 3), dtype=torch.uint8)
    last, first = Image((40, 36, 3), 4), Image((3, 40, 36), 4)
    first.load_state_dict(last.state_dict())
    np.testing.assert_allclose(
        last(picture).detach(), first(picture.permute(0, 1, 4, 2, 3)).detach(), rtol=1e-5
    )


def test_encoder_turns_stacked_frames_into_channels() -> None:
    """Four frames of one channel go where one frame of four channels goes."""
    torch.manual_seed(0)
    frames = torch.randint(256, (2, 4, 36, 36), dtype=torch.uint8)
    stacked, single = Image((36, 36), 4), Image((4, 36, 36), 1)
    single.load_state_dict(stacked.state_dict())
    np.testing.assert_array_equal(stacked(frames).detach(), single(frames).detach())


def test_dueling_head_adds_the_advantage_over_the_mean_action() -> None:
    """Value 1 and advantages 0, 3, 6: their mean is 3, so the values are -2, 1, 4."""
    head = Dueling(1, 3)
    with torch.no_grad():
        head.value.weight.fill_(1.0)
        head.value.bias.zero_()
        head.advantage.weight.copy_(torch.tensor([[0.0], [3.0], [6.0]]))
        head.advantage.bias.zero_()
    np.testing.assert_array_equal(head(torch.ones(1, 1)).detach(), [[-2, 1, 4]])


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("hidden", [(), (16,), (16, 8)])
def test_network_has_one_value_for_each_action(hidden: tuple[int, ...], dueling: bool) -> None:
    """With any number of hidden layers and either head."""
    network = q_network({"": VECTOR}, 1, 6, hidden, dueling)
    values = network(torch.zeros(5, 4))
    assert values.shape == (5, 6)
    assert values.dtype == torch.float32


def test_network_has_the_configured_layers() -> None:
    """4 to 16 to 8 to 2: (4 + 1) * 16 + (16 + 1) * 8 + (8 + 1) * 2 parameters."""
    assert parameters(q_network({"": VECTOR}, 1, 2, (16, 8), dueling=False)) == 80 + 136 + 18


def test_layer_norm_bounds_the_values() -> None:
    """An observation a thousand times longer changes them little; two more parameters a unit."""
    torch.manual_seed(0)
    plain, normed = (
        q_network({"": VECTOR}, 1, 2, (16, 8), dueling=False, layer_norm=norm)
        for norm in (False, True)
    )
    assert parameters(normed) == parameters(plain) + 2 * 16 + 2 * 8
    near, far = torch.full((1, 4), 10.0), torch.full((1, 4), 10_000.0)
    with torch.no_grad():
        assert plain(far).abs().max() > 100 * plain(near).abs().max()
        torch.testing.assert_close(normed(far), normed(near), rtol=0, atol=0.1)


def test_network_reads_a_dictionary_by_key() -> None:
    """Leaves of all kinds, with any key, in any order of the dict that comes."""
    torch.manual_seed(0)
    observation = {
        "camera.left": Space("box", "uint8", (36, 36, 3)),
        "room": Space("discrete", "int64", (), (16,)),
        "": VECTOR,
    }
    network = q_network(observation, 1, 3, (8,), dueling=True)
    leaves = {
        "": torch.ones(2, 4),
        "room": torch.tensor([3, 15]),
        "camera.left": torch.ones(2, 36, 36, 3, dtype=torch.uint8),
    }
    values = network(leaves)
    assert values.shape == (2, 3)
    np.testing.assert_array_equal(values.detach(), network(dict(reversed(leaves.items()))).detach())


def test_network_of_a_grid_is_that_of_young_and_tian() -> None:
    """A plane of bits counts 0 or 1; 16 filters of 3 by 3 leave 8 by 8, then 128 units."""
    spec = replace(
        spec_of(World("CartPole-v1")), observation={"": Space("box", "bool", (10, 10, 4))}
    )
    network = grids.q_network(replace(spec, action=Space("discrete", "int64", (), (6,))))
    convolution = 4 * 16 * 9 + 16
    assert parameters(network) == convolution + (16 * 64 + 1) * 128 + (128 + 1) * 6
    (encode,) = network.encoders
    with torch.no_grad():
        encode.layers[0].weight.fill_(1.0)
        encode.layers[0].bias.zero_()
        bits = torch.zeros(1, 10, 10, 4, dtype=torch.bool)
        bits[0, 0, 0, :2] = True  # two planes of the corner, which only the first place sees
        features = encode(bits).view(16, 8, 8)
    assert features[:, 0, 0].tolist() == [2.0] * 16
    assert features.sum() == 32
