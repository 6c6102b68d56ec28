"""`make docs`: the site is whole, and no page of it asks another host."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from support.browser import browser, program

pytest.importorskip("mkdocs", reason="pip install --group docs")
pytest.importorskip("material", reason="pip install --group docs")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


class Html(HTMLParser):
    """The addresses that a page loads and links to, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a":
            self.links.append(found.get("href", ""))
        elif tag in LOADED and found.get("rel") != "canonical":
            self.loads.append(found.get(LOADED[tag], ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does; a warning would fail it."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    """Read each page of the site."""
    return {path: Html(path) for path in site.rglob("*.html")}


def test_no_page_loads_from_another_host(site: Path, pages: dict[Path, Html]) -> None:
    """Fonts, icons, scripts and styles are files of the site."""
    assert len(pages) > 40
    asked = {url for page in pages.values() for url in page.loads if urlsplit(url).netloc}
    assert asked == set()
    for style in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style.read_text()), style


def test_links_and_anchors_of_the_site_lead_somewhere(site: Path, pages: dict[Path, Html]) -> None:
    """Also those to files of code, which are pages here, and those of the navigation."""
    missing = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the host
            continue
        for link in {*page.links, *page.loads}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else {""}
            if not target.exists() or (target in pages and unquote(parts.fragment) not in known):
                missing.append(f"{path.relative_to(site)}: {link}")
    assert missing == []


TAGS = ("<h2", "<h3", "<ul", "<ol", "<li", "<tr", "<strong", "<em", "<img", "<pre", "<code", "<a ")


def counted(html: str) -> dict[str, int]:
    """Return the number of headings, lists, items, rows and more."""
    own = html.count('class="headerlink"')
    html = re.sub(r"<pre.*?</pre>", "<pre", html, flags=re.DOTALL)
    return {tag: html.count(tag) - own * (tag == "<a ") for tag in TAGS}


def test_pages_are_rendered_as_a_repository_does(site: Path) -> None:
    """Each has as many items, rows, blocks, links and words in bold as CommonMark makes of it."""
    common = MarkdownIt("commonmark").enable("table")
    sources = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")]
    assert len(sources) > 30
    for source in sources:
        built = site / source.relative_to(ROOT).with_suffix(".html")
        built = built if source.stem != "README" else built.with_name("index.html")
        article = built.read_text().partition("<article")[2].partition("</article>")[0]
        assert counted(article) == counted(common.render(source.read_text())), source.name


def test_a_page_means_the_same_to_both_renderers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list right behind a line, lists of two spaces, and code and tables inside them."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    from markdown import markdown
    from website import laid_out, slug

    page = "Words:\n- one\n  more\n  - inner\n- two\n  ```sh\n  run\n  ```\n"
    page += "  | a |\n  |---|\n  | b |\n"
    shown = markdown(laid_out(page), extensions=["tables", "pymdownx.superfences"])
    assert re.sub(r"\s*<[^>]+>\s*", "|", shown).count("- ") == 0
    parts = ["<p>Words:</p>", "<ul>", "<li>", "more", "<ul>", "inner", "<li>", "run", "<table>"]
    assert re.search(".*?".join(map(re.escape, parts)), shown, re.DOTALL), shown
    assert shown.count("<li>") == 3
    assert "<code>run" in re.sub(r"<span[^>]*>|</span>", "", shown)
    assert slug("SAC and TD3: `a-b`, or_not?") == "sac-and-td3-a-b-or_not"


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Serve the site on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.timeout(600)
@pytest.mark.skipif(program() is None, reason="Chromium is not installed")
def test_a_browser_asks_no_other_host_and_finds_no_fault(address: str) -> None:
    """The first page, one with code, one with tables, and a search."""
    with browser() as page:
        for name in ("index.html", "docs/own_environment.html", "docs/operations.html"):
            page.open(f"{address}/{name}")
            page.wait_for(f"location.pathname == '/{name}' && document.readyState == 'complete'")
        page.open(f"{address}/index.html?q=journal")
        page.wait_for("document.querySelectorAll('.md-search-result__item').length > 3")
        assert page.complaints == []
        hosts = {urlsplit(url).netloc for url in page.requests if not url.startswith("data:")}
        assert hosts == {urlsplit(address).netloc}
        assert any(url.endswith(".css") for url in page.requests)
