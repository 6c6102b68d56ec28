"""Write docs/settings.md from the declarations that the programs themselves parse."""

import dataclasses
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import App, Argument, ArgumentCollection
from reference import item
from writing import wrapped

from farflung.actor.config import ActorConfig
from farflung.broker.config import BrokerConfig
from farflung.common.process import config, plugins
from farflung.learner.algorithms.builtin import BUILT_IN
from farflung.learner.config import config_class
from farflung.learner.main import COMMANDS
from farflung.learner.worker.config import WorkerConfig

PAGE = Path(__file__).parent / "settings.md"
NONE = (None, "", (), dataclasses.MISSING, inspect.Parameter.empty)
ROLES = {"actor": ActorConfig, "worker": WorkerConfig, "broker": BrokerConfig}

HEAD = """\
# Every setting

All flags of all programs, from their own declarations, as `--help` has them (`python docs/write.py`
writes this page). Each flag of a role is also a variable and a key of a TOML file:
`--replay-ratio 8`, `FARFLUNG_LEARNER_REPLAY_RATIO=8` and `replay-ratio = 8`, in this order of
precedence ([settings](../README.md#settings)). A setting of an algorithm has its section before it:
`--dqn.gamma 0.9`, `FARFLUNG_LEARNER_DQN_GAMMA=0.9`, and `gamma = 0.9` below `[dqn]`. In
`farflung.train` they are keywords: `replay_ratio=8`, `dqn={"gamma": 0.9}`. The value in brackets is
the default. A flag that is on has a form that turns it off: `--no-compress`.
"""
DEFAULTS = "It has its own defaults of other settings: "


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


def page() -> str:
    """Return the page."""
    found = role("learner", config_class([]))
    parts = [HEAD, "## Learner", *groups(each for each in found if not in_section(each, "dqn"))]
    parts.append("## Algorithms")
    for name in BUILT_IN:
        parts += algorithm(name)
    for name, declared in ROLES.items():
        parts += [f"## {'Learner worker' if name == 'worker' else name.capitalize()}"]
        parts += groups(role(name, declared))
    parts.append("## Commands of learner")
    for command in COMMANDS:
        if command.name != "worker":
            parts += [f"### learner {command.name}", command.help, *listed(flags_of(command))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def role(program: str, declared: type[Any]) -> list[Argument]:
    """Return the flags of a role."""
    found: list[ArgumentCollection] = []

    def keep(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        found.append(app.assemble_argument_collection(parse_docstring=True))

    config.load(program, declared, [], below=[keep])
    return [each for each in found[0] if each.show]


def flags_of(command: config.Command) -> list[Argument]:
    """Return the arguments and flags of a subcommand."""
    app = App()
    app.default(plugins.find(command.target))
    return [each for each in app.assemble_argument_collection(parse_docstring=True) if each.show]


def algorithm(name: str) -> Iterator[str]:
    """Yield the heading and the flags of a built-in algorithm."""
    yield f"### {name}"
    if own := BUILT_IN[name].defaults:
        words = (f"`--{key.replace('_', '-')} {plain(value)}`" for key, value in own.items())
        yield wrapped(DEFAULTS + ", ".join(words) + ".")
    found = role("learner", config_class(["--algorithm", name]))
    yield from listed(each for each in found if in_section(each, name))


def in_section(argument: Argument, section: str) -> bool:
    """Return whether a flag is of this algorithm."""
    return argument.name.startswith(f"--{section}.")


def groups(arguments: Iterable[Argument]) -> Iterator[str]:
    """Yield a heading and a list for each group, in the order of `--help`."""
    found: dict[Any, list[Argument]] = {}
    for each in arguments:
        found.setdefault(each.parameter.group[0], []).append(each)
    for group in sorted(found, key=lambda group: group.sort_key):
        yield f"### {group.name}"
        yield from listed(found[group])


def listed(arguments: Iterable[Argument]) -> Iterator[str]:
    """Yield a list of flags, if there are any."""
    if lines := [line(each) for each in arguments]:
        yield "\n".join(lines)


def line(argument: Argument) -> str:
    """Return a flag with its unit or choices, its default and its meaning."""
    name = argument.name if argument.name.startswith("--") else argument.name.upper()
    hint = choices(argument.hint)
    unit = argument.parameter.metavar or ""
    described = " ".join((argument.parameter.help or "").split()).replace("*", "\\*")
    title = f"`{name} {unit}`" if unit and name.startswith("--") else f"`{name}`"
    said = [", ".join(f"`{each}`" for each in hint)] if hint else []
    said += [f"default `{shown}`"] if (shown := default(argument)) else []
    return item(title + (f" ({'; '.join(said)})" if said else ""), described)


def choices(hint: Any) -> list[str]:
    """Return the words that a setting may have, if it has no others."""
    return [str(each) for each in get_args(hint)] if get_origin(hint) is Literal else []


def default(argument: Argument) -> str:
    """Return the default as a reader would write it; empty for none and for what is off."""
    value = argument.field_info.default
    if argument.parameter.show_default is False or value is False or value in NONE:
        return ""
    if value is True:
        return "on"
    return " ".join(map(str, value)) if isinstance(value, tuple) else plain(value)


def plain(value: Any) -> str:
    """Return a number without what its type adds, or a text."""
    return f"{value:.12g}" if isinstance(value, float | int) else str(value)


if __name__ == "__main__":
    main()
