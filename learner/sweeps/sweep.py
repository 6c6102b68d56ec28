"""A sweep from start to end: begins trials, looks at their runs, prunes, and ends what it began."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop
from farflung.learner.local.programs import PATIENCE_S, end_survivor
from farflung.learner.runs.reading import is_run
from farflung.learner.storage.run_folder import exclusive
from farflung.learner.sweeps import report, state
from farflung.learner.sweeps.curve import judged
from farflung.learner.sweeps.plan import Plan
from farflung.learner.sweeps.runs import TrialRuns
from farflung.learner.sweeps.state import Complete, Fail, Seen, Start
from farflung.learner.sweeps.study import Study

log = logging.getLogger(__name__)

LOCK = "sweep.lock"
LOOK_S = 0.25
SAY_S = 10.0  # between two lines about all trials at work


class Sweep:
    """One process of a sweep; an earlier one may have been killed at any moment."""

    def __init__(self, plan: Plan, folder: Path, at_once: int, stop: Stop) -> None:
        self.study = Study(folder, plan)
        self._plan, self._folder, self._at_once, self._stop = plan, folder, at_once, stop
        self._active: list[TrialRuns] = []
        self._leaving: list[tuple[TrialRuns, str, float]] = []  # pruned: why, and until when
        self._failed = self._others = 0  # trials that this process saw end
        self._reason = ""  # of the last failure
        self._say_at = time.monotonic() + SAY_S

    def run(self) -> None:
        """Do all trials that are left, until they are over or a signal comes."""
        self._take_up()
        try:
            while not self._stop and self._go_on():
                self._stop.wait(LOOK_S)
        finally:
            self._end_all()

    def _take_up(self) -> None:
        """Take up the trials that an earlier process left, once its learners have ended."""
        for path in sorted(self._folder.glob("trial-*")):
            if is_run(path):
                end_survivor(path, self._stop, log.warning)
        for trial in self.study.running():
            log.info("trial %d goes on: %s", trial.number, report.settings(trial.chosen))
            self._active.append(TrialRuns(self._plan, self._folder, trial))

    def _go_on(self) -> bool:
        """Do what is due; return False once all trials are over."""
        self._begin()
        for each in list(self._active):
            self._advance(each)
        self._let_leave()
        self._say()
        if state.hopeless(self._failed, self._others):
            raise ConfigurationError(
                f"all {self._failed} trials failed, so the others are left. The last one: "
                f"{self._reason}. Mend that and start the sweep "
                "again; raise trials by those that failed"
            )
        begun = self.study.begun
        return bool(self._active or self._leaving) or begun < self._plan.sweep.trials

    def _begin(self) -> None:
        """Begin trials as long as there are places."""
        active, leaving = len(self._active), len(self._leaving)
        for _ in range(
            state.wanted(self._plan.sweep.trials, self.study.begun, active, leaving, self._at_once)
        ):
            trial = self.study.ask()
            log.info("trial %d begins: %s", trial.number, report.settings(trial.chosen))
            self._active.append(TrialRuns(self._plan, self._folder, trial))

    def _advance(self, trial: TrialRuns) -> None:
        """Do the next step of a trial."""
        seen = trial.look()
        behind = self._behind(trial, seen)
        match state.decide(seen):
            case Complete(value):
                self.study.complete(trial.trial, value)
                self._over(trial, f"complete: {value:.6g}. {self._best()}")
            case Fail(reason):
                self.study.fail(trial.trial, reason)
                self._reason = reason
                self._over(trial, f"failed: {reason}", failed=True)
            case Start(index):
                if len(self._working()) < self._at_once:
                    run = trial.runs[index]
                    log.info("%s starts%s", run.name, " again" if seen[index].starts else "")
                    run.start()
            case _ if behind:
                self.study.prune(trial.trial, behind)
                trial.stop()
                self._leaving.append((trial, behind, time.monotonic() + PATIENCE_S))
                self._over(trial, f"pruned: {behind}")

    def _behind(self, trial: TrialRuns, seen: list[Seen]) -> str:
        """Report the marks of a trial's first run; return why it is to be pruned, if it is."""
        every, mean_of = self._plan.every, self._plan.sweep.prune_mean_of
        figures = judged(trial.runs[0].curve.points, every, mean_of)
        mark = trial.trial.report(figures)
        if not mark:
            return ""
        mean = (
            f"a mean of {figures[mark]:.6g} over {mean_of} figures"
            if mean_of > 1
            else (f"{figures[mark]:.6g}")
        )
        return f"{mean}, after {mark * every:,} steps, is worse than the median"

    def _over(self, trial: TrialRuns, word: str, *, failed: bool = False) -> None:
        log.log(
            logging.WARNING if failed else logging.INFO, "trial %d %s", trial.trial.number, word
        )
        self._active.remove(trial)
        self._failed, self._others = self._failed + failed, self._others + (not failed)

    def _let_leave(self) -> None:
        """Note why pruned runs ended; kill those that do not end."""
        now = time.monotonic()
        for leaving in list(self._leaving):
            trial, reason, until = leaving
            if trial.working and now < until:
                continue
            trial.kill()
            trial.runs[0].note(f"pruned: {reason}")
            self._leaving.remove(leaving)

    def _working(self) -> list[TrialRuns]:
        everyone = [*self._active, *(trial for trial, _, _ in self._leaving)]
        return [trial for trial in everyone if trial.working]

    def _best(self) -> str:
        best = self.study.best()
        return "" if best is None else f"Best so far: trial {best.number} with {best.value:.6g}"

    def _say(self) -> None:
        """Write a line about the trials at work now and then."""
        now = time.monotonic()
        if now < self._say_at or not self._active:
            return
        self._say_at = now + SAY_S
        log.info("at work: %s", "; ".join(report.progress(each) for each in self._active))

    def _end_all(self) -> None:
        """End all processes of this sweep, first with patience."""
        trials = self._working()
        for trial in trials:
            trial.stop()
        if trials:
            log.info("waiting for the last checkpoints of %d trials", len(trials))
        until = time.monotonic() + PATIENCE_S
        pause = Stop()
        try:
            while any(trial.working for trial in trials) and time.monotonic() < until:
                pause.wait(LOOK_S)
        finally:
            pause.close()
            for trial in trials:
                trial.kill()


def run(plan: Plan, place: Path, at_once: int, stop: Stop, say: Callable[[str], object]) -> int:
    """Run a sweep in its folder, and write the settings of its best trial; return the exit code."""
    folder = place / plan.name
    try:
        atomic_file.make_folder(folder)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {folder}: {error.strerror}. --folder names another place."
        ) from error
    busy = f"another process works at the sweep in {folder}: stop it first"
    with exclusive(folder / LOCK, busy):
        sweep = Sweep(plan, folder, at_once, stop)
        sweep.run()
        best = sweep.study.best()
        if best is not None:
            atomic_file.write(folder / report.BEST, report.best_settings(plan, best).encode())
        say(report.text(plan, folder, sweep.study.rows(), best))
        return stop.exit_code
