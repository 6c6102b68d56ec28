"""The settings of a trial: the fixed ones and those chosen, as a file for `learner --config`."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farflung.common.process import settings_file
from farflung.common.process.config import check_keys, require, variable
from farflung.common.process.errors import FarflungError, UsageError
from farflung.learner.config import LearnerConfig, config_class, load
from farflung.learner.sweeps.space import Parameter

# The sweep sets them itself.
OWN = {
    "name": "each trial has its own",
    "run-dir": "--folder names the place of all sweeps",
    "resume": "a trial goes on by itself",
    "seed": "write seeds into [sweep]",
    "port": "each trial takes a free one",
    "feed-port": "each trial takes a free one",
    "policies": "a trial is one learner, and its run has one policy",
    "ui": "trials write lines into logs",
    "until-stdin-closes": "trials end with their sweep in any case",
}


def require_no_variables() -> None:
    """Refuse variables of the learner: they would come before the file, searched settings too."""
    prefix = variable("learner", "")
    found = sorted(name for name in os.environ if name.startswith(prefix))
    require(
        not found,
        f"{', '.join(found)}: the settings of a sweep are in its file alone. Move them into "
        "[learner], and unset the variables",
    )


def merged(fixed: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fixed settings with the chosen ones, in which `section.key` is in a section."""
    found = {key: dict(value) if isinstance(value, dict) else value for key, value in fixed.items()}
    for key, value in chosen.items():
        section, dot, name = key.partition(".")
        if dot:
            found.setdefault(section, {})[name] = value
        else:
            found[key] = value
    return found


def text(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML."""
    top = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    lines = [f"{key} = {settings_file.toml(value)}" for key, value in top.items()]
    for key, section in settings.items():
        if isinstance(section, dict):
            inner = [f"{name} = {settings_file.toml(value)}" for name, value in section.items()]
            lines += ["", f"[{key}]", *inner]
    return "\n".join(lines) + "\n"


def plain(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as texts by their full names."""
    return {
        name: settings_file.toml(value)
        for key, content in settings.items()
        for name, value in (
            ((f"{key}.{inner}", each) for inner, each in content.items())
            if isinstance(content, dict)
            else ((key, content),)
        )
    }


def check(path: Path, fixed: Mapping[str, Any], space: Mapping[str, Parameter]) -> LearnerConfig:
    """Refuse settings that the learner refuses; return one configuration of this space."""
    for key, reason in OWN.items():
        require(key not in fixed and key not in space, f"{key} in {path}: {reason}")
    for key in space:
        require(key not in plain(fixed), f"{key} in {path} is both fixed and searched: remove one")
    chosen = {key: fixed[key] for key in ("preset", "algorithm") if key in fixed}
    kind = config_class([word for key, name in chosen.items() for word in (f"--{key}", str(name))])
    known = settings_file.keys(kind())
    check_keys(path, fixed, known)
    check_keys(path, merged({}, dict.fromkeys(space, "")), known)
    corners = max(len(parameter.samples) for parameter in space.values()) if space else 1
    found = []
    for corner in range(corners):
        samples = {key: each.samples[corner % len(each.samples)] for key, each in space.items()}
        found.append(_loaded(path, merged(fixed, samples), samples))
    return found[0]


def _loaded(path: Path, settings: Mapping[str, Any], chosen: Mapping[str, Any]) -> LearnerConfig:
    """Return the configuration that a learner would make of these settings."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trial.toml"
        file.write_text(text(settings))
        try:
            return load(["--config", str(file)]).config
        except FarflungError as error:
            sentence = str(error).replace(str(file), str(path))
            trial = ", ".join(f"{key} = {value}" for key, value in plain(chosen).items())
            raise UsageError(f"{path}: a trial cannot start with {trial}: {sentence}") from error
