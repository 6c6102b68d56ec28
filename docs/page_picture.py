"""The picture of the dashboard: python docs/page_picture.py trains and writes docs/dashboard.png.

It needs Chromium. With a folder as its argument it writes the page in dark colours and on a phone
there too, to look at.
"""

import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from PIL import Image  # noqa: E402
from support.browser import Page, browser  # noqa: E402

PICTURE = HERE / "dashboard.png"
WORDS = shlex.split("--port 0 --actors 2 --evaluate-every 500 --name cartpole --dashboard 0")
EVALUATIONS = 6
LINE = re.compile(r"dashboard: (http://127\.0\.0\.1:\d+/)")


def main(folder: Path | None) -> None:
    """Train until there are some evaluations and a verdict, and take the pictures."""
    learner = Path(sys.executable).with_name("learner")
    with tempfile.TemporaryDirectory() as runs:
        said = Path(runs) / "said"
        with said.open("w") as stream:
            process = subprocess.Popen(  # noqa: S603
                [str(learner), *WORDS, "--ui", "lines", "--run-dir", f"{runs}/runs"],
                stdout=stream,
                stderr=stream,
            )
        try:
            with browser() as page:
                page.open(_address(process, said), 1280, 1092)
                _wait(page)
                page.picture(PICTURE)
                _small(PICTURE)
                if folder is not None:
                    page.colours(dark=True)
                    page.picture(folder / "dark.png")
                    page.size(400, 900)
                    page.picture(folder / "phone.png", whole=True)
        finally:
            process.terminate()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", said: Path) -> str:
    while process.poll() is None:
        if found := LINE.search(said.read_text()):
            return found[1]
        time.sleep(0.2)
    raise SystemExit(said.read_text())


def _small(path: Path) -> None:
    """Let a picture have 256 colours: every clone has it."""
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


def _wait(page: Page) -> None:
    """Wait until the page has what it is for: a curve, evaluations, and the verdict."""
    point = "document.querySelector('.tiles')?.textContent.includes('best')"
    verdict = "[...document.querySelectorAll('.waits')].every((e) => !e.hidden)"
    many = "fetch('/api/runs').then((a) => a.json()).then(({ runs }) => "
    many += "fetch(`/api/runs/${runs[0].id}/evaluations`)).then((a) => a.json())"
    for _ in range(60):
        page.wait_for(f"{point} && {verdict}")
        if page.value(f"{many}.then((found) => found.evaluations.length)") >= EVALUATIONS:
            return
        page.value("new Promise((done) => setTimeout(done, 5000))")
    raise SystemExit("too few evaluations")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
