"""A user's own packages, environments and functions, by the names that flags have here."""

from collections.abc import Callable, Iterable
from typing import Any

from farflung.actor.realtime.alone import Answer, Choose, WithoutLearner
from farflung.actor.worlds import registered
from farflung.common.process import plugins
from farflung.common.process.errors import ConfigurationError


def import_own(names: Iterable[str]) -> None:
    """Import packages, which register what they have.

    A name `package.module:Class` is itself an environment, or a function that makes one. It is
    registered under `environment_id(name)`.
    """
    for name in names:
        if ":" not in name:
            plugins.import_packages([name])
            continue
        register_own(environment_id(name), plugins.find(name))


def register_own(identity: str, make: Callable[..., Any]) -> None:
    """Make a class or function known as an environment, of PettingZoo's or Gymnasium's form."""
    if registered.makes_agents(make, identity):
        registered.register_world(identity, make)
        return
    from farflung.actor.worlds.gymnasium import register_environment  # heads need no worlds

    register_environment(identity, make)


def environment_id(name: str) -> str:
    """Return the id of an environment that `package.module:Class` names: with a dot."""
    return name.replace(":", ".")


def find_script(name: str) -> Callable[..., Any]:
    """Return the function that `package.module:function` names, which is imported."""
    found = plugins.find(name)
    if not callable(found):
        raise ConfigurationError(
            f"{name} is no function, but {found!r}: name one that takes an observation, a mask and "
            "a generator, and returns an action"
        )
    script: Callable[..., Any] = found
    return script


def find_answer(text: str) -> Answer:
    """Return the answer for a word, or the function of a name, which is imported."""
    if text in [*WithoutLearner]:
        return WithoutLearner(text)
    found = plugins.find(text)
    if not callable(found):
        raise ConfigurationError(
            f"--without-learner {text}: it is no function, but {found!r}: "
            "name one that takes an observation and returns an action"
        )
    choose: Choose = found
    return choose
