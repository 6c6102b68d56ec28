"""The memory of a sweep, kept by Optuna in SQLite: trials begun, their marks, and their ends.

Each step is a transaction, and each may be repeated: a value that was chosen stays, a mark that was
reported counts once, and a trial ends once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farflung.common.process.errors import ConfigurationError
from farflung.learner.sweeps.plan import Plan
from farflung.learner.sweeps.space import Choices, Parameter

try:
    import optuna
    from optuna.trial import TrialState
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"learner sweep needs the package {error.name}: pip install 'farflung[sweep]'"
    ) from error

FILE = "study.db"
ESSENCE, REASON = "essence", "reason"


@dataclass(frozen=True, slots=True)
class Row:
    """A trial that was begun."""

    number: int
    state: str  # running, complete, pruned or failed
    value: float | None
    chosen: Mapping[str, Any]
    reason: str = ""


class Trial:
    """A trial that is not over."""

    def __init__(self, trial: "optuna.trial.Trial", plan: Plan) -> None:
        self.number = trial.number
        self.chosen: dict[str, Any] = {}
        self._trial = trial
        for at, (key, parameter) in enumerate(plan.space.items()):
            # Each value has a stream of its own: a kill between two of them changes neither.
            trial.study.sampler = _sampler(plan, self.number * len(plan.space) + at)
            self.chosen[key] = _chosen(trial, key, parameter)

    def report(self, marks: Mapping[int, float]) -> int:
        """Report marks that are new; return the first at which the trial is to be pruned, or 0."""
        reported = self._trial.study.get_trials(deepcopy=False)[self.number].intermediate_values
        newest = max(reported, default=0)
        for mark, value in marks.items():
            if mark > newest:
                self._trial.report(value, mark)
                if self._trial.should_prune():
                    return mark
        return 0


class Study:
    """The trials of one sweep. One process at a time may use it."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._plan = plan
        if not (folder / FILE).exists():
            _make(folder, plan)
        self._study = _open(folder / FILE, plan.name)
        self._study.pruner = _pruner(plan)
        began_with = self._study.user_attrs.get(ESSENCE)
        if began_with != plan.essence:
            raise ConfigurationError(
                f"the sweep in {folder} began with other {_changed(began_with, plan.essence)}, so "
                "its trials cannot be compared with new ones: write a new name into [sweep]. "
                "Only trials, sampler and pruner may change"
            )

    @property
    def begun(self) -> int:
        """The number of trials that were begun."""
        return len(self._study.get_trials(deepcopy=False))

    def ask(self) -> Trial:
        """Begin a trial."""
        return Trial(self._study.ask(), self._plan)

    def running(self) -> list[Trial]:
        """Return the trials that were begun and are not over; choose what a kill left open."""
        open_ones = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return [
            Trial(optuna.trial.Trial(self._study, frozen._trial_id), self._plan)
            for frozen in open_ones
        ]

    def complete(self, trial: Trial, value: float) -> None:
        """End a trial with its figure."""
        self._study.tell(trial.number, value)

    def prune(self, trial: Trial, reason: str) -> None:
        """End a trial that fell behind."""
        trial._trial.set_user_attr(REASON, reason)
        self._study.tell(trial.number, state=TrialState.PRUNED)

    def fail(self, trial: Trial, reason: str) -> None:
        """End a trial that has no figure. It never counts as the best."""
        trial._trial.set_user_attr(REASON, reason)
        self._study.tell(trial.number, state=TrialState.FAIL)

    def rows(self) -> list[Row]:
        """Return all trials in the order of their numbers."""
        return [
            Row(
                trial.number,
                "failed" if trial.state is TrialState.FAIL else trial.state.name.lower(),
                trial.value,
                {
                    key: _value(self._plan.space[key], trial.params[key])
                    for key in self._plan.space
                    if key in trial.params
                },
                str(trial.user_attrs.get(REASON, "")),
            )
            for trial in self._study.get_trials(deepcopy=False)
        ]

    def best(self) -> Row | None:
        """Return the best of the trials that are complete."""
        rows = [row for row in self.rows() if row.state == "complete" and row.value is not None]
        sign = 1 if self._plan.maximize else -1
        return max(rows, key=lambda row: sign * (row.value or 0.0), default=None)


def _make(folder: Path, plan: Plan) -> None:
    """Make the study of a new sweep under another name first: a kill leaves no half of it."""
    draft = folder / f".{FILE}.draft"
    for left in folder.glob(f"{draft.name}*"):
        left.unlink()
    storage = _storage(draft)
    direction = plan.sweep.direction
    study = optuna.create_study(storage=storage, study_name=plan.name, direction=direction)
    study.set_user_attr(ESSENCE, plan.essence)
    storage.engine.dispose()
    draft.rename(folder / FILE)


def _open(path: Path, name: str) -> "optuna.Study":
    try:
        return optuna.load_study(storage=_storage(path), study_name=name)
    except Exception as error:  # of Optuna, SQLAlchemy or SQLite, as the file happens to be
        raise ConfigurationError(
            f"{path} cannot be read as the study of {name}: {error}. "
            "The runs beside it are whole; a new name begins a new sweep"
        ) from error


def _storage(path: Path) -> "optuna.storages.RDBStorage":
    return optuna.storages.RDBStorage(f"sqlite:///{path.resolve()}")


def _sampler(plan: Plan, number: int) -> "optuna.samplers.BaseSampler":
    """Return the sampler of one value in a sweep."""
    seed = (plan.sweep.sampler_seed + number) % (1 << 32)
    if plan.sweep.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed)


def _pruner(plan: Plan) -> "optuna.pruners.BasePruner":
    if not plan.prunes:
        return optuna.pruners.NopPruner()
    sweep = plan.sweep
    return optuna.pruners.MedianPruner(
        n_startup_trials=sweep.prune_after_trials,
        n_warmup_steps=sweep.prune_after_steps // plan.every,
    )


def _chosen(trial: "optuna.trial.Trial", key: str, parameter: Parameter) -> Any:
    """Return the value that was chosen, or choose it. Choices pass as JSON: any kind will do."""
    if isinstance(parameter, Choices):
        texts = [json.dumps(value) for value in parameter.values]
        return json.loads(trial.suggest_categorical(key, texts))
    low, high, step = parameter.low, parameter.high, parameter.step
    if parameter.whole:
        return trial.suggest_int(key, low, high, step=step or 1, log=parameter.log)
    return trial.suggest_float(key, low, high, step=step, log=parameter.log)


def _value(parameter: Parameter, stored: Any) -> Any:
    return json.loads(stored) if isinstance(parameter, Choices) else stored


def _changed(before: object, now: str) -> str:
    """Return the names of what differs between two essences."""
    first, second = json.loads(str(before or "{}")), json.loads(now)
    names = [key for key in second if first.get(key) != second[key]]
    return " and ".join(f"[{name}]" if name in ("learner", "space") else name for name in names)
