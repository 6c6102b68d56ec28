"""Our registry of worlds with several agents, and the names that PettingZoo's own have.

It imports neither PettingZoo nor Gymnasium.
"""

import re
from collections.abc import Callable
from typing import Any

Make = Callable[..., Any]  # takes the arguments of a spec, returns a PettingZoo environment

WORLDS: dict[str, Make] = {}
# connect_four_v3, classic/connect_four_v3; without a version it is refused with the whole name.
OWN_NAME = re.compile(r"(\w+/)?[a-z0-9_]+")
MAKERS = ("env", "raw_env", "parallel_env")  # of the modules that have PettingZoo's form


def register_world(name: str, make: Make) -> None:
    """Make `make(**arguments)` known under a name, for specs to ask for.

    It returns an environment of PettingZoo's, parallel or turn-based.
    """
    WORLDS[name] = make


def makes_agents(thing: Any, name: str = "") -> bool:
    """Return whether a user's class or function makes an environment of PettingZoo's.

    A function shows it by a name that PettingZoo's own modules have, such as `parallel_env`; where
    a wrapper has made it, by the one under which it was found.
    """
    if isinstance(thing, type):
        return any(base.__module__.partition(".")[0] == "pettingzoo" for base in thing.__mro__)
    return getattr(thing, "__name__", "") in MAKERS or name.rpartition(".")[2] in MAKERS
