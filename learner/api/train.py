"""`farflung.train`: a learner in the process of a script, a notebook or a debugger."""

import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from farflung.common.process.config import Loaded, Origin, peek, suggestion
from farflung.common.process.errors import ConfigurationError, EnvironmentFailure, Exit, UsageError
from farflung.learner.api import keywords, own
from farflung.learner.api.callback import HOOKS, Callback, Host, Result
from farflung.learner.config import LearnerConfig, load
from farflung.learner.main import with_own_settings


def train(callbacks: Sequence[Callback], settings: Mapping[str, Any]) -> Result:
    """Train as the `learner` command does; return how the run ended."""
    for callback in callbacks:
        require_hooks(callback)
    loaded = configuration(settings)
    with undisturbed():
        from farflung.learner.learner import Learner

        learner = Learner(loaded, Host(tuple(callbacks), search_path(), outlives=True))
        learner.serve()
    result = learner.training.result()
    if (error := learner.training.supervisor.callbacks.failure) is not None:
        error.add_note(f"The run ended for this. It is saved in {result.folder}")
        raise error
    if learner.stop.exit_code not in (0, Exit.INTERRUPTED):
        raise EnvironmentFailure(learner.stop.reason)  # of actors that were given up
    if learner.stop:
        # The run is saved. What follows in the script must not run as if nothing had happened.
        raise KeyboardInterrupt if learner.stop.exit_code == Exit.INTERRUPTED else SystemExit(0)
    return result


def configuration(settings: Mapping[str, Any]) -> Loaded[LearnerConfig]:
    """Return the configuration of these keywords; below them are variables and `config`.

    Two defaults are for a script: actors of its own, and no panel beside a debugger.
    """
    given = dict(settings)
    for setting in ("algorithm", "model"):
        if given.get(setting) is not None:
            given[setting] = own.here(setting, given[setting])
    try:
        if given.get("env") is not None:
            words = keywords.words({key: given.get(key) for key in ("mode", "config")})
            sequential = peek("learner", "mode", words) == "sequential"
            imports = given.pop("imports", None) or ()
            found = own.environment(given.pop("env"), sequential)
            also = (imports,) if isinstance(imports, str) else tuple(imports)
            given |= found | {"imports": (*also, *found.get("imports", ()))}
        loaded = load(with_own_settings(keywords.words(given)))
    except UsageError as error:
        raise UsageError(keywords.in_python(str(error))) from None
    defaults: dict[str, Any] = (
        {"ui": "lines"} if loaded.config.mode == "sequential" else {"actors": "auto"}
    )
    chosen = {key: value for key, value in defaults.items() if key not in loaded.origins}
    return Loaded(
        replace(loaded.config, **chosen), {**loaded.origins, **dict.fromkeys(chosen, Origin.FLAG)}
    )


def require_hooks(callback: object) -> None:
    """Refuse what is no callback, and a hook that would never be called."""
    if not isinstance(callback, Callback):
        advice = "make one: add ()" if isinstance(callback, type) else "derive its class from it"
        raise UsageError(f"callbacks: {callback!r} is no farflung.Callback; {advice}")
    for name in dir(callback):
        if name.startswith("on_") and name not in HOOKS:
            raise UsageError(
                f"{type(callback).__name__}.{name} is no hook of a callback."
                f"{suggestion(name, HOOKS)}"
            )


def search_path() -> tuple[str, ...]:
    """Return the folders in which this process finds modules, for processes that it starts."""
    return tuple(str(Path(entry).absolute()) for entry in sys.path if isinstance(entry, str))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave torch's threads, its random numbers and the garbage collector as they were."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the package {error.name} is not installed here: pip install 'farflung[learner]'"
        ) from None
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=()):
            yield
    finally:
        torch.set_num_threads(threads)
        gc.unfreeze()
