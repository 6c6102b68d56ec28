"""Toy environments that stamp, alias, raise, hang or can be solved by hand.

`--import support.worlds` registers them, with `tests` on PYTHONPATH.
"""

import os
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

Outcome = tuple[Any, float, bool, bool, dict[str, Any]]


class Stamp(gymnasium.Env):
    """Writes (life, episode, step) into its observations: environment, its episode, its step.

    Episode e has `1 + e * 5 % longest` steps. Episodes terminate, or are truncated, or (`mixed`)
    both in turn. The reward of step t is t, or (`own`) the life of the environment.
    """

    def __init__(
        self, longest: int = 9, ending: str = "mixed", in_place: bool = False, own: bool = False
    ) -> None:
        self.observation_space = spaces.Box(0, 2**24, (3,), np.float32)
        self.action_space = spaces.Discrete(4)
        self._longest, self._ending, self._in_place, self._own = longest, ending, in_place, own
        self._array = np.zeros(3, np.float32)
        self._life, self._episode, self._step = 0, -1, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self._episode < 0:
            self._life = int(self.np_random.integers(1, 2**24))
        self._episode, self._step = self._episode + 1, 0
        return self._stamp(), {}

    def step(self, action: Any) -> Outcome:
        self._step += 1
        over = self._step == 1 + self._episode * 5 % self._longest
        terminates = self._ending == "terminated" or (
            self._ending == "mixed" and self._episode % 2 == 0
        )
        reward = float(self._life if self._own else self._step - 1)
        return self._stamp(), reward, over and terminates, over and not terminates, {}

    def _stamp(self) -> Any:
        if not self._in_place:
            self._array = np.empty(3, np.float32)
        self._array[:] = self._life, self._episode, self._step
        return self._array


class Heavy(Stamp):
    """A stamp with steps of 5 ms by the clock `spent_s` of its process, in any thread.

    Each environment raises in its step `breaks`, shows the number of its process from its step
    `tells` on, and its step `stuck` never ends. With `aside`, steps take time in the main thread.
    """

    spent_s: ClassVar[float] = 0.0

    def __init__(
        self, breaks: int = 0, tells: int = 0, stuck: int = 0, aside: bool = False
    ) -> None:
        super().__init__()
        self._breaks, self._tells, self._stuck, self._aside = breaks, tells, stuck, aside
        self._all = 0

    def step(self, action: Any) -> Outcome:
        if not self._aside or threading.current_thread() is threading.main_thread():
            Heavy.spent_s += 0.005
        self._all += 1
        if self._all == self._breaks:
            raise RuntimeError("the arm is stuck")
        if self._all == self._stuck:
            threading.Event().wait()
        seen, reward, terminated, truncated, _ = super().step(action)
        if 0 < self._tells <= self._all:
            seen = seen + np.float32(os.getpid())
        info = {"is_success": self._episode % 2 == 0, "friend": object()}
        return seen, reward, terminated, truncated, info


class Marked(Stamp):
    """Says (episode, step) in its info as well; with `forgets`, not after a reset."""

    def __init__(self, longest: int = 9, forgets: bool = False) -> None:
        super().__init__(longest)
        self._forgets = forgets

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**options)[0], {} if self._forgets else self._mark()

    def step(self, action: Any) -> Outcome:
        return *super().step(action)[:4], self._mark()

    def _mark(self) -> dict[str, Any]:
        return {"mark": np.array([self._episode, self._step])}


class Gates(Stamp):
    """Allows two of four actions, those of this step and of the next one, and raises at others.

    Its mask allows nothing after the last step of an episode, and with `shut` nothing after that
    step. With `mask` its info has this instead.
    """

    def __init__(self, longest: int = 9, shut: int = -1, mask: Any = None) -> None:
        super().__init__(longest)
        self._shut, self._mask, self._legal = shut, mask, np.zeros(4, np.int8)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**options)[0], self._open()

    def step(self, action: Any) -> Outcome:
        if not self._legal[action]:
            raise RuntimeError(f"{action} is not one of the actions {self._legal.tolist()}")
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, self._open(terminated or truncated)

    def _open(self, over: bool = False) -> dict[str, Any]:
        self._legal = np.zeros(4, np.int8)
        if not over and self._step != self._shut:
            self._legal[[self._step % 4, (self._step + 1) % 4]] = 1
        return {"action_mask": self._legal if self._mask is None else np.array(self._mask)}


class Parts(Stamp):
    """A dictionary to see: the stamp, a room from 5 to 7, two dials, a small picture.

    Room and dials follow step and action.
    """

    def __init__(self, longest: int = 9, ending: str = "mixed") -> None:
        super().__init__(longest, ending)
        self.observation_space = spaces.Dict(
            stamp=self.observation_space,
            room=spaces.Discrete(3, start=5),
            dials=spaces.MultiDiscrete([4, 2]),
            picture=spaces.Box(0, 255, (2, 2), np.uint8),
        )
        self.action_space = spaces.Discrete(4, start=-1)
        self._action = -1

    def step(self, action: Any) -> Outcome:
        assert self.action_space.contains(action)
        self._action = int(action)
        return super().step(action)

    def _stamp(self) -> Any:
        dials = np.array([self._action + 1, self._step % 2])
        return {
            "stamp": super()._stamp(),
            "room": 5 + self._step % 3,
            "dials": dials,
            "picture": np.full((2, 2), self._step, np.uint8),
        }


class Picture(Stamp):
    """A screen of 84 by 84 bytes; a half shows the step, the other is incompressible noise."""

    def __init__(self, longest: int = 100) -> None:
        super().__init__(longest)
        self.observation_space = spaces.Box(0, 255, (84, 84), np.uint8)

    def _stamp(self) -> Any:
        picture = np.full((84, 84), self._step, np.uint8)
        picture[:42] = self.np_random.integers(256, size=(42, 84), dtype=np.uint8)
        return picture


class Faulty(Stamp):
    """Raises at these calls of this process: `makes`, `resets`, `steps`, `closes`, from 0."""

    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self, longest: int = 9, **faults: Sequence[int]) -> None:
        super().__init__(longest)
        self._faults = faults
        self._count("makes")

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self._count("resets")
        return super().reset(**options)

    def step(self, action: Any) -> Outcome:
        self._count("steps")
        return super().step(action)

    def close(self) -> None:
        self._count("closes")

    def _count(self, what: str) -> None:
        self.counts[what] += 1
        if self.counts[what] - 1 in self._faults.get(what, ()):
            raise RuntimeError(f"one of the {what} failed")


class Stuck(Stamp):
    """Hangs at its third step, for ever."""

    def step(self, action: Any) -> Outcome:
        if self._step == 2:
            threading.Event().wait()
        return super().step(action)


class Corridor(gymnasium.Env):
    """Five cells, seen one-hot; 0 goes left and 1 goes right.

    A step to the right out of the last cell earns 1 and ends the episode.
    """

    def __init__(self, cells: int = 5) -> None:
        self.observation_space = spaces.Box(0, 1, (cells,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._cells, self._cell = cells, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._cell = int(self.np_random.integers(self._cells))
        return self._seen(), {}

    def step(self, action: Any) -> Outcome:
        self._cell = max(0, self._cell + (1 if action else -1))
        home = self._cell == self._cells
        return self._seen(), float(home), home, False, {}

    def _seen(self) -> Any:
        return np.eye(self._cells + 1, self._cells, dtype=np.float32)[self._cell]


class Locks(gymnasium.Env):
    """Allows two of three positions of one dial and one of two of the other, and raises at others.

    Which ones follows from the step: those of it and of the next one, and its parity. The positions
    of the first dial count from 5. Its mask is one array, a `tuple` or of all `combinations`.
    """

    def __init__(self, form: str = "flat") -> None:
        self.observation_space = spaces.Box(0, 8, (1,), np.float32)
        self.action_space = spaces.MultiDiscrete([3, 2], start=[5, 0])
        self._form, self._step = form, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return self._seen(), self._open()

    def step(self, action: Any) -> Outcome:
        assert self.action_space.contains(action)
        first, second = self.legal(self._step)
        if not first[action[0] - 5] or not second[action[1]]:
            raise RuntimeError(f"{action} is not legal in step {self._step}")
        self._step += 1
        reward = float(action[0] - 5 == self._step % 3)
        return self._seen(), reward, False, self._step == 8, self._open()

    @staticmethod
    def legal(step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the masks of both dials in a step."""
        first = np.ones(3, np.int8)
        first[(step + 2) % 3] = 0
        return first, (np.arange(2) == step % 2).astype(np.int8)

    def _open(self) -> dict[str, Any]:
        first, second = self.legal(self._step)
        masks = {
            "flat": np.concatenate([first, second]),
            "tuple": (first, second),
            "combinations": np.outer(first, second),
            "shut": np.concatenate([first, 0 * second]),
        }
        return {"action_mask": masks[self._form]}

    def _seen(self) -> Any:
        return np.full(1, self._step, np.float32)


class Dials(gymnasium.Env):
    """Shows a number of three; as many dials, or with `smooth` one lever, should show it too.

    With `late` it is the number before that one, from the second step on. A step earns minus the
    distance from it, at best 0. An episode has 8 steps.
    """

    def __init__(self, smooth: bool = False, late: bool = False) -> None:
        self.observation_space = spaces.Box(0, 1, (3,), np.float32)
        self.action_space = (
            spaces.Box(-2, 2, (1,), np.float32) if smooth else spaces.MultiDiscrete([3, 3])
        )
        self._number, self._before, self._step = 0, 0, 0
        self._smooth, self._late = smooth, late

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        return self._seen(), {}

    def step(self, action: Any) -> Outcome:
        assert self.action_space.contains(action)
        number = self._before if self._late and self._step else self._number
        wanted = number - 1.0 if self._smooth else number
        distance = float(np.abs(np.asarray(action) - wanted).mean())
        self._step += 1
        return self._seen(), -distance, False, self._step == 8, {}

    def _seen(self) -> Any:
        self._before, self._number = self._number, int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self._number]


class Spoilt(Corridor):
    """A corridor with an odd number in its fifth step.

    The reward or, with `seen`, the observation.
    """

    def __init__(self, odd: str = "nan", seen: bool = False) -> None:
        super().__init__()
        self._odd, self._spoils_seen, self._steps = float(odd), seen, 0

    def step(self, action: Any) -> Outcome:
        self._steps += 1
        seen, reward, *ends, facts = super().step(action)
        if self._steps != 5:
            return seen, reward, *ends, facts
        return (
            (seen * 0 + self._odd, reward, *ends, facts)
            if self._spoils_seen
            else (seen, self._odd, *ends, facts)
        )


class Echo(gymnasium.Env):
    """Shows its continuous action, then spoils it; with `wrong`, leaves its observation space."""

    def __init__(self, wrong: Any = None) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float64)
        self.action_space = spaces.Box(
            np.array([-0.1, 0.0]), np.array([0.1, np.inf]), dtype=np.float64
        )
        self._wrong = wrong

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2) if self._wrong is None else np.array(self._wrong), {}

    def step(self, action: Any) -> Outcome:
        assert self.action_space.contains(action)
        shown = action.copy()
        action[:] = 99
        return shown, 0.0, False, False, {}


class Shown(Corridor):
    """A corridor that renders frames of odd sides: each cell is as bright as its number.

    With `wrong` it renders something else, or raises.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(self, render_mode: str | None = None, wrong: str = "") -> None:
        super().__init__()
        self.render_mode, self._wrong = render_mode, wrong

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        if self._wrong == "raises":
            raise RuntimeError("the screen fell off the wall")
        if self._wrong == "lacks":
            raise gymnasium.error.DependencyNotInstalled("pygame is not installed")
        if self._wrong == "nothing":
            return None
        frame = np.full((33, 45, 3), 40 * self._cell, np.uint8)
        frame[:8] = 255
        return frame


class Window(Corridor):
    """A corridor that shows each of its states in a window, as `human` environments do."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["human"], "render_fps": 1000}
    shown: ClassVar[list[int]] = []  # the cells that windows of this process showed

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        begun = super().reset(**options)
        self._show()
        return begun

    def step(self, action: Any) -> Outcome:
        outcome = super().step(action)
        self._show()
        return outcome

    def _show(self) -> None:
        if self.render_mode == "human":
            self.shown.append(self._cell)


class Endless(Stamp):
    """Its episodes never end."""

    def step(self, action: Any) -> Outcome:
        observation, reward, *_ = super().step(action)
        return observation, reward, False, False, {}


class Lies(Endless):
    """From its third step on, it returns each of `what` in turn as observation, or this reward."""

    def __init__(self, what: Sequence[Any] = (), reward: Any = None) -> None:
        super().__init__()
        self._what, self._reward = list(what), reward

    def step(self, action: Any) -> Outcome:
        observation, reward, *rest = super().step(action)
        if self._step < 3:
            return observation, reward, *rest
        if self._what:
            observation = self._what[0]
            self._what = self._what[1:] + self._what[:1]
        return observation, reward if self._reward is None else self._reward, *rest


class Numbers(Lies):
    """The same with numbers from 1 to 4 to see."""

    def __init__(self, what: Sequence[Any] = ()) -> None:
        super().__init__(what)
        self.observation_space = spaces.Discrete(4, start=1)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        _, info = super().reset(**options)
        return 4, info

    def step(self, action: Any) -> Outcome:
        _, *rest = super().step(action)
        return (self._what[0] if self._what and self._step >= 3 else 1), *rest


class Declared(gymnasium.Env):
    """A world that only declares its spaces, as for a robot."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(4)


class Odd(gymnasium.Env):
    """Has the spaces that its arguments name."""

    def __init__(
        self, observation: spaces.Space | None = None, action: spaces.Space | None = None
    ) -> None:
        self.observation_space = spaces.Discrete(2) if observation is None else observation
        self.action_space = spaces.Discrete(2) if action is None else action


class Homeless(gymnasium.Env):
    """Needs a package that is not installed."""

    def __init__(self, lacks: str = "Box2D") -> None:
        raise gymnasium.error.DependencyNotInstalled(
            f"{lacks} is not installed,\n run `pip install swig`"
        )


class Graded(Stamp):
    """Reports metrics at the end of each episode: success in every second, and its number.

    `odd` is no number, and `half` is there in every second episode.
    """

    def step(self, action: Any) -> Outcome:
        observation, reward, terminated, truncated, _ = super().step(action)
        info: dict[str, Any] = {"is_success": True, "number": -1.0}
        if terminated or truncated:
            info = {"is_success": self._episode % 2 == 0, "number": np.float32(self._episode)}
            info |= {"half": 0.5} if self._episode % 2 else {}
            info |= {"odd": [1, 2]}
        return observation, reward, terminated, truncated, info


def vectorised(environment: type[gymnasium.Env], mode: AutoresetMode) -> Any:
    """Return a maker of vector environments with this mode of new episodes."""
    return lambda num_envs, **arguments: SyncVectorEnv(
        [lambda: environment(**arguments)] * num_envs, autoreset_mode=mode
    )


class Duel(gymnasium.Env):
    """Plays an opponent of its own: three steps a game, which the last action wins or loses.

    Games are against random actions and the opponent 9 in turn, in two seats.
    """

    observation_space = spaces.Box(0, 3, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self._game, self._turn = -1, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._game, self._turn = self._game + 1, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Outcome:
        self._turn += 1
        over = self._turn == 3
        outcome = (1.0 if action else -1.0) if over else 0.0
        game = {"opponent": (0, 9)[self._game % 2], "seat": self._game // 2 % 2, "outcome": outcome}
        return np.full(1, self._turn, np.float32), outcome, over, False, game if over else {}


for _environment in (
    Stamp,
    Heavy,
    Marked,
    Gates,
    Parts,
    Picture,
    Faulty,
    Stuck,
    Corridor,
    Dials,
    Locks,
    Spoilt,
    Echo,
    Shown,
    Window,
    Lies,
    Numbers,
    Declared,
    Endless,
    Odd,
    Homeless,
    Graded,
    Duel,
):
    gymnasium.register(f"toys/{_environment.__name__}-v0", _environment)
for _environment in (Stamp, Parts, Faulty, Graded):
    for _mode in AutoresetMode:
        _name = f"toys/{_environment.__name__}{_mode.name.title().replace('_', '')}-v0"
        gymnasium.register(_name, _environment, vector_entry_point=vectorised(_environment, _mode))
