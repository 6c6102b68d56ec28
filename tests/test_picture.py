"""The README's picture is of the panel as it is now."""

import re
from pathlib import Path
from xml.etree import ElementTree

from farflung.actor.config import ActorConfig
from farflung.learner.observe.figures import figures
from farflung.learner.observe.status import Status

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/panel.svg"


def test_the_picture_has_the_rows_and_figures_of_the_panel() -> None:
    """A label that was renamed is renamed there too: python docs/picture.py."""
    text = " ".join(ElementTree.fromstring(PICTURE.read_text()).itertext()).replace("\xa0", " ")
    heads = ("env steps", "return", "evaluation", "goal", "an update", "waiting", "actors")
    labels = (*heads, *(label for label, _ in figures(Status(run="r"))))
    assert [label for label in labels if label not in text] == []
    assert re.search(r"goal +(about|not in sight)", text)


def test_the_picture_of_the_architecture_names_what_there_is() -> None:
    """Its parts and ports are those of the code, and it is readable in light and dark."""
    picture = ROOT / "docs/architecture.svg"
    text = " ".join(ElementTree.fromstring(picture.read_text()).itertext())
    parts = ("receiver", "journal", "replay", "update", "publisher", "broker", "ActorSession")
    page = (ROOT / "docs/architecture.md").read_text()
    assert [part for part in parts if part not in text or part not in page] == []
    learner = ActorConfig().learner
    assert f"port {learner.port}" in text
    assert f"port {learner.feed_port}" in text
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"url\(http|href", picture.read_text())


def test_the_picture_is_small_and_the_readme_shows_it() -> None:
    """It is part of every clone, and asks no other host for a font."""
    assert PICTURE.stat().st_size < 40_000
    assert "url(http" not in PICTURE.read_text()
    assert "(docs/panel.svg)" in (ROOT / "README.md").read_text()
