"""A trial at work: its runs, one for each seed, in folders that tell how far they are."""

import os
import shutil
from pathlib import Path

from farflung.common.process import atomic_file
from farflung.learner.local.programs import program
from farflung.learner.runs.reading import RunState, is_run, read
from farflung.learner.storage.run_folder import ENDED, FINISHED
from farflung.learner.sweeps import settings
from farflung.learner.sweeps.curve import Curve, taken
from farflung.learner.sweeps.plan import Plan
from farflung.learner.sweeps.processes import Process
from farflung.learner.sweeps.state import Phase, Seen, phase
from farflung.learner.sweeps.study import Trial

SETTINGS, LOGS = "settings", "logs"


def run_name(number: int, seed: int) -> str:
    """Return the name of a trial's run with a seed."""
    return f"trial-{number:03}-seed-{seed}"


class TrialRun:
    """One run of a trial."""

    def __init__(self, plan: Plan, folder: Path, trial: Trial, seed: int) -> None:
        self.name = run_name(trial.number, seed)
        self.folder = folder / self.name
        self.curve = Curve(self.folder, plan.metric)
        self._plan, self._place, self._seed = plan, folder, seed
        self._chosen, self._file = trial.chosen, f"trial-{trial.number:03}.toml"
        self._process: Process | None = None
        self._exit_code: int | None = None  # of its last process, and what that said
        self._word = ""
        self._starts = 0

    @property
    def working(self) -> bool:
        """True while its process lives."""
        if self._process is not None and self._process.exit_code is not None:
            self._exit_code, self._word = self._process.exit_code, self._process.word
            self._process.close()
            self._process = None
        return self._process is not None

    def look(self) -> Seen:
        """Return what this run shows now."""
        working = self.working  # before the folder: what it wrote last counts
        self.curve.follow()
        now = phase(
            working=working,
            there=is_run(self.folder),
            finished=(self.folder / FINISHED).exists(),
            exit_code=self._exit_code,
        )
        value = taken(self.curve.points, self._plan.sweep.take, self._plan.maximize)
        return Seen(now, value, self._reason(now), self._starts)

    def start(self) -> None:
        """Start its learner, which goes on where an earlier one ended."""
        file = self._place / SETTINGS / self._file
        atomic_file.make_folder(file.parent)
        chosen = settings.merged(self._plan.fixed, self._chosen)
        atomic_file.write(file, settings.text(chosen).encode())
        if not self._plan.journaled:  # it begins again, and comes to the same
            shutil.rmtree(self.folder, ignore_errors=True)
            self.curve = Curve(self.folder, self._plan.metric)
        words = ["--config", str(file), "--name", self.name, "--run-dir", str(self._place)]
        words += ["--seed", str(self._seed), "--port", "0", "--ui", "lines"]
        words += ["--dashboard", "off"]
        words += ["--resume", "auto"] if self._plan.journaled else []
        log = self._place / LOGS / f"{self.name}.log"
        self._exit_code, self._starts = None, self._starts + 1
        self._process = Process([*program("learner"), *words], log, os.environ)

    def stop(self) -> None:
        """Ask its process to end."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End its process now."""
        if self._process is not None:
            self._process.kill()

    def note(self, word: str) -> None:
        """Write why the sweep ended it, instead of the signal that did."""
        if is_run(self.folder):
            atomic_file.write(self.folder / ENDED, f"{word}\n".encode())

    def _reason(self, now: Phase) -> str:
        if now not in (Phase.FAILED, Phase.CUT):
            return ""
        summary = read(self.folder) if is_run(self.folder) else None
        if summary is not None and summary.state is RunState.FAILED:
            return summary.why
        return self._word


class TrialRuns:
    """A trial that is not over, with a run for each seed."""

    def __init__(self, plan: Plan, folder: Path, trial: Trial) -> None:
        self.trial = trial
        self.runs = [TrialRun(plan, folder, trial, seed) for seed in plan.sweep.seeds]

    @property
    def working(self) -> bool:
        """True while one of its processes lives."""
        return any(run.working for run in self.runs)

    def look(self) -> list[Seen]:
        """Return what its runs show now, in the order of their seeds."""
        return [run.look() for run in self.runs]

    def stop(self) -> None:
        """Ask its processes to end."""
        for run in self.runs:
            run.stop()

    def kill(self) -> None:
        """End its processes now."""
        for run in self.runs:
            run.kill()
