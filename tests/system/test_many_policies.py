"""Several learners of one world, in rounds: the bits of one do not depend on the others."""

import os
from pathlib import Path

import pytest
from support.rounds import Figures, figures, figures_in, in_one_process, in_rounds

pytest.importorskip("pettingzoo")

pytestmark = [pytest.mark.system, pytest.mark.slow]

WORLDS, ROUND = 4, 64
SEATS = "first=agent_0; second=agent_1"
ROUNDS = ("--env", "apart.Apart", "--import", "apart:Apart", "--envs", 2, "--seed", 3)
ROUNDS += ("--steps", 1536, "--warmup", 256, "--replay-ratio", 4, "--dqn.hidden", 8)
ROUNDS += ("--horizon", 16, "--round-steps", ROUND, "--capacity", 1000, "--exploration-steps", 1000)
ROUNDS += ("--policies", SEATS)
TURNS = ("--env", "tictactoe.TicTacToe", "--import", "tictactoe:TicTacToe", "--envs", 2)
TURNS += ("--policies", "first=player_0; second=player_1", "--steps", 400, "--warmup", 100)
TURNS += ("--horizon", 16, "--replay-ratio", 4, "--dqn.hidden", 8, "--seed", 3)
GATES = (120, 190, 250)  # of 384 steps of each world, within a round
OPEN = 10_000


@pytest.fixture(scope="module")
def apart() -> dict[str, str]:
    """Variables with which `--import apart` works."""
    examples = Path(__file__).parents[2] / "examples" / "worlds"
    path = [str(Path(__file__).parent), str(examples), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path)}


class World:
    """Two learners in rounds, and the actors that play for both."""

    def __init__(self, shell, name, variables, words=ROUNDS, actors=2):
        self._shell, self._name, self._variables = shell, name, variables
        self._own, self._actors = words[2:6], actors
        self._gate = shell.folder / f"{name}.gate"
        self.hold_at(OPEN)
        self.learners = {
            policy: in_rounds(
                shell,
                actors,
                *words,
                "--policy",
                policy,
                name=f"{name}-{policy}",
                **variables,
            )
            for policy in ("first", "second")
        }

    def play(self, *flags, first=0, **variables):
        """Start the actors; the one of number `first` begins, and asks the second learner."""
        addresses = [learner.address for learner in self.learners.values()]
        feeds = [word for each in addresses for word in ("--feed-port", each.feed_port)]
        for number in range(self._actors):
            policy = "second" if number == first else "first"
            words = (*addresses, *feeds, "--policy", policy)
            words += ("--name", f"{self._name}-{(number + first) % self._actors}")
            self._shell.start(
                "actor",
                *(*words, *self._own, *flags),
                fork=self._shell.forks,
                **self._variables | {"GATE": str(self._gate)} | variables,
            )
        return self

    def hold_at(self, steps):
        """Let each world do so many steps, and then wait."""
        self._held = steps
        written = self._gate.with_suffix(".new")
        written.write_text(str(steps))
        written.replace(self._gate)
        return self

    def kill(self, policy):
        """Kill a learner once it has all whole rounds that were played before the worlds wait."""
        learner, rows = self.learners[policy], self._held // ROUND * ROUND * WORLDS
        learner.shows(lambda status: status.steps >= rows)
        learner.kill()
        return learner.address

    def resume(self, policy, address):
        """Resume a learner that was killed, at its ports."""
        run = self._shell.folder / "runs" / f"{self._name}-{policy}"
        words = ("--resume", run, "--feed-port", address.feed_port)
        again = self._shell.learner(*words, port=address.port, **self._variables)
        self.learners[policy] = again.listens()

    def figures(self, policy) -> Figures:
        """Return the hashes of a learner at the end of its run."""
        return figures(self.learners[policy])


@pytest.fixture(scope="module")
def undisturbed(house, apart):
    """The hashes of both policies, of runs in which nothing happens."""
    world = World(house, "undisturbed", apart).play()
    return {policy: world.figures(policy) for policy in world.learners}


def of_one_process(shell, variables, words=ROUNDS):
    """Return the hashes of both policies, trained in one process."""
    team = in_one_process(shell, 2, *words, **variables)
    assert team.ended() == 0, team.said
    logs = shell.folder / "runs" / "sequential" / "logs"
    names = ("first", "second")
    return {name: figures_in((logs / f"learner-{name}.log").read_text()) for name in names}


def test_learners_in_one_process_have_the_bits_of_rounds(shell, apart, undisturbed):
    """Two actors with two environments each; without sockets."""
    assert of_one_process(shell, apart) == undisturbed


@pytest.mark.parametrize(
    "fate",
    [
        "nan",
        "1e9",
        pytest.param("-1e9", marks=pytest.mark.faults),
        pytest.param("0", marks=pytest.mark.faults),
        "killed",
    ],
)
def test_first_policy_has_the_same_bits_whatever_becomes_of_the_second(
    shell, apart, undisturbed, fate
):
    """Of its rewards, or of its learner, which is not there any more.

    Rows with NaN are refused. The actors are started in another order too.
    """
    variables = {} if fate == "killed" else {"REWARD": fate}
    world = World(shell, "disturbed", apart)
    if fate == "killed":
        world.hold_at(GATES[1])
    world.play(first=1, **variables)
    if fate == "killed":
        world.kill("second")
        world.hold_at(OPEN)
    assert world.figures("first") == undisturbed["first"]
    if fate == "killed":
        return
    second = world.learners["second"]
    if fate == "nan":
        assert "nonfinite" in second.said
    else:
        assert world.figures("second") != undisturbed["second"]


def test_rounds_of_a_world_of_turns_repeat_to_the_bit(shell, apart):
    """Windows end independently, and two actors do not wait for each other for ever.

    Learners in one process have the same bits.
    """
    found = []
    for first in (0, 1):
        world = World(shell, f"turns-{first}", apart, TURNS).play(first=first)
        found.append({policy: world.figures(policy) for policy in world.learners})
    assert found[0] == found[1] == of_one_process(shell, apart, TURNS)


@pytest.mark.faults
def test_learners_that_are_killed_in_a_round_and_resumed_have_the_same_bits(
    shell, apart, undisturbed
):
    """Both of them, one after the other and at once; the actors wait, and live on."""
    world = World(shell, "killed", apart).hold_at(GATES[0])
    world.play("--without-learner", "stop", first=1)
    gates = (*GATES[1:], OPEN)
    for kills, gate in zip((["first"], ["second"], ["second", "first"]), gates, strict=True):
        addresses = {policy: world.kill(policy) for policy in kills}
        world.hold_at(gate)
        for policy, address in addresses.items():
            world.resume(policy, address)
    assert {policy: world.figures(policy) for policy in world.learners} == undisturbed
    for policy in world.learners:
        audit = shell.start("learner", "audit", shell.folder / "runs" / f"killed-{policy}")
        assert audit.ended() == 0, audit.said
