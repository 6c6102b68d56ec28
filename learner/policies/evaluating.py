"""Evaluation of a run's checkpoint: episodes as its evaluator plays them, on other start states."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from farflung.actor import unrecorded
from farflung.actor.acting.policy import Policy
from farflung.actor.connection.port import Joined
from farflung.actor.evaluator import Evaluator
from farflung.actor.play import Fixed, Play
from farflung.actor.worlds import families
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.parcel import Results
from farflung.common.data.spec import Evaluation, Spec, World
from farflung.common.data.statistics import Interval, confidence
from farflung.common.data.weights import Weights
from farflung.common.heads import Chooser
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop
from farflung.learner.policies.asked import Asked
from farflung.learner.policies.imports import import_packages_of
from farflung.learner.policies.sides import Side, of_run, of_team
from farflung.learner.policies.video import Camera, Film, rate

SEATS = 20  # environments side by side, at most
ROLE = "evaluate"  # in the seed tree: no evaluation of the run itself begins in these states


@dataclass(frozen=True)
class Evaluated:
    """Finished episodes of one checkpoint."""

    spec: Spec
    checkpoint: str
    weights: Weights
    results: Results
    asked: Asked
    frames: int = 0

    @property
    def interval(self) -> Interval:
        """The mean return with its 95 % interval."""
        return confidence(self.results.returns.tolist())

    @property
    def cut(self) -> int:
        """Episodes that reached the cap of steps."""
        return int((self.results.lengths >= self.asked.max_steps).sum())


@dataclass
class Show:
    """The environments of an evaluation: the first may be filmed, or all be in a window."""

    asked: Asked
    film: Film | None = None
    camera: Camera | None = None
    made: int = field(default=0)

    def make(self, world: World) -> Any:
        """Return one more environment."""
        self.made += 1
        if self.asked.render:
            return require_window(families.make(world, "human"), world.environment)
        if self.asked.video is None or self.made > 1:
            return families.make(world)
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames need no screen
        environment = families.make(world, "rgb_array")
        self.film = Film(self.asked.video, rate(environment))
        self.camera = Camera(environment, self.film, self.asked.video_episodes)
        return self.camera

    def check(self, name: str) -> None:
        """Raise the error that ended the film, if one did."""
        problem = self.camera.problem if self.camera is not None else None
        if problem is None:
            return
        missing = "not installed" in str(problem)
        advice = ": pip install 'farflung[video]'" if missing else ""
        raise ConfigurationError(f"{name} cannot be filmed: {problem}{advice}") from problem

    def close(self, whole: bool) -> None:
        """End the film."""
        if self.film is not None and whole:
            self.film.close()
        elif self.film is not None:
            self.film.abandon()


def require_window(environment: Any, name: str) -> Any:
    """Return an environment that shows itself, or refuse it."""
    modes = getattr(environment, "metadata", {}).get("render_modes", ())
    if "human" not in (*modes, getattr(environment, "render_mode", None)):
        raise ConfigurationError(
            f"{name} has no window: its render modes are {', '.join(map(str, modes)) or 'none'}. "
            "--video FILE.mp4 films one that has rgb_array"
        )
    return environment


def unseen(environ: Mapping[str, str], system: str) -> str:
    """Return a sentence if a window would be seen nowhere, as in a session without a screen."""
    known = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    if not system.startswith("linux") or any(environ.get(name) for name in known):
        return ""
    return (
        "this session has no screen (DISPLAY is not set), so a window would be seen nowhere: "
        "--video FILE.mp4 films instead"
    )


def evaluate(
    run_folder: Path,
    asked: Asked,
    stop: Stop,
    on_problem: Callable[[str, str], None],
    on_progress: Callable[[int, int], None] = lambda steps, episodes: None,
) -> Evaluated:
    """Play episodes of a run's checkpoint until there are enough or `stop` is set.

    Where it is one policy of several, the other runs of its team play the other agents.
    """
    sides = of_run(run_folder, asked.checkpoint)
    return _evaluated(sides, 1, asked, stop, on_problem, on_progress)[0]


def evaluate_team(
    folder: Path,
    asked: Asked,
    stop: Stop,
    on_problem: Callable[[str, str], None],
    on_progress: Callable[[int, int], None] = lambda steps, episodes: None,
) -> list[Evaluated]:
    """Play episodes of all policies of a team together, until each that learned has enough."""
    sides = of_team(folder, asked.checkpoint)
    learned = sum(side.learned for side in sides)
    return _evaluated(sides, learned, asked, stop, on_problem, on_progress)


def _evaluated(
    sides: Sequence[Side],
    counted: int,  # of the sides, the first ones
    asked: Asked,
    stop: Stop,
    on_problem: Callable[[str, str], None],
    on_progress: Callable[[int, int], None],
) -> list[Evaluated]:
    """Return what came out for the sides that count."""
    for side in sides:
        import_packages_of(side.folder)
    world = sides[0].spec.world
    if asked.video is not None and families.has_agents(world):
        raise ConfigurationError(
            f"{world.environment} has several agents, and only environments of one are "
            "filmed: leave --video out, or take --render for a window"
        )
    show = Show(asked)
    if asked.render and (sentence := unseen(os.environ, sys.platform)):
        on_problem("--render", sentence)
    evaluators = {side.spec.policy: _evaluator(side.spec, asked) for side in sides}
    whole = False
    try:
        _play(sides, evaluators, counted, show, stop, on_problem, on_progress)
        whole = True
    finally:
        show.close(whole)
    frames = show.film.frames if show.film is not None else 0
    found = []
    for side in sides[:counted]:
        (parcel,) = evaluators[side.spec.policy].parcels()
        results = parcel.results
        found.append(Evaluated(side.spec, side.checkpoint, side.weights, results, asked, frames))
    return found


def _evaluator(spec: Spec, asked: Asked) -> Evaluator:
    heads.require(spec)
    seats = spec.agents * _environments(asked)
    return Evaluator(_played(spec, asked), seats, Policy(spec.graph), _chooser(spec, seats, asked))


def _played(spec: Spec, asked: Asked) -> Spec:
    return structs.replace(spec, evaluation=Evaluation(1, asked.episodes, asked.max_steps))


def _environments(asked: Asked) -> int:
    return 1 if asked.render else min(asked.episodes, SEATS)


def _chooser(spec: Spec, seats: int, asked: Asked) -> Chooser:
    head = heads.find(spec.head)
    if not asked.as_trained:
        return head.greedy(spec)
    own = spec.world.branch(spec.policy)
    rng = seeds.generator(spec.world.seed, ROLE, *own, asked.seed)
    return head.explorer(spec, seats, 0, rng)


def _play(
    sides: Sequence[Side],
    evaluators: Mapping[str, Evaluator],
    counted: int,
    show: Show,
    stop: Stop,
    on_problem: Callable[[str, str], None],
    on_progress: Callable[[int, int], None],
) -> None:
    around = Surroundings(on_problem, stop.wait, _no_time)
    asked = {side.spec.policy: Joined(_played(side.spec, show.asked), 0, 0) for side in sides}
    everyone = unrecorded.with_scripts(asked)
    world = families.open_shared(
        {policy: joined.spec for policy, joined in everyone.items()},
        _environments(show.asked),
        key=(ROLE, show.asked.seed),
        around=around,
        cut=True,
        make_one=show.make,
    )
    try:
        scripts = {
            policy: unrecorded.player(joined, len(world.seats[policy]), ROLE)
            for policy, joined in everyone.items()
            if policy not in evaluators
        }
        play = Play(world, evaluators, scripts)
        play.begin_each(
            {each.spec.policy: Fixed(each.weights, each.weights.steps) for each in sides}
        )
        play.reset()
        show.check(sides[0].spec.world.environment)
        counting = [evaluators[side.spec.policy] for side in sides[:counted]]
        steps = 0
        while not all(evaluator.full for evaluator in counting) and not stop:
            steps += play.step()
            on_progress(steps, min(evaluator.finished for evaluator in counting))
        show.check(sides[0].spec.world.environment)
    finally:
        world.close()


def _no_time() -> float:
    return 0.0
