"""Classes and functions as settings: by a name that other processes import, where they need it."""

import sys
from collections.abc import Callable
from typing import Any

from farflung.common.process.errors import UsageError

MAIN = "__main__"


def name_of(thing: object) -> str:
    """Return `package.module:Name`; empty for a thing that is not at the top of a module."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if not isinstance(module, str) or not name.isidentifier():
        return ""
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is thing else ""


def is_importable(name: str) -> bool:
    """Return whether another process can import the thing of this name."""
    module = name.partition(":")[0]
    return (
        bool(name) and module != MAIN and getattr(sys.modules[module], "__spec__", None) is not None
    )


def here(setting: str, thing: object) -> str:
    """Return the name of a class or function that only this process needs; a text as it is."""
    if isinstance(thing, str):
        return thing
    name = name_of(thing)
    if not name:
        raise UsageError(
            f"{setting}={_shown(thing)} has no name to find it by: "
            "define it at the top of a module or of this script, not inside of a function"
        )
    return name


def environment(make: Any, sequential: bool) -> dict[str, Any]:
    """Return the settings `env` and `imports` for an id, or for a callable that makes one.

    A callable without a name that actors can import is registered for the actors of this process.
    """
    from farflung.actor.worlds.own import environment_id, register_own

    if isinstance(make, str):
        return {"env": make}
    if not callable(make):
        raise UsageError(
            f"env={_shown(make)} is no id: each actor makes its own environment, so pass a class, "
            "or a function that returns one"
        )
    name = name_of(make)
    if is_importable(name):
        return {"env": environment_id(name), "imports": (name,)}
    if not sequential:
        raise UsageError(_refusal(make, name))
    identity = f"own/{_plain(make)}"
    register_own(identity, make)
    return {"env": identity}


def _refusal(make: Callable[..., Any], name: str) -> str:
    where = "in this script or notebook" if name else "not at the top of a module"
    return (
        f"env={_shown(make)} is defined {where}, and actors in other processes cannot import it: "
        "move it to a module of its own (a .py file) and import it from there, "
        'or train with mode="sequential", which plays in this process'
    )


def _shown(thing: object) -> str:
    return str(getattr(thing, "__qualname__", None) or f"<{type(thing).__name__}>")


def _plain(make: Callable[..., Any]) -> str:
    """Return a name for an id out of the last part of a qualified name."""
    name = str(getattr(make, "__qualname__", type(make).__name__)).rpartition(".")[2]
    return name.strip("<>")
