"""Every own step of every agent is in the parcels exactly once, as a recorder in the world saw it.

The worlds are stamping ones of our own, and PettingZoo's.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support.agents import AGENTS, Circle, Meeting
from support.playing import Parrot, a_version, finish
from support.recorded import MASK, Ledger, RecordedParallel, RecordedTurns, own_steps

from farflung.actor.play import Play, Player
from farflung.actor.worlds import families, registered
from farflung.actor.worlds.pettingzoo_games import ParallelGame
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.world import Due
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Graph, Space, Spec, World
from farflung.common.heads import Choice


class Told:
    """A chooser that takes the actions it was told."""

    def __init__(self) -> None:
        self.actions = np.zeros(0)

    def begin(self, horizon: int, steps: int) -> None:
        """Begin a window."""

    def choose(self, at: Any, outputs: Any) -> Choice:
        """Return the actions."""
        return Choice(self.actions)

    def choose_legal(self, at: Any, outputs: Any, legal: Any) -> Choice:
        """Return the actions, which are legal."""
        return Choice(self.actions)


class Anyhow(Player):
    """A player of random legal actions."""

    def __init__(self, spec: Spec, seats: int) -> None:
        self._told, self._rng, self._space = Told(), np.random.default_rng(5), spec.action
        self.policy = Parrot()
        super().__init__(spec, seats, self.policy, self._told)

    def act(self, due: Due, chooser: Any = None) -> np.ndarray:
        """Draw an action for each due seat."""
        count = len(next(iter(due.columns.values())))
        if MASK in due.columns:
            drawn = [self._rng.choice(np.flatnonzero(row)) for row in due.columns[MASK]]
            self._told.actions = np.array(drawn)
        else:
            self._told.actions = draw(self._space, count, self._rng)
        return super().act(due)


def draw(space: Space, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return random actions [count, *shape] of a space."""
    if space.kind == "box":
        return rng.uniform(-1, 1, (count, *space.shape)).astype(np.float32)
    return rng.integers(space.sizes[0], size=count)


def a_spec(world: World, horizon: int = 7, stack: int = 1) -> Spec:
    """Return a spec of which the policy plays all agents."""
    found = families.describe(world, "policy", masked=True)
    return Spec(
        run="run",
        policy="policy",
        mode="async",
        world=structs.replace(world, seats={"policy": found.agents}),
        observation=found.observation,
        action=found.action,
        head="q",
        horizon=horizon,
        stack=stack,
        graph=Graph(b"", (), (), ()),
        extras=(found.mask,) if found.mask is not None else (),
    )


def recorded(ledgers: list[Ledger], world: World) -> Any:
    """Return an environment that writes its steps into another ledger."""
    environment = families.make(world)
    wrap = RecordedTurns if hasattr(environment, "agent_iter") else RecordedParallel
    ledgers.append(Ledger())
    return wrap(environment, ledgers[-1])


def played(spec: Spec, environments: int, windows: int) -> tuple[list[Parcel], list[Ledger]]:
    """Play windows; return the parcels, and the ledgers of the recorders."""
    ledgers: list[Ledger] = []
    around = Surroundings(pytest.fail, lambda _: None, lambda: 0.0)
    world = families.open_world(
        spec,
        environments,
        key=("actor", 0, 0),
        around=around,
        make_one=partial(recorded, ledgers),
    )
    player = Anyhow(spec, len(world.seats["policy"]))
    play = Play(world, {"policy": player})
    play.reset()
    parcels = []
    for number in range(1, windows + 1):
        assert play.begin(a_version(number), 0)
        finish(play)
        parcels += player.parcels()
    world.close()
    return parcels, ledgers


def differences(parcels: list[Parcel], ledgers: list[Ledger], stack: int = 1) -> int:
    """Return how many steps are in the parcels or in the ledgers alone."""
    recorded = Counter(step for ledger in ledgers for step in ledger.steps)
    stored = own_steps(parcels, stack)
    return (recorded - stored).total() + (stored - recorded).total()


FORMS: dict[str, Callable[[], Any]] = {
    "all at once": Meeting,
    "one after the other": Circle,
    "one after the other, masked": lambda: Circle(masked=True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stack", [1, 3])
def test_every_own_step_is_recorded_once(form: str, stack: int, monkeypatch) -> None:
    """Agents die, join late, skip and act twice; no stamp is missing, doubled or misplaced."""
    monkeypatch.setitem(registered.WORLDS, "stamps", FORMS[form])
    spec = a_spec(World("stamps", seed=3), stack=stack)
    parcels, ledgers = played(spec, environments=3, windows=20)
    assert differences(parcels, ledgers, stack) == 0
    assert sum(len(ledger.steps) for ledger in ledgers) > 300
    assert sum(ledger.dropped for ledger in ledgers) == 0
    ended = [step.ending for ledger in ledgers for step in ledger.steps if step.ending]
    assert {*ended} == {Ending.TERMINATED, Ending.TRUNCATED}
    assert sum(len(parcel.results.returns) for parcel in parcels) == len(ended)


@pytest.mark.parametrize("form", FORMS)
def test_a_trajectory_is_one_life_of_one_agent(form: str, monkeypatch) -> None:
    """World, agent and life stay the same, and the own steps follow each other."""
    monkeypatch.setitem(registered.WORLDS, "stamps", FORMS[form])
    parcels, _ = played(a_spec(World("stamps", seed=4)), environments=2, windows=12)
    lives = set()
    for parcel in parcels:
        frame = 0
        for length in parcel.lengths.tolist():
            stamps = parcel.columns["observations"][frame : frame + length + 1]
            assert (stamps[:, :3] == stamps[0, :3]).all()
            assert (np.diff(stamps[:, 3]) == 1).all()
            assert (np.diff(stamps[:, 4]) > 0).all()
            lives.add(tuple(stamps[0, :3].tolist()))
            frame += length + 1
    assert {int(agent) for _, agent, _ in lives} == set(range(len(AGENTS)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(5))
def test_few_seats_of_a_policy_may_all_miss_an_episode(form: str, seed: int, monkeypatch) -> None:
    """Then their policy is told of an absence while none of its decisions awaits an outcome."""
    monkeypatch.setitem(registered.WORLDS, "stamps", FORMS[form])
    policies = {"red": ("ann", "bob"), "blue": ("cat",), "green": ("dot",)}
    assert sorted(sum(policies.values(), ())) == sorted(AGENTS)
    spec = a_spec(World("stamps", seed=seed))
    spec = structs.replace(spec, world=structs.replace(spec.world, seats=policies))
    specs = {policy: structs.replace(spec, policy=policy) for policy in policies}
    ledgers: list[Ledger] = []
    world = families.open_shared(
        specs,
        2,
        key=("actor", 0, 0),
        around=Surroundings(pytest.fail, lambda _: None, lambda: 0.0),
        make_one=partial(recorded, ledgers),
    )
    players = {policy: Anyhow(specs[policy], len(world.seats[policy])) for policy in policies}
    play = Play(world, players)
    play.reset()
    parcels: list[Parcel] = []
    for number in range(1, 300):
        assert play.begin(a_version(number), 0)
        finish(play)
        parcels += [one for p in players.values() if p.full for one in p.parcels()]
    parcels += [one for p in players.values() if not p.full for one in p.parcels()]
    world.close()
    assert differences(parcels, ledgers) == 0
    assert sum(len(ledger.steps) for ledger in ledgers) > 1000


def test_all_seats_of_a_policy_are_answered_in_one_call(monkeypatch) -> None:
    """Agents that must act in any of the environments of an actor are asked about together."""
    monkeypatch.setitem(registered.WORLDS, "stamps", Meeting)
    spec = a_spec(World("stamps", seed=3), stack=1)
    around = Surroundings(pytest.fail, lambda _: None, lambda: 0.0)
    world = families.open_world(spec, 3, key=("actor", 0, 0), around=around)
    player = Anyhow(spec, len(world.seats["policy"]))
    play = Play(world, {"policy": player})
    play.reset()
    play.begin(a_version(1), 0)
    counts = []
    while not play.full:
        counts.append(play.step())
    assert [len(shown) for shown in player.policy.shown] == counts
    assert max(counts) > len(AGENTS)


def test_actions_are_executed_in_the_environments_own_order() -> None:
    """The order of its agents counts, not that of the policies that play them."""

    class Noting:
        """It notes the order of actions; its first agent leaves with each step."""

        def __init__(self) -> None:
            self.agents, self.asked = ["cat", "ann", "bob"], list[list[str]]()

        def reset(self, seed: int) -> Any:
            """Begin."""
            return dict.fromkeys(self.agents, np.zeros(1)), {}

        def step(self, actions: dict[str, int]) -> Any:
            """Note the agents."""
            self.asked.append([*actions])
            gone = dict.fromkeys(self.agents[:1], True)
            self.agents = self.agents[1:]
            return dict.fromkeys(self.agents, np.zeros(1)), {}, gone, {}, {}

    environment = Noting()
    game = ParallelGame(environment)
    game.begin(1)
    game.step({"ann": 1, "bob": 2, "cat": 3})
    game.step({"bob": 2, "ann": 1})
    assert environment.asked == [["cat", "ann", "bob"], ["ann", "bob"]]


OWN = {  # with windows enough for episodes
    "connect_four_v3": 12,
    "tictactoe_v3": 12,
    "leduc_holdem_v4": 12,
    "texas_holdem_v4": 12,
    "rps_v2": 30,
    "chess_v6": 4,
    "knights_archers_zombies_v11": 12,
    "pursuit_v5": 4,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of PettingZoo and what it imports
@pytest.mark.parametrize("name", OWN)
def test_pettingzoos_own_environments_are_recorded_once(name: str) -> None:
    """The same, counted by a recorder around an environment of another project."""
    if name == "pursuit_v5":
        pytest.importorskip("scipy")
    spec = a_spec(World(name, seed=1))
    parcels, ledgers = played(spec, environments=2, windows=OWN[name])
    assert differences(parcels, ledgers) == 0
    assert sum(len(ledger.steps) for ledger in ledgers) >= 2 * 7 * OWN[name] / 2
