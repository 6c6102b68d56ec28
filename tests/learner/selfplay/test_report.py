"""The standings of a run as its folder has them."""

import json

import msgpack
import numpy as np
import pytest
from support.makers import a_spec, some_weights

from farflung.common.data.parcel import Results
from farflung.common.data.pool import RANDOM, archived
from farflung.common.data.selfplay import Selfplay
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Announcement
from farflung.common.protocol.packing import to_plain
from farflung.learner.cli.selfplay import standings as command
from farflung.learner.selfplay import report
from farflung.learner.selfplay.standings import Standings
from farflung.learner.storage import archive, manifest
from farflung.learner.storage.policies import SPEC


def a_run(folder, games=()):
    """Write a checkpoint with these games, each a version, an opponent, a seat and an outcome."""
    counted = Standings()
    counted.keep([Version(1, 10)])
    for version, opponent, seat, outcome in games:
        metrics = {"opponent": opponent.number, "seat": seat, "outcome": outcome}
        columns = {name: np.array([value], np.float64) for name, value in metrics.items()}
        counted.add(Results(np.zeros(1), np.ones(1, np.int32), columns), Version(1, version))
    place = folder / manifest.FOLDER / "000004"
    place.mkdir(parents=True)
    facts = {"episodes": 9, manifest.GAMES: to_plain(counted.state())}
    (place / manifest.FACTS).write_bytes(msgpack.packb(facts))
    (folder / manifest.MANIFEST).write_text("000004\n")
    spec = a_spec(selfplay=Selfplay(("block",)))
    (folder / SPEC[0]).mkdir()
    folder.joinpath(*SPEC).write_bytes(wire.encode(Announcement(spec, 0, 0)))
    return folder


@pytest.fixture
def run(tmp_path):
    """A run with version 1.10 in its archive, and five games."""
    archive.add(tmp_path, some_weights(a_spec(), 10, steps=5), 3, 100)
    ten = archived(Version(1, 10))
    games = [(5, RANDOM, 0, 1), (5, RANDOM, 1, 1), (5, RANDOM, 1, -1), (15, ten, 0, 1)]
    return a_run(tmp_path, [*games, (15, ten, 1, 0)])


def test_text_has_all_games_and_ratings(run, capsys):
    """A row for each opponent and seat, their sum, and each player with its interval."""
    assert command(run) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert " ".join(lines[0]).endswith("checkpoint 4: 5 games in 9 episodes, 1 archived versions")
    assert lines[1] == ["opponent", "seat", "games", "wins", "draws", "losses", "score"]
    assert lines[2:7] == [
        ["random", "0", "1", "1", "0", "0", "1.000"],
        ["1", "2", "1", "0", "1", "0.500"],
        ["archive:1.10", "0", "1", "1", "0", "0", "1.000"],
        ["1", "1", "0", "1", "0", "0.500"],
        ["all", "5", "3", "1", "1", "0.700"],
    ]
    assert [line[0] for line in lines[7:]] == ["player", "live", "archive:1.10", "random"]
    assert lines[-1] == ["random", "0", "fixed", "3"]


def test_document_adds_up(run, capsys):
    """Wins, draws and losses are the games; versions and ratings have their names."""
    assert command(run, json=True) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found["opponents"]
    assert sum(row[key] for row in rows for key in ("wins", "draws", "losses")) == found["games"]
    assert (found["games"], found["episodes"], found["checkpoint"]) == (5, 9, "000004")
    assert found["archived"] == [{"version": "1.10", "steps": 5, "updates": 50, "episodes": 3}]
    assert {each["player"]: each["games"] for each in found["ratings"]} == {
        "live": 2,
        "archive:1.10": 5,
        "random": 3,
    }


def test_run_without_games_says_so(tmp_path, capsys):
    """As one of a world that knows no opponents."""
    command(a_run(tmp_path))
    assert "No episode reported an opponent" in capsys.readouterr().out


def test_run_without_a_checkpoint_is_named(tmp_path):
    """There is nothing to read yet."""
    with pytest.raises(ConfigurationError, match="has no checkpoint yet"):
        report.read(tmp_path)


def test_damaged_counts_are_named(run):
    """A row that is none is no reason to count it."""
    path = run / manifest.FOLDER / "000004" / manifest.FACTS
    path.write_bytes(msgpack.packb({"games": [[[1, 5], 0, 0, -1, 0, 0]]}))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        report.read(run)
