"""The commands `learner`, `actor`, `broker` and `farflung`; also `python -m farflung ROLE`.

Imports nothing that takes time: until the handlers stand, Ctrl-C prints a traceback.
So it does not import `signal`: the enumerations in it take longer than all the rest here.
"""

import os
import sys
from _signal import SIGINT, SIGTERM, signal  # type: ignore[import-not-found]

ROLES = ("learner", "actor", "broker")
USAGE = f"usage: farflung {{{','.join(ROLES)}}} [OPTIONS]; each takes --help"


def learner() -> None:
    """Run the `learner` command."""
    _run("learner")


def actor() -> None:
    """Run the `actor` command."""
    _run("actor")


def broker() -> None:
    """Run the `broker` command."""
    _run("broker")


def main() -> None:
    """Run the role that the first argument names."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word in ROLES:
        sys.argv[:2] = [word]
        _run(word)
    elif word in ("-h", "--help"):
        sys.stdout.write(f"{USAGE}\n")
    elif word == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"{version('farflung')}\n")
    else:
        problem = f"unknown role {word!r}" if word else "which role?"
        sys.stderr.write(f"farflung: {problem}; {USAGE}\n")
        sys.exit(64)


def _run(role: str) -> None:
    """Run a role; a signal before it has its own handlers ends the process without a word."""
    for number in (SIGINT, SIGTERM):
        signal(number, _leave)
    from importlib import import_module

    import_module(f"farflung.{role}.main").main()


def _leave(number: int, frame: object) -> None:
    """End at once: nothing is open yet. SIGTERM asked for the end, so it is no error."""
    os._exit(130 if number == SIGINT else 0)


if __name__ == "__main__":
    main()
