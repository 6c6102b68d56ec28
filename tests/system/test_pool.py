"""A pool of opponents over real sockets: through a broker, after kills, and within its bound."""

import io
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.games import WORLDS
from support.recorded import journal
from support.rounds import figures, in_one_process, in_rounds
from support.waiting import eventually, took_at_most

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.data.parcel import Ending
from farflung.common.data.pool import LIVE, RANDOM
from farflung.common.net.address import parse_address
from farflung.common.protocol import tensors
from farflung.learner.selfplay import report
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.standings import totals
from farflung.learner.storage import archive
from farflung.learner.storage.audit import audit

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]

MOST = 4  # archived versions
LATE_S = 2.0  # until an actor that joins late has the pool
FLAGS = (
    *("--env", "examples/tictactoe_v0", "--import", "tictactoe", "--name", "one", "--horizon", 8),
    *("--warmup", 100, "--replay-ratio", 4, "--batch-size", 16, "--dqn.hidden", 8),
    *("--checkpoint-every", 0.5, "--keep-journal"),
    *("--archive-every", "40 updates", "--archive-most", MOST),
    *("--pool", "random=1", "win_or_block=1", "archive=2"),
)
PATH = {"PYTHONPATH": str(WORLDS)}


def archived_games(status):
    """Return the games against archived versions."""
    against = status.games.opponents
    return sum(
        each.wins + each.draws + each.losses
        for each in against
        if each.opponent.startswith("archive:")
    )


def last_rewards(run):
    """Return the rewards of the last steps of all games in a journal, with their counts."""
    found = Counter({1: 0, 0: 0, -1: 0})
    for parcel in journal(run):
        last = np.cumsum(parcel.lengths) - 1
        ended = parcel.endings == Ending.TERMINATED
        found.update(parcel.columns["rewards"][last[ended]].astype(int).tolist())
    return found


def fetched(context, address):
    """Join at an address, and fetch an archived version of the pool.

    Return its message, its version, and the seconds that the pool took.
    """
    client = PolicyClient("default", "probe", 1)
    began = time.monotonic()
    pair = Sockets(context, address, client)

    def pool():
        pair.exchange(0.01)
        newest = client.newest.weights
        return newest.pool if newest is not None else None

    found = eventually(pool, "the pool", look_s=0.001)
    taken_s = time.monotonic() - began

    def arrives():
        pair.exchange(0.01)
        versions = pool().versions  # older ones may be thinned out meanwhile
        client.archive.want(versions[-1])
        return client.archive.take(versions[-1])

    weights = eventually(arrives, "an archived version", look_s=0.001)
    pair.close("seen", 0.0)
    assert len(found) <= 2 + MOST
    return bytes(tensors.encode_weights(weights)), weights.version, taken_s


def test_pools_have_the_same_bits_in_one_process_and_over_sockets(shell):
    """Two actors against random actions, a script, and archived versions by how hard they are."""
    flags = [*FLAGS, "--pool-sampling", "hard", "--steps", 1600]
    del flags[flags.index("--name") : flags.index("--name") + 2]
    del flags[flags.index("--checkpoint-every") : flags.index("--checkpoint-every") + 2]
    one = in_one_process(shell, 2, *flags, **PATH)
    learner = in_rounds(shell, 2, *flags, "--actors", 2, **PATH)
    assert figures(learner) == figures(one)


def test_pool_survives_a_kill_of_the_learner_and_goes_through_a_broker(
    shell, free_address, context
):
    """Games, ratings and archive are back; what actors fetch is what was archived; the sum adds up.

    The actors are behind a broker, one before the kill and one that comes late. Each won and lost
    game has its reward in the last own step of the live seat.
    """
    learner = shell.learner(*FLAGS, port=free_address.port, **PATH).listens()
    broker = shell.start("broker", free_address, "--port", 0)
    found = broker.says(r"listening: actor (\S+) \(feed on port (\d+)\)")
    front = parse_address(found[1], int(found[2]))
    actor = shell.actor(front, "--import", "tictactoe", "--envs", 4, **PATH)
    learner.shows(lambda status: archived_games(status) > 20 and status.archived == MOST)
    run = Path(shell.folder) / "runs" / "one"
    before = {each.version: archive.read_frame(run, each.version) for each in archive.read(run)}
    learner.process.kill()
    learner.process.wait()
    counted = report.read(run).standings.played
    index = archive.read(run)
    assert list(archive.problems(run)) == []
    assert len(index) <= MOST

    again = shell.learner(*FLAGS, "--resume", run, port=free_address.port, **PATH)
    again.listens()
    late = shell.actor(front, "--import", "tictactoe", "--envs", 4, "--name", "late", **PATH)
    status = again.shows(
        lambda status: (
            status.games.played > counted
            and archived_games(status) > 40
            and {each.name for each in status.actors if each.steps_per_second} >= {"late"}
        )
    )
    assert status.epoch == 2
    assert status.refused == {}
    kept = {each.version: archive.read_frame(run, each.version) for each in archive.read(run)}
    assert all(kept[version] == frame for version, frame in before.items() if version in kept)
    for address in (front, free_address):
        frame, version, taken_s = fetched(context, address)
        print(f"\nthe pool took {taken_s:.2f} s at {address}")
        assert took_at_most(taken_s, LATE_S)
        if version in {each.version for each in archive.read(run)}:
            assert frame == archive.read_frame(run, version)
    for each in (actor, late):  # a step may be on its way in another parcel than its game's result
        assert each.running
        each.process.terminate()
        assert each.ended() == 0, each.said
    again.process.terminate()
    assert again.ended() == 0
    played = report.read(run)
    numbers = {RANDOM.number, *played.standings.against()}
    assert LIVE.number not in numbers
    assert played.standings.played == played.episodes
    counted = sum(map(totals, played.standings.against().values()), Games())
    assert last_rewards(run) == {
        1: counted.wins,
        0: counted.draws,
        -1: counted.losses,
    }
    assert audit(run, (), "", io.StringIO()) == 0


def test_actor_without_the_script_ends_with_a_sentence(shell):
    """Its learner has one that it imported; an actor without it says how to get it."""
    learner = shell.learner(*FLAGS, **PATH).listens()
    (Path(shell.folder) / "bare.py").write_text(
        "import sys\n"
        f"sys.path.append({str(WORLDS)!r})\n"
        "import tictactoe\n"
        "from farflung.actor import scripts\n"
        "scripts.SCRIPTS.clear()\n"
    )
    actor = shell.actor(learner.address, "--import", "bare")
    actor.names("the pool names the script win_or_block, and those registered here are: none", 78)


def test_learner_refuses_a_pool_that_cannot_be_played(shell):
    """A script that nothing registers, and a world of one agent, leave no folder behind."""
    unknown = shell.learner(*FLAGS, "--pool", "blocks=1", **PATH)
    unknown.names(
        "the pool names the script blocks, and those registered here are: win_or_block", 78
    )
    alone = shell.learner("--name", "two", "--pool", "random=1")
    alone.names("CartPole-v1 has no second agent for an opponent to play", 78)
    assert not list((Path(shell.folder) / "runs").glob("*/checkpoints"))
