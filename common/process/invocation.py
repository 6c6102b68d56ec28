"""The words with which the person at this shell starts our programs again."""

import os
import shlex
import shutil
import sys
from pathlib import Path


def command(program: str) -> str:
    """Return a program's name if the shell finds it, else its path, else `python -m farflung`.

    A reader of the README who has not activated the environment can paste the line.
    """
    found = shutil.which(program)
    started = [sys.argv[0]] if os.sep in sys.argv[0] else []
    for beside in (*started, sys.executable):
        script = (Path(beside).parent / program).absolute()
        if not os.access(script, os.X_OK) or script.is_dir():
            continue
        if found is not None and script.samefile(found):
            return program
        return shlex.quote(_short(script))
    return shlex.join([_short(Path(sys.executable)), "-m", "farflung", program])


def pasted(line: str) -> str:
    """Return a line that starts an actor or worker here, as this shell takes it."""
    program, _, rest = line.partition(" ")
    joins = {"actor": "", "learner": "worker "}.get(program)
    near = rest.removeprefix(joins or "").startswith(("127.", "localhost:", "[::1]"))
    return f"{command(program)} {rest}" if near and joins is not None else line


def _short(path: Path) -> str:
    """Return a path relative to the current folder if it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
