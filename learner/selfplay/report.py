"""The standings of a run as its newest checkpoint has them: text for people, and a document."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farflung.common.data.pool import label
from farflung.common.data.selfplay import scripts_of
from farflung.common.process.errors import ConfigurationError
from farflung.learner.runs.table import aligned
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.ratings import Rating
from farflung.learner.selfplay.standings import Standings, totals
from farflung.learner.storage import archive, manifest
from farflung.learner.storage.policies import read_spec

ALL = "all"


@dataclass(frozen=True, slots=True)
class Found:
    """The standings in a run's folder."""

    run_folder: Path
    checkpoint: str
    episodes: int
    archived: archive.Index
    standings: Standings
    scripts: tuple[str, ...] = ()  # opponents by name

    @property
    def ratings(self) -> list[tuple[str, Rating]]:
        """The players with their ratings, the best first."""
        rated = self.standings.ratings().items()
        return [
            (self.name(n), rating) for n, rating in sorted(rated, key=lambda each: -each[1].elo)
        ]

    def name(self, number: int) -> str:
        """Return the words for the opponent with a number."""
        return label(number, self.scripts)


def read(run_folder: Path) -> Found:
    """Read the newest checkpoint of a run, without torch."""
    kept = manifest.kept(run_folder)
    if not kept:
        raise ConfigurationError(f"{run_folder} has no checkpoint yet: name a run that has one")
    facts, index = manifest.facts(run_folder, kept[-1]), archive.read(run_folder)
    standings = Standings()
    standings.keep(each.version for each in index)
    standings.restore(facts.get(manifest.GAMES, ()))
    found = run_folder, kept[-1], int(facts.get("episodes", 0)), index, standings
    return Found(*found, scripts_of(read_spec(run_folder).selfplay))


def text(found: Found) -> str:
    """Return both tables."""
    played = found.standings.played
    opening = (
        f"{found.run_folder}, checkpoint {int(found.checkpoint)}: {played:,} games in "
        f"{found.episodes:,} episodes, {len(found.archived)} archived versions\n"
    )
    if not played:
        return f"{opening}No episode reported an opponent and an outcome.\n"
    against = found.standings.against()
    rows: list[tuple[str, ...]] = [
        ("opponent", "seat", "games", "wins", "draws", "losses", "score")
    ]
    for number, seats in sorted(against.items()):
        for place, (seat, games) in enumerate(sorted(seats.items())):
            rows.append(_row("" if place else found.name(number), str(seat), games))
    rows.append(_row(ALL, "", sum(map(totals, against.values()), Games())))
    rated = [("player", "rating", "95 %", "games")]
    for player, rating in found.ratings:
        half = f"± {rating.half:.0f}" if rating.error else "fixed"
        rated.append((player, f"{rating.elo:.0f}", half, f"{rating.games:.0f}"))
    return f"{opening}\n{aligned(rows, range(1, 7))}\n{aligned(rated, range(1, 4))}"


def _row(opponent: str, seat: str, games: Games) -> tuple[str, ...]:
    counts = games.count, games.wins, games.draws, games.losses
    share = f"{games.score / games.count:.3f}"
    return opponent, seat, *(f"{count:.0f}" for count in counts), share


def document(found: Found) -> dict[str, Any]:
    """Return all counts and ratings as plain data."""
    return {
        "run": str(found.run_folder),
        "checkpoint": found.checkpoint,
        "episodes": found.episodes,
        "games": found.standings.played,
        "archived": [{"version": str(each.version), **each.counts} for each in found.archived],
        "opponents": [
            {
                "opponent": found.name(number),
                "seat": seat,
                "wins": int(games.wins),
                "draws": int(games.draws),
                "losses": int(games.losses),
            }
            for number, seats in sorted(found.standings.against().items())
            for seat, games in sorted(seats.items())
        ],
        "ratings": [
            {"player": player, "elo": r.elo, "error": r.error, "games": int(r.games)}
            for player, r in found.ratings
        ],
    }
