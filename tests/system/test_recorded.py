"""PettingZoo's own environments in training: rows in the journal are those a recorder counted."""

import os
from collections import Counter
from pathlib import Path

import pytest
from support.recorded import digest, journal, own_steps

from farflung.learner.storage import policies

pytestmark = [pytest.mark.system, pytest.mark.slow]

TESTS = Path(__file__).parents[1]
HORIZON = 8
LAST_WINDOWS = 6  # of an environment that had not arrived at the end, at most
ENDS_S = 300.0
SETTINGS = ("--horizon", HORIZON, "--warmup", 200, "--replay-ratio", 1, "--dqn.hidden", 32)
SETTINGS += ("--capacity", 4000)  # of images
DISCRETE = ("continuous=false",)
WORLDS = {  # by module: arguments, and steps to train for
    "classic.chess_v6": ((), 400),
    "classic.connect_four_v3": ((), 1000),
    "classic.go_v5": ((), 800),
    "classic.hanabi_v5": ((), 800),
    "classic.leduc_holdem_v4": ((), 1000),
    "classic.rps_v2": ((), 1000),
    "classic.texas_holdem_v4": ((), 1000),
    "classic.texas_holdem_no_limit_v6": ((), 1000),
    "classic.tictactoe_v3": ((), 1000),
    "butterfly.cooperative_pong_v6": ((), 400),
    "butterfly.knights_archers_zombies_v11": ((), 1000),
    "butterfly.pistonball_v6": (DISCRETE, 800),
    "sisl.pursuit_v5": ((), 1000),
}
# `make faults` has all of them in both modes; tests/actor/worlds/test_recorded.py has them without
# a learner. Of each kind of game one is here.
SHORT = {
    ("classic.connect_four_v3", "async"),
    ("classic.texas_holdem_no_limit_v6", "sync"),
    ("butterfly.cooperative_pong_v6", "async"),
    ("butterfly.knights_archers_zombies_v11", "sync"),
    ("sisl.pursuit_v5", "async"),
}
TRAININGS = [
    pytest.param(name, mode, marks=() if (name, mode) in SHORT else pytest.mark.faults)
    for name in WORLDS
    for mode in ("sync", "async")
]
NEEDED = {"classic.hanabi_v5": "pyspiel", "butterfly.pistonball_v6": "pymunk"}


@pytest.mark.parametrize(("name", "mode"), TRAININGS)
def test_rows_of_a_training_are_those_of_the_world(shell, name, mode):
    """Each own step of each agent is in the journal once, and nothing else.

    In the async mode those of the last windows may be missing: they were on their way at the end.
    """
    arguments, steps = WORLDS[name]
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    ledgers = shell.folder / "ledgers"
    words = (f"named=pettingzoo.{name}", f"folder={ledgers}", *arguments)
    learner = shell.learner(
        *("--env", "recorded", "--import", "support.recorded_worlds", "--name", "run"),
        *(word for argument in words for word in ("--env-args", argument)),
        *("--mode", mode, "--actors", 1, "--envs", 2, "--steps", steps, "--keep-journal"),
        *SETTINGS,
        PYTHONPATH=os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    )
    assert learner.ended(ENDS_S) == 0, learner.said
    run = shell.folder / "runs" / "run"
    kept = Counter[str]()
    for step, times in own_steps(journal(run)).items():
        kept[digest(step)] += times
    lines = [file.read_text().split() for file in ledgers.glob("*.txt")]
    window = HORIZON * policies.read_spec(run).agents
    on_the_way = 0 if mode == "sync" else LAST_WINDOWS * window
    assert kept.total() >= steps
    assert not kept - Counter(line for each in lines for line in each)
    assert not Counter(line for each in lines for line in each[: len(each) - on_the_way]) - kept
