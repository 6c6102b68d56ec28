"""`learner check`: an environment or an algorithm is checked before a run."""

import json as json_format
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from farflung.common.process.config import require
from farflung.common.process.errors import Exit
from farflung.common.process.lifecycle import Watchdog
from farflung.learner.algorithms.builtin import find
from farflung.learner.cli.at_work import at_work
from farflung.learner.config import LearnerConfig, load

if TYPE_CHECKING:
    from farflung.actor.worlds.findings import Checked

UNSHOWN = Parameter(show_default=False)
CONTINUOUS = ("gaussian", "squashed_gaussian", "deterministic")  # heads of numbers


def check(
    environment: Annotated[str, Parameter(name="--env", show_default=False)] = "",
    *,
    env_args: Annotated[tuple[str, ...], UNSHOWN] = (),
    wrapper: Annotated[tuple[str, ...], UNSHOWN] = (),
    imports: Annotated[tuple[str, ...], Parameter(name="--import", show_default=False)] = (),
    algorithm: Annotated[str, UNSHOWN] = "",
    model: Annotated[str, UNSHOWN] = "",
    steps: int = 1000,
    step_timeout: float = 60.0,
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Check an environment before a run, or with --algorithm an algorithm, in under a minute.

    An environment meets the checker of its package, then random steps; an algorithm learns in
    short runs. The exit code is 0 without errors, 1 with some; 78 if an environment cannot be made.

    Parameters
    ----------
    environment
        Registered id of the environment, or package.module:Class. With --algorithm it may be left
        out: CartPole-v1 or Pendulum-v1 then.
    env_args
        An argument of the environment, as KEY=VALUE or a JSON object; repeatable.
    wrapper
        A registered wrapper, as of `learner --wrapper`; repeatable.
    imports
        Package that registers the environment; repeatable.
    algorithm
        Algorithm to check: a built-in name, or your own as package.module:Class.
    model
        Function package.module:function that makes its network, instead of the built-in one.
    steps
        Random steps to take in an environment.
    step_timeout
        Seconds after which a step hangs: the command ends with code 75 and says where; 0: never.
    json
        Print the findings as one line of JSON.
    """
    require(steps >= 1, "--steps must be at least 1")
    require(step_timeout >= 0, "--step-timeout must not be negative")
    require(bool(environment or algorithm), "name an environment, or --algorithm, or both")
    require(bool(algorithm) or not model, "--model is the network of an --algorithm: name that too")
    world = World(environment, env_args, wrapper, imports)
    with at_work(environment or algorithm, f"checking {algorithm or environment}"):
        found = _found(world, steps, algorithm, model, step_timeout)
    document = asdict(found) | {"errors": found.errors}
    sys.stdout.write(json_format.dumps(document) + "\n" if json else text(found))
    return Exit.UNHEALTHY if found.errors else 0


class World(NamedTuple):
    """An environment as the command line names it."""

    environment: str
    arguments: tuple[str, ...]
    wrappers: tuple[str, ...]
    imports: tuple[str, ...]

    def imported(self) -> "World":
        """Return it under its registered id, imported."""
        from farflung.actor.worlds.own import environment_id, import_own

        environment, imports = self.environment, self.imports
        if ":" in environment:  # a class or function, as of --import
            imports, environment = (*imports, environment), environment_id(environment)
        import_own(imports)
        return self._replace(environment=environment, imports=imports)


def _found(world: World, steps: int, algorithm: str, model: str, step_timeout: float) -> "Checked":
    """Return the findings, watched for steps that hang."""
    watchdog = Watchdog(step_timeout)
    try:
        with watchdog:
            if algorithm:
                return of_algorithm(algorithm, model, world, watchdog.beat)
            return of_environment(world, steps, watchdog.beat)
    finally:
        watchdog.close()


def of_environment(world: World, steps: int, beat: Callable[[], None]) -> "Checked":
    """Check an environment."""
    from farflung.actor.worlds import families
    from farflung.learner.core.spec import world_of

    world = world.imported()
    config = LearnerConfig(
        environment=world.environment,
        environment_arguments=world.arguments,
        wrapper=world.wrappers,
        imports=world.imports,
    )
    return families.check(world_of(config), steps, beat)


def of_algorithm(algorithm: str, model: str, world: World, beat: Callable[[], None]) -> "Checked":
    """Check an algorithm in an environment, or in a built-in one for its actions."""
    from farflung.actor.worlds import families
    from farflung.learner.cli import check_algorithm
    from farflung.learner.core.spec import world_of

    world = world.imported()
    if not world.environment:
        world = world._replace(environment=built_in_world(algorithm))
    teacher = None
    if algorithm == "bc":  # it learns from demonstrations alone
        teacher = configured("dqn", "", world)
    config = configured(algorithm, model, world, bool(teacher))
    families.describe(world_of(config))  # refuses one that cannot be made
    beat()  # the import of torch was no step
    return check_algorithm.check(config, beat, teacher)


def built_in_world(algorithm: str) -> str:
    """Return an environment with actions that an algorithm takes, by its head."""
    head = getattr(find(algorithm), "head", "")
    require(
        head != "multi_logits",
        f"{algorithm} makes several choices at once, and no built-in environment asks for such: "
        "name one with --env",
    )
    return "Pendulum-v1" if head in CONTINUOUS else "CartPole-v1"


def configured(algorithm: str, model: str, world: World, shown: bool = False) -> LearnerConfig:
    """Return the configuration of a small sequential run with the defaults of the algorithm."""
    words = ["--algorithm", algorithm, "--env", world.environment, "--mode", "sequential"]
    words += ["--evaluate-every", "0", "--seed", "0"]
    for flag, values in (
        ("--model", (model,) if model else ()),
        ("--env-args", world.arguments),
        ("--wrapper", world.wrappers),
        ("--demos", ("shown",) if shown else ()),
    ):
        words += [word for value in values for word in (flag, value)]
    return load(words).config


def text(found: "Checked") -> str:
    """Return the findings for people, errors first."""
    ordered = sorted(found.findings, key=lambda finding: finding.severity)
    speed = f", {found.step_us:g} us a step" if found.step_us is not None else ""
    warned = len(found.findings) - found.errors
    played = f"{found.steps:,} steps, {found.updates:,} updates"
    lines = [
        f"{found.algorithm} in {found.environment}" if found.algorithm else f"{found.environment}",
        f"  sees {found.observation}",
        f"  acts {found.action}",
        f"  played {played if found.algorithm else f'{found.steps:,} random steps'}, "
        f"{found.episodes:,} episodes ended{speed}",
        *(f"ok: {sentence}" for sentence in found.shown),
        *(f"{finding.severity}: {finding.text}" for finding in ordered),
        f"{_count(found.errors, 'error')}, {_count(warned, 'warning')}: "
        + ("correct the errors" if found.errors else "fit for a run"),
    ]
    return "".join(f"{line}\n" for line in lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
