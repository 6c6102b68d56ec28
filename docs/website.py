"""Let MkDocs build the documentation from the pages of the repository as they stand (a hook).

Pages keep their places, so each link leads to the same page in the repository and on the site. A
file or folder of code that a page links to becomes a page itself.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/*.md", "examples/*/README.md")
BESIDE = ("docs/website.css", "learner/dashboard/static/icon.svg")
PICTURES = {".png", ".svg"}
LANGUAGES = {".py": "python", ".js": "js", ".toml": "toml", ".json": "json", ".yaml": "yaml"}
CODE = ".md"  # after the name of a file of code, on the site alone
FOLDER = "CODE.md"  # the page of a folder of code
LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )([^)\s#]+)", re.MULTILINE)
MARKER = re.compile(r" {0,3}([-*+]|\d+[.)]) {1,4}")


def on_config(config: MkDocsConfig) -> None:
    """Let headings have the anchors that a repository shows."""
    config.mdx_configs["toc"]["slugify"] = slug


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading, as repositories make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the theme's own files, all pages, and all that they show or link to."""
    found = [each for each in files if each.src_dir != config.docs_dir]
    found += [copied(path, config) for path in (*pages(), *(ROOT / name for name in BESIDE))]
    for path in sorted({target for page in pages() for target in targets(page)}):
        found.append(copied(path, config) if path.suffix in PICTURES else shown(path, config))
    return Files(found)


def pages() -> list[Path]:
    """Return all pages of the repository."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def targets(page: Path) -> Iterator[Path]:
    """Yield the files and folders that a page links to and that are no pages."""
    for match in LINK.finditer(page.read_text()):
        path = Path(os.path.normpath(page.parent / match[2]))
        if "://" not in match[2] and path.exists() and path not in pages():
            yield path


def copied(path: Path, config: MkDocsConfig) -> File:
    """Return a file that is on the site as it is in the repository."""
    return File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, False)


def shown(path: Path, config: MkDocsConfig) -> File:
    """Return the page of a file of code, or of all files in a folder."""
    name = path.relative_to(ROOT).as_posix()
    parts = [f"# {name}\n"]
    for each in sorted(path.iterdir()) if path.is_dir() else [path]:
        parts += [f"## {each.name}\n"] if path.is_dir() else []
        parts.append(f"````{LANGUAGES.get(each.suffix, 'text')}\n{each.read_text()}\n````\n")
    return File.generated(
        config,
        code_page(path).relative_to(ROOT).as_posix(),
        content="\n".join(parts),
        inclusion=InclusionLevel.NOT_IN_NAV,
    )


def code_page(path: Path) -> Path:
    """Return the place of the page that shows a file or folder of code."""
    return path / FOLDER if path.is_dir() else path.with_name(path.name + CODE)


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page as Python-Markdown wants it, with links to pages of code."""
    if page.file.src_dir is None:
        return markdown
    folder = (ROOT / page.file.src_uri).parent

    def led(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(folder / match[2]))
        known = "://" in match[2] or path.suffix in {".md", *PICTURES} or not path.exists()
        target = match[2] if known else os.path.relpath(code_page(path), folder)
        return match[1] + target

    return laid_out(LINK.sub(led, markdown))


def laid_out(text: str) -> str:
    """Return a text whose lists, tables and code look the same to Python-Markdown.

    That asks for an empty line before each, and for four spaces in each level of a list.
    """
    lines = text.split("\n")
    depth, width = [0] * len(lines), [0] * len(lines)
    apart: set[int] = set()  # lines with an empty one before them
    items: list[range] = []  # the lines of each item of a list, without its first one
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.map is None:
            continue
        first, last = token.map
        if token.type == "list_item_open":
            marker = MARKER.match(lines[first][width[first] :])
            items.append(range(first + 1, last))
            for number in items[-1]:
                depth[number] += 1
                width[number] += len(marker[0]) if marker else 0
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            apart |= set() if depth[first] else {first}
        elif token.type in ("table_open", "fence"):
            apart |= {first, last}
    # What follows an item of several blocks would belong to the last of them.
    apart |= {
        item.stop
        for item in items
        if any(number in apart or not lines[number].strip() for number in item)
    }
    found: list[str] = []
    for number, line in enumerate(lines):
        if number in apart and number and lines[number - 1].strip() and line.strip():
            found.append("")
        cut = min(width[number], len(line) - len(line.lstrip()))
        found.append("    " * depth[number] + line[cut:] if line.strip() else "")
    return "\n".join(found)
