"""Evaluation of a run's checkpoint: episodes as its evaluator plays them, on other start states."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

from farflung.actor.acting.policy import Policy
from farflung.actor.evaluator import Evaluator
from farflung.actor.play import Play
from farflung.actor.worlds import gymnasium
from farflung.actor.worlds.gymnasium import Surroundings
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
from farflung.learner.policies.loading import default_checkpoint
from farflung.learner.policies.own_code import import_own
from farflung.learner.policies.video import Camera, Film, rate
from farflung.learner.storage import policies

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
            return require_window(gymnasium.make(world, "human"), world.environment)
        if self.asked.video is None or self.made > 1:
            return gymnasium.make(world)
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames need no screen
        environment = gymnasium.make(world, "rgb_array")
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
    """Play episodes of a run's checkpoint until there are enough or `stop` is set."""
    spec = policies.read_spec(run_folder)
    import_own(run_folder)
    checkpoint = asked.checkpoint or default_checkpoint(run_folder)
    weights = policies.read_weights(run_folder, spec, checkpoint)
    seats = 1 if asked.render else min(asked.episodes, SEATS)
    wanted = Evaluation(1, asked.episodes, asked.max_steps)
    played = gymnasium.capped(structs.replace(spec, evaluation=wanted))
    heads.require(spec)
    evaluator = Evaluator(played, seats, Policy(spec.graph), _chooser(spec, seats, asked))
    show = Show(asked)
    if asked.render and (sentence := unseen(os.environ, sys.platform)):
        on_problem("--render", sentence)
    whole = False
    try:
        _play(played, evaluator, weights, show, stop, on_problem, on_progress)
        whole = True
    finally:
        show.close(whole)
    (parcel,) = evaluator.parcels()
    frames = show.film.frames if show.film is not None else 0
    return Evaluated(spec, checkpoint, weights, parcel.results, asked, frames)


def _chooser(spec: Spec, seats: int, asked: Asked) -> Chooser:
    head = heads.find(spec.head)
    if not asked.as_trained:
        return head.greedy(spec)
    return head.explorer(spec, seats, 0, seeds.generator(spec.world.seed, ROLE, asked.seed))


def _play(
    spec: Spec,
    evaluator: Evaluator,
    weights: Weights,
    show: Show,
    stop: Stop,
    on_problem: Callable[[str, str], None],
    on_progress: Callable[[int, int], None],
) -> None:
    around = Surroundings(on_problem, stop.wait, _no_time)
    key = ROLE, show.asked.seed
    seats = 1 if show.asked.render else min(show.asked.episodes, SEATS)
    world = gymnasium.open_world(spec, seats, key=key, around=around, make_one=show.make)
    try:
        play = Play(world, {spec.policy: evaluator})
        play.begin(weights, weights.steps)
        play.reset()
        show.check(spec.world.environment)
        steps = 0
        while not play.full and not stop:
            steps += play.step()
            on_progress(steps, evaluator.finished)
        show.check(spec.world.environment)
    finally:
        world.close()


def _no_time() -> float:
    return 0.0
