"""The section of a learner's configuration for the chosen algorithm."""

from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from cyclopts import Group, Parameter

from farflung.common.process import plugins
from farflung.common.process.config import suggestion
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.builtin import BUILT_IN
from farflung.learner.presets import preset

ALGORITHM = Group("Algorithm", sort_key=8)

Config = TypeVar("Config")


def section_of(configuration: type[Any]) -> tuple[str, type[Any]]:
    """Return the name of the algorithm's section in a class of `config_class`, and its settings."""
    hint: Any = configuration.__annotations__["settings"]
    return hint.__metadata__[0].name[0], hint.__origin__


def with_section(
    base: type[Config], name: str, settings: type[Any], defaults: Mapping[str, Any]
) -> type[Config]:
    """Return a configuration class with a section of these settings.

    The algorithm may have defaults of its own for other fields of the class.
    """
    annotation: object = Annotated[
        settings, Parameter(name=name, group=ALGORITHM, consume_multiple=True)
    ]
    hints = get_type_hints(base, include_extras=True)
    if unknown := defaults.keys() - hints.keys():
        raise ConfigurationError(
            f"the algorithm {name} has a default for {min(unknown)}, and a learner has no such "
            "option: `defaults` names fields of LearnerConfig"
        )
    # Without __module__ the class would belong to `types`, and cyclopts takes a class of the
    # standard library for a single value.
    return make_dataclass(
        base.__name__,
        [
            *((key, hints[key], field(default=value)) for key, value in defaults.items()),
            ("settings", annotation, field(default_factory=settings)),
        ],
        bases=(base,),
        namespace={"__module__": base.__module__},
        frozen=True,
        kw_only=True,
    )


def of_algorithm(base: type[Config], argv: Sequence[str]) -> type[Config]:
    """Return a configuration class with the section of the algorithm that a command line chooses.

    A user's own algorithm is imported, a built-in one is not.
    """
    a_command_follows = bool(argv) and not argv[0].startswith("-")
    names = () if a_command_follows else ("algorithm", "algo")  # the second one in files
    chosen = next(filter(None, (preset.peek(name, argv) for name in names)), "dqn")
    if names:
        preset.require_algorithm(argv, chosen)
    if chosen in BUILT_IN:
        built_in = BUILT_IN[chosen]
        return with_section(base, chosen, built_in.settings, built_in.defaults)
    if ":" not in chosen:
        raise UsageError(
            f"unknown algorithm {chosen!r}: write {', '.join(BUILT_IN)}, or package.module:Class."
            f"{suggestion(chosen, BUILT_IN)}"
        )
    found = plugins.find(chosen)
    if not hasattr(found, "Settings") or not hasattr(found, "name"):
        raise ConfigurationError(
            f"{chosen} is not an algorithm: it needs a name and a dataclass Settings"
        )
    defaults = getattr(found, "defaults", {})
    return with_section(base, found.name, found.Settings, defaults)
