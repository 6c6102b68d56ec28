"""Seats at play: lists of environments and vectorised ones, whole and broken."""

import numpy as np
import pytest
from msgspec.structs import replace
from support import worlds
from support.playing import spec_of

from farflung.actor.worlds import gymnasium, surroundings
from farflung.actor.worlds.failures import Failures
from farflung.actor.worlds.lockstep import ListWorld
from farflung.actor.worlds.spaces import ObservationField, SpaceAdapter
from farflung.actor.worlds.vector import VectorWorld
from farflung.actor.worlds.world import End, Turn
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Space, World
from farflung.common.process.errors import ConfigurationError, EnvironmentFailure


class Seats:
    """A world of one policy, and what each turn says of it."""

    def __init__(self, world: ListWorld | VectorWorld) -> None:
        self.world = world
        (self.policy, places) = next(iter(world.seats.items()))
        self.count = len(places)

    def __len__(self) -> int:
        return self.count

    def reset(self) -> "Step":
        """Begins an episode in every seat."""
        turn = self.world.reset()
        assert not turn.outcomes
        return Step(self.policy, turn)

    def step(self, actions: np.ndarray) -> "Step":
        """Takes one action in every seat."""
        return Step(self.policy, self.world.step({self.policy: actions}))

    def close(self) -> None:
        """Closes the environments."""
        self.world.close()


class Step:
    """The outcome of one turn for all seats."""

    def __init__(self, policy: str, turn: Turn) -> None:
        self.observations = turn.due[policy].columns
        assert turn.due[policy].seats is None
        if policy in turn.outcomes:
            outcomes = turn.outcomes[policy]
            self.rewards, self.lost = outcomes.rewards, outcomes.lost
            self.ended: dict[int, End] = outcomes.ended


class Surroundings:
    """The problems, the pauses and the clock that a process hands to its environments."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.pauses: list[float] = []
        self.now = 0.0
        self.beats = 0

    def seats(
        self,
        world: World,
        count: int = 1,
        *,
        vector: bool = False,
        key: tuple[int | str, ...] = ("actor", 0, 0),
    ) -> Seats:
        """Seats that tell, wait and beat here."""
        around = surroundings.Surroundings(
            lambda kind, text: self.problems.append(f"{kind}: {text}"),
            self.pauses.append,
            lambda: self.now,
            self.beat,
        )
        sound = World("toys/Stamp-v0") if "Faulty" in world.environment else world
        spec = replace(spec_of(sound), world=world)
        return Seats(gymnasium.open_world(spec, count, key=key, around=around, vector=vector))

    def beat(self) -> None:
        """Counts."""
        self.beats += 1


@pytest.fixture
def around() -> Surroundings:
    """A process around toy worlds."""
    worlds.Faulty.counts.clear()
    return Surroundings()


def zeros(seats: Seats) -> np.ndarray:
    """Action 0 in every seat."""
    return np.zeros(len(seats), np.int64)


def stamps(seats: Seats, steps: int) -> list[list[float]]:
    """The stamps of the first seat from its reset on."""
    seen = [seats.reset().observations["observations"][0].tolist()]
    for _ in range(steps):
        seen.append(seats.step(zeros(seats)).observations["observations"][0].tolist())
    return seen


class TestList:
    """Environments in a plain list."""

    def test_a_seat_whose_episode_ended_is_already_in_its_next(self, around: Surroundings) -> None:
        """The last observation is kept aside.

        Episode 0 of one step terminates, episode 1 of six is truncated.
        """
        seats = around.seats(World("toys/Stamp-v0"), 2)
        life = seats.reset().observations["observations"][:, 0].tolist()
        step = seats.step(zeros(seats))
        assert {seat: end.ending for seat, end in step.ended.items()} == {
            0: Ending.TERMINATED,
            1: Ending.TERMINATED,
        }
        assert step.ended[1].columns["observations"].tolist() == [life[1], 0, 1]
        assert step.observations["observations"].tolist() == [[life[0], 1, 0], [life[1], 1, 0]]
        for t in range(1, 6):
            step = seats.step(zeros(seats))
            assert (step.ended, step.lost, step.rewards.tolist()) == ({}, [], [t - 1, t - 1])
        step = seats.step(zeros(seats))
        assert step.ended[0].ending is Ending.TRUNCATED
        assert step.rewards.tolist() == [5, 5]

    def test_a_watchdog_hears_of_every_environment_step(self, around: Surroundings) -> None:
        """Not of every vector step: with many slow environments that would look like a hang.

        So would making or resetting all of them.
        """
        seats = around.seats(World("toys/Stamp-v0"), 3)
        assert around.beats == 3
        stamps(seats, 2)
        assert around.beats == 3 + 3 + 6

    def test_an_array_that_is_written_again_is_copied_first(self, around: Surroundings) -> None:
        """An environment may return the same array in each step, also in the last of an episode."""
        seats = around.seats(World("toys/Stamp-v0", {"in_place": True}))
        seen = seats.reset().observations["observations"]
        last = seats.step(zeros(seats)).ended[0].columns["observations"]
        assert (last[1:].tolist(), seen[0, 1:].tolist()) == ([0, 1], [1, 0])

    def test_parts_of_a_dictionary_are_columns(self, around: Surroundings) -> None:
        """Rooms 5 to 7 are carried as 0 to 2, actions 0 to 3 are told as -1 to 2."""
        seats = around.seats(World("toys/Parts-v0", {"longest": 99}), 2)
        seats.reset()
        last = seats.step(np.array([3, 1])).ended[1].columns
        assert {
            name: value.tolist() for name, value in last.items() if name != "observations.stamp"
        } == {
            "observations.room": 1,
            "observations.dials": [1, 1],
            "observations.picture": [[1, 1], [1, 1]],
        }
        seen = seats.step(np.array([3, 1])).observations
        assert seen["observations.room"].tolist() == [1, 1]
        assert seen["observations.dials"].tolist() == [[3, 1], [1, 1]]
        assert seen["observations.picture"].dtype == np.uint8

    def test_an_environment_may_keep_its_action(self, around: Surroundings) -> None:
        """A write into it does not leave the environment; doubles come back as floats."""
        seats = around.seats(World("toys/Echo-v0"))
        seats.reset()
        actions = np.array([[0.1, 7.0]], np.float32)
        assert seats.step(actions).observations["observations"].tolist() == [[np.float32(0.1), 7.0]]
        assert actions.tolist() == [[np.float32(0.1), 7.0]]

    @pytest.mark.parametrize("wrong", [[0.5], [[0.5, 0.5]], ["a", "b"]])
    def test_an_observation_outside_its_space_is_refused(
        self, around: Surroundings, wrong: list[object]
    ) -> None:
        """Numpy would broadcast one number over two, silently."""
        with pytest.raises(ConfigurationError, match="correct the environment"):
            around.seats(World("toys/Echo-v0", {"wrong": wrong})).reset()

    @pytest.mark.parametrize(
        ("world", "says"),
        [
            (World("toys/Lies-v0", {"what": [[0.0] * 5]}), r"\(5,\) was shown, .* \(3,\)"),
            (World("toys/Lies-v0", {"what": [[[0.0] * 3]]}), r"\(1, 3\) was shown"),
            (World("toys/Lies-v0", {"what": [0.5]}), r"float64 \(\) was shown"),
            (World("toys/Lies-v0", {"what": ["no"]}), "was shown, .* float32"),
            (World("toys/Lies-v0", {"what": [None]}), r"object \(\) was shown"),
            (World("toys/Lies-v0", {"what": [{"x": 1}]}), r"object \(\) was shown"),
            (World("toys/Lies-v0", {"reward": "much"}), r"rewards: \['much'.* number of each"),
            (World("toys/Numbers-v0", {"what": [5]}), r"5 was shown, .* from \[1\] to below \[5\]"),
            (World("toys/Numbers-v0", {"what": [0]}), "0 was shown"),
            (World("toys/Numbers-v0", {"what": [2.5]}), r"float64 \(\) was shown, .* int64"),
        ],
    )
    @pytest.mark.parametrize("seats", [1, 2])
    def test_an_observation_that_goes_wrong_in_mid_episode_is_named(
        self, around: Surroundings, world: World, says: str, seats: int
    ) -> None:
        """With what was shown and what was expected, at the step in which it happens."""
        found = around.seats(world, seats)
        found.reset()
        found.step(zeros(found))
        found.step(zeros(found))
        with pytest.raises(ConfigurationError, match=says):
            found.step(zeros(found))
        assert not around.problems

    def test_wrong_lengths_that_add_up_are_named(self, around: Surroundings) -> None:
        """Five numbers of one seat and one of the other are as many as two times three."""
        found = around.seats(World("toys/Lies-v0", {"what": [[0.0] * 5, [0.0]]}), 2)
        found.reset()
        found.world._environments[1].unwrapped._what.reverse()
        found.step(zeros(found))
        found.step(zeros(found))
        with pytest.raises(ConfigurationError, match=r"\(5,\) was shown"):
            found.step(zeros(found))

    def test_a_world_that_only_declares_its_spaces_is_not_tried_again(
        self, around: Surroundings
    ) -> None:
        """Its first reset says so, and nothing waits or is reported as a failure."""
        with pytest.raises(ConfigurationError, match=r"its reset\(\) or step\(\) is not implem"):
            around.seats(World("toys/Declared-v0")).reset()
        assert (around.problems, around.pauses) == ([], [])


class TestStreams:
    """Each episode draws its own random numbers."""

    def episodes(
        self,
        around: Surroundings,
        *key: int | str,
        seed: int = 0,
        world: str = "CartPole-v1",
        vector: bool = False,
    ) -> list[float]:
        """Return the first observations of six episodes of two seats."""
        seats = around.seats(
            World(world, {"max_episode_steps": 1}, seed=seed), 2, key=key, vector=vector
        )
        starts = [seats.reset().observations["observations"][:, 0].copy()]
        starts += [
            seats.step(zeros(seats)).observations["observations"][:, 0].copy() for _ in range(5)
        ]
        return [float(start) for step in starts for start in step]

    def test_one_place_in_the_tree_plays_the_same_episodes_again(
        self, around: Surroundings
    ) -> None:
        """Two lives with one seed, role, index and start are the same to the bit."""
        assert self.episodes(around, "actor", 1, 2) == self.episodes(around, "actor", 1, 2)
        assert self.episodes(around, "actor", 1, 2, vector=True) == self.episodes(
            around, "actor", 1, 2, vector=True
        )

    def test_no_two_episodes_share_a_stream(self, around: Surroundings) -> None:
        """The streams differ by seat, actor, start and seed, and in evaluations."""
        keys: list[tuple[int | str, ...]] = [
            ("actor", 0, 0),
            ("actor", 1, 0),
            ("actor", 0, 1),
            ("evaluation", 0, 0),
        ]
        starts = [
            start
            for key in keys
            for seed in (0, 1)
            for start in self.episodes(around, *key, seed=seed)
        ]
        assert len(set(starts)) == len(starts) == 4 * 2 * 12

    def test_an_episode_does_not_depend_on_those_before_it(self, around: Surroundings) -> None:
        """Its stream is its own, not the rest of an earlier one.

        Here a hundred numbers are drawn in between.
        """
        one, two = (around.seats(World("CartPole-v1", {"max_episode_steps": 1})) for _ in range(2))
        one.reset()
        two.reset()
        two.world._environments[0].unwrapped.np_random.random(100)  # type: ignore[attr-defined]
        seen = [
            seats.step(zeros(seats)).observations["observations"].tolist() for seats in (one, two)
        ]
        assert seen[0] == seen[1]


class TestFailures:
    """Environments that raise."""

    def test_a_step_that_raises_costs_one_seat_its_episode(self, around: Surroundings) -> None:
        """The traceback is told, the environment is built again after a pause, and the seat is in a
        new episode; others go on.
        """
        seats = around.seats(World("toys/Faulty-v0", {"longest": 99, "steps": [7]}), 2)
        before = seats.reset().observations["observations"].copy()
        for _ in range(3):
            seats.step(zeros(seats))
        step = seats.step(zeros(seats))
        assert (step.lost, step.rewards.tolist()) == ([1], [2, 0])
        assert step.observations["observations"][0].tolist() == [before[0, 0], 1, 3]
        assert step.observations["observations"][1, 0] != before[1, 0]
        assert step.observations["observations"][1, 1:].tolist() == [0, 0]
        assert around.pauses == [0.25]
        assert len(around.problems) == 1
        assert "RuntimeError: one of the steps failed" in around.problems[0]
        assert "worlds.py" in around.problems[0]
        assert seats.step(zeros(seats)).lost == []

    def test_a_reset_that_raises_takes_no_step_away(self, around: Surroundings) -> None:
        """The episode that ended counts; only the next one begins elsewhere."""
        seats = around.seats(World("toys/Faulty-v0", {"resets": [1]}))
        life = float(seats.reset().observations["observations"][0, 0])
        step = seats.step(zeros(seats))
        assert (step.lost, list(step.ended)) == ([], [0])
        assert step.observations["observations"][0, 0] != life
        assert step.observations["observations"][0, 1:].tolist() == [0, 0]

    def test_pauses_grow_until_one_can_be_built(self, around: Surroundings) -> None:
        """Neither closing the broken one nor making another need work at once.

        What closing raised is told, not counted.
        """
        seats = around.seats(
            World("toys/Faulty-v0", {"resets": [0], "closes": [0], "makes": [1, 2]})
        )
        seats.reset()
        assert around.pauses == [0.25, 0.5, 1.0]
        told = [problem.splitlines()[-1] for problem in around.problems]
        assert [
            next(
                what
                for what in ("closes", "resets", "makes")
                if f"one of the {what} failed" in line
            )
            for line in told
        ] == [
            "closes",
            "resets",
            "makes",
            "makes",
        ]

    @pytest.mark.parametrize(
        ("world", "vector"), [("toys/Faulty-v0", False), ("toys/FaultyNextStep-v0", True)]
    )
    def test_the_fifth_failure_in_five_minutes_is_the_end(
        self, around: Surroundings, world: str, vector: bool
    ) -> None:
        """It says how often and why, and does not wait any more."""
        seats = around.seats(World(world, {"steps": list(range(9))}), vector=vector)
        seats.reset()
        for _ in range(4):
            assert seats.step(zeros(seats)).lost == [0]
        with pytest.raises(
            EnvironmentFailure,
            match=r"failed 5 times in 5 minutes, "
            r"at last with RuntimeError\('one of the steps failed'\)",
        ):
            seats.step(zeros(seats))
        assert around.pauses == [0.25, 0.5, 1.0, 2.0]

    def test_an_environment_that_can_never_be_reset_ends_too(self, around: Surroundings) -> None:
        """Rebuilding does not go on for ever."""
        with pytest.raises(EnvironmentFailure):
            around.seats(World("toys/Faulty-v0", {"resets": list(range(9))})).reset()

    def test_failures_are_forgotten_after_five_minutes(self, around: Surroundings) -> None:
        """A step that fails once in a while never ends the actor, and the pause is short again."""
        seats = around.seats(World("toys/Faulty-v0", {"steps": list(range(20))}))
        seats.reset()
        for _ in range(20):
            assert seats.step(zeros(seats)).lost == [0]
            around.now += 100
        assert max(around.pauses) == 1.0

    def test_closing_closes_all(self, around: Surroundings) -> None:
        """One that fails to close does not keep the others open."""
        seats = around.seats(World("toys/Faulty-v0", {"closes": [0]}), 3)
        seats.close()
        assert worlds.Faulty.counts["closes"] == 3
        assert len(around.problems) == 1


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
class TestVector:
    """Environments that step all seats themselves, and begin new episodes themselves, in one of two
    ways.
    """

    def test_episodes_are_those_of_a_list(self, around: Surroundings, mode: str) -> None:
        """The same endings after the same steps, and every final observation.

        An empty step between two episodes is lost.
        """
        seats = around.seats(World(f"toys/Stamp{mode}-v0"), 2, vector=True)
        seen = [tuple(seats.reset().observations["observations"][1, 1:].tolist())]
        ends, empty = [], 0
        for _ in range(40):
            step = seats.step(zeros(seats))
            empty += len(step.lost)
            if 1 in step.ended:
                assert 1 not in step.lost
                ends.append(
                    (step.ended[1].ending, *step.ended[1].columns["observations"][1:].tolist())
                )
            if 1 not in step.ended or mode == "SameStep":
                seen.append(tuple(step.observations["observations"][1, 1:].tolist()))
        lengths = [1 + episode * 5 % 9 for episode in range(6)]
        assert ends[:6] == [
            (Ending.TRUNCATED if e % 2 else Ending.TERMINATED, e, length)
            for e, length in enumerate(lengths)
        ]
        assert seen[:27] == [
            (e, step) for e, length in enumerate(lengths) for step in range(length)
        ]
        assert (empty == 0) == (mode == "SameStep")

    def test_a_dictionary_is_copied_part_by_part(self, around: Surroundings, mode: str) -> None:
        """Of running episodes and of those that ended."""
        seats = around.seats(World(f"toys/Parts{mode}-v0"), 2, vector=True)
        assert seats.reset().observations["observations.room"].tolist() == [0, 0]
        end = seats.step(np.array([0, 3])).ended[1].columns
        assert {
            name: end[name].tolist()
            for name in ("observations.room", "observations.dials", "observations.picture")
        } == {
            "observations.room": 1,
            "observations.dials": [3, 1],
            "observations.picture": [[1, 1], [1, 1]],
        }

    def test_one_that_raises_loses_all_seats_their_episodes(
        self, around: Surroundings, mode: str
    ) -> None:
        """Nothing of the step is kept, and the whole of it is built again.

        A reset or a make may fail on the way.
        """
        seats = around.seats(
            World(f"toys/Faulty{mode}-v0", {"steps": [0], "resets": [3], "makes": [4]}),
            2,
            vector=True,
        )
        seats.reset()
        step = seats.step(zeros(seats))
        assert (step.lost, step.ended, step.rewards.tolist()) == ([0, 1], {}, [0, 0])
        assert step.observations["observations"][:, 1:].tolist() == [[0, 0], [0, 0]]
        assert len(around.pauses) == 3
        seats.close()

    def test_a_watchdog_hears_of_every_step(self, around: Surroundings, mode: str) -> None:
        """One for all seats, and before it one for making them and one for resetting them."""
        seats = around.seats(World(f"toys/Stamp{mode}-v0"), 5, vector=True)
        assert len(seats) == 5
        stamps(seats, 3)
        assert around.beats == 1 + 1 + 3


class Lingering:
    """A vectorised environment that repeats its ending in the empty step after it."""

    def __init__(self) -> None:
        self.time = 0

    def reset(self, seed: int) -> tuple[np.ndarray, dict[str, object]]:
        """At the start."""
        return np.zeros((1, 1), np.float32), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, object]]:
        """Over at the first step and at the second, which is none."""
        self.time += 1
        return (
            np.full((1, 1), self.time, np.float32),
            np.zeros(1),
            np.array([self.time <= 2]),
            np.array([False]),
            {},
        )


def test_an_empty_step_ends_nothing() -> None:
    """An episode ends once, even if a vectorised environment leaves its flags set."""
    field = ObservationField("", Space("box", "float32", (1,)))
    adapter = SpaceAdapter((field,), Space("discrete", "int64", (), (2,)), np.copy)
    failures = Failures(lambda *_: None, lambda _: None, lambda: 0.0)
    world = VectorWorld(
        Lingering(),
        1,
        Lingering,
        adapter,
        "policy",
        same_step=False,
        seed=0,
        key=("actor", 0, 0),
        beat=lambda: None,
        failures=failures,
    )
    seats = Seats(world)
    seats.reset()
    steps = [(list(step.ended), step.lost) for step in (seats.step(zeros(seats)) for _ in range(4))]
    assert steps == [([0], []), ([], [0]), ([], []), ([], [])]


def test_cartpoles_own_vectorised_version_steps_like_its_single_one(around: Surroundings) -> None:
    """Episodes end where the pole fell, not a step later, and a new one begins upright."""
    seats = around.seats(World("CartPole-v1"), 8, vector=True)
    seats.reset()
    ended = 0
    for _ in range(60):
        fallen = seats.step(zeros(seats))
        ended += len(fallen.ended)
        assert all(abs(end.columns["observations"][2]) > 0.2 for end in fallen.ended.values())
        assert (np.abs(fallen.observations["observations"][fallen.lost]) <= 0.05).all()
    assert ended > 20
