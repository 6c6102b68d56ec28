"""The plan of a sweep from its file: [sweep], fixed settings in [learner], searched in [space]."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from farflung.common.data.fields import NAME, RULE
from farflung.common.process.config import check_keys, require
from farflung.common.process.errors import UsageError
from farflung.learner.sweeps import settings
from farflung.learner.sweeps.curve import EVALUATION, METRICS, Take
from farflung.learner.sweeps.space import Parameter, parameters

SECTIONS = ("sweep", "learner", "space")
WITHOUT_CURVE = ("steps", "updates", "episodes", "seconds")  # nothing in them tells good from bad
MARKS = 20  # looks of a pruner at a trial without evaluations

Number = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Seed = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class Section(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The section [sweep]."""

    name: str = ""
    trials: Number = 20
    seeds: tuple[Seed, ...] = (0,)
    objective: str = "evaluation"
    take: Take = Take.BEST
    direction: Literal["maximize", "minimize"] = "maximize"
    sampler: Literal["tpe", "random"] = "tpe"
    sampler_seed: Seed = 0
    pruner: Literal["median", "none"] | None = None
    prune_after_trials: int = 4
    prune_after_steps: int = 0
    prune_mean_of: Number = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep as it is to be done."""

    sweep: Section
    name: str
    fixed: Mapping[str, Any]  # the settings of all trials, as in a file of the learner
    space: Mapping[str, Parameter]
    metric: str  # of the objective, as in metrics.jsonl
    every: int  # steps between two marks at which trials are compared
    journaled: bool  # a trial that was cut short goes on where it was

    @property
    def maximize(self) -> bool:
        """True if higher is better."""
        return self.sweep.direction == "maximize"

    @property
    def prunes(self) -> bool:
        """True if trials that fall behind are stopped."""
        return self.sweep.pruner != "none"

    @property
    def essence(self) -> str:
        """All that makes trials comparable, as JSON: it stays the same as long as a sweep lasts."""
        sweep = self.sweep
        ranges = {key: repr(parameter) for key, parameter in self.space.items()}
        content = {
            "objective": sweep.objective,
            "take": sweep.take,
            "direction": sweep.direction,
            "seeds": list(sweep.seeds),
            "learner": settings.plain(self.fixed),
            "space": ranges,
        }
        return json.dumps(content, sort_keys=True)


def load(path: Path) -> Plan:
    """Return the plan in a file; refuse what no trial could start with."""
    content = _read(path)
    for key in content:
        require(key in SECTIONS, f"{key} in {path}: the sections are [{'], ['.join(SECTIONS)}]")
    sweep = _section(path, content.get("sweep", {}))
    name = sweep.name or path.stem
    require(NAME.fullmatch(name) is not None, f"the name {name!r} of {path}: {RULE}")
    fixed = dict(content.get("learner", {}))
    space = parameters(f"[space] of {path}", content.get("space", {}))
    require(bool(space), f"{path} has no [space]: it names the settings to search")
    config = settings.check(path, fixed, space)
    require(
        config.steps > 0 or bool(config.until),
        f"[learner] in {path} has no end: set steps, or until",
    )
    require(bool(sweep.seeds), f"seeds in {path}: at least one, such as [0]")
    metric = METRICS.get(sweep.objective, sweep.objective)
    require(
        "/" in metric,
        f"unknown objective {sweep.objective} in {path}: write one of {', '.join(METRICS)}, "
        "or a name as in metrics.jsonl",
    )
    require(
        metric != EVALUATION or config.evaluate_every > 0,
        f"the objective of {path} are evaluations, and none will run: set evaluate-every in "
        "[learner]",
    )
    curved = sweep.objective not in WITHOUT_CURVE
    require(
        curved or sweep.pruner != "median",
        f'pruner in {path}: {sweep.objective} tell no good trial from a bad one, so write "none"',
    )
    pruner = sweep.pruner or ("median" if curved else "none")
    return Plan(
        msgspec.structs.replace(sweep, pruner=pruner),
        name,
        fixed,
        space,
        metric,
        config.evaluate_every or max(1, config.steps // MARKS),
        config.mode == "async" and config.durability != "none",
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the sweep's file {path} cannot be read: {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the sweep's file {path} is not TOML: {error}") from error


def _section(path: Path, content: Mapping[str, Any]) -> Section:
    known = dict.fromkeys((each.encode_name for each in msgspec.structs.fields(Section)), False)
    check_keys(path, content, known)
    try:
        return msgspec.convert(content, Section)
    except msgspec.ValidationError as error:
        raise UsageError(f"[sweep] in {path}: {error}") from error
