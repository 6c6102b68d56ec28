"""`learner check`: an environment is checked before a run."""

import json as json_format
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from farflung.common.process.config import require
from farflung.common.process.errors import Exit
from farflung.common.process.lifecycle import Watchdog
from farflung.learner.cli.at_work import at_work
from farflung.learner.config import LearnerConfig

if TYPE_CHECKING:
    from farflung.actor.worlds.gymnasium_check import Checked

UNSHOWN = Parameter(show_default=False)


def check(
    environment: str,
    /,
    *,
    env_args: Annotated[tuple[str, ...], UNSHOWN] = (),
    wrapper: Annotated[tuple[str, ...], UNSHOWN] = (),
    imports: Annotated[tuple[str, ...], Parameter(name="--import", show_default=False)] = (),
    steps: int = 1000,
    step_timeout: float = 60.0,
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Check an environment before a run: Gymnasium's checker, then random steps.

    The exit code is 0 without errors, also with warnings; 1 with errors; 78 if it cannot be made.

    Parameters
    ----------
    environment
        Registered id of the environment, or package.module:Class.
    env_args
        An argument of the environment, as KEY=VALUE or a JSON object; repeatable.
    wrapper
        A registered wrapper, as of `learner --wrapper`; repeatable.
    imports
        Package that registers the environment; repeatable.
    steps
        Random steps to take.
    step_timeout
        Seconds after which a step hangs: the command ends with code 75 and says where; 0: never.
    json
        Print the findings as one line of JSON.
    """
    require(steps >= 1, "--steps must be at least 1")
    require(step_timeout >= 0, "--step-timeout must not be negative")
    with at_work(environment, f"checking {environment}"):
        found = _checked(environment, env_args, wrapper, imports, steps, step_timeout)
    if json:
        document = asdict(found) | {"errors": found.errors}
        sys.stdout.write(json_format.dumps(document) + "\n")
    else:
        sys.stdout.write(text(found))
    return Exit.UNHEALTHY if found.errors else 0


def _checked(
    environment: str,
    env_args: tuple[str, ...],
    wrapper: tuple[str, ...],
    imports: tuple[str, ...],
    steps: int,
    step_timeout: float,
) -> "Checked":
    """Check it, watched for steps that hang."""
    from farflung.actor.worlds import gymnasium_check
    from farflung.actor.worlds.own import environment_id, import_own
    from farflung.learner.core.spec import world_of

    if ":" in environment:  # a class or function, as of --import
        imports, environment = (*imports, environment), environment_id(environment)
    import_own(imports)
    config = LearnerConfig(
        environment=environment, environment_arguments=env_args, wrapper=wrapper, imports=imports
    )
    watchdog = Watchdog(step_timeout)
    try:
        with watchdog:
            return gymnasium_check.check(world_of(config), steps, watchdog.beat)
    finally:
        watchdog.close()


def text(found: "Checked") -> str:
    """Return the findings for people, errors first."""
    ordered = sorted(found.findings, key=lambda finding: finding.severity)
    speed = f", {found.step_us:g} us a step" if found.step_us is not None else ""
    warned = len(found.findings) - found.errors
    lines = [
        f"{found.environment}",
        f"  sees {found.observation}",
        f"  acts {found.action}",
        f"  played {found.steps:,} random steps, {found.episodes:,} episodes ended{speed}",
        *(f"{finding.severity}: {finding.text}" for finding in ordered),
        f"{_count(found.errors, 'error')}, {_count(warned, 'warning')}: "
        + ("correct the errors" if found.errors else "fit for a run"),
    ]
    return "".join(f"{line}\n" for line in lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
