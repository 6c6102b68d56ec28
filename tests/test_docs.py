"""The documents are true: what they name exists, and their command lines parse."""

import dataclasses
import re
import shlex
from pathlib import Path
from typing import get_type_hints

import pytest
from cyclopts import Parameter

from actor.config import ActorConfig
from common import config, wire
from common.names import NAME
from learner.algorithms.settings import DQNSettings
from learner.config import LearnerConfig, load

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
OURS = ("common", "actor", "learner", "broker", "tests", "bench", "docs", "examples")
OTHERS = {"--help", "--version", "--config", "--json", "--logdir"}  # of the parser, of subcommands, of other programs
FREE_OF_CHARGE = {"learner status", "learner self-test"}


def flags(cls):
    """Every flag of a configuration."""
    found = set()
    for name, hint in get_type_hints(cls, include_extras=True).items():
        named = [mark.name[0] for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Parameter) and mark.name]
        found.add(f"--{(named[0] if named else name).removeprefix('--').replace('_', '-')}")
    return found


def known_flags():
    found = OTHERS | flags(LearnerConfig) | flags(ActorConfig)
    found |= {f"--dqn.{field.name.replace('_', '-')}" for field in dataclasses.fields(DQNSettings)}
    if (ROOT / "broker/config.py").exists():
        from broker.config import BrokerConfig

        found |= flags(BrokerConfig)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_flag_that_a_document_names_exists(document):
    """A flag that was renamed is renamed in the documents too."""
    text = re.sub(r"pip install[^\n]*|git [^\n]*", "", document.read_text())
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z.-]*[a-z])\b", text))
    assert named <= known_flags()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_and_target_that_a_document_names_exists(document):
    """Links, module names in backticks, and make targets lead somewhere."""
    text = document.read_text()
    paths = set(re.findall(rf"`((?:{'|'.join(OURS)})/[\w./]+)`", text))
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link}
    missing = {path for path in paths if not (ROOT / path).exists()} | {link for link in links if not (document.parent / link).exists()}
    assert not missing
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE)) <= targets


def command_lines():
    """Every line of a shell block that starts one of our programs."""
    for document in DOCUMENTS:
        for block in re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] in ("learner", "actor"):
                    yield pytest.param(words, id=" ".join(words))


@pytest.mark.parametrize("words", command_lines())
def test_every_command_line_in_a_document_parses(words):
    """What a reader pastes is understood."""
    program, *argv = words
    if " ".join(words[:2]) in FREE_OF_CHARGE:
        return
    if program == "learner":
        assert load(argv).config.environment
    else:
        assert config.load("actor", ActorConfig, argv).config.learner.port


def test_the_protocol_page_lists_every_kind_and_reason():
    """Whoever writes an actor in another language finds every message and every refusal there."""
    page = (ROOT / "docs/protocol.md").read_text()
    kinds = {int(number): name for number, name in re.findall(r"^\| (\d+) \| (\w+)", page, re.MULTILINE)}
    reserved = {wire.Kind.GRADIENTS, wire.Kind.COMMAND}
    assert kinds == {int(kind): kind.name.lower() for kind in wire.Kind if kind not in reserved}
    sources = [ROOT / path for path in ("common/wire.py", "common/packing.py", "common/encoding.py", "common/plain.py", "learner/gate.py")]
    reasons = {reason for path in sources for reason in re.findall(r'Refused\(\s*"([a-z ]+)"', path.read_text())}
    assert {reason for reason in reasons if f"`{reason}`" not in page} == set()


def test_names_in_the_protocol_page_are_the_code_s():
    """Magic, version and ports are those of the code."""
    page = (ROOT / "docs/protocol.md").read_text()
    assert f"magic `{wire.MAGIC.hex(' ')}`" in page
    assert f"version of the protocol, {wire.VERSION}" in page
    assert NAME.fullmatch("default")
