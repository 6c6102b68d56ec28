"""The commands `learner`, `actor`, `broker` and `farflung`; also `python -m farflung COMMAND`.

Imports nothing that takes time: until the handlers stand, Ctrl-C prints a traceback.
So it does not import `signal`: the enumerations in it take longer than all the rest here.
"""

import os
import sys
from _signal import SIGINT, SIGTERM, signal  # type: ignore[import-not-found]

ROLES = ("learner", "actor", "broker")


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
    """Run the role or the command of a learner that the first argument names."""
    word, rest = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if word in ROLES:
        _run(word, rest)
    elif word == "train":
        _run("learner", rest)
    elif word == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"{version('farflung')}\n")
    else:
        _ends_on_a_signal()
        from farflung.learner.main import COMMANDS  # imports no library that takes long

        commands = {command.name: command.help for command in COMMANDS}
        if word in commands:
            _run("learner", [word, *rest])
        elif word in ("-h", "--help"):
            sys.stdout.write(_map(commands))
        else:
            sys.stderr.write(_refusal(word, commands))
            sys.exit(64)


def _map(commands: dict[str, str]) -> str:
    """Return the help: every word that can come first."""
    width = max(map(len, (*ROLES, *commands)))
    first = {
        "train": "Train a policy; the same as `learner`.",
        "actor": "Step environments for a learner.",
        "broker": "Relay between actors and learners.",
    }
    lines = [f"  {word:{width}}  {text}" for word, text in (first | commands).items()]
    return "\n".join(
        [
            "Usage: farflung COMMAND [OPTIONS]",
            "",
            "Reinforcement learning from experience that is collected anywhere.",
            "",
            *lines,
            "",
            "`farflung COMMAND --help` lists its options. The programs learner, actor and broker",
            "are the same: `learner evaluate RUN` is `farflung evaluate RUN`.",
            "From Python: farflung.train(...) and farflung.load(RUN).",
            "",
        ]
    )


def _refusal(word: str, commands: dict[str, str]) -> str:
    from farflung.common.process.config import suggestion

    problem = (
        f"unknown command {word!r}.{suggestion(word, ('train', *ROLES, *commands))}"
        if word
        else "a command is missing."
    )
    return f"farflung: {problem} `farflung --help` lists all of them\n"


def _run(role: str, words: "list[str] | None" = None) -> None:
    """Run a role, with other arguments than those of this process if there are any."""
    _ends_on_a_signal()
    if words is not None:
        sys.argv[:] = [role, *words]
    from importlib import import_module

    import_module(f"farflung.{role}.main").main()


def _ends_on_a_signal() -> None:
    """Let a signal end the process without a word, until the role has its own handlers."""
    for number in (SIGINT, SIGTERM):
        signal(number, _leave)


def _leave(number: int, frame: object) -> None:
    """End at once: nothing is open yet. SIGTERM asked for the end, so it is no error."""
    os._exit(130 if number == SIGINT else 0)


if __name__ == "__main__":
    main()
