"""cpprb: uniform batches of its replay buffer."""

import numpy as np
from _said import per_second, say, words
from cpprb import ReplayBuffer


def main() -> None:
    """Fill a buffer and sample it."""
    asked = words()
    shape, dtype, capacity = {
        "vectors": ((4,), np.float32, 1_000_000),
        # A fifth of the images of the other arm: whole stacks of 100,000 rows take 5.6 GB.
        "images": ((84, 84, 4), np.uint8, 20_000),
    }[asked.row]
    capacity = 2_000 if asked.short else capacity
    seen = {"shape": shape, "dtype": dtype}
    kinds = {"obs": seen, "act": {"dtype": np.int64}, "rew": {}, "next_obs": seen, "done": {}}
    buffer, count = ReplayBuffer(capacity, kinds), 1_000
    images = np.random.default_rng(0).integers(0, 9, (count, *shape)).astype(dtype)
    ones = np.ones(count, np.float32)
    for _ in range(capacity // count):
        buffer.add(obs=images, act=ones, rew=ones, next_obs=images, done=ones)
    say(value=per_second(lambda: buffer.sample(256), 0.3 if asked.short else 2.0))


if __name__ == "__main__":
    main()
