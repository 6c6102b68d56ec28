"""Sequences with burn-in, against numbers worked by hand and a slow model in lists."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from support.replays import make_spec

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Column, Graph, Spec, Tensor
from farflung.common.data.states import EPISODE, state_columns
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.sequences import Sequences, before
from farflung.learner.replay.transitions import n_step_returns

GRAPH = Graph(b"", (Tensor("state.where", "float32", (2,)),), (), ())
EXTRAS = (EPISODE, *state_columns(GRAPH), Column("log_probability", "float32", (), "step"))


@dataclass(frozen=True)
class Piece:
    """A trajectory: steps of an episode from one to before another."""

    episode: int
    first: int
    length: int
    ending: Ending = Ending.OPEN


def spec_of(horizon: int, stack: int = 1) -> Spec:
    return make_spec(horizon, stack, graph=GRAPH, extras=EXTRAS)


def parcel_of(pieces: list[Piece], stack: int = 1) -> Parcel:
    """Return trajectories: frames are (episode, step), rewards step + 1, actions step % 2."""
    steps = [(p.episode, p.first + t) for p in pieces for t in range(p.length)]
    frames = [
        (p.episode, max(0, p.first + t)) for p in pieces for t in range(1 - stack, p.length + 1)
    ]
    firsts = [(p.episode, p.first) for p in pieces]
    step = np.array([step for _, step in steps])
    columns = {
        OBSERVATIONS: np.array(frames, np.float32),
        ACTIONS: step % 2,
        REWARDS: (step + 1).astype(np.float32),
        "episode": np.array(firsts, np.int64),
        "state.where": np.array(firsts, np.float32),
        "log_probability": np.array([e + s / 100 for e, s in steps], np.float32),
    }
    return Parcel(
        Version(1, 1),
        np.array([p.length for p in pieces], np.int32),
        np.array([p.ending for p in pieces], np.uint8),
        columns,
    )


def a_replay(
    horizon: int, burn_in: int, capacity: int = 1000, stack: int = 1, n: int = 1
) -> Replay:
    spec = spec_of(horizon, stack)
    rows = Sequences(spec, n_step=n, gamma=0.5, burn_in=burn_in, capacity=capacity)
    return Replay(spec, rows, Uniform(4, 0), capacity=capacity)


def rows_of(replay: Replay) -> dict[str, np.ndarray]:
    """Return the columns of all stored rows."""
    stored = np.array(replay._store.numbers)
    return dict(replay._rows.columns(replay._store, stored)[0])


def test_an_episode_of_ten_steps_in_windows_of_four() -> None:
    """Each window is trained on once; the one before it is its burn-in, from that one's state."""
    replay = a_replay(4, 4, n=2)
    last = Piece(7, 8, 2, Ending.TERMINATED)
    replay.add(parcel_of([Piece(7, 0, 4)]), parcel_of([Piece(9, 0, 4), Piece(7, 4, 4)]))
    replay.add(parcel_of([last]))
    rows = rows_of(replay)
    assert rows["burn_in"].tolist() == [0, 0, 4, 4]
    assert rows["state.where"].tolist() == [[7, 0], [9, 0], [7, 0], [7, 4]]
    assert rows[OBSERVATIONS][2, :, 1].tolist() == [4, 5, 6, 7, 8]
    assert rows[OBSERVATIONS][3, :, 1].tolist() == [8, 9, 10, 10, 10]
    assert rows["burn_in.observations"][3].tolist() == [[7, 4], [7, 5], [7, 6], [7, 7]]
    assert rows["burn_in.actions"][3].tolist() == [0, 1, 0, 1]
    assert rows["mask"].tolist() == [[1, 1, 1, 1]] * 3 + [[1, 1, 0, 0]]
    assert rows["returns"][2].tolist() == [5 + 6 / 2, 6 + 7 / 2, 7 + 8 / 2, 8]
    assert rows["discounts"][2].tolist() == [0.25, 0.25, 0.25, 0.5]
    assert rows["spans"].tolist() == [[2, 2, 2, 1]] * 3 + [[2, 1, 0, 0]]
    assert rows["returns"][3, :2].tolist() == [9 + 10 / 2, 10]
    assert rows["discounts"][3, :2].tolist() == [0, 0]


def test_an_ended_or_torn_episode_warms_nothing_up() -> None:
    """Nor does a window of which the next steps are missing, or one that came before its own."""
    replay = a_replay(4, 4)
    replay.add(
        parcel_of(
            [
                Piece(1, 0, 4, Ending.TRUNCATED),
                Piece(1, 4, 4),  # it cannot go on from an end
                Piece(1, 9, 4),  # step 8 was lost
                Piece(1, 4, 4),  # twice
                Piece(2, 8, 4),
                Piece(2, 4, 4),
            ]
        )
    )
    assert rows_of(replay)["burn_in"].tolist() == [0] * 6


def test_a_burn_in_leaves_with_its_window() -> None:
    """Once that has left the replay, a sequence begins with its own state."""
    replay = a_replay(4, 8, capacity=3)
    for first in range(0, 20, 4):
        replay.add(parcel_of([Piece(1, first, 4)]))
    rows = rows_of(replay)
    assert rows["burn_in"].tolist() == [0, 4, 8]
    assert rows["state.where"].tolist() == [[1, 8]] * 3


def walk(seed: int, actors: int, horizon: int) -> Iterator[list[Piece]]:
    """Yield the windows of actors at their own pace; steps are lost now and then."""
    random = np.random.default_rng(seed)
    numbers = iter(range(1, 10**6))
    where = [(next(numbers), 0) for _ in range(actors)]
    while True:
        actor, left, pieces = int(random.integers(actors)), horizon, []
        while left:
            episode, step = where[actor]
            length = int(random.integers(1, left + 1)) if random.random() < 0.3 else left
            left -= length
            ending = Ending.OPEN if not left else Ending(int(random.integers(0, 3)))
            pieces.append(Piece(episode, step, length, ending))
            where[actor] = (episode, step + length) if not left else (next(numbers), 0)
            if random.random() < 0.05:
                where[actor] = (where[actor][0], where[actor][1] + 1)
        yield pieces


def expected_row(pieces: list[Piece], number: int, oldest: int, windows: int) -> list[Piece]:
    """Return the trajectories of a sequence, the oldest first, from the list of all."""
    chain = [number]
    while len(chain) <= windows:
        own = pieces[chain[0]]
        same = [i for i in range(chain[0]) if pieces[i].episode == own.episode]
        if not same or same[-1] < oldest:
            break
        last = pieces[same[-1]]
        if last.ending != Ending.OPEN or last.first + last.length != own.first:
            break
        chain.insert(0, same[-1])
    return [pieces[i] for i in chain]


@pytest.mark.parametrize("windows", [0, 1, 3])
@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("capacity", [17, 500])
def test_rows_are_those_of_a_slow_model(windows: int, stack: int, capacity: int) -> None:
    """Several actors, episodes that end anywhere, lost steps, and a ring that has come around."""
    horizon, n = 5, 3
    replay = a_replay(horizon, windows * horizon, capacity, stack, n)
    pieces: list[Piece] = []
    for number, window in zip(range(60), walk(windows, 3, horizon), strict=False):
        pieces += window
        replay.add(parcel_of(window, stack))
        if number % 20:
            continue
        rows, stored = rows_of(replay), replay._store.numbers
        assert stored.stop == len(pieces)
        for place, row in enumerate(stored):
            chain = expected_row(pieces, row, stored.start, windows)
            own, burn_in = chain[-1], chain[:-1]
            steps = [own.first + min(t, own.length) for t in range(horizon + 1)]
            shown = [[max(0, step + back) for back in range(1 - stack, 1)] for step in steps]
            seen = rows[OBSERVATIONS][place].reshape(horizon + 1, stack, 2)
            assert seen[..., 1].tolist() == shown
            assert (seen[..., 0] == own.episode).all()
            assert rows["mask"][place].sum() == own.length
            rewards = np.arange(own.first + 1, own.first + own.length + 1, dtype=np.float32)
            lengths, endings = np.array([own.length]), np.array([own.ending], np.uint8)
            found = n_step_returns(lengths, endings, rewards, n, 0.5)
            for name, column in zip(("returns", "discounts", "spans"), found, strict=True):
                assert rows[name][place, : own.length].tolist() == column.tolist()
            assert rows[ACTIONS][place].tolist() == [min(s, steps[-1] - 1) % 2 for s in steps[:-1]]
            assert rows["state.where"][place].tolist() == [own.episode, chain[0].first]
            if not windows:
                continue
            earlier = [p.first + t for p in burn_in for t in range(p.length)]
            assert rows["burn_in"][place] == len(earlier)
            warm = rows["burn_in.observations"][place].reshape(-1, stack, 2)[: len(earlier)]
            assert warm[:, -1].tolist() == [[own.episode, step] for step in earlier]
            logs = rows["burn_in.log_probability"][place, : len(earlier)]
            np.testing.assert_allclose(logs, [own.episode + s / 100 for s in earlier], rtol=1e-6)


def test_rows_are_the_same_when_they_are_made_again_from_the_newest_parcels() -> None:
    """A resumed learner has no others; one that reads more of them has the same rows too."""
    windows = [parcel_of(w) for w, _ in zip(walk(5, 4, 5), range(80), strict=False)]
    whole, together = a_replay(5, 10, 40), a_replay(5, 10, 40)
    for parcel in windows:
        whole.add(parcel)
    together.add(*windows)
    assert together.digest() == whole.digest()
    rows, taken = 0, list[Parcel]()
    for parcel in reversed(windows):
        if rows >= whole.steps:
            break
        taken.insert(0, parcel)
        rows += parcel.rows
    again = a_replay(5, 10, 40)
    again.add(*taken)
    assert len(taken) < len(windows)
    assert again.digest() == whole.digest()
    assert again.sample(3).columns.keys() == whole.sample(3).columns.keys()


def test_a_batch_has_its_burn_in_as_a_batch() -> None:
    """With the observations by leaf, as a network takes them."""
    replay = a_replay(4, 4)
    replay.add(parcel_of([Piece(1, 0, 4)]), parcel_of([Piece(1, 4, 4)]))
    batch = replay.sample(0)
    assert batch.observations[""].shape == (4, 5, 2)
    assert before(batch).observations[""].shape == (4, 4, 2)
    assert replay.stride == 4
    assert replay.steps == 8


def test_episodes_that_never_go_on_are_forgotten() -> None:
    """An actor may send as many numbers as it likes."""
    replay = a_replay(4, 4, capacity=10)
    huge = (1 << 63) - 1
    for number in range(100):
        replay.add(parcel_of([Piece(number, 0, 4)]))
    columns = {**parcel_of([Piece(0, 0, 4)]).columns, "episode": np.full((1, 2), huge)}
    replay.add(Parcel(Version(1, 1), np.array([4]), np.zeros(1, np.uint8), columns))
    assert len(replay._rows._going_on) == 10


def test_impossible_sequences_are_refused() -> None:
    """A burn-in needs a state at its beginning, and joining needs the place in the episode."""
    with pytest.raises(ConfigurationError, match="burn-in of 6 steps is no multiple of --horizon"):
        a_replay(4, 6)
    keywords = {"n_step": 1, "gamma": 0.5, "burn_in": 0, "capacity": 1}
    with pytest.raises(ConfigurationError, match="need the column episode"):
        Sequences(make_spec(4), **keywords)
    named = make_spec(4, extras=(EPISODE, Column("mask", "float32", (), "step")))
    with pytest.raises(ConfigurationError, match="cannot be named mask"):
        Sequences(named, **keywords)
