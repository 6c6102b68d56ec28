"""Stored transitions are exact, end to end: environment, collector, bytes, gate, replay.

The environment stamps (start, episode, step) into what it shows, rewards with the step, and the
action is chosen by the stamp. So each stored row says where it belongs, and what it must hold
follows from the rules of that environment alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from support.learner_double import LearnerDouble
from support.makers import a_frame, a_spec, some_weights
from support.playing import seated, window

from farflung.actor.play import Play, Player
from farflung.common.data.spec import Space, World
from farflung.common.heads import Choice
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.transitions import Transitions

LONGEST = 9
GAMMA = 0.9


@dataclass(frozen=True)
class Case:
    """One way of collecting and storing."""

    horizon: int
    n: int
    windows: int
    capacity: int = 20_011
    seats: int = 3
    stack: int = 1
    ending: str = "mixed"
    in_place: bool = False


CASES = {
    "horizon 1": Case(1, 1, windows=60),
    "horizon 7": Case(7, 1, windows=20),
    "horizon 7, n = 3": Case(7, 3, windows=20),
    "horizon 7, n = 7": Case(7, 7, windows=20),
    "horizon 1000": Case(1000, 1, windows=1),
    "horizon 1000, n = 5": Case(1000, 5, windows=1, seats=2),
    "prime ring": Case(7, 3, windows=40, capacity=101),
    "prime ring, horizon 1": Case(1, 1, windows=200, capacity=101),
    "prime ring smaller than a parcel": Case(40, 2, windows=5, capacity=53),
    "stacked": Case(7, 3, windows=20, stack=3),
    "stacked in a prime ring": Case(7, 1, windows=40, capacity=211, stack=2),
    "one seat": Case(7, 2, windows=20, seats=1),
    "always terminated": Case(7, 3, windows=20, ending="terminated"),
    "always truncated": Case(7, 3, windows=20, ending="truncated"),
    "one array, overwritten in place": Case(7, 3, windows=20, in_place=True),
    "one array, overwritten in place, stacked": Case(7, 3, windows=20, in_place=True, stack=2),
}
STARTS = 3  # lives of the actor; each is killed in the middle of a window


class Stamped:
    """Policy and explorer in one: the answer is the newest stamp, the action follows from it."""

    def load(self, weights: object) -> None:
        """Any weights will do."""

    def answer(self, inputs):
        newest = inputs["observations"]
        return [newest[:, -1] if newest.ndim == 3 else newest]

    def begin(self, horizon: int, steps: int) -> None:
        """Nothing is drawn."""

    def choose(self, at, outputs):
        return Choice(outputs[0].astype(np.int64).sum(axis=1) % 4)


@dataclass(frozen=True)
class Row:
    """One step as it must be stored."""

    frames: list[tuple[int, int, int]]  # the stack, oldest first
    action: int
    returned: float
    discount: float
    bootstrap: list[tuple[int, int, int]]
    terminal: bool  # the last step of an episode that terminated
    truncated: bool


def length(episode: int) -> int:
    return 1 + episode * 5 % LONGEST


def row(case: Case, life: int, episode: int, step: int, left: int) -> Row:
    """Return the row that the rules of the environment demand.

    So many steps are left in the window.
    """

    def stack(newest: int) -> list[tuple[int, int, int]]:
        return [(life, episode, max(0, newest - back)) for back in range(case.stack - 1, -1, -1)]

    ends = case.ending == "terminated" or (case.ending == "mixed" and episode % 2 == 0)
    span = min(case.n, length(episode) - step, left)
    final = step + span == length(episode)
    return Row(
        frames=stack(step),
        action=(life + episode + step) % 4,
        returned=sum(GAMMA**i * (step + i) for i in range(span)),
        discount=0.0 if final and ends else GAMMA**span,
        bootstrap=stack(step + span),
        terminal=ends and step + 1 == length(episode),
        truncated=not ends and step + 1 == length(episode),
    )


def expected(case: Case, lives: list[int]) -> Iterator[Row]:
    """The rows of one life of an actor in the order in which they are stored.

    Window after window, seat after seat.
    """
    at = [(0, 0)] * case.seats
    for _ in range(case.windows):
        for seat, life in enumerate(lives):
            for left in range(case.horizon, 0, -1):
                episode, step = at[seat]
                yield row(case, life, episode, step, left)
                at[seat] = (episode, step + 1) if step + 1 < length(episode) else (episode + 1, 0)


class EveryRow(Uniform):
    """A sampler of every stored row, once and in order."""

    def sample(self, update: int, stored: range) -> tuple[np.ndarray, None]:
        return np.array(stored), None


@dataclass(frozen=True)
class Stored:
    """The rows of a replay, and the rows that it must hold."""

    batch: object
    rows: list[Row]
    collected: int
    ledger: object

    @property
    def terminal(self) -> np.ndarray:
        return np.array([row.terminal for row in self.rows])

    @property
    def truncated(self) -> np.ndarray:
        return np.array([row.truncated for row in self.rows])


def collected(case: Case, world, spec, windows: int, weights, extra: int) -> Iterator[object]:
    """The parcels of one life, which is killed so many steps into one window more."""
    stamped = Stamped()
    play = Play(world, {spec.policy: Player(spec, case.seats, stamped, stamped)})
    play.reset()
    for _ in range(windows):
        yield from window(play, weights, policy=spec.policy)
    play.begin(weights, 0)
    for _ in range(extra):
        play.step()


@pytest.fixture(scope="module")
def store() -> Callable[[str], Stored]:
    """Return a function that plays a case once and returns the stored rows."""
    known: dict[str, Stored] = {}

    def play(case: Case) -> Stored:
        world = World(
            "toys/Stamp-v0",
            {"longest": LONGEST, "ending": case.ending, "in_place": case.in_place},
            seed=11,
        )
        spec = a_spec(
            world=world,
            observation={"": Space("box", "float32", (3,))},
            action=Space("discrete", "int64", (), (4,)),
            horizon=case.horizon,
            stack=case.stack,
        )
        rows = Transitions(spec, n_step=case.n, gamma=GAMMA)
        replay = Replay(spec, rows, EveryRow(1, seed=0), capacity=case.capacity)
        receiver = LearnerDouble(spec, versions=0).receiver
        wanted: list[Row] = []

        for start in range(STARTS):
            due = seated(spec, case.seats, start=start).reset().due[spec.policy]
            lives = [int(stamp[0]) for stamp in due.columns["observations"]]
            wanted += expected(case, lives)
            parcels = collected(
                case,
                seated(spec, case.seats, start=start),
                spec,
                case.windows,
                some_weights(spec),
                extra=case.horizon // 2,
            )
            for sequence, parcel in enumerate(parcels, 1):
                frame = a_frame(spec, parcel, incarnation=start, sequence=sequence)
                for _ in range(2):  # sent again, as after a lost acknowledgement
                    item = receiver.receive(bytearray(frame), 0.0)
                    if item is not None:
                        replay.add(item.content)
                        receiver.settle(item.envelope)
        return Stored(replay.sample(0), wanted[-replay.size :], len(wanted), receiver.inbox.ledger)

    def stored(name: str) -> Stored:
        if name not in known:
            known[name] = play(CASES[name])
        return known[name]

    return stored


@pytest.fixture(params=CASES)
def stored(store, request) -> Stored:
    """Return the stored rows of each case."""
    return store(request.param)


def stamps(observations: np.ndarray) -> np.ndarray:
    """The newest stamp of each row, [B, 3]."""
    return observations[:, -1] if observations.ndim == 3 else observations


def test_every_row_is_where_it_belongs(stored):
    """Observations with their stacks, and the action that was taken there, in the order in which
    they were collected.
    """
    frames = stored.batch.observations[""]
    np.testing.assert_array_equal(
        frames.reshape(len(frames), -1, 3),
        np.array([row.frames for row in stored.rows], np.float32),
    )
    np.testing.assert_array_equal(stored.batch.actions, [row.action for row in stored.rows])


def test_no_row_crosses_an_episode(stored):
    """Life and episode of the bootstrap observation, and of every frame in both stacks, are those
    of the observation.
    """
    before, after = stored.batch.observations[""], stored.batch.next_observations[""]
    places = np.concatenate(
        [frames.reshape(len(frames), -1, 3)[..., :2] for frames in (before, after)], axis=1
    )
    assert (places == places[:, :1]).all()


def test_bootstrap_observations_are_right_at_every_ending(stored):
    """n steps ahead, or the last one of the episode or the window, never the first of the next
    episode.
    """
    frames = stored.batch.next_observations[""]
    np.testing.assert_array_equal(
        frames.reshape(len(frames), -1, 3),
        np.array([row.bootstrap for row in stored.rows], np.float32),
    )


def test_n_step_returns_are_right_at_every_ending(stored):
    """The discounted sum of the rewards until the bootstrap observation, and its discount."""
    np.testing.assert_allclose(
        stored.batch.returns, [row.returned for row in stored.rows], rtol=1e-5
    )
    np.testing.assert_allclose(
        stored.batch.discounts, [row.discount for row in stored.rows], rtol=1e-6
    )


def test_every_terminal_step_is_there_and_bootstraps_nothing(stored):
    """The step that ended the world is among the rows, with discount 0."""
    steps = stamps(stored.batch.observations[""])
    lasts = {
        tuple(stamp)
        for stamp, terminal in zip(steps.tolist(), stored.terminal, strict=True)
        if terminal
    }
    assert len(lasts) == stored.terminal.sum()
    assert (stored.batch.discounts[stored.terminal] == 0).all()


def test_truncation_bootstraps(stored):
    """A truncated episode has a value ahead.

    It is that of the episode's last observation, one step away.
    """
    rows = stored.truncated
    np.testing.assert_allclose(stored.batch.discounts[rows], GAMMA, rtol=1e-6)
    ahead = (
        stamps(stored.batch.next_observations[""])[rows]
        - stamps(stored.batch.observations[""])[rows]
    )
    assert (ahead == [0, 0, 1]).all()


def test_resent_parcels_count_once(stored):
    """Each came twice; half of them are duplicates."""
    assert stored.ledger.accepted == stored.ledger.duplicate
    assert stored.ledger.balanced


@pytest.mark.parametrize("name", [name for name in CASES if "prime" not in name])
def test_nothing_is_missing(store, name):
    """A replay with room for all rows holds all of them.

    They are seats x windows x horizon in each of three starts.
    """
    case = CASES[name]
    assert (
        len(store(name).rows)
        == store(name).collected
        == STARTS * case.seats * case.windows * case.horizon
    )


@pytest.mark.parametrize("name", [name for name in CASES if "prime" in name])
def test_a_prime_ring_keeps_the_newest(store, name):
    """It came around several times and is nearly full."""
    stored, case = store(name), CASES[name]
    assert stored.collected > 2 * case.capacity
    assert case.capacity * 0.7 <= len(stored.rows) <= case.capacity


@pytest.mark.parametrize("name", ["horizon 7, n = 3", "horizon 1000"])
def test_lives_of_an_actor_are_different_worlds(store, name):
    """After a restart every seat begins in another random stream."""
    lives = {row.frames[0][0] for row in store(name).rows}
    assert len(lives) == STARTS * CASES[name].seats


def test_the_cases_hold_both_endings(store):
    """The cases above hold terminations and truncations."""
    stored = store("horizon 7, n = 3")
    assert stored.terminal.sum() > 20
    assert stored.truncated.sum() > 20
