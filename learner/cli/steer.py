"""The subcommands that steer a run on this machine while it trains."""

import sys
from pathlib import Path

from farflung.learner.cli.at_work import on_terminal


def pause(run: Path, /) -> int:
    """Pause the training of a run on this machine; of a team, that of one policy.

    Parameters
    ----------
    run
        The folder of the run, such as runs/lander or runs/TEAM/POLICY; runs/TEAM: all of a team.
    """
    return _steer(run, paused=True)


def resume(run: Path, /) -> int:
    """Let a run train that was paused. To start one again that ended: learner --resume RUN.

    Parameters
    ----------
    run
        The folder of the run.
    """
    return _steer(run, paused=False)


def set_weight(run: Path, /, *, weight: float) -> int:
    """Set how much a run learns from each step while it trains, relative to its replay ratio.

    Parameters
    ----------
    run
        The folder of the run.
    weight
        Times of --replay-ratio, 0.01 to 100: 2 samples each transition twice as often.
    """
    return _steer(run, weight=weight)


def _steer(run: Path, *, paused: bool | None = None, weight: float | None = None) -> int:
    with on_terminal("steering", f"writing to {run}"):
        from farflung.common.process.errors import ConfigurationError
        from farflung.learner.runs.reading import is_run, is_team
        from farflung.learner.storage import steering
        from farflung.learner.storage.run_folder import FACTS, is_locked

        runs = sorted(path.parent for path in run.glob(f"*/{FACTS}")) if is_team(run) else [run]
        if not is_run(run) and not is_team(run):
            raise ConfigurationError(f"{run} is not the folder of a run or a team")
        for one in runs:
            now = steering.read(one)
            try:
                wished = steering.Steering(
                    paused=now.paused if paused is None else paused,
                    weight=now.weight if weight is None else weight,
                )
            except ValueError as error:
                raise ConfigurationError(f"--weight: {error}") from error
            steering.write(one, wished)
            state = "paused" if wished.paused else "not paused"
            later = "" if is_locked(one) else "; no learner is at work: it counts from the next one"
            sys.stdout.write(f"{one}: {state}, weight {wished.weight:g}{later}\n")
    return 0
