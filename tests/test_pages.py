"""The documentation is whole and true: links, anchors, navigation, and all that its lists name."""

import ast
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from farflung.actor.config import ActorConfig
from farflung.broker.config import BrokerConfig
from farflung.common.process import config
from farflung.common.process.errors import Exit
from farflung.learner import aliases
from farflung.learner.config import config_class
from farflung.learner.core.pacing import Cause
from farflung.learner.dashboard import live
from farflung.learner.observe.formatting import waiting
from farflung.learner.observe.status import WaitingStatus
from farflung.learner.worker.config import WorkerConfig

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path for pattern in ("*.md", "docs/*.md", "examples/*/README.md") for path in ROOT.glob(pattern)
)
PACKAGES = ("common", "actor", "learner", "broker")
FENCE = re.compile(r"^( *)(```+)[^\n]*\n.*?^\1\2$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> Counter[str]:
    """Return the anchors of the headings of a page, as repositories make them."""
    headings = re.findall(r"^#{1,6} +(.+?)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return Counter(re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in plain)


def dead(page: Path, text: str) -> Iterator[str]:
    """Yield the links in a text that lead nowhere from a page; other hosts are not asked."""
    for first, second in LINK.findall(re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL)):
        path, _, anchor = (first or second).partition("#")
        target = Path(os.path.normpath(page.parent / path)) if path else page
        if "://" in path:
            continue
        if not target.exists() or not target.is_relative_to(ROOT):
            yield f"{path}: no such file"
        elif anchor and (target.suffix != ".md" or anchors(target)[anchor] != 1):
            yield f"{path}#{anchor}: no such heading, or several"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    """A heading that is renamed, or a file that moves, is noticed where it is linked to."""
    assert list(dead(page, prose(page))) == []


@pytest.mark.parametrize(
    "link", ["nowhere.md", "#not-there", "docs/metrics.md#not-there", "../other/", "docs/lag.py#a"]
)
def test_a_dead_link_is_noticed(link: str) -> None:
    """The test above can fail, and what stands in code is no link."""
    readme = ROOT / "README.md"
    assert len(list(dead(readme, f"[a]({link}) and `[b]({link})`"))) == 1
    assert len(list(dead(readme, f"[a]: {link}"))) == 1
    assert list(dead(readme, "[a](docs/metrics.md#outlets) [b](https://example.org/#x)")) == []


def test_the_navigation_has_each_page_once() -> None:
    """A page that is not there cannot be found on the site."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = re.findall(r": (\S+\.md)$", text, re.MULTILINE)
    assert sorted(named) == sorted(str(page.relative_to(ROOT)) for page in PAGES)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a module of docs/, which import each other."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    known = set(sys.modules)
    yield import_module
    for name in set(sys.modules) - known:
        if str(ROOT / "docs") in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("name", ["settings", "every_metric"])
def test_lists_are_written_from_the_code(name: str, writer: Any) -> None:
    """`python docs/write.py` after each change of a setting, of a command or of a metric."""
    write = writer(name)
    assert write.page() == write.PAGE.read_text(), "run python docs/write.py"


ROLES = {"actor": ActorConfig, "broker": BrokerConfig, "worker": WorkerConfig}


@pytest.mark.parametrize("role", ["learner", *ROLES])
def test_each_flag_of_the_help_is_among_the_settings(
    role: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page has what `--help` prints, and nothing else."""
    monkeypatch.setenv("COLUMNS", "400")
    config.run(role, ROLES.get(role, config_class([])), lambda _: 0, ["--help"], description="")
    shown = set(re.findall(r"^│ .*?(--[a-z][\w.-]*)", capsys.readouterr().out, re.MULTILINE))
    page = (ROOT / "docs/settings.md").read_text()
    heading = "## Learner worker" if role == "worker" else f"## {role.capitalize()}"
    section = page.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    section += page.partition("\n### dqn\n")[2].partition("\n### ")[0] if role == "learner" else ""
    named = set(re.findall(r"^- `(--[\w.-]+)", section, re.MULTILINE))
    assert len(named) > 10
    assert shown - named == {"--help", "--version", "--install-completion"}
    assert named <= shown


def test_every_curve_has_a_unit_and_a_cure(writer: Any) -> None:
    """Those of a learner, of the built-in algorithms, and those that only a status has."""
    write = writer("every_metric")
    named = [name for metrics in write.SECTIONS.values() for name in metrics]
    assert sorted(named) == sorted({*write.CURVES, *write.SAID})
    assert all(cure for metrics in write.SECTIONS.values() for _, cure in metrics.values())
    drawn = set(live.FIRST)
    assert {*write.OF_STATUS, "split/PART"} - drawn - set(named) == {"split/PART"}
    assert drawn <= {*named, *write.OF_STATUS}


def texts() -> Iterator[str]:
    """Yield each text in our code, whole, with {} for what is filled in."""
    for path in sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(getattr(part, "value", "{}")) for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_errors_that_pages_quote_are_in_the_code() -> None:
    """A reader who searches for a sentence finds it as the program says it."""
    said = "\n".join(texts())
    page = (ROOT / "docs/errors.md").read_text().partition("## Refused")[0]
    quoted = re.findall(r"^- `([^`]+)`", page, re.MULTILINE)
    table = (ROOT / "docs/second_machine.md").read_text().partition("## If it does not")[2]
    quoted += re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(quoted) > 30
    assert [each for each in quoted if each not in said] == []


def test_every_reason_of_a_refusal_is_explained() -> None:
    """A reader finds each reason that a learner counts under, and no other."""
    places = ("common/protocol", "learner/endpoint", "learner/core", "common/data", "common/net")
    places = (*places, "actor/acting", "actor/connection")
    sources = "\n".join(
        path.read_text() for place in places for path in sorted((ROOT / place).glob("*.py"))
    )
    counted = set(re.findall(r'Refused\(\s*"([a-z ]+)"', sources))
    page = (ROOT / "docs/errors.md").read_text().partition("## Refused parcels")[2]
    assert counted - set(re.findall(r"`([a-z ]+)`", page)) == set()
    rows = [row for row in page.splitlines() if row.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([a-z ]+)`", row.split("|")[1])}
    assert len(listed) > 15
    assert [name for name in listed if f'"{name}"' not in sources] == []


def test_what_the_screen_says_of_waiting_is_explained() -> None:
    """Each reason to wait has a row in the page about tuning, in the screen's words."""
    page = (ROOT / "docs/tuning.md").read_text()
    rows = re.findall(
        r"^\| ([a-z][^|]+?) \|", page.partition("## Read the screen")[2], re.MULTILINE
    )
    for cause in Cause:
        sentence = waiting(WaitingStatus(cause, 0, 0.5)).partition(" (")[0].partition(":")[0]
        assert not sentence or sentence in rows or cause in sentence, sentence
    for cause in (Cause.ACTORS, Cause.EVALUATION):
        sentence = waiting(WaitingStatus(cause, 0, 1.0))
        assert any(sentence.startswith(row) for row in rows), sentence


@pytest.mark.parametrize("page", ["from_stable_baselines3", "from_rllib", "from_multiprocessing"])
def test_words_of_others_are_read_as_the_pages_say(page: str) -> None:
    """A word of another library that is understood is the flag that stands beside it."""
    text = (ROOT / f"docs/{page}.md").read_text()
    found = 0
    for theirs, ours in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE):
        for word in (each.replace("_", "-") for each in re.findall(r"`(\w+)`", theirs)):
            meant = aliases.SAME.get(word) or aliases.SETTINGS.get(word)
            if meant:
                found += 1
                assert meant in ours, f"{word} is read as {meant}"
    assert found >= 4


GROUPS = (
    "rollout|eval|time|train|pacing|replay|actors|parcels|gradients|games|archive|network|split"
)
OF_ENVIRONMENTS = {"rollout/success_rate", "eval/success_rate"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_curves_and_exit_codes_that_pages_name_exist(page: Path) -> None:
    """A curve or a code that goes is gone from the pages too."""
    listed = (ROOT / "docs/every_metric.md").read_text()
    known = set(re.findall(r"^- `([\w/]+)`", listed, re.MULTILINE)) | OF_ENVIRONMENTS
    named = set(re.findall(rf"`((?:{GROUPS})/[a-z]\w*)`", prose(page)))
    assert named - known == set()
    codes = {int(code) for code in re.findall(r"[Ee]xit codes? (\d+)", prose(page))}
    assert codes <= {*map(int, Exit), 0, 128 + signal.SIGTERM, 128 + signal.SIGKILL}
