"""Configuration: one frozen dataclass per role, filled from flags, variables, a file and defaults.

A value has one name in three spellings, shown for the learner: `--replay-ratio 8`,
`FARFLUNG_LEARNER_REPLAY_RATIO=8` and `replay-ratio = 8` in the TOML file that --config names.
A file with the sections [learner], [actor], [worker] or [broker] is for several roles, and each
reads its own section only. A file without them is for the role that reads it.
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import cyclopts.config
from cyclopts import (
    App,
    ArgumentCollection,
    CycloptsError,
    Group,
    Parameter,
    UnusedCliTokensError,
)

from farflung.common.process.errors import UsageError
from farflung.common.process.help_page import FlowingHelp, examples_text

C = TypeVar("C")

MOST_USED = Group("Most used", sort_key=0)  # the flags that `--help` shows first
PREFIX = "FARFLUNG_"
ROLES = ("learner", "actor", "worker", "broker")
NO_EXAMPLES: Mapping[str, str] = {}
PRESET = "preset "  # the origin of its values begins with it

Words = Callable[[Path, dict[str, Any], Mapping[str, bool]], dict[str, Any]]
"""Return the settings of a file in our words; keys that are known map to True for a section."""

Source = Callable[[App, tuple[str, ...], ArgumentCollection], None]


class Origin(StrEnum):
    """The source of a value."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Loaded(Generic[C]):
    """A configuration with the origin of each value by key; a missing key is a default."""

    config: C
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: `target` is `module:function`, imported on use; its parameters are flags."""

    name: str
    target: str
    help: str


def run(
    program: str,
    config_class: type[C],
    body: Callable[[Loaded[C]], int],
    argv: Sequence[str],
    *,
    description: str,
    commands: Sequence[Command] = (),
    examples: Mapping[str, str] = NO_EXAMPLES,
    words: Words | None = None,
    below: Sequence[Source] = (),
    called: str = "",
) -> int:
    """Run `body` with the configuration, or a subcommand, and return the exit code.

    A role `called` otherwise is another program's subcommand; sources `below` come after the file.
    """
    origins: dict[str, str] = {}
    app = App(
        name=program,
        help=f"{description}\n\nEach flag is also a variable "
        f"({variable(program, 'feed-port')} for --feed-port) and a key of the --config file.",
        usage=_usage(called or program, config_class, commands),
        help_format="plaintext",
        help_epilogue=examples_text(examples),
        help_formatter=FlowingHelp(),
        version=_version,
        default_parameter=Parameter(negative_iterable=()),
        config=[_from_environment, _file_reader(words), *below, _recorder(origins)],
    )

    def default(loaded: Any = None, *, config: Path | None = None) -> int:
        return body(Loaded(config_class() if loaded is None else loaded, origins))

    default.__annotations__ = {
        "loaded": Annotated[config_class | None, Parameter(name="*")],
        "config": Annotated[
            Path | None,
            Parameter(group=MOST_USED, metavar="FILE", help="TOML file with any of these options."),
        ],
        "return": int,
    }
    app.default(default)
    if not called:
        app.register_install_completion_command(help="Let Tab complete commands and flags.")
    for command in commands:
        app.command(command.target, name=command.name, help=command.help, config=())
    return _chosen(app, argv, [command.name for command in commands])() or 0


def _chosen(app: App, argv: Sequence[str], commands: Sequence[str]) -> Callable[[], Any]:
    """Return what a command line asks for, with its options; refuse one that is wrong."""
    try:
        chosen, bound, _ = app.parse_args(argv, exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        word = next(iter(error.unused_tokens or ()), "")
        raise UsageError(f"unexpected word {word!r}.{suggestion(word, commands)}") from error
    except CycloptsError as error:
        raise UsageError(" ".join(str(error).split())) from error
    return partial(chosen, *bound.args, **bound.kwargs)


def load(
    program: str,
    config_class: type[C],
    argv: Sequence[str],
    words: Words | None = None,
    below: Sequence[Source] = (),
) -> Loaded[C]:
    """Return the configuration from flags, environment variables and file."""
    found: list[Loaded[C]] = []

    def keep(loaded: Loaded[C]) -> int:
        found.append(loaded)
        return 0

    run(program, config_class, keep, argv, description="", words=words, below=below)
    return found[0]


def peek(program: str, key: str, argv: Sequence[str]) -> str | None:
    """Return one value before parsing; the configuration's class depends on it."""
    for word, following in zip_longest(argv, argv[1:]):
        if word == f"--{key}" and following is not None:
            return following
        if word.startswith(f"--{key}="):
            return word.partition("=")[2]
    if (value := os.environ.get(variable(program, key))) is not None:
        return value
    path = None if key == "config" else peek(program, "config", argv)
    value = None if path is None else read_settings(program, Path(path)).get(key)
    return None if value is None else str(value)


def require(condition: bool, sentence: str) -> None:
    """Raise `UsageError` with this sentence unless the condition holds."""
    if not condition:
        raise UsageError(sentence)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean …?` for a word close to a known one, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def variable(program: str, key: str) -> str:
    """Return the environment variable of a key."""
    return f"{PREFIX}{program}_{key}".upper().replace("-", "_").replace(".", "_")


def read_settings(program: str, path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file that are for this role."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the configuration file {path} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the configuration file {path} is not TOML: {error}") from error
    roles = {*ROLES, program}
    if roles.isdisjoint(content):
        return content
    for key, value in content.items():
        if key not in roles:
            raise UsageError(f"{key} in {path} is outside the sections: move it into [{program}]")
        if not isinstance(value, dict):
            raise UsageError(f"{key} in {path} is the name of a role: write a section [{key}]")
    return dict(content.get(program, {}))


def check_keys(path: Path, content: Mapping[str, Any], known: Mapping[str, bool]) -> None:
    """Refuse unknown keys; `known` maps each key to True if it is a section."""
    for key, value in content.items():
        if key not in known or key == "config":
            raise UsageError(f"unknown key {key} in {path}.{suggestion(key, known)}")
        if isinstance(value, dict) != known[key]:
            right, wrong = ("section", "value") if known[key] else ("value", "section")
            raise UsageError(f"{key} in {path} is a {right}, not a {wrong}")
        for inner in value if known[key] else ():
            name = f"{key}.{inner}"
            if name not in known:
                raise UsageError(f"unknown key {name} in {path}.{suggestion(name, known)}")


def _usage(program: str, config_class: type[Any], commands: Sequence[Command]) -> str:
    words = (
        [item.name.upper() for item in fields(config_class) if not item.kw_only]
        + ["COMMAND"] * bool(commands)
        + ["OPTIONS"]
    )
    return f"Usage: {program} {' '.join(f'[{word}]' for word in words)}"


def flag_names(config_class: type[Any]) -> frozenset[str]:
    """Return the names of a configuration's flags, without their dashes."""
    found = {"config"}
    for item in fields(config_class):
        marks = getattr(item.type, "__metadata__", ())
        named = [name for mark in marks if isinstance(mark, Parameter) for name in mark.name or ()]
        found.add((named or [item.name])[0].removeprefix("--").replace("_", "-"))
    return frozenset(found)


def _version() -> str:
    from importlib.metadata import version  # 20 ms that only --version needs

    return version("farflung")


def known_keys(arguments: ArgumentCollection) -> dict[str, bool]:
    """Map every key, by its full name, to True if it is a section."""
    return {
        argument.name.removeprefix("--"): bool(argument.children)
        for argument in arguments
        if argument.name != "*"
    }


def given(arguments: ArgumentCollection, flag: str) -> str | None:
    """Return the first value that a source has set for a flag, if any."""
    return next((each.value for one in arguments if one.name == flag for each in one.tokens), None)


def _from_environment(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill the options that no flag set from the role's variables.

    cyclopts ignores misspelt variables, so they are checked here. Variables of other roles are
    ignored: one environment may serve several roles.
    """
    program = app.name[0]
    keys = known_keys(arguments)
    known = {variable(program, key) for key, is_section in keys.items() if not is_section}
    others = tuple(variable(role, "") for role in ROLES if role != program)
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known and not name.startswith(others):
            raise UsageError(
                f"unknown variable {name} in the environment.{suggestion(name, known)}"
            )
    cyclopts.config.Env(variable(program, ""), source=Origin.ENVIRONMENT)(app, commands, arguments)


def _file_reader(words: Words | None) -> Source:
    """Return the source that reads the --config file, for what neither flag nor variable set."""

    def read(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        if (named := given(arguments, "--config")) is not None:
            path, known = Path(named), known_keys(arguments)
            content = read_settings(app.name[0], path)
            content = words(path, content, known) if words else content
            check_keys(path, content, known)
            # An app with commands would skip a setting of the same name, such as `keys`.
            cyclopts.config.Dict(content, source=str(path))(App(), commands, arguments)

    return read


def _recorder(origins: dict[str, str]) -> Source:
    """Return the last source, which records the origin of each value."""

    def record(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        sources = {"cli": Origin.FLAG, str(Origin.ENVIRONMENT): Origin.ENVIRONMENT}
        for argument in arguments:
            for token in argument.tokens:
                other = token.source if token.source.startswith(PRESET) else Origin.FILE
                origins[argument.name.removeprefix("--")] = sources.get(token.source, other)

    return record
