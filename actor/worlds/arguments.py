"""The arguments of an environment, which come over the network: plain data, and not much of it."""

import re
from typing import Any

from farflung.common.data.spec import World
from farflung.common.process.errors import ConfigurationError

# Shimmy's wrappers around OpenAI Gym: they take another id, and Gym imports the module in it.
COMPATIBILITY = re.compile(r"GymV\d+Environment-v\d+")
# The arguments of `gymnasium.make` and `make_vec` themselves. They take ids, code and wrappers.
MAKERS_OWN = frozenset(
    [
        "id",
        "env_id",
        "entry_point",
        "vector_entry_point",
        "additional_wrappers",
        "wrappers",
        "kwargs",
        "vector_kwargs",
        "num_envs",
        "vectorization_mode",
        "disable_env_checker",
        "order_enforce",
    ]
)
MAX_LETTERS = 64 << 10  # of all arguments: a map of a maze fits
SHOWN = 200  # letters of arguments in a sentence
SENTENCE_LETTERS = 1000  # of what an environment raises


def require_plain(world: World) -> None:
    """Refuse arguments that are no plain data of the environment: code, windows, megabytes."""
    name = world.environment
    if COMPATIBILITY.fullmatch(name):
        raise ConfigurationError(
            f"{name} passes an id on to another package, which may import a module: "
            "register that environment itself, in a package for --import"
        )
    if taken := sorted(MAKERS_OWN & world.arguments.keys()):
        raise ConfigurationError(f"{name} takes no argument {taken[0]!r}: it is Gymnasium's own")
    if world.arguments.get("render_mode") == "human":
        raise ConfigurationError(f"{name} would open a window: leave render_mode='human' out")
    letters = len(repr((world.arguments, world.wrappers)))
    if letters > MAX_LETTERS:
        raise ConfigurationError(
            f"the arguments of {name} have {letters} letters, and at most {MAX_LETTERS} are "
            "taken: put them in a file of the environment's package"
        )


def shown(arguments: dict[str, Any]) -> str:
    """Return arguments for a sentence."""
    text = repr(arguments) if arguments else "no arguments"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def sentence(error: Exception) -> str:
    """Return what an environment raised, in one line."""
    return " ".join(str(error).split())[:SENTENCE_LETTERS] or type(error).__name__
