"""`farflung.train`: a learner in the process of a script, a notebook or a debugger."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

from farflung.common.process import log as logs
from farflung.common.process.config import Loaded, Origin, require, suggestion
from farflung.common.process.errors import ConfigurationError, EnvironmentFailure, Exit, UsageError
from farflung.learner import aliases
from farflung.learner.api import keywords, own
from farflung.learner.api.callback import HOOKS, Callback, Host, Result
from farflung.learner.config import LearnerConfig, load
from farflung.learner.main import beginning, translated, with_own_settings
from farflung.learner.presets import preset

log = logging.getLogger(__name__)


def train(callbacks: Sequence[Callback], settings: Mapping[str, Any]) -> Result:
    """Train as the `learner` command does; return how the run ended."""
    require_hooks(callbacks)
    loaded = configuration(settings)
    require(
        not loaded.config.is_team,
        "policies: this program can train one of them, policy= names it. All of them are processes "
        "of the `learner` command",
    )
    if loaded.config.mode == "async" and not sys.executable:
        raise ConfigurationError(
            "this program does not know its Python, so it cannot start actors: set sys.executable, "
            'or train with mode="sequential"'
        )
    with logged(loaded) as started, torch_named():
        from farflung.learner.learner import Learner

        learner = Learner(loaded, Host(tuple(callbacks), search_path(), outlives=True))
        learner.log = started
        learner.serve()
    result = learner.training.result()
    if (error := learner.training.supervisor.callbacks.failure) is not None:
        error.add_note(f"The run ended for this. It is saved in {result.folder}")
        raise error
    if learner.stop.exit_code not in (0, Exit.INTERRUPTED):
        raise EnvironmentFailure(learner.stop.reason)  # of actors that were given up
    if learner.stop:
        # The run is saved. What follows in the script must not run as if nothing had happened.
        if learner.stop.exit_code == Exit.INTERRUPTED:
            raise KeyboardInterrupt(f"the run is saved in {result.folder}")
        raise SystemExit(0)
    return result


def configuration(settings: Mapping[str, Any]) -> Loaded[LearnerConfig]:
    """Return the configuration of these keywords; below them are variables and `config`.

    Two defaults are for a script: actors of its own, and no panel beside a debugger.
    """
    given = in_our_keywords(settings)
    for setting in ("algorithm", "model"):
        if given.get(setting) is not None:
            given[setting] = own.here(setting, given[setting])
    outlets = given.get("log_to") or ()
    listed = outlets if isinstance(outlets, list | tuple) else (outlets,)
    given["log_to"] = [own.here("log_to", outlet) for outlet in listed]
    try:
        if given.get("env") is not None:
            words = keywords.words({key: given.get(key) for key in ("mode", "config", "preset")})
            sequential = preset.peek("mode", words) == "sequential"
            imports = given.pop("imports", None) or ()
            found = own.environment(given.pop("env"), sequential)
            also = (imports,) if isinstance(imports, str) else tuple(imports)
            given |= found | {"imports": (*also, *found.get("imports", ()))}
        words, hints = translated(keywords.words(given))
        for hint in hints:
            _, _, sentence = hint.partition(": ")
            sys.stderr.write(f"farflung.train: {keywords.in_python(sentence)}\n")
        loaded = load(with_own_settings(words))
    except UsageError as error:
        raise UsageError(keywords.in_python(str(error))) from None
    defaults: dict[str, Any] = (
        {"ui": "lines"} if loaded.config.mode == "sequential" else {"actors": "auto"}
    )
    chosen = {key: value for key, value in defaults.items() if key not in loaded.origins}
    return Loaded(
        replace(loaded.config, **chosen), {**loaded.origins, **dict.fromkeys(chosen, Origin.FLAG)}
    )


def in_our_keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords without words of other libraries."""
    try:
        return aliases.in_keywords(settings)
    except UsageError as error:
        raise UsageError(keywords.in_python(str(error))) from None


def require_hooks(callbacks: Any) -> None:
    """Refuse what is no callback, and a hook that would never be called."""
    if isinstance(callbacks, Callback):
        raise UsageError(f"callbacks is a list: write callbacks=[{type(callbacks).__name__}(…)]")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            advice = "add ()" if isinstance(callback, type) else "derive its class from it"
            raise UsageError(f"callbacks: {callback!r} is no farflung.Callback: {advice}")
        for name in dir(callback):
            _require_hook(callback, name)


def _require_hook(callback: Callback, name: str) -> None:
    full = f"{type(callback).__name__}.{name}"
    if name.startswith("on_") and name not in HOOKS:
        raise UsageError(f"{full} is no hook of a callback.{suggestion(name, HOOKS)}")
    if name in HOOKS and iscoroutinefunction(getattr(callback, name)):
        raise UsageError(f"{full} is async, and hooks are called without await: write a plain def")


def search_path() -> tuple[str, ...]:
    """Return the folders in which this process finds modules, for processes that it starts."""
    return tuple(str(Path(entry).absolute()) for entry in sys.path if isinstance(entry, str))


@contextmanager
def logged(loaded: Loaded[LearnerConfig]) -> Iterator[logs.Log]:
    """Log from the first line on; it comes before the imports that take time.

    Lines need no stand-in for the terminal: beside them a debugger can have it.
    """
    config = loaded.config
    stream = sys.stderr if config.ui == "lines" else None
    name = config.name or config.environment
    with logs.start("learner", name, config.log_level, stream) as started:
        log.info("%s", beginning(config), extra=logs.LASTING)
        if values := preset.used(config, loaded.origins):
            log.info("%s", values, extra=logs.LASTING)
        yield started


@contextmanager
def torch_named() -> Iterator[None]:
    """Name the extra that brings torch, where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ConfigurationError(
            "the package torch is not installed here: pip install 'farflung[learner]'"
        ) from None
