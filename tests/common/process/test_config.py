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
    resolved_toml,
    run,
    suggestion,
)
from farflung.common.process.errors import UsageError
from farflung.common.process.roles import KEYS
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


def test_defaults_are_the_dataclass() -> None:
    """With nothing said, the configuration is the dataclass with its defaults, and no value has another origin."""
    loaded = load("car", Car, [])
    assert loaded.config == Car()
    assert loaded.origins == {}


def test_flags_go_before_environment_before_file_before_defaults(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source fills only what the ones before it left, and each value knows where it came from."""
    file.write_text(
        'address = "file"\ntop-speed = 1\ndoors = 1\nextra = ["a", "b"]\n[motor]\ncylinder-count = 8\nvalves = [4]\n'
    )
    monkeypatch.setenv("FARFLUNG_TOP_SPEED", "2")
    monkeypatch.setenv("FARFLUNG_DOORS", "2")
    monkeypatch.setenv("FARFLUNG_MOTOR_VALVES", "5 6")
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


def test_the_file_may_be_named_by_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FARFLUNG_CONFIG names the file as --config does."""
    file.write_text("doors = 5")
    monkeypatch.setenv("FARFLUNG_CONFIG", str(file))
    assert load("car", Car, []).config.doors == 5
    assert peek("doors", []) == "5"


def test_positional_repeated_and_negated_flags() -> None:
    """A positional, a repeated flag that takes one word at a time, a list in one flag, and a switch turned off."""
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
def test_a_flag_that_cannot_be_understood_is_refused_in_a_sentence(
    argv: list[str], says: str
) -> None:
    """Unknown flags, wrong values and stray words end with one sentence that helps."""
    assert says in refusal(*argv)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("FARFLUNG_TOP_SPED", "Did you mean FARFLUNG_TOP_SPEED?"),
        ("FARFLUNG_EXTRAS", "Did you mean FARFLUNG_EXTRA?"),  # the flag's name, not the field's
        ("FARFLUNG_MOTOR", "unknown variable"),  # a section has no value
        ("FARFLUNG_TOP_SPEED", "unable to convert"),
    ],
)
def test_a_variable_that_cannot_be_understood_is_refused_in_a_sentence(
    name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt FARFLUNG_ variable is not passed over."""
    monkeypatch.setenv(name, "x")
    assert says in refusal()


@pytest.mark.parametrize(
    "name",
    ["FARFLUNG_REPLAY_RATIO", "FARFLUNG_DQN_GAMMA", "FARFLUNG_STEP_TIMEOUT", "FARFLUNG_QUEUE"],
)
def test_another_roles_variable_is_passed_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One environment may hold what learner, actors and brokers are told; its value is not this program's business."""
    monkeypatch.setenv(name, "what only its own role understands")
    assert load("car", Car, []).config == Car()


@pytest.mark.parametrize("role", [ActorConfig, BrokerConfig, LearnerConfig])
def test_all_variables_of_the_other_roles_change_nothing(
    role: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where a name goes on with a name of one's own: FARFLUNG_EVALUATE_EVERY is no FARFLUNG_EVALUATE."""
    own = KEYS[role.__name__.removesuffix("Config").lower()]
    for key in frozenset().union(*KEYS.values()) - own:
        monkeypatch.setenv(
            "FARFLUNG_" + key.upper().replace("-", "_").replace(".", "_"), "not for everybody"
        )
    loaded = load("role", role, [])
    assert (loaded.config, loaded.origins) == (role(), {})


MINE = {"FARFLUNG_ALGORITHM": "mine:Soft", "FARFLUNG_SOFT_TEMPERATURE": "3"}


@pytest.mark.parametrize("role", [ActorConfig, BrokerConfig])
def test_the_section_of_a_users_own_algorithm_is_passed_over(
    role: type, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variables and its section of the file are for the learner, which alone can know them and refuse what is misspelt."""
    for name, value in MINE.items():
        monkeypatch.setenv(name, value)
    assert load("role", role, []).config == role()
    for name in MINE:
        monkeypatch.delenv(name)
    file.write_text("algorithm = 'mine:Soft'\n[soft]\ntemperature = 3\n")
    assert load("role", role, ["--config", str(file)]).config == role()
    monkeypatch.setenv("FARFLUNG_CONFIG", str(file))
    monkeypatch.setenv("FARFLUNG_SOFT_TEMPERATURE", "3")
    assert load("role", role, []).config == role()


def test_without_an_algorithm_of_ones_own_a_strange_variable_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is a strange section."""
    file.write_text("[soft]\ntemperature = 3\n")
    with pytest.raises(UsageError, match="unknown key soft"):
        load("actor", ActorConfig, ["--config", str(file)])
    monkeypatch.setenv("FARFLUNG_SOFT_TEMPERATURE", "3")
    with pytest.raises(UsageError, match="unknown variable FARFLUNG_SOFT_TEMPERATURE"):
        load("actor", ActorConfig, [])


SHARED = """
policy = "red"
replay-ratio = 4
[dqn]
gamma = 0.9
[actor]
envs = 16
[learner]
env = "Acrobot-v1"
steps = 500
[learner.dqn]
gamma = 0.8
[broker]
queue = 1048577
"""


def test_one_file_may_tell_all_roles(file: Path) -> None:
    """Each takes what is said to all and is its own, and its own section above that."""
    file.write_text(SHARED)
    actor = load("actor", ActorConfig, ["--config", str(file)]).config
    learner = load("learner", LearnerConfig, ["--config", str(file)]).config
    broker = load("broker", BrokerConfig, ["--config", str(file)]).config
    assert actor == ActorConfig(policy="red", environments=16)
    assert (
        learner.policy,
        learner.environment,
        learner.steps,
        learner.replay_ratio,
        learner.settings.gamma,
    ) == (
        "red",
        "Acrobot-v1",
        500,
        4,
        0.8,
    )
    assert broker == BrokerConfig(queue=1048577)


def test_a_misspelt_key_for_another_role_is_refused(file: Path) -> None:
    """What no role knows is a mistake here too, and so is a value under the name of a role."""
    file.write_text("replay-ration = 4")
    assert "unknown key replay-ration" in refusal("--config", str(file))
    file.write_text("car = 4")
    assert "car in a configuration file is a section" in refusal("--config", str(file))
    file.write_text("[dqn]\ngama = 4")
    assert "unknown key dqn" in refusal("--config", str(file))


def test_another_roles_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no role knows is a mistake, whoever it was meant for."""
    monkeypatch.setenv("FARFLUNG_REPLAY_RATION", "4")
    assert "Did you mean FARFLUNG_REPLAY_RATIO?" in refusal()


@pytest.mark.parametrize(
    "defaults", [ActorConfig(), BrokerConfig(), LearnerConfig()], ids=["actor", "broker", "learner"]
)
def test_the_table_of_roles_has_every_key(
    defaults: ActorConfig | BrokerConfig | LearnerConfig, request: pytest.FixtureRequest
) -> None:
    """Whoever adds, renames or removes a setting does so in `common/roles.py` too."""
    keys, section = set(), ""
    for line in resolved_toml(defaults, {}).splitlines():
        if line.startswith("["):
            section = line.strip("[]") + "."
        elif line:
            keys.add(section + line.removeprefix("# ").partition(" ")[0])
    assert KEYS[request.node.callspec.id] == keys


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
def test_a_file_that_cannot_be_understood_is_refused_in_a_sentence(
    text: str, says: str, file: Path
) -> None:
    """Unknown keys, wrong values and broken TOML end with one sentence that names the file."""
    file.write_text(text)
    sentence = refusal("--config", str(file))
    assert says in sentence
    assert str(file) in sentence


def test_the_resolved_file_names_origins_and_loads_again(file: Path) -> None:
    """What is written to a run folder gives the same configuration when it is read."""
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
def test_peek_sees_a_flag_before_anything_is_parsed(argv: list[str]) -> None:
    """Both spellings of a flag are seen; what nobody said is None."""
    assert peek("doors", argv) == "3"
    assert peek("colour", argv) is None


def test_a_subcommand_is_imported_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parameters are its flags; variables and files of the program are not its business; its exit code is the program's."""
    monkeypatch.setenv("FARFLUNG_NONSENSE", "1")
    commands = [
        Command("shout", "json:dumps", "Write JSON."),
        Command("broken", "no_such_module:main", "Never imported."),
    ]
    assert run("car", Car, _not_called, ["shout", "3"], description="", commands=commands) == '"3"'


def test_a_misspelt_subcommand_is_suggested() -> None:
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


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """--version writes the version of the distribution."""
    assert run("car", Car, _not_called, ["--version"], description="") == 0
    assert capsys.readouterr().out.strip()[0].isdigit()


def test_suggestion_is_silent_about_what_is_not_close() -> None:
    """No suggestion is better than a wrong one."""
    assert suggestion("zebra", ["steps", "seed"]) == ""


def _not_called(loaded: Loaded[object]) -> int:
    raise AssertionError(loaded)
