"""The picture of the README: python docs/picture.py trains for a while and writes docs/panel.svg.

Every figure in it comes from the statuses of a real run; the panel is drawn as on a terminal.
"""

import argparse
import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from farflung.common.protocol.messages import State
from farflung.learner.observe.live_panel import HINT
from farflung.learner.observe.panel import draw
from farflung.learner.observe.status import Status, from_document

PICTURE = Path(__file__).with_name("panel.svg")
FONT = re.compile(r"    @font-face \{.*?\n    \}\n", re.DOTALL)
SIZE = 100, 24
SEEDS = 5  # to try: a run may be solved too soon
COMMAND = "learner --actors 2 --evaluate-every 500 --name cartpole --until 'evaluation >= 475'"


def status_of_a_run(evaluations: int, seed: int) -> Status:
    """Train until there are so many evaluations; return the status of that moment."""
    learner = Path(sys.executable).with_name("learner")
    with tempfile.TemporaryDirectory() as folder:
        words = [str(learner), *shlex.split(COMMAND)[1:], "--ui", "json", "--run-dir", folder]
        words += ["--seed", str(seed)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
            assert process.stdout is not None
            for line in process.stdout:
                status = from_document(line)
                if len(status.evaluation_history) >= evaluations and status.goal_seconds:
                    break
            process.terminate()
            process.stdout.read()  # else its last lines would break its pipe
    return status


def picture(status: Status) -> str:
    """Return the panel as an SVG."""
    width, height = SIZE
    console = Console(record=True, file=io.StringIO(), width=width, height=height)
    console.print(draw(status, width, height, HINT), end="")
    # Without fonts of another host: a page that shows the picture asks none.
    return FONT.sub("", console.export_svg(title=COMMAND))


def main() -> None:
    """Write the picture."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--evaluations", type=int, default=7)
    wanted = options.parse_args().evaluations
    seeds = (status_of_a_run(wanted, seed) for seed in range(SEEDS))
    status = next(status for status in seeds if status.state == State.RUN)
    PICTURE.write_text(picture(status))
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
