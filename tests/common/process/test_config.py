from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
from cyclopts import Parameter

from farflung.actor.config import ActorConfig
from farflung.broker.config import BrokerConfig
from farflung.common.process.config import (
    Command,
    Loaded,
    Origin,
    load,
    peek,
    run,
    suggestion,
)
from farflung.common.process.errors import UsageError
from farflung.common.process.settings_file import resolved_toml
from farflung.learner.config import LearnerConfig


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A section."""

    cylinder_count: int = 4
    """How many."""
    valves: tuple[int, ...] = (2, 2)
    """For each cylinder."""


@dataclass(frozen=True)
class Car:
    """A configuration with everything that ours have."""

    address: str = "here"
    """Positional."""
    _: KW_ONLY
    top_speed: float = 100.0
    """A number."""
    doors: int | None = None
    """Unknown by default."""
    colour: Literal["red", "green"] = "red"
    """A choice."""
    radio: bool = True
    """A switch."""
    extras: Annotated[tuple[str, ...], Parameter(name="--extra")] = ()
    """Repeatable, with another name."""
    engine: Annotated[Engine, Parameter(name="motor", consume_multiple=True)] = field(
        default_factory=Engine
    )
    """A section with another name."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "car.toml"


def refusal(*argv: str) -> str:
    with pytest.raises(UsageError) as caught:
        load("car", Car, argv)
    assert caught.value.exit_code == 64
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_config_without_settings_has_the_defaults_of_the_dataclass() -> None:
    """No value has another origin."""
    loaded = load("car", Car, [])
    assert loaded.config == Car()
    assert loaded.origins == {}


def test_config_takes_flags_before_environment_before_file_before_defaults(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source fills the gaps of those before it, and each value knows its origin."""
    file.write_text(
        'address = "file"\ntop-speed = 1\ndoors = 1\nextra = ["a", "b"]\n'
        "[motor]\ncylinder-count = 8\nvalves = [4]\n"
    )
    monkeypatch.setenv("FARFLUNG_CAR_TOP_SPEED", "2")
    monkeypatch.setenv("FARFLUNG_CAR_DOORS", "2")
    monkeypatch.setenv("FARFLUNG_CAR_MOTOR_VALVES", "5 6")
    loaded = load("car", Car, ["--config", str(file), "--doors", "3"])
    assert loaded.config == Car(
        "file",
        top_speed=2,
        doors=3,
        extras=("a", "b"),
        engine=Engine(cylinder_count=8, valves=(5, 6)),
    )
    expected = {"address": "file", "top-speed": "environment", "doors": "flag", "extra": "file"}
    expected |= {"motor.cylinder-count": "file", "motor.valves": "environment"}
    assert {
        key: str(origin) for key, origin in loaded.origins.items() if key != "config"
    } == expected


def test_config_file_may_be_named_by_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FARFLUNG_CAR_CONFIG names the file as --config does."""
    file.write_text("doors = 5")
    monkeypatch.setenv("FARFLUNG_CAR_CONFIG", str(file))
    assert load("car", Car, []).config.doors == 5
    assert peek("car", "doors", []) == "5"


def test_config_takes_positional_repeated_and_negated_flags() -> None:
    """A positional, a repeated flag of one word each, a list in one flag, a negated switch."""
    loaded = load(
        "car",
        Car,
        ["--extra", "a", "there", "--extra", "b", "--motor.valves", "1", "2", "--no-radio"],
    )
    assert loaded.config == Car(
        "there", radio=False, extras=("a", "b"), engine=Engine(valves=(1, 2))
    )


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--top-sped", "3"], "--top-speed?"),
        (["--top-speed", "fast"], '"fast"'),
        (["--top-speed"], "requires an argument"),
        (["--colour", "blue"], '"red", "green"'),
        (["here", "there"], "unexpected word 'there'"),
        (["--motor.cylinder-cont", "3"], "--motor.cylinder-count?"),
        (["--config", "/nowhere.toml"], "cannot be read"),
    ],
)
def test_malformed_flag_is_refused_in_a_sentence(argv: list[str], says: str) -> None:
    """Unknown flags, wrong values and stray words end with one sentence that helps."""
    assert says in refusal(*argv)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("FARFLUNG_CAR_TOP_SPED", "Did you mean FARFLUNG_CAR_TOP_SPEED?"),
        (
            "FARFLUNG_CAR_EXTRAS",
            "Did you mean FARFLUNG_CAR_EXTRA?",
        ),  # the flag's name, not the field's
        ("FARFLUNG_CAR_MOTOR", "unknown variable"),  # a section has no value
        ("FARFLUNG_CAR_TOP_SPEED", "unable to convert"),
    ],
)
def test_malformed_variable_is_refused_in_a_sentence(
    name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt variable of this role is not ignored."""
    monkeypatch.setenv(name, "x")
    assert says in refusal()


@pytest.mark.parametrize(
    "name", ["FARFLUNG_LEARNER_REPLAY_RATIO", "FARFLUNG_ACTOR_NONSENSE", "FARFLUNG_BROKER_QUEUE"]
)
def test_variable_of_another_role_is_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One environment may serve learner, actors and brokers; each role checks its own."""
    monkeypatch.setenv(name, "what only its own role understands")
    assert load("car", Car, []).config == Car()


def test_variable_without_a_role_is_refused_with_a_suggestion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It belongs to no program, so ignoring it would hide the mistake."""
    monkeypatch.setenv("FARFLUNG_TOP_SPEED", "3")
    assert refusal() == (
        "unknown variable FARFLUNG_TOP_SPEED in the environment. "
        "Did you mean FARFLUNG_CAR_TOP_SPEED?"
    )


SHARED = """
[actor]
policy = "red"
envs = 16
[learner]
policy = "red"
env = "Acrobot-v1"
[learner.dqn]
gamma = 0.8
[broker]
queue = 1048577
"""


def test_file_with_sections_serves_several_roles(file: Path) -> None:
    """Each role reads its own section only; a role without one has its defaults."""
    file.write_text(SHARED)
    actor = load("actor", ActorConfig, ["--config", str(file)]).config
    learner = load("learner", LearnerConfig, ["--config", str(file)]).config
    broker = load("broker", BrokerConfig, ["--config", str(file)]).config
    assert actor == ActorConfig(policy="red", environments=16)
    assert (learner.policy, learner.environment, learner.settings.gamma) == (
        "red",
        "Acrobot-v1",
        0.8,
    )
    assert broker == BrokerConfig(queue=1048577)
    assert load("car", Car, ["--config", str(file)]).config == Car()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("doors = 3\n[actor]\nenvs = 2", "doors in {file} is outside the sections"),
        ("actor = 3", "actor in {file} is the name of a role: write a section [actor]"),
        ("[car]\ndors = 3", "unknown key dors in {file}. Did you mean doors?"),
        ("[car.motr]\nvalves = [3]", "unknown key motr in {file}. Did you mean motor?"),
    ],
)
def test_file_with_sections_is_checked(text: str, says: str, file: Path) -> None:
    """Keys beside the sections, a role that is a value, misspelt keys of one's own section."""
    file.write_text(text)
    assert says.format(file=file) in refusal("--config", str(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("top-sped = 3", "Did you mean top-speed?"),
        ("top_speed = 3", "Did you mean top-speed?"),
        ("config = 'another'", "unknown key config"),
        ("[motor]\ncylinder-cont = 3", "Did you mean motor.cylinder-count?"),
        ("motor = 3", "motor in"),
        ("[top-speed]\na = 3", "is a value, not a section"),
        ("top-speed = 'fast'", "car.toml: unable to convert"),
        ("top-speed =", "is not TOML"),
    ],
)
def test_malformed_file_is_refused_in_a_sentence(text: str, says: str, file: Path) -> None:
    """Unknown keys, wrong values and broken TOML end with one sentence that names the file."""
    file.write_text(text)
    sentence = refusal("--config", str(file))
    assert says in sentence
    assert str(file) in sentence


def test_resolved_file_names_origins_and_loads_again(file: Path) -> None:
    """A run folder's file leads to the same configuration."""
    config = Car(
        'a "quoted"\n\\name ü', top_speed=float("inf"), extras=("x", "y"), engine=Engine(valves=())
    )
    text = resolved_toml(config, {"top-speed": Origin.FLAG, "motor.valves": Origin.ENVIRONMENT})
    assert "top-speed = inf  # flag\n" in text
    assert "radio = true  # default\n" in text
    assert "# doors is not set\n" in text
    assert "\n[motor]\ncylinder-count = 4  # default\nvalves = []  # environment\n" in text
    file.write_text(text)
    assert load("car", Car, ["--config", str(file)]).config == config


@pytest.mark.parametrize("argv", [["--doors", "3"], ["--doors=3"]])
def test_peek_finds_a_flag_before_parsing(argv: list[str]) -> None:
    """In both spellings; a flag that is not there is None."""
    assert peek("car", "doors", argv) == "3"
    assert peek("car", "colour", argv) is None


def test_subcommand_is_imported_when_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parameters are flags; the program's variables and files do not concern it."""
    monkeypatch.setenv("FARFLUNG_NONSENSE", "1")
    commands = [
        Command("shout", "json:dumps", "Write JSON."),
        Command("broken", "no_such_module:main", "Never imported."),
    ]
    assert run("car", Car, _not_called, ["shout", "3"], description="", commands=commands) == '"3"'


def test_misspelt_subcommand_is_suggested() -> None:
    """A first word that is close to a subcommand names it."""
    commands = [Command("status", "json:dumps", "")]
    with pytest.raises(UsageError, match=r"unexpected word 'statsu'\. Did you mean status\?"):
        run("car", Engine, _not_called, ["statsu"], description="", commands=commands)


def test_help_shows_every_flag_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Flags, their help and the subcommands are on the page; the exit code is 0."""
    commands = [Command("status", "no_such_module:main", "Say how it goes.")]
    assert run("car", Car, _not_called, ["--help"], description="Drives.", commands=commands) == 0
    page = capsys.readouterr().out
    assert page.startswith("Usage: car [ADDRESS] [COMMAND] [OPTIONS]\n")
    for word in (
        "Drives.",
        "--top-speed",
        "A number.",
        "--motor.cylinder-count",
        "--extra",
        "--config",
        "status",
        "Say how it goes.",
    ):
        assert word in page


def test_lines_of_a_docstring_flow_in_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal breaks them, wherever the source does."""

    @dataclass(frozen=True)
    class Tyres:
        width: int = 1
        """In millimetres,
        of each."""

    assert run("car", Tyres, _not_called, ["--help"], description="") == 0
    assert "In millimetres, of each. [default: 1]" in capsys.readouterr().out


def test_version_flag_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version writes the version of the distribution."""
    assert run("car", Car, _not_called, ["--version"], description="") == 0
    assert capsys.readouterr().out.strip()[0].isdigit()


def test_suggestion_offers_only_close_names() -> None:
    """No suggestion is better than a wrong one."""
    assert suggestion("zebra", ["steps", "seed"]) == ""


def _not_called(loaded: Loaded[object]) -> int:
    raise AssertionError(loaded)
