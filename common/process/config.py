"""Configuration: one frozen dataclass per role, filled from flags, `FARFLUNG_*` variables, a TOML file and its own defaults.

A value has one name in three spellings: `--replay-ratio`, `FARFLUNG_REPLAY_RATIO` and `replay-ratio = 8` in the file.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_type_hints

import cyclopts.config
from cyclopts import App, ArgumentCollection, CycloptsError, Parameter, UnusedCliTokensError

from farflung.common.process.errors import UsageError
from farflung.common.process.roles import KEYS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C")

PREFIX = "FARFLUNG_"
ANYBODYS = frozenset().union(*KEYS.values())


class Origin(StrEnum):
    """Where a value came from."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Loaded(Generic[C]):
    """A configuration, and where each value came from (by key; what is absent is a default)."""

    config: C
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: `target` is `module:function`, imported only when it is asked for. Its parameters are its flags."""

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
) -> int:
    """Run `body` with the configuration, or the subcommand that is asked for; gives the exit code."""
    origins: dict[str, Origin] = {}
    app = App(
        name=program,
        help=f"{description}\n\nEach flag is also a variable ({PREFIX}FEED_PORT for --feed-port) and a key of the --config file.",
        usage=_usage(program, config_class, commands),
        help_format="plaintext",
        version=_version,
        default_parameter=Parameter(negative_iterable=()),
        config=[_take_environment, _take_file, _record_into(origins)],
    )

    def default(loaded: Any = None, *, config: Path | None = None) -> int:
        return body(Loaded(config_class() if loaded is None else loaded, origins))

    default.__annotations__ = {
        "loaded": Annotated[config_class | None, Parameter(name="*")],
        "config": Annotated[Path | None, Parameter(help="TOML file with any of these options.")],
        "return": int,
    }
    app.default(default)
    for command in commands:
        app.command(command.target, name=command.name, help=command.help, config=())
    try:
        chosen, bound, _ = app.parse_args(argv, exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        word = next(iter(error.unused_tokens or ()), "")
        raise UsageError(
            f"unexpected word {word!r}.{suggestion(word, [command.name for command in commands])}"
        ) from error
    except CycloptsError as error:
        raise UsageError(" ".join(str(error).split())) from error
    return chosen(*bound.args, **bound.kwargs) or 0


def load(program: str, config_class: type[C], argv: Sequence[str]) -> Loaded[C]:
    """The configuration that these flags, the environment and the file make."""
    found: list[Loaded[C]] = []

    def keep(loaded: Loaded[C]) -> int:
        found.append(loaded)
        return 0

    run(program, config_class, keep, argv, description="")
    return found[0]


def peek(key: str, argv: Sequence[str]) -> str | None:
    """A value before everything is parsed: the class of the configuration may depend on it."""
    for position, word in enumerate(argv):
        if word == f"--{key}" and position + 1 < len(argv):
            return argv[position + 1]
        if word.startswith(f"--{key}="):
            return word.partition("=")[2]
    if (value := os.environ.get(_variable(key))) is not None:
        return value
    path = None if key == "config" else peek("config", argv)
    value = None if path is None else _part_of("learner", read_toml(Path(path))).get(key)
    return None if value is None else str(value)


def require(condition: bool, sentence: str) -> None:
    """Refuse settings that cannot work, in a sentence."""
    if not condition:
        raise UsageError(sentence)


def suggestion(word: str, known: Iterable[str]) -> str:
    """` Did you mean …?` for a word that is close to a known one, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the configuration file {path} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the configuration file {path} is not TOML: {error}") from error


def resolved_toml(config: "DataclassInstance", origins: Mapping[str, Origin]) -> str:
    """Every value with the origin it has, as a file that `--config` takes."""
    top, sections = [], []
    for key, value in _entries(config):
        if is_dataclass(value) and not isinstance(value, type):
            lines = [
                _line(name, inner, origins.get(f"{key}.{name}")) for name, inner in _entries(value)
            ]
            sections += ["", f"[{key}]", *lines]
        else:
            top.append(_line(key, value, origins.get(key)))
    return "\n".join([*top, *sections]) + "\n"


def _usage(program: str, config_class: type[Any], commands: Sequence[Command]) -> str:
    words = (
        [item.name.upper() for item in fields(config_class) if not item.kw_only]
        + ["COMMAND"] * bool(commands)
        + ["OPTIONS"]
    )
    return f"Usage: {program} {' '.join(f'[{word}]' for word in words)}"


def _version() -> str:
    from importlib.metadata import version  # 20 ms that only --version needs

    return version("farflung")


def _entries(config: "DataclassInstance") -> Iterator[tuple[str, object]]:
    """The keys and values of one level of a configuration."""
    hints = get_type_hints(type(config), include_extras=True)
    for item in fields(config):
        marks = (
            mark
            for mark in getattr(hints[item.name], "__metadata__", ())
            if isinstance(mark, Parameter)
        )
        names = [name for mark in marks for name in mark.name or ()]
        yield (
            (names[0].removeprefix("--") if names else item.name.replace("_", "-")),
            getattr(config, item.name),
        )


def _line(key: str, value: object, origin: Origin | None) -> str:
    if value is None:
        return f"# {key} is not set"
    return f"{key} = {_toml(value)}  # {origin or Origin.DEFAULT}"


def _toml(value: object) -> str:
    """One value, as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False)


def _variable(key: str) -> str:
    return PREFIX + key.upper().replace("-", "_").replace(".", "_")


def _keys(arguments: ArgumentCollection) -> dict[str, bool]:
    """Every key by its full name, and whether it is a section."""
    return {
        argument.name.removeprefix("--"): bool(argument.children)
        for argument in arguments
        if argument.name != "*"
    }


def _take_environment(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill what no flag gave from `FARFLUNG_*`. cyclopts would pass over a misspelt variable, so they are checked here.

    All roles may be told in one environment, as a file of services has it: what another one knows is not for this one, and no mistake.
    """
    own = _keys(arguments)
    known = {_variable(key) for key, is_section in own.items() if not is_section} | {
        _variable(key) for key in ANYBODYS
    }
    left_to_the_learner = _has_section_of_ones_own(own, {})
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in known and not left_to_the_learner:
            raise UsageError(
                f"unknown variable {name} in the environment.{suggestion(name, known)}"
            )
    cyclopts.config.Env(PREFIX, source=Origin.ENVIRONMENT)(app, commands, arguments)


def _take_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill what neither flag nor variable gave from the file that `--config` names."""
    named = [
        token.value
        for argument in arguments
        if argument.name == "--config"
        for token in argument.tokens
    ]
    if not named:
        return
    path, known = Path(named[0]), _keys(arguments)
    content = _part_of(app.name[0], read_toml(path))
    _check_keys(path, content, known)
    own = {key: value for key, value in content.items() if key in known}
    cyclopts.config.Dict(own, source=str(path))(app, commands, arguments)


def _part_of(role: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says to a role: what it says to all, and above that the section of that name."""
    own = content.get(role, {})
    if not isinstance(own, dict):
        raise UsageError(f"{role} in a configuration file is a section, not a value")
    return {key: value for key, value in content.items() if key not in KEYS} | own


def _has_section_of_ones_own(known: Mapping[str, bool], content: Mapping[str, Any]) -> bool:
    """Whether there is an algorithm of the user's own, whose settings only a learner can check: it imports that."""
    return "algorithm" not in known and ":" in str(
        content.get("algorithm") or peek("algorithm", ()) or ""
    )


def _is_anothers(
    key: str, value: object, known: Mapping[str, bool], content: Mapping[str, Any]
) -> bool:
    """Whether a key that is not this role's is one of another's: all may be told in one file."""
    if not isinstance(value, dict):
        return key in ANYBODYS
    return all(f"{key}.{inner}" in ANYBODYS for inner in value) or _has_section_of_ones_own(
        known, content
    )


def _check_keys(path: Path, content: Mapping[str, Any], known: Mapping[str, bool]) -> None:
    """Refuse what a file should not say; sections are one level deep, within that of a role two."""
    for key, value in content.items():
        if key not in known and _is_anothers(key, value, known, content):
            continue
        if key not in known or key == "config":
            raise UsageError(f"unknown key {key} in {path}.{suggestion(key, known)}")
        if isinstance(value, dict) != known[key]:
            raise UsageError(
                f"{key} in {path} is a {'section' if known[key] else 'value'}, not a {'value' if known[key] else 'section'}"
            )
        for inner in value if known[key] else ():
            if f"{key}.{inner}" not in known:
                raise UsageError(
                    f"unknown key {key}.{inner} in {path}.{suggestion(f'{key}.{inner}', known)}"
                )


def _record_into(
    origins: dict[str, Origin],
) -> Callable[[App, tuple[str, ...], ArgumentCollection], None]:
    """The last of the sources: note where each value came from."""

    def record(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        sources = {"cli": Origin.FLAG, str(Origin.ENVIRONMENT): Origin.ENVIRONMENT}
        for argument in arguments:
            for token in argument.tokens:
                origins[argument.name.removeprefix("--")] = sources.get(token.source, Origin.FILE)

    return record
