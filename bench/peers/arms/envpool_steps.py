"""EnvPool: CartPole in C++, and a network of numpy that acts."""

import itertools

import envpool
import numpy as np
from _said import HIDDEN, per_second, say, words

COUNT = 64


def main() -> None:
    """Step with greedy actions of a random network of two layers."""
    asked = words()
    generator = np.random.default_rng(asked.seed)
    sizes = (4, *HIDDEN, 2)
    layers = [
        generator.normal(0, 0.1, shape).astype(np.float32) for shape in itertools.pairwise(sizes)
    ]
    world = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=COUNT, seed=asked.seed)
    seen = world.reset()[0]

    def step() -> None:
        nonlocal seen
        hidden = seen
        for layer in layers[:-1]:
            hidden = np.maximum(hidden @ layer, 0)
        seen = world.step((hidden @ layers[-1]).argmax(axis=1))[0]

    say(value=COUNT * per_second(step, 0.3 if asked.short else 2.0))


if __name__ == "__main__":
    main()
