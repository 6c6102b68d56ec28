"""Farflung: far-flung actors, one learner. Message-passing reinforcement learning over ZeroMQ.

The import itself loads nothing else: each function brings what it needs.
"""

TYPE_CHECKING = False  # type checkers take it for true; the import of `typing` takes time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Any

    from farflung.actor.acting.loaded import LoadedPolicy
    from farflung.actor.scripts import register_opponent
    from farflung.actor.session import ActorSession, AsyncActorSession
    from farflung.actor.worlds.registered import register_world
    from farflung.common.process.errors import FarflungError
    from farflung.learner.api.callback import Callback, Episode, Evaluation, Result, RunView

__all__ = [
    "ActorSession",
    "AsyncActorSession",
    "Callback",
    "Episode",
    "Evaluation",
    "FarflungError",
    "Result",
    "RunView",
    "load",
    "register_opponent",
    "register_world",
    "train",
]

ELSEWHERE = {  # the names that are imported when they are used, by their modules
    **dict.fromkeys(
        ("Callback", "Episode", "Evaluation", "Result", "RunView"), "farflung.learner.api.callback"
    ),
    **dict.fromkeys(("ActorSession", "AsyncActorSession"), "farflung.actor.session"),
    "FarflungError": "farflung.common.process.errors",
    "register_opponent": "farflung.actor.scripts",
    "register_world": "farflung.actor.worlds.registered",
}


def train(
    env: "str | Callable[..., Any] | None" = None,
    algorithm: "str | type | None" = None,
    *,
    steps: "int | None" = None,
    actors: "int | str | None" = None,
    callbacks: "Sequence[Callback]" = (),
    **settings: "Any",
) -> "Result":
    """Train as the `learner` command does, until the run ends; return its result.

    Settings are the command's flags, with `_` for `-`: `until="evaluation >= 475"`. A list stands
    for a repeatable flag, a dictionary for `env_args` and for the section of an algorithm:
    `dqn={"learning_rate": 1e-3}`. `--import` is `imports`. Variables, `config=FILE`, `preset=NAME`
    and `resume=RUN` count as they do for the command; None stands for the default.

    Two defaults differ from the command's: `actors` is "auto" instead of 0, and in sequential mode
    lines are printed instead of a panel, so that a debugger has the terminal to itself.

    `env` is a registered id, or a class or function that makes an environment. Actors in other
    processes import it by its name. With `mode="sequential"` any callable will do. `algorithm` and
    `model` may be a class and a function.

    Ctrl-C ends the run, saves it, and then raises KeyboardInterrupt. An exception in a callback
    does so too, and is raised. A second Ctrl-C does not wait. Outside of the main thread Python
    passes on no signals: there, a callback can end a run.
    """
    from farflung.learner.api.train import train

    first = {"env": env, "algorithm": algorithm, "steps": steps, "actors": actors}
    return train(callbacks, first | settings)


def load(path: "str | PathLike[str]", checkpoint: str = "", *, seed: int = 0) -> "LoadedPolicy":
    """Return the policy of a run's folder, or of a file that `learner export` wrote.

    The checkpoint is `best`, `last`, the number of one, or an archived version such as `2.120`; by
    default the best, or the last where no evaluation has ended. `RUN@CHECKPOINT` names both.
    `policy.act(observation)` returns the action.
    """
    from pathlib import Path

    from farflung.learner.policies.loading import load

    return load(Path(path), checkpoint, seed)


def __getattr__(name: str) -> object:
    """Import one of the names that are elsewhere."""
    if name not in ELSEWHERE:
        raise AttributeError(f"module 'farflung' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(ELSEWHERE[name]), name)


def __dir__() -> list[str]:
    """List all public names."""
    return sorted({*globals(), *__all__})
