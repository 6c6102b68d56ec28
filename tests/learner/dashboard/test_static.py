"""The files of the page: their origin, their size, and the things that they never do."""

import hashlib
import re
from pathlib import Path

import pytest
from support.dashboards import served

from farflung.learner.dashboard.app import STATIC

VENDORED = {  # npm pack uplot@1.6.32
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
LARGEST_BYTES = 80_000  # of all that is not ours
OURS = sorted(path for path in STATIC.iterdir() if path.is_file())


def test_vendored_files_are_those_of_the_package() -> None:
    """Byte for byte, with their licence, and nothing beside them."""
    folder = STATIC / "uplot"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {name: hashlib.sha256(held).hexdigest() for name, held in files.items()} == VENDORED
    assert sum(map(len, files.values())) <= LARGEST_BYTES
    assert b"The MIT License" in files["LICENSE"]


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_text_never_becomes_markup_or_code(path: Path) -> None:
    """No sink of a browser takes a text; styles and handlers stand in no markup."""
    text = path.read_text()
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|setHTML|srcdoc"
    code = r"\beval\(|new Function|setTimeout\([\"'`]|javascript:|import\("
    markup = r"<script(?![^>]*\bsrc=)|\bon[a-z]+=|<[^>]* style=|<style"
    for odd in (sinks, code, markup):
        assert not re.search(odd, text, re.IGNORECASE), odd


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_no_address_of_another_host(path: Path) -> None:
    """But for the name of SVG's own language, which nothing is fetched from."""
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]+\.[a-z]+/|wss?:|@import|url\(", text)


def test_pages_name_files_that_are_there() -> None:
    """Each is served with its type."""
    types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    with served() as dashboard:
        for page in ("/", "/login"):
            text = dashboard.ask(page).body.decode()
            named = re.findall(r"(?:src|href)=\"(/[^\"]+)\"", text)
            assert named
            for path in named:
                answer = dashboard.ask(path)
                assert answer.code == 200, path
                assert answer.headers["content-type"].startswith(types[Path(path).suffix]), path


def test_modules_name_modules_that_are_there() -> None:
    """And what they take from one is exported there."""
    for path in STATIC.glob("*.js"):
        text = path.read_text()
        for names, other in re.findall(r'import \{([^}]*)\} from "\./([\w.]+)"', text):
            exported = (STATIC / other).read_text()
            for name in filter(None, map(str.strip, names.split(","))):
                declared = rf"export (?:async )?(?:function|class|const) {name}\b"
                assert re.search(declared, exported), f"{path.name}: {name} of {other}"
                assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{path.name}: unused {name}"
