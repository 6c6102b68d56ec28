"""Specs of every head, with states, noise, normalisation and masks: an actor plays what it takes.

And the statistics of observations in a checkpoint.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgpack
import numpy as np
from fuzz.inputs import MESSAGE, PACKED, frame, unframed
from fuzz.target import Target
from msgspec import structs
from support.makers import a_spec, some_weights
from support.messages import SENDER, from_learner
from torch import nn

from farflung.actor.acting import spec_check
from farflung.actor.play import exploring
from farflung.actor.worlds.world import Due, Outcomes
from farflung.common import heads
from farflung.common.data.spec import ACTION_MASK, Column, Exploration, Space, Spec
from farflung.common.data.states import EPISODE, next_name, state_columns
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Announcement
from farflung.common.protocol.packing import from_plain
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.algorithms.actor_critic_network import actor_critic
from farflung.learner.algorithms.continuous import DeterministicPolicy, GaussianPolicy
from farflung.learner.algorithms.dqn_network import build
from farflung.learner.algorithms.r2d2 import build as recurrent
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.core.normalisation import Normaliser
from farflung.learner.graph import acting_graph, recurrence
from farflung.learner.replay.rollouts import VALUE
from farflung.learner.storage.manifest import KINDS, NORMALISATION

SEATS, STEPS = 2, 3
LARGEST = 1 << 20  # bytes of tables and weights that a target plays with
BOX = Space("box", "float32", (2,), (), (-1.0, -1.0), (1.0, 1.0))
PAIR = Space("multidiscrete", "int64", (2,), (3, 2))
SMALL = {"hidden": (3,)}
NOISY = DQNSettings(noisy=True, dueling=True, **SMALL)
C51 = DQNSettings(distribution="categorical", atoms=3, **SMALL)
R2D2 = R2D2Settings(units=2, burn_in=0, **SMALL)


def of_actors(spec: Spec) -> nn.Module:
    """Return the network of PPO."""
    return actor_critic(spec, (3,), shared=False, log_std=0.0)


def normalised(spec: Spec) -> nn.Module:
    """Return a network of normalised observations."""
    statistics = Normaliser(spec, observations=True, rewards=False, gamma=0.9)
    return statistics.policy(build(spec, DQNSettings(**SMALL)))


Make = Callable[[Spec], nn.Module]
SORTS: dict[str, tuple[str, Space | None, Make]] = {
    "noise": ("q", None, lambda spec: build(spec, NOISY)),
    "distribution": ("q", None, lambda spec: build(spec, C51)),
    "normalisation": ("q", None, normalised),
    "state": ("q", None, lambda spec: recurrent(spec, R2D2)),
    "logits": ("logits", None, of_actors),
    "choices": ("multi_logits", PAIR, of_actors),
    "gaussian": ("gaussian", BOX, of_actors),
    "squashed": ("squashed_gaussian", BOX, lambda spec: GaussianPolicy(spec, (3,), False)),
    "deterministic": ("deterministic", BOX, lambda spec: DeterministicPolicy(spec, (3,), False)),
}


def spec_of(sort: str) -> Spec:
    """Return the spec of a sort with its real graph, and with all columns that its head has."""
    head, action, make = SORTS[sort]
    horizon, exploration = STEPS, Exploration(0.5, 0.1, 100, 2, noise=0.2, correlation=0.3)
    draft = a_spec(head=head, horizon=horizon, exploration=exploration, graph=a_spec().graph)
    draft = structs.replace(draft, action=action or draft.action)
    module = make(draft)
    taken = recurrence.state_inputs(module)
    further = (VALUE,) if make is of_actors else ()
    names = (*heads.find(head).outputs, *(column.name for column in further))
    names += tuple(next_name(state.name) for state in taken)
    inputs = (*acting_graph.observation_inputs(draft.observation, draft.stack), *taken)
    graph = acting_graph.export(module, inputs, names)
    extras = (*heads.find(head).columns(draft), *further, *state_columns(graph))
    extras += (EPISODE,) if taken else ()
    if sizes := draft.action.sizes:
        extras += (Column(ACTION_MASK, "bool", (sum(sizes),), "observation"),)
    return structs.replace(draft, graph=graph, extras=extras)


@cache
def specs() -> tuple[Spec, ...]:
    """Return a spec of each sort."""
    return tuple(map(spec_of, SORTS))


def due(spec: Spec) -> Due:
    """Return what two seats see: zeros, and masks that allow all."""
    columns = {
        column.name: np.zeros((SEATS, *column.shape), column.dtype) for column in spec.observations
    }
    for info in spec.infos:
        columns[info.name] = np.ones((SEATS, *info.shape), info.dtype)
    return Due(columns)


def test_player(data: bytes) -> None:
    """An announced spec that an actor takes is played for two windows, and its parcels travel."""
    announcement = wire.read(wire.open_frame(frame(data)))
    if not isinstance(announcement, Announcement):
        return
    spec = announcement.spec
    spec_check.require_bounded(spec, SEATS)
    spec_check.require_playable(spec)
    weights = sum(tensor.size for tensor in spec.graph.weights)
    if spec_check.table_bytes(spec, SEATS) + weights > LARGEST or spec.horizon > 64:
        return
    player, codec = exploring(spec, SEATS, 0, 0), ParcelCodec(spec)
    player.record(None, due(spec))
    for number in (1, 2):
        player.begin(some_weights(spec, number), 0)
        for _ in range(spec.horizon):
            actions = player.act(due(spec))
            assert actions.shape == (SEATS, *spec.action.shape)
            player.record(Outcomes(np.zeros(SEATS, np.float32)), due(spec))
        parcels = player.parcels()
        assert sum(parcel.rows for parcel in parcels) == SEATS * spec.horizon
        assert codec is not None


def player_seeds() -> list[bytes]:
    """Return an announcement of each sort."""
    return [
        unframed(wire.encode(from_learner(SENDER, 5, spec)["announcement"])) for spec in specs()
    ]


def statistics() -> Normaliser:
    """Return those of two numbers and of rewards, as before the first parcel."""
    spec = a_spec(observation={"": Space("box", "float32", (2,))})
    return Normaliser(spec, observations=True, rewards=True, gamma=0.9)


def test_normalisation(data: bytes) -> None:
    """The statistics in a checkpoint: those that are taken are finite, and written alike."""
    try:
        found: Any = msgpack.unpackb(data, max_ext_len=0)
        plain = from_plain(KINDS[NORMALISATION], found)
    except (ValueError, msgpack.UnpackException) as error:
        raise Refused("malformed", str(error)) from error
    normaliser = statistics()
    normaliser.restore(plain)
    assert all(bool(buffer.isfinite().all()) for buffer in normaliser.inputs.buffers())
    for name, (count, *parts) in normaliser.state().items():
        if name in plain:
            assert (count, *parts) == plain[name]


def normalisation_seeds() -> list[bytes]:
    """Return statistics of five numbers, and none."""
    normaliser = statistics()
    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    state = normaliser.state()
    (name, *_) = state
    moments = type(normaliser._moments[name]).of(values)
    return [msgpack.packb({**state, name: moments.plain()}), msgpack.packb({})]


TARGETS = (
    Target("player", test_player, player_seeds, MESSAGE),
    Target("normalisation", test_normalisation, normalisation_seeds, PACKED),
)
