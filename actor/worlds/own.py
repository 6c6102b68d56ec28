"""A user's own packages and environments, by the names that `--import` has on this machine."""

from collections.abc import Iterable

from farflung.common.process import plugins


def import_own(names: Iterable[str]) -> None:
    """Import packages, which register what they have.

    A name `package.module:Class` is itself an environment, or a function that makes one. It is
    registered under `environment_id(name)`.
    """
    for name in names:
        if ":" not in name:
            plugins.import_packages([name])
            continue
        from farflung.actor.worlds.gymnasium import register_environment  # heads need no worlds

        register_environment(environment_id(name), plugins.find(name))


def environment_id(name: str) -> str:
    """Return the id of an environment that `package.module:Class` names: with a dot."""
    return name.replace(":", ".")
