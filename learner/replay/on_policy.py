"""A replay of rollouts, as an algorithm asks for it."""

from farflung.common.data.spec import Spec
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.rollout_sequences import RolloutSequences, ShuffledSequences
from farflung.learner.replay.rollouts import InOrder, RolloutRows, Shuffled


def rollouts(
    spec: Spec,
    *,
    rollout: int,
    gamma: float,
    batch_size: int,
    capacity: int,
    seed: int,
    epochs: int = 1,
    gae_lambda: float | None = None,
    shuffled: bool = False,
    sequences: bool = False,
    max_lag: int | None = None,
) -> Replay:
    """Return an empty replay of rollouts: so many rows, in order or shuffled, for so many epochs.

    With `sequences` rows have what it takes to unroll a memory, and whole trajectories are
    shuffled. In rows of a rollout that are more than `max_lag` versions older than its newest, the
    weight is 0; None: all count. Rounds need no limit.
    """
    rows = RolloutSequences if sequences else RolloutRows
    order = InOrder
    if shuffled:
        order = ShuffledSequences if sequences else Shuffled
    drawn = order(
        rollout=rollout,
        epochs=epochs,
        batch_size=batch_size,
        seed=seed,
        capacity=capacity,
        max_lag=max_lag if spec.mode == "async" else None,
    )
    return Replay(spec, rows(spec, gamma=gamma, gae_lambda=gae_lambda), drawn, capacity=capacity)
