"""Updates per second of DQN ÷ a bare torch loop with the same mathematics, interleaved.

`OMP_NUM_THREADS=1 python bench/update.py [--quick]` prints one JSON line. Batch 128, two layers of
128 units, double, Huber, clipped gradients, fused Adam. The bare loop and `update` reuse one batch,
while `sampled` samples each batch from a replay of 100,000 transitions. `ratio` is `update` ÷ bare,
`sampled_ratio` is `sampled` ÷ bare. `plain` and `bare_plain` have no layer norm, and `autograd` is
`update` by autograd, as variants of DQN have it.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Graph, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.networks import q_network
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.core.guard import Guard
from farflung.learner.replay.replay import Batch

BATCH, CAPACITY, UPDATES = 128, 100_000, 300
SETTINGS, PLAIN = DQNSettings(), DQNSettings(layer_norm=False)
CPU = torch.device("cpu")
SPACE = {"": Space("box", "float32", (4,))}
SPEC = Spec(
    "bench",
    "default",
    "async",
    World("none"),
    SPACE,
    Space("discrete", "int64", (), (2,)),
    "q",
    32,
    1,
    Graph(b"", (), (), ()),
)


class Variant(DQN):
    """A variant that changes nothing: its gradients are by autograd."""


def main() -> None:
    """Measure the three arms in turn."""
    torch.set_num_threads(1)
    algorithm = DQN(SPEC, SETTINGS, device=CPU, seed=0)
    variant, plain = (
        Variant(SPEC, SETTINGS, device=CPU, seed=0),
        DQN(SPEC, PLAIN, device=CPU, seed=0),
    )
    replay = algorithm.replay(SPEC, capacity=CAPACITY, batch_size=BATCH, seed=0)
    while replay.size < CAPACITY:
        replay.add(parcel())
    batch, guard = replay.sample(0), Guard()
    arms: dict[str, Callable[[int], object]] = {
        "update": lambda _: guarded_update(algorithm, guard, batch),
        "sampled": lambda update: guarded_update(algorithm, guard, replay.sample(update)),
        "bare": bare_update(batch, SETTINGS),
        "autograd": lambda _: guarded_update(variant, guard, batch),
        "plain": lambda _: guarded_update(plain, guard, batch),
        "bare_plain": bare_update(batch, PLAIN),
    }
    rates: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(3 if "--quick" in sys.argv else 20):
        for name, arm in arms.items():
            rates[name].append(per_second(arm))
    medians = {
        f"{name}_per_second": round(statistics.median(values)) for name, values in rates.items()
    }
    figures = (
        ratio("ratio", rates["update"], rates["bare"])
        | ratio("sampled_ratio", rates["sampled"], rates["bare"])
        | ratio("by_hand_ratio", rates["update"], rates["autograd"])
        | ratio("plain_ratio", rates["plain"], rates["bare_plain"])
    )
    print(json.dumps({"bench": "update", "batch": BATCH, **medians, **figures}))


def guarded_update(algorithm: DQN, guard: Guard, batch: Batch) -> None:
    """Make an update as training does."""
    gradients = algorithm.gradients(batch)
    if guard.admits(gradients):
        algorithm.apply(gradients)


def bare_update(batch: Batch, settings: DQNSettings) -> Callable[[int], None]:
    """Return the update of a plain torch loop."""
    online, target = (
        q_network(SPACE, 1, 2, settings.hidden, settings.dueling, settings.layer_norm)
        for _ in range(2)
    )
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=settings.learning_rate, fused=True)
    columns = (
        batch.observations[""],
        batch.actions,
        batch.returns,
        batch.discounts,
        batch.next_observations[""],
    )

    def update(number: int) -> None:
        first, actions, returns, discounts, second = (
            torch.from_numpy(column) for column in columns
        )
        with torch.no_grad():
            best = online(second).argmax(dim=1, keepdim=True)
            targets = returns + discounts * target(second).gather(1, best)[:, 0]
        loss = F.huber_loss(online(first).gather(1, actions[:, None])[:, 0], targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(online.parameters(), settings.max_gradient_norm)
        optimizer.step()
        if number % settings.target_every == 0:
            target.load_state_dict(online.state_dict())

    return update


def per_second(arm: Callable[[int], object]) -> float:
    """Return the updates per second of an arm."""
    start = time.perf_counter()
    for update in range(UPDATES):
        arm(update)
    return UPDATES / (time.perf_counter() - start)


def ratio(name: str, ours: list[float], bare: list[float]) -> dict[str, object]:
    """Return median and range of the rounds' ratios."""
    ratios = sorted(one / other for one, other in zip(ours, bare, strict=True))
    return {
        name: round(statistics.median(ratios), 3),
        f"{name}_range": [round(ratios[0], 3), round(ratios[-1], 3)],
    }


def parcel() -> Parcel:
    """Return a window of 64 seats."""
    generator = np.random.default_rng(0)
    columns = {
        OBSERVATIONS: generator.normal(size=(64 * 33, 4)).astype(np.float32),
        ACTIONS: generator.integers(0, 2, 64 * 32),
        REWARDS: generator.random(64 * 32, np.float32),
    }
    return Parcel(Version(0, 0), np.full(64, 32, np.int32), np.zeros(64, np.uint8), columns)


if __name__ == "__main__":
    main()
