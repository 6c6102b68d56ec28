"""The documents are true: the flags, paths and commands that they name exist."""

import dataclasses
import hashlib
import importlib.util
import re
import shlex
import signal
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from cyclopts import App, CycloptsError, Parameter

from farflung.actor.acting import graph_check
from farflung.actor.acting.memory import FrameMemory
from farflung.actor.config import ActorConfig
from farflung.actor.worlds.world import Due
from farflung.broker.config import BrokerConfig
from farflung.common.data.fields import NAME
from farflung.common.data.layout import ALIGNMENT
from farflung.common.data.spec import Column, Exploration, Graph, Space, Spec, World
from farflung.common.heads.discrete import rungs
from farflung.common.heads.gaussian import UNCLIPPED_ACTIONS
from farflung.common.heads.head import LOG_PROBABILITY
from farflung.common.heads.valued import VALUES
from farflung.common.process import config
from farflung.common.process.errors import Exit, FarflungError
from farflung.common.protocol import wire
from farflung.learner import aliases
from farflung.learner.algorithms.builtin import BUILT_IN
from farflung.learner.config import LearnerConfig, load
from farflung.learner.graph import model
from farflung.learner.main import COMMANDS, translated
from farflung.learner.worker.config import WorkerConfig

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
OURS = ("common", "actor", "learner", "broker", "tests", "bench", "docs", "examples", "deploy")
BLOCK = r"^ *```(?:sh|bash)\n(.*?)^ *```$"
OTHERS = {
    "--help",
    "--version",
    "--config",
    "--json",
    "--logdir",
    "--against",
    "--actor",
    "--add",
    "--role",
    "--stalled-after",
    "--episodes",
    "--games",
    "--checkpoint",
    "--as-trained",
    "--max-steps",
    "--video",
    "--video-episodes",
    "--render",
    "--format",
    "--to-hub",
    "--sort",
    "--install-completion",
    "--at-once",
    "--folder",
    "--wait",
    "--id",
    "--whole",
    "--read-only",
    "--token-file",
    "--host-name",
    "--open",
    "--seconds",
}  # of the parser, of subcommands, of other programs
SUBCOMMANDS = {command.name: command.target for command in COMMANDS}
ROLES = {"actor": ActorConfig, "broker": BrokerConfig, "worker": WorkerConfig}


def flags(cls):
    """Return every flag of a configuration."""
    found = set()
    for name, hint in get_type_hints(cls, include_extras=True).items():
        named = [
            mark.name[0]
            for mark in getattr(hint, "__metadata__", ())
            if isinstance(mark, Parameter) and mark.name
        ]
        flag = (named[0] if named else name).removeprefix("--").replace("_", "-")
        switch = get_args(hint)[:1] in ((bool,), (bool | None,))
        found |= {f"--{flag}"} | ({f"--no-{flag}"} if switch else set())
    return found


def known_flags():
    found = OTHERS | flags(LearnerConfig) | flags(ActorConfig)
    found |= {f"--{word}" for word in (*aliases.SAME, *aliases.SETTINGS, "gamma")}
    for name, built_in in BUILT_IN.items():
        fields = dataclasses.fields(built_in.settings)
        found |= {f"--{name}.{field.name.replace('_', '-')}" for field in fields}
    return found | flags(BrokerConfig) | flags(WorkerConfig)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_only_flags_that_exist(document):
    """A flag that was renamed is renamed in the documents too."""
    text = re.sub(
        r"(?:pip|git|python|docker|kubectl|ssh) [^\n]*|[^\n]*sbatch [^\n]*",
        "",
        document.read_text().replace("\\\n", " "),
    )
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z.-]*[a-z])\b", text))
    assert named <= known_flags()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_only_paths_and_targets_that_exist(document):
    """Links, module names in backticks, and make targets lead somewhere."""
    text = document.read_text()
    paths = set(re.findall(rf"`((?:{'|'.join(OURS)})/[\w./]+)`", text))
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link}
    missing = {path for path in paths if not (ROOT / path).exists()} | {
        link for link in links if not (document.parent / link).exists()
    }
    assert not missing
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE)) <= targets


def command_lines():
    """Yield every line of a shell block that starts one of our programs."""
    for document in [*DOCUMENTS, *sorted(ROOT.glob("examples/*/README.md"))]:
        for block in re.findall(BLOCK, document.read_text(), re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):  # a variable for one command
                    words.pop(0)
                if words and words[0] in ("learner", "actor", "broker"):
                    yield pytest.param(words, id=" ".join(words))


def parse(words):
    """Parse a command line as its program does; raise if that refuses it."""
    program, *argv = words
    if program == "learner" and argv[:1] == ["worker"]:
        program, *argv = argv
    if program in ROLES:
        config.load(program, ROLES[program], argv)
    elif argv and argv[0] in SUBCOMMANDS:
        module, _, name = SUBCOMMANDS[argv[0]].partition(":")
        app = App()
        app.default(getattr(importlib.import_module(module), name))
        app.parse_args(argv[1:], exit_on_error=False, print_error=False)
    else:
        assert load(translated(argv)[0]).config.environment


@pytest.mark.parametrize("words", command_lines())
def test_command_lines_in_documents_parse(words):
    """A reader can paste them."""
    parse(words)


@pytest.mark.parametrize(
    "line",
    [
        "learner --steps many",
        "learner pauze gpu-box",
        "learner pause",
        "learner status gpu-box --watch",
        "learner trace gpu-box --seconds long",
        "learner worker a:1 b:2 c:3",
        "actor --envz 4",
        "broker a:1 --prot 5",
    ],
)
def test_a_command_line_that_is_wrong_is_noticed(line):
    """The test above can fail."""
    with pytest.raises((FarflungError, CycloptsError)):
        parse(shlex.split(line))


def test_protocol_page_lists_every_kind_and_reason():
    """An author of an actor in another language finds every message and every refusal there."""
    page = (ROOT / "docs/protocol.md").read_text()
    kinds = {
        int(number): name for number, name in re.findall(r"^\| (\d+) \| (\w+)", page, re.MULTILINE)
    }
    assert kinds == {int(kind): kind.name.lower() for kind in wire.Kind}
    sources = [
        ROOT / path
        for path in (
            "common/protocol/wire.py",
            "common/protocol/tensors.py",
            "common/protocol/parcels.py",
            "common/protocol/packing.py",
            "learner/endpoint/receiver.py",
        )
    ]
    reasons = {
        reason
        for path in sources
        for reason in re.findall(r'Refused\(\s*"([a-z ]+)"', path.read_text())
    }
    assert {reason for reason in reasons if f"`{reason}`" not in page} == set()


def test_protocol_page_has_the_names_of_the_code():
    """Magic, version and ports are those of the code."""
    page = (ROOT / "docs/protocol.md").read_text()
    assert f"magic `{wire.MAGIC.hex(' ')}`" in page
    assert f"version of the protocol, {wire.VERSION}" in page
    assert NAME.fullmatch("default")


def test_protocol_page_names_the_columns_of_heads():
    """An actor in another language computes them, or refuses the spec."""
    page = (ROOT / "docs/protocol.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \| [^|]+ \|", page.split("### Columns of heads")[1], re.M))
    assert named >= {column.name for column in (LOG_PROBABILITY, *VALUES)} | {UNCLIPPED_ACTIONS}


def structs_of(cls, found):
    """Find the struct of a message and those that it holds."""
    found[cls.__name__] = cls
    for hint in get_type_hints(cls).values():
        for part in (
            hint,
            *get_args(hint),
            *(inner for outer in get_args(hint) for inner in get_args(outer)),
        ):
            if hasattr(part, "__struct_fields__") and part.__name__ not in found:
                structs_of(part, found)
    return found


def test_protocol_page_lists_every_field():
    """A message of another actor must have all of them, and no other."""
    page = (ROOT / "docs/protocol.md").read_text()
    section = page.partition("### Fields")[2].partition("## Acting")[0]
    items = re.findall(r"^- \*\*([A-Z]\w+)\*\*: ((?:.+\n)+?)(?=- |\n)", section, re.MULTILINE)
    listed = {name: re.findall(r"`(\w+)`", text) for name, text in items}
    declared = {}
    for message in wire.KINDS.values():
        structs_of(message, declared)
    assert listed == {name: list(cls.__struct_fields__) for name, cls in declared.items()}


def test_protocol_page_has_the_schema_of_the_code():
    """The text that is hashed, and its hash."""
    page = (ROOT / "docs/protocol.md").read_text()
    world, empty = World("CartPole-v1"), Graph(b"", (), (), ())
    observation, action = {"": Space("box", "float32", (4,))}, Space("discrete", "int64", (), (2,))
    spec = Spec("r", "p", "async", world, observation, action, "q", 32, 1, empty)
    [text] = re.findall(r"```text\n(horizon (?:.*\n)*?)```", page)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == spec.schema
    assert f"the schema of CartPole is `{spec.schema}`" in page


def test_protocol_page_acts_as_the_code_does():
    """Opset, limits, names and formulas, as the page has them."""
    page = (ROOT / "docs/protocol.md").read_text()
    assert f"opset {model.OPSET}, at most {graph_check.MAX_MODEL_BYTES >> 20} MiB" in page
    assert f"an initializer called `{graph_check.initializer('<name>')}`" in page
    assert f"external data has location `{graph_check.LOCATION}`" in " ".join(page.split())
    assert f"the next multiple of {ALIGNMENT}" in page
    index, seats, ladder = 1, 3, 4
    expected = [1 + 7 * ((index * seats + seat) % ladder) / (ladder - 1) for seat in range(seats)]
    assert rungs(Exploration(ladder=ladder), seats, index).tolist() == expected
    assert Exploration(1.0, 0.2, 100).epsilon(50) == pytest.approx(1.0 + (0.2 - 1.0) * 0.5)
    memory = FrameMemory((Column("observations", "float32", (), "observation"),), 1, 3)
    due = Due({"observations": np.array([7.0])})
    memory.see(due)
    assert memory.stacks(due)["observations"].tolist() == [[7.0, 7.0, 7.0]]


def test_operations_page_lists_every_exit_code():
    """A code in a supervisor's log leads to its cause and its cure; old codes are gone."""
    sources = [
        path
        for package in ("common", "actor", "learner", "broker")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    text = "\n".join(path.read_text() for path in sources)
    assert not re.findall(r"exit_code = [1-9]\d*", text)  # they are in one place
    declared = set(map(int, Exit)) | {128 + signal.SIGTERM}  # a second one
    said = {int(code) for code in re.findall(r"exit code (\d+)", text)}
    page = (ROOT / "docs/operations.md").read_text().partition("## Exit codes")[2]
    rows = {
        int(code) for code in re.findall(r"^\| (\d+) \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    }
    assert declared | said | {0} == rows - {128 + signal.SIGKILL}


def page_writer(name):
    """Return a module of docs/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reference_page_is_written_from_the_docstrings():
    """`python docs/write.py` after each change of a public docstring or of a setting."""
    write = page_writer("reference")
    assert write.page() == write.PAGE.read_text(), "run python docs/write.py"
    assert all(f"farflung.{name}" in write.page() for name in ("train", "load", "Callback"))


def test_measured_pages_are_written_from_the_results():
    """`python docs/write.py` after each measurement; no figure is written by hand."""
    write = page_writer("write")
    for name, parts in write.PAGES.items():
        text = (ROOT / "docs" / name).read_text()
        assert write.page(text, write.load(write.RESULTS), parts) == text, name
